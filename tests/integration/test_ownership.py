"""Files that are removed while a broker runs: it gets back what it can, and never serves beside another."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import tellwire
from tests.integration.test_storage import refusal_of
from tests.integration.world import ROOT, Home, tellwire_command, until

NEVER_S = 600
"""A beat that does not come within a test."""


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and is not buried does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


# -- the socket ---------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-9")
async def test_a_socket_that_was_removed_is_bound_again_and_nobody_loses_a_connection(home: Home) -> None:
    pid = home.up(beat_s=0.2)
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        home.settings.socket.unlink()
        await alice.send("bob", "without a socket")
        assert [message.body for message in await bob.messages(wait_s=10)] == ["without a socket"]
        began = time.monotonic()
        done = home.tellwire("list", "--json")
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began < 15, "far less than the time that a start may take"
    assert (home.pid, home.brokers()) == (pid, [pid])
    assert home.settings.socket.stat().st_mode & 0o777 == 0o600
    assert "bound again" in home.log


@pytest.mark.requirement("NET-9")
async def test_a_runtime_folder_that_was_removed_at_logout_is_made_again(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    home = Home(tmp_path / "state" / "tellwire")
    env = {name: value for name, value in os.environ.items() if not name.startswith("TELLWIRE_")}
    env |= {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_RUNTIME_DIR": str(runtime),
        "TELLWIRE_BEAT_S": "0.2",
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            tellwire_command(*words),
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    try:
        runtime.mkdir(mode=0o700)
        assert run("up", "--detach").returncode == 0
        pid = home.pid
        shutil.rmtree(runtime)
        await until((runtime / "tellwire" / "socket").exists)
        assert run("status", "--json").returncode == 0
        assert (runtime / "tellwire").stat().st_mode & 0o777 == 0o700
        assert home.pid == pid
        assert run("down").returncode == 0
    finally:
        home.end()


@pytest.mark.requirement("NET-9")
def test_without_its_socket_a_broker_is_told_of_stopped_and_replaced_by_its_lock(home: Home) -> None:
    pid = home.up(beat_s=NEVER_S)
    home.settings.socket.unlink()
    status = home.tellwire("status")
    assert (status.returncode, f"A broker is running (pid {pid})" in status.stderr) == (69, True)
    doctor = home.tellwire("doctor")
    assert doctor.returncode == 69
    assert f"pid {pid}" in " ".join(doctor.stdout.split())
    replaced = home.tellwire("up", "--detach", "--replace", beat_s=NEVER_S)
    assert replaced.returncode == 0, replaced.stderr
    assert home.pid != pid
    assert not is_alive(pid)
    home.settings.socket.unlink()
    down = home.tellwire("down", "--json")
    assert (down.returncode, down.stdout) == (0, '{"stopped":true}\n')
    assert home.brokers() == []
    assert home.tellwire("down", "--json").stdout == '{"stopped":false}\n'


def test_a_process_is_taken_for_the_broker_only_if_it_holds_the_lock(home: Home) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "broker.lock").write_text(f"{os.getpid()}\n")
    assert home.tellwire("down", "--json").stdout == '{"stopped":false}\n'
    assert home.tellwire("status").returncode == 69


# -- the lock and the home ----------------------------------------------------------------------------


@pytest.mark.requirement("NET-9")
async def test_a_lock_that_was_removed_is_taken_again(home: Home) -> None:
    pid = home.up(beat_s=0.2)
    home.settings.lock.unlink()
    await until(lambda: home.pid == pid)
    assert home.tellwire("up").returncode == 75
    assert home.brokers() == [pid]


@pytest.mark.requirement("NET-9")
async def test_without_lock_and_socket_too_no_second_broker_starts(home: Home) -> None:
    pid = home.up(beat_s=NEVER_S)
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        home.settings.lock.unlink()
        home.settings.socket.unlink()
        second = home.tellwire("up", "--detach")
        assert (second.returncode, "A broker is already running" in second.stderr) == (75, True)
        await alice.send("bob", "once")
        assert [message.body for message in await bob.messages(wait_s=20)] == ["once"]
    assert home.brokers() == [pid]
    assert home.tellwire("audit", "--verify").returncode == 0


@pytest.mark.requirement("NET-9")
async def test_a_broker_whose_home_was_removed_ends_itself_and_leaves_the_new_one_alone(home: Home) -> None:
    first = home.up(beat_s=1.0)
    shutil.rmtree(home.path)
    second = home.up(beat_s=0.2)
    await until(lambda: not is_alive(first))
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        await alice.send("bob", "in the new home")
        assert [message.body for message in await bob.messages(wait_s=10)] == ["in the new home"]
    assert home.brokers() == [second]


# -- the database -------------------------------------------------------------------------------------


@pytest.mark.requirement("NET-9", "SEC-3")
@pytest.mark.parametrize("what", ["removed", "replaced", "without its log of writes"])
async def test_nothing_is_accepted_into_a_database_that_is_gone(home: Home, what: str) -> None:
    home.up(beat_s=0.2)
    database = home.settings.database
    aside = home.path / "aside"
    target = database if what != "without its log of writes" else Path(f"{database}-wal")
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        before = await alice.send("bob", "before")
        await bob.confirm(await bob.messages(wait_s=10))
        target.rename(aside)
        if what == "replaced":
            shutil.copy(aside, target)
        await until(lambda: home.status()["storage"] != "ok")
        assert await refusal_of(alice.send("bob", "into nowhere")) == "storage_gone"
        assert await alice.status(before.id) == {"bob": "read"}, "reading goes on"
        told = home.tellwire("doctor")
        assert told.returncode == 74
        assert ("replaced" if what == "replaced" else "removed") in told.stdout
        target.unlink(missing_ok=True)
        aside.rename(target)
        await until(lambda: home.status()["storage"] == "ok")
        await alice.send("bob", "after")
        assert [message.body for message in await bob.messages(wait_s=10)] == ["after"]


@pytest.mark.requirement("NET-9")
async def test_a_send_right_after_the_database_was_removed_is_refused(home: Home) -> None:
    home.up(beat_s=NEVER_S)
    async with tellwire.connect("alice", home=home.path, autostart=False) as alice:
        async with tellwire.connect("bob", home=home.path, autostart=False):
            pass
        began = time.monotonic()
        await until(lambda: time.monotonic() - began > 0.1)  # a commit looks at most every 50 ms
        home.settings.database.unlink()
        assert await refusal_of(alice.send("bob", "into nowhere")) == "storage_gone"


@pytest.mark.requirement("NET-9", "SEC-3")
@pytest.mark.parametrize(("suffix", "kept"), [("", 0.0), ("", 0.5), ("-wal", 0.0)])
async def test_nothing_is_accepted_into_a_database_that_was_cut(home: Home, suffix: str, kept: float) -> None:
    home.up()
    home.tellwire("down")
    home.up(beat_s=0.05)
    target = Path(f"{home.settings.database}{suffix}")
    async with (
        tellwire.connect("alice", home=home.path, autostart=False) as alice,
        tellwire.connect("bob", home=home.path, autostart=False) as bob,
    ):
        await alice.send("bob", "before")
        await bob.confirm(await bob.messages(wait_s=10))
        began = time.monotonic()
        await until(lambda: time.monotonic() - began > 0.2)  # beats are due: the next answer comes after them
        assert home.status()["storage"] == "ok"
        whole = await asyncio.to_thread(target.read_bytes)
        os.truncate(target, int(len(whole) * kept))
        await until(lambda: home.status()["storage"] != "ok")
        assert await refusal_of(alice.send("bob", "into nowhere")) == "storage_gone"
        assert "emptied or cut" in home.tellwire("doctor").stdout
        await asyncio.to_thread(write_in_place, target, whole)
        await until(lambda: home.status()["storage"] == "ok")
        await alice.send("bob", "after")
        assert [message.body for message in await bob.messages(wait_s=10)] == ["after"]


def write_in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)
