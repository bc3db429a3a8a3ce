"""Agents that answer each other by plain sends: their clients' hooks and waiters, until the chain ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tellwire.core.mail.notices import CHAIN
from tests.integration.hook_client import Claude, open_claude, restart
from tests.integration.world import WITHIN_S, Home, Join, until
from tests.surfaces.cli_world import run_at_terminal

BOUND = 4
TOLD = f"{BOUND} turns in a row"


class Speaker:
    """An agent in a stand-in for Claude Code that answers whatever wakes it."""

    def __init__(self, name: str, claude: Claude) -> None:
        self.name = name
        self._claude = claude
        self._turns = 0

    async def start(self) -> None:
        """A session at rest, whose client has reported a turn, with a waiter beside it."""
        await self._claude.hook("SessionStart", source="startup")
        await self._claude.client.do("wait", client="claude-code")
        await self.prompt("Get ready.")
        await self.stop()

    async def prompt(self, text: str) -> str:
        """A turn begins, by a human's words or ours; what the model gets, which it is seen to read."""
        self._turns += 1
        told = await self._claude.hook("UserPromptSubmit", prompt=text, prompt_id=self._turn)
        given = f"{text}\n{told.get('hookSpecificOutput', {}).get('additionalContext', '')}"
        self._write("user", given)
        self._write("assistant", [{"type": "text", "text": "I see."}])
        return given

    async def woken(self, within_s: float = WITHIN_S) -> str:
        """The turn that mail begins: what the model gets; empty if nothing wakes it within the time."""
        done = await self._claude.client.do("woken", within_s=within_s)
        if done["code"] is None:
            return ""
        assert done["code"] == 2, done
        given = await self.prompt(f"<task-notification>{done['err']}")
        await self._claude.client.do("wait", client="claude-code")
        return given

    async def send(self, to: str, body: str) -> str:
        """Call the tool in the turn under way; its answer."""
        done = await self._claude.client.do("tool", name="agent_send", to=to, body=body)
        return done["content"][0]["text"]

    async def stop(self) -> None:
        """The turn ends."""
        await self._claude.hook("Stop", last_assistant_message="Sent.", prompt_id=self._turn)

    @property
    def _turn(self) -> str:
        return f"{self.name}-{self._turns}"

    def _write(self, role: str, content: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = {"id": f"msg_{self._turn}", "role": role, "model": "claude", "content": content}
        entry = {"type": role, "isSidechain": False, "timestamp": now, "message": message}
        with self._claude.client.rollout.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


@pytest.fixture
async def pair(home: Home, tmp_path: Path) -> AsyncIterator[tuple[Speaker, Speaker]]:
    """Two agents at rest; the operator has written before."""
    (home.path / "config.toml").write_text(f"chain_turns_max = {BOUND}\n", "utf-8")
    home.up()
    async with AsyncExitStack() as stack:
        speakers: list[Speaker] = []
        for number, name in enumerate(("ann", "bob")):
            session = f"0199a1b2-0000-7000-8000-00000000c0d{number}"
            claude = await stack.enter_async_context(
                open_claude(home, tmp_path / name, name=name, session=session)
            )
            speakers.append(Speaker(name, claude))
            await speakers[-1].start()
        yield speakers[0], speakers[1]


async def answer_each_other(
    first: Speaker, second: Speaker, *, meanwhile: Callable[[int], Awaitable[None]] | None = None
) -> tuple[int, str]:
    """A human has the first one write; each answers until an answer is held. The turns woken, that answer.

    `meanwhile` happens in the middle of each woken turn.
    """
    await first.prompt("Talk to the other one.")
    sent = await first.send(second.name, "message 0")
    await first.stop()
    turns = 0
    while " received: " in sent:
        assert turns < 3 * BOUND, "it does not end"
        first, second = second, first
        assert f"message {turns}" in await first.woken()
        turns += 1
        if meanwhile is not None:
            await meanwhile(turns)
        sent = await first.send(second.name, f"message {turns}")
        if " queued: " in sent:
            await first.send(second.name, "Are you there?")
        await first.stop()
    return turns, sent


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_agents_that_answer_each_other_come_to_rest_until_a_human_prompts(
    pair: tuple[Speaker, Speaker], home: Home, join: Join
) -> None:
    ann, bob = pair
    alice = await join("alice")
    run_at_terminal(home, "send", "ann", "Hello.")
    assert "Hello." in await ann.woken()
    await ann.stop()
    turns, sent = await answer_each_other(ann, bob)
    assert turns == BOUND
    assert sent.count(TOLD) == 1, sent
    assert " queued: bob is online, but " in sent
    assert await bob.woken(within_s=1.0) == ""
    peer = await alice.peer("bob")
    assert peer.waits == CHAIN
    assert CHAIN[:30] in home.tellwire("info", "bob").stdout, "the rest may be cut at the screen's width"
    (row,) = (line for line in home.tellwire("list").stdout.splitlines() if line.startswith("bob"))
    assert " held " in row
    told = run_at_terminal(home, "inbox").out
    assert told.count(TOLD) == 1, told

    given = await bob.prompt("What is new?")
    assert [given.count(each) for each in (f"message {BOUND}", "Are you there?", TOLD)] == [1, 1, 1]
    assert " received: " in await bob.send("ann", "afresh")
    await bob.stop()
    assert "afresh" in await ann.woken()
    await ann.stop()
    assert (await answer_each_other(bob, ann))[0] == BOUND, "the whole of it again"
    assert (await alice.peer("ann")).waits == CHAIN


@pytest.mark.requirement("WAKE-3", stage="clients")
async def test_a_killed_broker_does_not_make_them_begin_afresh(
    pair: tuple[Speaker, Speaker], home: Home, join: Join
) -> None:
    ann, bob = pair
    alice = await join("alice")

    async def kill(_turn: int) -> None:
        await restart(home, alice, "ann")
        await until(is_back, what="bob back")

    async def is_back() -> bool:
        return (await alice.peer("bob")).status == "online"

    turns, sent = await answer_each_other(ann, bob, meanwhile=kill)
    assert turns == BOUND
    assert sent.count(TOLD) == 1, sent
    assert " queued: bob is online, but " in sent
    await kill(turns)
    assert await bob.woken(within_s=1.0) == ""
    assert (await alice.peer("bob")).waits == CHAIN
    given = await bob.prompt("What is new?")
    assert [given.count(each) for each in (f"message {BOUND}", "Are you there?", TOLD)] == [1, 1, 1]
