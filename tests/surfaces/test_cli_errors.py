"""Every error code: shown with its message and advice, ending with its exit code, and reached for real."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tellwire.cli.refusals import ADVICE, tell_refusal
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.agents import ListAgents
from tellwire.sdk.broker_client import BrokerAddress, BrokerClient
from tests.integration.program import StartProgram
from tests.integration.world import WITHIN_S, Home, Join, OpenRaw
from tests.surfaces.cli_world import Done, run

WELCOME = b'{"tellwire":1,"version":"9","awake":1.0,"heartbeat_s":30.0}\n'
FROM_THE_BROKER = {
    "frame_too_large": "a command refuses such a body itself; test_garbage sends the bytes",
    "greeting_missing": "every command greets; test_garbage does not",
    "unknown_operation": "the commands and the broker have one table; test_garbage asks for another",
    "session_replaced": "a command's session word is random; test_presence has a session taken over",
    "stopping": "a command waits for the next broker; see below for who is told",
    "timeout": "a command is more patient than a test can be; see below",
    # what needs agents with clients of their own: reached by their tools, or by the core alone
    "peer_self": "test_lineage_mcp",
    # what needs another machine
    "unknown_machine": "test_two_machines",
    "machine_removed": "test_two_machines",
    "machine_full": "kills_carrier",
    "machine_too_old": "test_two_machines",
    "label_taken": "test_two_machines, test_pairing",
    "invite_invalid": "test_pairing",
    "invite_used": "test_pairing, test_pairing_machines",
    "identity_copied": "test_seal, test_pairing_machines",
    "not_paired": "test_seal",
    "not_across_machines": "test_two_machines",
    "carrier_unreachable": "test_pairing_machines",
    "not_visible": "test_lineage_mcp",
    "agent_gone": "test_lineage_mcp, test_mcp_links",
    "link_closed": "test_mcp_links",
    "link_paused": "test_mcp_links",
    "scope_conflict": "test_lineage_mcp",
    "child_failed": "test_lineage_mcp, test_spawning",
    "path_invalid": "the commands make every path absolute; test_claims does not",
    "scope_outside": "test_scopes",
    "scope_given": "test_scopes",
    "too_many_children": "test_children",
    "too_deep": "test_children",
}
"""Codes that no command of ours brings about: each is reached on the wire, and shown by the commands."""


@pytest.mark.parametrize("code", ERRORS)
def test_a_refusal_is_told_with_its_advice_and_exit_code(
    code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tell_refusal(code, "What happened.", ERRORS[code].advice, as_json=False) == ERRORS[code].exit
    advice = ADVICE.get(code, ERRORS[code].advice)
    assert capfd.readouterr() == ("", f"tellwire: What happened.\n  {advice}\n")
    tell_refusal(code, "What happened.", "Do this.", as_json=True)
    told = json.loads(capfd.readouterr().err)
    assert told == {"error": {"code": code, "message": "What happened.", "advice": "Do this."}}


def test_a_code_of_a_newer_broker_is_told_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert tell_refusal("not_yet_known", "New.", "Upgrade.", as_json=False) == ERRORS["internal"].exit
    assert capfd.readouterr().err == "tellwire: New.\n  Upgrade.\n"


# -- reached for real -------------------------------------------------------------------------------------


def as_alice(home: Home, *words: str, stdin: str = "") -> Done:
    return run(home, *words, "--as", "alice", "--json", stdin=stdin)


def known_alice(home: Home, *words: str) -> Done:
    run(home, "register", "alice")
    return as_alice(home, *words)


def two_sends(home: Home, *first: str, **settings: object) -> Done:
    home.up(**settings)
    run(home, "register", "bob")
    as_alice(home, "send", "bob", "one", *first)
    return as_alice(home, "send", "bob", "two", *first)


def corrupt(home: Home) -> None:
    home.settings.database.write_bytes(b"this is no database" * 1_000)


def newer(home: Home) -> None:
    home.up()
    assert run(home, "down").code == 0
    with closing(sqlite3.connect(home.settings.database)) as database:
        database.execute("pragma user_version = 999")


@contextmanager
def impostor(home: Home, *lines: bytes) -> Generator[None]:
    """Something else that answers on the socket."""
    home.path.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.settings.socket))
        listener.listen()

        def answer() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65_536)
                    peer.sendall(b"".join(lines))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)


def before_impostor(home: Home, line: bytes) -> Done:
    with impostor(home, line):
        return run(home, "status", "--json")


def before_corrupt(home: Home, *words: str) -> Done:
    corrupt(home)
    return run(home, *words)


def before_newer(home: Home) -> Done:
    newer(home)
    return run(home, "up", "--detach")


def many_capabilities() -> list[str]:
    return [word for number in range(65) for word in ("--capability", f"c{number}")]


def full_disk(home: Home) -> Done:
    home.up(store_bytes_max=300_000)
    run(home, "register", "bob")
    for _ in range(20):
        done = as_alice(home, "send", "bob", "-", stdin="x" * 60_000)
        if done.code:
            return done
    raise AssertionError("the store never filled up")


def removed_database(home: Home) -> Done:
    home.up()
    run(home, "register", "bob")
    home.settings.database.unlink()
    deadline = time.monotonic() + WITHIN_S
    while (done := as_alice(home, "send", "bob", "into nowhere")).code == 0:
        assert time.monotonic() < deadline, "it is looked at every 50 ms"
    return done


def already_up(home: Home) -> Done:
    home.up()
    return run(home, "up")


def damaged_message(home: Home) -> Done:
    """A stored message that makes no sense, in a file that is whole: nobody foresees everything."""
    two_sends(home)
    with closing(sqlite3.connect(home.settings.database)) as database, database:
        database.execute("update messages set context = '{'")
    return run(home, "history", "--json")


SCENES: dict[str, Callable[[Home], Done]] = {
    "bad_frame": lambda home: before_impostor(home, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "wrong_version": lambda home: before_impostor(
        home, b'{"tellwire":99,"version":"9","awake":1.0,"heartbeat_s":30.0}\n'
    ),
    "bad_request": lambda home: two_sends(home, "--ttl", "0"),
    "name_invalid": lambda home: run(home, "register", "a b", "--json"),
    "address_invalid": lambda home: as_alice(home, "send", "a b", "hi"),
    "body_too_large": lambda home: as_alice(home, "send", "bob", "-", stdin="x" * 70_000),
    "limit_exceeded": lambda home: run(home, "register", "bob", *many_capabilities(), "--json"),
    "confirmation_needed": lambda home: run(home, "purge", "--older-than", "7d", "--json"),
    "conflict": lambda home: two_sends(home, "--key", "ffff-word"),
    "not_registered": lambda home: run(home, "inbox", "--peek", "--json"),
    "unknown_agent": lambda home: run(home, "info", "nobody", "--json"),
    "unknown_message": lambda home: known_alice(home, "message-status", "m99"),
    "mailbox_full": lambda home: two_sends(home, mailbox_messages_max=1),
    "rate_limited": lambda home: two_sends(home, sends_per_s_max=0.5),
    "storage_full": full_disk,
    "storage_gone": removed_database,
    "unreachable": lambda home: run(home, "status", "--json"),
    "not_started": lambda home: before_corrupt(home, "list", "--json"),
    "internal": damaged_message,
    "unknown_link": lambda home: run(home, "link", "show", "l999", "--json"),
}


@pytest.mark.parametrize("code", SCENES)
def test_a_code_is_reached_by_a_command(home: Home, code: str) -> None:
    done = SCENES[code](home)
    assert done.code == ERRORS[code].exit, done
    assert "Traceback" not in done.err
    error = json.loads(done.err)["error"]
    assert (error["code"], bool(error["message"]), bool(error["advice"])) == (code, True, True)
    assert done.out == ""


STARTS: dict[str, Callable[[Home], Done]] = {
    "database_corrupt": lambda home: before_corrupt(home, "up", "--detach"),
    "database_newer": before_newer,
    "storage_broken": lambda _home: run(Home(Path("/proc/tlw-none")), "up", "--detach"),
    "already_running": already_up,
}


@pytest.mark.parametrize("code", STARTS)
def test_why_a_broker_does_not_start_is_told(home: Home, code: str) -> None:
    done = STARTS[code](home)
    assert done.code == ERRORS[code].exit, done
    assert "Traceback" not in done.err
    assert done.err.strip()


async def test_a_broker_with_too_many_connections_says_so(home: Home, join: Join) -> None:
    home.up(connections_max=1)
    await join("alice")
    for words in (("list", "--json"), ("send", "alice", "x", "--as", "bob", "--json")):
        done = run(home, *words)
        assert done.code == ERRORS["too_many_connections"].exit, done
        assert json.loads(done.err)["error"]["code"] == "too_many_connections"


@pytest.mark.requirement("SEC-1")
async def test_a_name_with_a_client_of_its_own_is_refused(home: Home, program: StartProgram) -> None:
    home.up()
    await program("claude", kind="agent-cli")
    for words in (("send", "claude", "x"), ("subscribe", "#t"), ("update", "--name", "other")):
        done = run(home, *words, "--as", "claude", "--json")
        assert done.code == ERRORS["forbidden"].exit, done
        assert json.loads(done.err)["error"]["code"] == "forbidden"


@pytest.mark.parametrize("words", [("list", "--json"), ("history", "--json")], ids=["fast", "click"])
@pytest.mark.parametrize("code", FROM_THE_BROKER)
def test_what_a_broker_refuses_is_shown_with_its_advice(
    home: Home, code: str, words: tuple[str, ...]
) -> None:
    advice = ERRORS[code].advice
    fault = {"n": 1, "error": {"code": code, "message": "What happened.", "advice": advice}}
    with impostor(home, WELCOME, json.dumps(fault).encode() + b"\n"):
        done = run(home, *words)
    assert (done.code, done.out) == (ERRORS[code].exit, ""), done
    shown = {"code": code, "message": "What happened.", "advice": ADVICE.get(code, advice)}
    assert json.loads(done.err) == {"error": shown}


async def test_a_broker_that_stops_tells_its_clients(home: Home, raw: OpenRaw) -> None:
    home.up()
    connection = await raw("alice")
    assert run(home, "down").code == 0
    frame = await connection.frame()
    assert (frame["n"], frame["error"]["code"]) == (0, "stopping")
    assert frame["error"]["advice"] == ERRORS["stopping"].advice


async def test_a_broker_that_does_not_answer_in_time_is_told(home: Home) -> None:
    home.up()
    client = BrokerClient(BrokerAddress(home.settings.socket, "test"))
    await client.open()
    home.signal(home.STOP)
    try:
        with pytest.raises(TellwireError) as refused:
            await client.call(ListAgents(), deadline_s=0.1)
    finally:
        home.signal(home.GO_ON)
        await client.close()
    assert (refused.value.code, refused.value.advice) == ("timeout", ERRORS["timeout"].advice)


def test_every_code_is_reached() -> None:
    elsewhere = {"too_many_connections", "forbidden", "question_closed"}  # the last in test_cli_needs
    assert {*SCENES, *STARTS, *elsewhere, *FROM_THE_BROKER} == set(ERRORS)
    assert not set(SCENES) & set(FROM_THE_BROKER)
