"""A broker that is killed in the middle of a command: the command goes on as the same session."""

from __future__ import annotations

import json
import sys

import pytest

from tests.integration.world import Home, Join
from tests.surfaces.cli_world import Done, run, run_program, run_program_at_terminal

KILLING = """
import _socket, os, select, signal, socket, sys

after, lost, way, *words = sys.argv[1:]
broker = int(os.environ["BROKER"])
heard = 0

def kill(data):
    global heard
    if heard < 0:
        return data
    heard += bytes(data).count(b"\\n")
    if heard < int(after):
        return data
    heard = -1
    watched = os.pidfd_open(broker)
    os.kill(broker, signal.SIGKILL)
    select.select([watched], [], [])
    return b"" if lost == "lost" else data

class Bare(_socket.socket):
    def recv(self, *args):
        return kill(super().recv(*args))

class Full(socket.socket):
    def recv_into(self, buffer, *args):
        count = super().recv_into(buffer, *args)
        return len(kill(bytes(memoryview(buffer)[:count])))

_socket.socket, socket.socket = Bare, Full
if way == "click":
    from tellwire.cli.app import cli
    sys.exit(cli.run(words))
from tellwire.cli.main import main
sys.argv = ["tellwire", *words]
main()
"""
"""Runs a command; kills the broker as soon as so many of its lines have come; the last are lost or heard."""

JOINED, DONE = 2, 3


def command(after: int, lost: str, way: str, *words: str) -> list[str]:
    return [sys.executable, "-c", KILLING, str(after), lost, way, *words]


@pytest.mark.requirement("NET-9")
@pytest.mark.parametrize(
    ("way", "lost", "after"),
    [("fast", "heard", JOINED), ("fast", "lost", JOINED), ("fast", "lost", DONE), ("click", "lost", JOINED)],
)
async def test_a_send_goes_on_as_the_session_that_it_began_as(
    home: Home, join: Join, way: str, lost: str, after: int
) -> None:
    bob = await join("bob")
    run(home, "register", "alice")
    words = command(after, lost, way, "send", "bob", "once", "--as", "alice", "--json")
    done = run_program(home, words, BROKER=str(home.pid))
    assert done.code == 0, done
    (message,) = await bob.messages(wait_s=30)
    assert (message.id, message.body, message.sender) == (json.loads(done.out)["id"], "once", "alice")
    await bob.confirm([message])
    assert len(sent_by(home, "alice")) == 1


@pytest.mark.requirement("NET-9")
@pytest.mark.parametrize("lost", ["heard", "lost"])
async def test_a_send_of_the_operator_goes_on_as_the_operator(home: Home, join: Join, lost: str) -> None:
    bob = await join("bob")
    assert run_program_at_terminal(home, command(0, "heard", "fast", "list"), BROKER="0").code == 0
    words = command(JOINED, lost, "fast", "send", "bob", "once")
    done = run_program_at_terminal(home, words, BROKER=str(home.pid))
    assert done.code == 0, done
    (message,) = await bob.messages(wait_s=30)
    assert (message.body, message.sender) == ("once", "operator")
    assert len(sent_by(home, "operator")) == 1


@pytest.mark.requirement("NET-9")
@pytest.mark.parametrize(
    ("way", "lost", "after"),
    [("fast", "heard", 3), ("fast", "lost", 4), ("click", "lost", 3)],
    ids=["joined", "offered", "click"],
)
async def test_an_inbox_is_taken_by_the_session_that_it_began_as(
    home: Home, join: Join, way: str, lost: str, after: int
) -> None:
    bob = await join("bob")
    run(home, "register", "alice")
    sent = await bob.send("alice", "for you")
    words = command(after, lost, way, "inbox", "--as", "alice", "--json")
    done = run_program(home, words, BROKER=str(home.pid))
    assert done.code == 0, done
    (message,) = json.loads(done.out)["messages"]
    assert (message["id"], message["repeat"]) == (sent.id, False)
    assert "nothing was taken" not in done.err
    assert await bob.status(sent.id) == {"alice": "read"}


def sent_by(home: Home, name: str) -> list[object]:
    done: Done = run(home, "history", "--agent", name, "--json")
    return json.loads(done.out)["messages"]
