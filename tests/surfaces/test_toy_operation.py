"""An operation is declared once: a durable one is added to a copy of the source, and every surface has it.

It touches six files, none of them of a surface. What is changed stands here, as a person would write it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tests.integration.world import WITHIN_S, Home

SURFACES = ("cli", "sdk", "mcp")
FILES_MAX = 7

OPERATION = '''

class Starred(Reply, frozen=True, kw_only=True):
    """The messages that the caller has starred."""

    ids: list[str] = []


class StarMessage(Operation[Starred], frozen=True, kw_only=True):
    """Mark a message, to find it again."""

    reply = Starred
    callers: ClassVar[frozenset[str]] = SPEAKERS
    id: str
    """Its id, such as m4f2k."""
    off: bool = False
    """Remove the mark."""
'''
EVENT = '''class MessageStarred(Event, tag=_word, frozen=True, array_like=True):
    """An agent marked a message, or removed the mark."""

    audience = Audience.CONTROL
    agent: str
    message: str
    off: bool = False


'''
RULE = '''"""Stars: marks on messages, of one agent each."""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent
from tellwire.core.context import Context, Decision
from tellwire.core.state import State
from tellwire.protocol.events import MessageStarred
from tellwire.protocol.operations.messages import Starred, StarMessage


def decide_star(state: State, operation: StarMessage, context: Context) -> Decision:
    agent = caller_agent(state, context)
    before = state.stars.get(agent.id, {})
    rest = [other for other in before if other != operation.id]
    event = MessageStarred(agent.id, operation.id, operation.off)
    return Decision(Starred(ids=rest if operation.off else [*rest, operation.id]), [event])


def apply_starred(state: State, event: MessageStarred) -> None:
    stars = state.stars.setdefault(event.agent, {})
    stars.pop(event.message, None)
    if not event.off:
        stars[event.message] = None
'''
CHANGES: dict[str, list[tuple[str, str]]] = {
    "protocol/operations/messages.py": [("", OPERATION)],
    "protocol/operations/__init__.py": [
        ("    SendMessage,\n", "    StarMessage,\n"),
        ("    | MessageStatus\n", "    | StarMessage\n"),
    ],
    "protocol/events/__init__.py": [
        ("import snake_case\n", f"\n\n{EVENT.rstrip()}\n"),
        ("AnyEvent: TypeAlias = (\n    BrokerStarted\n", "    | MessageStarred\n"),
    ],
    "core/state.py": [
        ("    agents: dict[str, Agent] = {}\n", "    stars: dict[str, dict[str, None]] = {}\n"),
    ],
    "core/mail/stars.py": [("", RULE)],
    "core/kernel.py": [
        ("from tellwire.core.state import State\n", "from tellwire.core.mail import stars\n"),
        ("DECIDERS: dict[type, Decider] = {\n", "    messages.StarMessage: stars.decide_star,\n"),
        ("APPLIERS: dict[type, Applier] = {\n", "    events.MessageStarred: stars.apply_starred,\n"),
        ("from tellwire.core.mail import stars\n", "from tellwire.protocol.operations import messages\n"),
    ],
}
"""By file, what is inserted behind which text; behind everything if that is empty."""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A copy of the source with one operation more."""
    source = Path(tellwire.__file__).parent
    package = tmp_path / "toy" / "tellwire"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, insertions in CHANGES.items():
        file = package / name
        text = file.read_text() if file.exists() else ""
        for place, more in insertions:
            assert place in text, f"{name} has no {place!r}"
            head, tail = (text, "") if not place else text.split(place, 1)
            text = f"{head}{place}{more}{tail}"
        file.write_text(text)
    return package.parent


def test_an_operation_takes_at_most_seven_files_and_none_of_a_surface() -> None:
    assert len(CHANGES) <= FILES_MAX
    assert not [name for name in CHANGES if name.startswith(SURFACES)]


def test_an_operation_is_on_every_surface_once_it_is_declared(toy: Path, home: Home) -> None:
    assert run(toy, home, "up", "--detach").returncode == 0
    sdk = python(toy, home, SDK_CALL, str(home.path))
    assert (sdk.returncode, sdk.stdout) == (0, "['m1']\n"), sdk.stderr
    helped = run(toy, home, "--help")
    assert "star-message" in helped.stdout
    assert "Mark a message, to find it again." in run(toy, home, "help", "--all").stdout
    own = run(toy, home, "star-message", "--help").stdout
    assert "ID" in own
    assert "Remove the mark." in own
    told = run(toy, home, "star-message", "m2", "--as", "bob", "--json")
    assert json.loads(told.stdout) == {"ids": ["m1", "m2"]}, told.stderr
    os.kill(json.loads(run(toy, home, "status", "--json").stdout)["pid"], signal.SIGKILL)
    assert run(toy, home, "up", "--detach").returncode == 0
    shown = run(toy, home, "star-message", "m1", "--off", "--as", "bob")
    assert (shown.returncode, shown.stdout.split()) == (0, ["ids", '["m2"]']), "the journal has it"
    tools, answer = call_tool(toy, home, "star_message", {"id": "m3"})
    (tool,) = [each for each in tools if each["name"] == "star_message"]
    assert tool["description"] == "Mark a message, to find it again."
    assert tool["inputSchema"]["required"] == ["id"]
    assert tool["inputSchema"]["properties"]["off"]["description"] == "Remove the mark."
    assert answer["structuredContent"] == {"ids": ["m3"]}
    assert run(toy, home, "down").returncode == 0


SDK_CALL = """
import asyncio, sys, tellwire
from tellwire.protocol.operations.messages import StarMessage

async def main():
    async with tellwire.connect("bob", home=sys.argv[1], autostart=False) as me:
        print((await me.call(StarMessage(id="m1"))).ids)

asyncio.run(main())
"""
COMMAND = "import sys; from tellwire.cli.app import cli; sys.exit(cli.run(sys.argv[1:]))"


def environment(toy: Path, home: Home) -> dict[str, str]:
    return {**home.environment(), "PYTHONPATH": str(toy)}


def python(toy: Path, home: Home, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environment(toy, home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S * 2,
        check=False,
    )


def run(toy: Path, home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return python(toy, home, COMMAND, *words)


def call_tool(
    toy: Path, home: Home, name: str, arguments: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All tools that an MCP client is offered, and what a call of one returns."""
    version = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "mcp", "--name", "carol", "--tools", "all"],
        env=environment(toy, home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None

        def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            assert shim.stdin is not None
            assert shim.stdout is not None
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            shim.stdin.write(json.dumps(asked) + "\n")
            shim.stdin.flush()
            while (told := json.loads(shim.stdout.readline())).get("id") != number:
                pass
            return told["result"]

        ask(1, "initialize", version)
        shim.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        tools = ask(2, "tools/list", {})["tools"]
        answer = ask(3, "tools/call", {"name": name, "arguments": arguments})
        shim.stdin.close()
    return tools, answer
