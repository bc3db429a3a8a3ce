"""`tellwire doctor` and `tellwire mute`: what they find, what they say to do, and how they end."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tellwire.core.limits import Limits
from tellwire.core.mail.reach import Contact
from tellwire.core.mail.waiting import NEEDS_S, PULL
from tellwire.install.endpoint import load_endpoint
from tellwire.protocol.operations.messages import SendMessage
from tellwire.sessions.diagnosis import OLD_S, find_old_leases
from tellwire.store.memory_journal import MemoryJournal
from tests.integration.stand_in import RELAY
from tests.integration.world import Home, Join, until
from tests.simulation.bench import Bench
from tests.surfaces.cli_world import Done, run, run_at_terminal
from tests.surfaces.install_world import VERSIONS, Person

WAKE_2 = pytest.mark.requirement("WAKE-2", stage="clients")


@pytest.fixture(autouse=True)
def nobodys_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No client is installed here, and nobody's settings are looked at."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def doctor(home: Home, *words: str) -> Done:
    """Run it as a script."""
    return run(home, "doctor", *words)


def findings(home: Home, *words: str) -> dict[str, tuple[str, str]]:
    """By what it is about: level and words of each finding."""
    checks = json.loads(doctor(home, "--json", *words).out)["checks"]
    return {check["about"]: (check["level"], check["words"]) for check in checks}


@pytest.mark.requirement("FIRST-2", stage="contact")
def test_without_a_broker_it_says_so_and_starts_none(home: Home) -> None:
    done = doctor(home)
    assert (done.code, done.err) == (0, ""), "the next command brings one up: nothing is wrong"
    assert "ok    broker  not running" in done.out
    assert "home" in done.out
    assert doctor(home, "bob").code == 69, "of an agent nothing can be said"
    assert not home.brokers()


def test_a_broker_that_lives_and_cannot_be_reached_is_a_failure(home: Home) -> None:
    home.up(beat_s=600)  # it would bind its socket again
    home.settings.socket.unlink()
    done = doctor(home)
    assert done.code == 69
    assert "fail  broker" in done.out


@WAKE_2
def test_a_home_in_order_is_fine(home: Home) -> None:
    home.up()
    done = doctor(home, "--json")
    document = json.loads(done.out)
    assert (done.code, document["fine"], document["probe"]) == (0, True, None)
    assert {check["about"] for check in document["checks"]} == {"broker", "home", "disk"}
    assert all(check["level"] == "ok" for check in document["checks"])


def test_rights_that_others_have_are_a_failure(home: Home) -> None:
    home.up()
    home.path.chmod(0o755)
    done = doctor(home)
    assert done.code == 77
    assert f"Other users can access {home.path}" in done.out


def test_a_port_that_another_program_has_is_told(home: Home) -> None:
    endpoint = load_endpoint(str(home.path))
    with socket.create_server(("127.0.0.1", endpoint.port)):
        home.up()
        done = doctor(home)
    assert done.code == 65
    assert f"Port {endpoint.port}" in done.out
    assert "tellwire install all" in done.out


async def test_a_port_that_is_served_is_told_too(home: Home) -> None:
    endpoint = load_endpoint(str(home.path))
    home.up()
    wanted = ("ok", f"listening on port {endpoint.port}")
    await until(lambda: findings(home).get("hooks") == wanted, what="the port")


def test_an_endpoint_that_makes_no_sense_is_told(home: Home) -> None:
    home.up()
    (home.path / "hooks.json").write_text("{")
    done = doctor(home)
    assert done.code == 64
    assert "hooks.json is damaged" in done.out


@pytest.mark.requirement("WAKE-2", stage="clients")
@pytest.mark.parametrize("payload", [b'{"session_id": "x', b"[]", b"\xff\xfe", b'{"hook_event_name": 7}'])
def test_a_hook_that_makes_no_sense_is_counted_and_shown(home: Home, payload: bytes) -> None:
    home.up()
    for _ in range(2):
        hook = [sys.executable, "-I", "-S", str(RELAY / "hook.py"), "codex"]
        ran = subprocess.run(
            hook, input=payload, env=home.environment(), capture_output=True, check=False, timeout=20
        )
        assert (ran.returncode, ran.stdout) == (0, b""), "no answer, and no harm"
    done = doctor(home)
    assert done.code == 0, "an odd hook breaks nothing"
    assert "Could not understand a hook of codex 2 times" in done.out


def test_an_unknown_agent_is_refused(home: Home) -> None:
    home.up()
    assert doctor(home, "nobody").code == 68
    assert doctor(home, "--probe").code == 64


@WAKE_2
def test_each_client_is_told_with_its_version_its_state_and_what_to_do(tmp_path: Path) -> None:
    person = Person(tmp_path / "person")
    person.has("codex", VERSIONS["codex"])
    person.has("gemini", "0.2.0")
    person.has("claude", VERSIONS["claude"])
    assert person.run("install", "codex", "claude", "--yes").code == 0
    done = person.run("doctor")
    assert done.code == 0, "no broker runs here, which is no failure"
    told = {line.split()[1]: line for line in done.out.splitlines() if not line.startswith(" ")}
    assert told["claude"].startswith("ok")
    assert "2.1.325" in told["claude"]
    assert told["codex"].startswith("warn")
    assert "not trusted" in told["codex"]
    assert told["gemini"].startswith("warn")
    assert "Use a version that is supported" in done.out
    assert "opencode" not in told, "it is not here, and tellwire is not in it"


def test_a_clients_file_that_is_broken_is_a_failure(tmp_path: Path, home: Home) -> None:
    person = Person(tmp_path / "person")
    person.has("codex", VERSIONS["codex"])
    (person.home / ".codex").mkdir()
    (person.home / ".codex" / "config.toml").write_text("[[[")
    home.up()
    done = person.run("doctor", TELLWIRE_HOME=str(home.path))
    assert done.code == 64
    assert "config.toml" in done.out


# -- the probe ----------------------------------------------------------------------------------------


@WAKE_2
async def test_a_probe_is_followed_until_it_is_read(home: Home, join: Join) -> None:
    bob = await join("bob")
    probing = asyncio.to_thread(doctor, home, "bob", "--probe", "--as", "ann", "--wait", "20s")
    task = asyncio.create_task(probing)
    (message,) = await bob.messages(wait_s=15)
    assert "Nothing to do" in message.body
    await bob.confirm([message])
    done = await task
    assert done.code == 0, done
    assert f"probe {message.id} was read" in done.out
    assert "(confirm)" in done.out
    assert f"{message.id}  read, after" in done.err, "each step is shown; a quick one may be passed over"


@WAKE_2
async def test_a_probe_that_is_not_read_tells_how_far_it_got(home: Home, join: Join) -> None:
    await join("bob")
    run(home, "register", "carol")
    done = await asyncio.to_thread(
        doctor, home, "carol", "--probe", "--as", "ann", "--wait", "0.5s", "--json"
    )
    document = json.loads(done.out)
    assert (done.code, document["fine"], document["probe"]["state"]) == (75, False, "pending")
    done = await asyncio.to_thread(doctor, home, "bob", "--probe", "--as", "ann", "--wait", "0.5s")
    assert done.code == 75
    assert "is still delivered after" in done.out


# -- leases -------------------------------------------------------------------------------------------


def test_a_lease_without_evidence_for_long_is_told_with_its_age() -> None:
    bench = Bench(MemoryJournal(), Limits())
    alice = bench.join("alice")
    bench.join("bob")
    sent = bench.call(alice, SendMessage(to="bob", body="x"))
    began = bench.life.state.now
    assert find_old_leases(bench.life.state, bench.tap.journal, lambda _agent: None) == []
    bench.time.pass_by(OLD_S + 1)
    bench.join("carol")
    (lease,) = find_old_leases(bench.life.state, bench.tap.journal, lambda _agent: None)
    assert (lease.agent, lease.ids, round(lease.since - began)) == ("bob", [sent.id], 0)
    assert not lease.stuck


@pytest.mark.requirement("FIRST-2", stage="contact")
def test_a_lease_is_stuck_once_its_client_is_idle_for_longer_than_its_path_needs() -> None:
    bench = Bench(MemoryJournal(), Limits())
    alice = bench.join("alice")
    bench.join("bob")
    bench.call(alice, SendMessage(to="bob", body="x"))
    bench.time.pass_by(NEEDS_S[PULL] + 1)
    bench.join("carol")
    idle = Contact(hooked=True, bound=True, state="idle", idle=True)
    state, journal = bench.life.state, bench.tap.journal
    assert [each.stuck for each in find_old_leases(state, journal, lambda _agent: idle)] == [True]
    assert find_old_leases(state, journal, lambda _agent: idle._replace(idle=False)) == []


# -- mute ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_the_operator_mutes_an_agent_and_senders_are_told(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    done = await asyncio.to_thread(run_at_terminal, home, "mute", "bob", "--for", "1h")
    assert (done.code, done.out) == (0, "bob is muted for 1 h: mail waits for its next turn.\n")
    assert (await alice.send("bob", "x")).note == "muted: waits for its next turn"
    listed = await asyncio.to_thread(run, home, "list")
    assert "muted" in listed.out
    assert "muted" in (await asyncio.to_thread(run, home, "info", "bob")).out
    home.signal(Home.KILL)
    home.up()
    await until(lambda: muted(home), what="muted after a crash")
    assert (await asyncio.to_thread(run_at_terminal, home, "mute", "bob", "--off")).code == 0
    assert not muted(home)
    assert not (await bob.mute(off=True)).muted


def muted(home: Home) -> bool:
    """What the listing says of bob."""
    done = run(home, "info", "bob", "--json")
    return done.code == 0 and json.loads(done.out)["muted"]


async def test_a_script_mutes_nobody_but_itself(home: Home, join: Join) -> None:
    bob = await join("bob")
    assert run(home, "mute", "bob").code == 77
    assert run(home, "mute").code == 77
    assert run(home, "mute", "bob", "--for", "soon").code == 64
    assert (await bob.mute(for_s=5.0)).muted_until > 0
