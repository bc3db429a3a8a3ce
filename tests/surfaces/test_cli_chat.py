"""`tellwire chat`: line by line with an agent or on a link, at a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.integration.world import Home, Join
from tests.surfaces.cli_world import Done, run, run_at_terminal


async def chat(home: Home, *words: str, **more: Any) -> Done:
    return await asyncio.to_thread(run, home, "chat", *words, **more)


async def answer(agent: Any, *bodies: str) -> list[Any]:
    """Answer one message after another."""
    found: list[Any] = []
    for body in bodies:
        (message,) = await agent.messages(wait_s=60, limit=1)
        found.append(message)
        await agent.send(message.sender, body, re=message.id)
    return found


async def test_piped_lines_are_sent_and_their_answers_shown(home: Home, join: Join) -> None:
    bob = await join("bob")
    answering = asyncio.create_task(answer(bob, "First.", "Second."))
    done = await chat(home, "bob", "--as", "alice", stdin="one\n\n   \ntwo\n")
    assert done.code == 0, done
    assert [message.body for message in await answering] == ["one", "two"], "blank lines are not sent"
    assert "Second." in done.out
    assert json.loads(run(home, "inbox", "--as", "alice", "--json").out)["messages"] == []


async def test_mail_from_others_stays_in_the_inbox(home: Home, join: Join) -> None:
    bob, carol = await join("bob"), await join("carol")
    assert run(home, "register", "alice").code == 0
    await carol.send("alice", "Not for this chat.")
    answering = asyncio.create_task(answer(bob, "Yes."))
    done = await chat(home, "bob", "--as", "alice", "--json", stdin="Done?\n")
    await answering
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [(each["event"], each.get("body")) for each in events] == [("sent", None), ("message", "Yes.")]
    (left,) = json.loads(run(home, "inbox", "--as", "alice", "--json").out)["messages"]
    assert left["body"] == "Not for this chat."


async def test_without_an_answer_in_time_it_says_so_by_its_exit_code(home: Home, join: Join) -> None:
    bob = await join("bob")
    done = await chat(home, "bob", "--as", "alice", "--wait", "0.2s", stdin="Hello?\n")
    assert done.code == 75
    assert [message.body for message in await bob.messages(wait_s=60)] == ["Hello?"]


async def test_at_a_terminal_words_come_and_go(home: Home, join: Join) -> None:
    bob = await join("bob")
    answering = asyncio.create_task(answer(bob, "Good morning."))
    shown = await asyncio.to_thread(
        run_at_terminal, home, "chat", "bob", types=b"Hello, bob\n", enough=b"Good morning."
    )
    (message,) = await answering
    assert (message.body, message.sender) == ("Hello, bob", "operator")
    assert "Talking to bob, who is online. Ctrl-D ends the chat." in shown.out


async def test_a_chat_on_a_link_shows_what_members_say(home: Home, join: Join) -> None:
    bob, carol = await join("bob"), await join("carol")
    link = await bob.links.open(["carol"])
    done = await asyncio.to_thread(
        run_at_terminal,
        home,
        "chat",
        f"link:{link.id}",
        types=b"Hello, both\n",
        enough="operator → link".encode(),
    )
    assert "Hello, both" in done.out
    assert "Hello, both" in [message.body for message in await carol.messages(wait_s=60)]


async def test_nobody_of_that_name_is_told_with_the_nearest(home: Home, join: Join) -> None:
    await join("bobby")
    wrong = await chat(home, "boby", "--as", "alice", stdin="x\n")
    assert wrong.code == 68
    several = await chat(home, "bob,carol", "--as", "alice", stdin="x\n")
    assert (several.code, "one agent" in several.err) == (64, True)
