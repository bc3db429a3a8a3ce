"""Conversations of clients with hooks: real processes, MCP tools, turns that end, a broker that dies."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tellwire import Agent
from tests.integration.hook_client import Client, open_client
from tests.integration.world import WITHIN_S, Home, Join, until


class Talker:
    """A client with hooks that takes turns."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.turns = 0

    async def begin(self, prompt: str = "Go on.") -> str:
        """A person types; what comes into the context with it."""
        self.turns += 1
        given = await self._hook("UserPromptSubmit", prompt=prompt)
        text = given.get("hookSpecificOutput", {}).get("additionalContext", "")
        if text:
            self.client.ask("developer", text)
        return text

    async def end(self, text: str) -> None:
        """The model finally says this."""
        self.client.answer(text)
        await self._hook("Stop", last_assistant_message=text, stop_hook_active=False)

    async def tool(self, name: str, **arguments: Any) -> str:
        """Call a tool; the link that its answer names."""
        result = await self.client.do("tool", name=name, **arguments)
        found = re.search(
            r"(?i)(opened|on|is open.*) ?link:(\w+)|link:(\w+) is open", result["content"][0]["text"]
        )
        assert found, result
        return found[2] or found[3]

    async def _hook(self, event: str, **fields: Any) -> dict[str, Any]:
        word = f"{self.name}-{self.turns}"
        return await self.client.hook(event, session_id=f"s-{self.name}", turn_id=word, **fields)


@pytest.fixture
async def talkers(home: Home, tmp_path: Path) -> AsyncIterator[dict[str, Talker]]:
    """Three stand-ins for Codex."""
    home.up()
    async with AsyncExitStack() as stack:
        yield {
            name: Talker(name, await stack.enter_async_context(open_client(home, tmp_path / name, name=name)))
            for name in ("ann", "bob", "cat")
        }


async def comes(talker: Talker, text: str) -> str:
    """Begin turns until one brings this text into the context."""

    async def look() -> str:
        given = await talker.begin()
        return given if text in given else ""

    return await until(look, what=f"{talker.name} hears {text!r}")


@pytest.mark.requirement("SC-5", "SC-11", stage="links")
async def test_two_clients_talk_for_ten_turns_and_only_final_words_cross(talkers: dict[str, Talker]) -> None:
    ann, bob = talkers["ann"], talkers["bob"]
    await ann.begin()
    link = await ann.tool("agent_send", to="bob", body="word 0", direct=True)
    await ann.end("I asked bob.")
    for number in range(1, 11):
        speaker = (ann, bob)[number % 2]
        given = await comes(speaker, f"word {number - 1}")
        other = (bob, ann)[number % 2]
        assert f"from={other.name} to=link:{link} turn=" in given
        assert f"goes to the others on link:{link} by itself" in given
        await speaker.client.hook("PostToolUse", tool_name="shell", tool_input={"secret": "payload"})
        await speaker.end(f"word {number}")
    assert await ann.tool("agent_send", to="bob", body="The end.", direct=True) == link
    final = await comes(bob, "The end.")
    assert "payload" not in final


@pytest.mark.requirement("SC-4", "SC-6", stage="links")
async def test_three_share_what_each_finally_says_but_no_checkpoint_nor_empty_turn(
    talkers: dict[str, Talker], home: Home
) -> None:
    ann, bob, cat = talkers["ann"], talkers["bob"], talkers["cat"]
    await ann.begin()
    link = await ann.tool("open_link", members=["bob", "cat"])
    await ann.end("What do you think?")
    assert "What do you think?" in await comes(bob, "What do you think?")
    await bob.end("I agree with the plan.")
    given = await comes(cat, "I agree with the plan.")
    assert f"from=ann to=link:{link} turn=1" in given
    assert f"from=bob to=link:{link} turn=2" in given
    await cat.end("")
    done = await asyncio.to_thread(home.tellwire, "checkpoint", "cat")
    assert done.returncode == 0, done.stderr
    await cat.begin("Write down where you are.")
    await cat.end("My notes, for nobody.")
    await cat.begin()
    await cat.end("And this is for you.")
    heard = await comes(ann, "And this is for you.")
    assert "My notes" not in heard
    (record,) = await links_of(home)
    assert (record["id"], record["said"]) == (link, 3)


@pytest.mark.requirement("SC-9", "SC-3", stage="links")
async def test_a_workers_stop_is_told_once_and_not_while_a_direct_link_lives(
    talkers: dict[str, Talker], join: Join
) -> None:
    boss, bob = await join("boss"), talkers["bob"]
    await boss.send("bob", "Count the files.", listen=True)
    await comes(bob, "Count the files.")
    await bob.end("There are 17 files.")
    (note,) = await read(boss, 1)
    assert note.startswith('bob stopped: "There are 17 files."')
    link = await boss.links.open(["bob"])
    await bob.begin()
    await bob.end("Said on the link.")
    assert await read(boss, 1) == ["Said on the link."]
    await boss.links.close(link.id)
    await bob.begin()
    await bob.end("Told again.")
    assert [text.split(".")[0] for text in await read(boss, 1)] == ['bob stopped: "Told again']


@pytest.mark.requirement("SC-8", "SC-9", stage="links")
async def test_w10_a_worker_that_is_killed_is_told_and_its_link_goes_on_without_it(
    talkers: dict[str, Talker], join: Join
) -> None:
    boss = await join("boss")
    await boss.turns.listen("bob")
    link = await boss.links.open(["ann", "bob"])
    await talkers["bob"].client.end()

    async def left() -> bool:
        (record,) = await boss.links.all()
        return [each.name for each in record.members if not each.left_at] == ["boss", "ann"]

    await until(left, what="bob left")
    texts = await read(boss, 2)
    assert sorted(texts) == [
        "bob is gone: it ended its session.",
        f"bob is gone: link:{link.id} goes on with 2 members.",
    ]


@pytest.mark.requirement("SC-11", "SC-8", stage="links")
async def test_a_broker_killed_in_the_middle_of_a_conversation_loses_and_doubles_nothing(
    home: Home, talkers: dict[str, Talker], join: Join
) -> None:
    ann, bob, reader = talkers["ann"], talkers["bob"], await join("reader")
    link = (await reader.links.open(["ann", "bob"])).id
    heard: list[str] = []
    for number in range(6):
        speaker, hearer = (ann, bob) if number % 2 == 0 else (bob, ann)
        if number:
            await comes(speaker, f"said {number - 1}")
        else:
            await speaker.begin()
        await hearer.begin()  # an idle one would be woken by Codex's queue, which these do not have
        await speaker.end(f"said {number}")

        async def on_disk(count: int = number + 1) -> bool:
            return len((await reader.links.history(link)).messages) == count

        await until(on_disk, what=f"turn {number} is on disk")
        home.signal(home.KILL)  # whoever needs one starts the next
    async with asyncio.timeout(WITHIN_S):
        while len(heard) < 6:
            got = await reader.messages(wait_s=1)
            heard += [str(message.body) for message in got if message.to.startswith(f"link:{link}/")]
            await reader.confirm(got)
    assert heard == [f"said {number}" for number in range(6)]
    (record,) = await reader.links.all()
    assert [each.name for each in record.members if not each.left_at] == ["reader", "ann", "bob"]
    assert record.status == "active"


async def read(agent: Agent, count: int) -> list[str]:
    """So many messages, confirmed."""
    texts: list[str] = []
    while len(texts) < count:
        got = await agent.messages(wait_s=15)
        assert got, f"only {texts}"
        texts += [str(message.body) for message in got]
        await agent.confirm(got)
    return texts


async def links_of(home: Home) -> list[dict[str, Any]]:
    """As the command line lists them."""
    done = await asyncio.to_thread(home.tellwire, "link", "list", "--json")
    return json.loads(done.stdout)["links"]
