"""Links, listeners and checkpoints from the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest

import tellwire
from tellwire.cli.refusals import tell_refusal
from tests.integration.world import WITHIN_S, Home, Join, tellwire_command, until
from tests.surfaces.cli_world import run, run_at_terminal


def told(home: Home, *words: str) -> Any:
    """What a command tells a program."""
    done = run(home, *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


async def hears(agent: tellwire.Agent, body: str) -> None:
    """Wait until it was said to the agent."""
    got: list[Any] = []
    while body not in got:
        part = await agent.messages(wait_s=WITHIN_S)
        assert part, f"{body!r} never came, only {got}"
        got += [each.body for each in part]


@pytest.mark.requirement("SC-2", "SC-4", "SC-7", stage="links")
async def test_a_link_from_its_opening_to_its_end(home: Home, join: Join) -> None:
    alice, bob, carol = [await join(name) for name in ("alice", "bob", "carol")]
    opened = told(home, "link", "open", "alice", "bob", "--role", "bob=critic")
    link = opened["id"]
    assert (opened["made"], opened["direct"], opened["members"][1]["role"]) == ("created", True, "critic")
    assert told(home, "link", "open", "bob", "alice")["made"] == "reused"
    assert told(home, "link", "add", link, "carol", "--role", "scribe")["direct"] is False
    for agent in (alice, bob, carol):
        await agent.confirm(await agent.messages(wait_s=1))
    await alice.send(f"link:{link}", "hello all")
    for agent in (bob, carol):
        assert [each.body for each in await agent.messages(wait_s=5)] == ["hello all"]
    shown = told(home, "link", "show", f"link:{link}")
    assert [each["body"] for each in shown["messages"]] == ["hello all"]
    assert [each["name"] for each in shown["members"]] == ["alice", "bob", "carol"]
    for words in (("link",), ("link", "list"), ("link", "list", "--agent", "carol")):
        assert [each["id"] for each in told(home, *words)["links"]] == [link]
    text = run(home, "link", "show", link).out
    assert "hello all" in text
    assert "scribe" in text
    assert "active   1/40" in run(home, "link", "list").out
    for words in (("history", "--link", link), ("search", "hello", "--link", link)):
        assert [each["body"] for each in told(home, *words)["messages"]] == ["hello all"]
    assert told(home, "history", "--link", "l99")["messages"] == []
    assert run(home, "link", "leave", link, "carol").out == "Left.\n"
    assert told(home, "link", "resume", link)["status"] == "active"
    assert told(home, "link", "close", link)["status"] == "closed"
    assert told(home, "link", "list")["links"] == []
    assert told(home, "link", "list", "--all")["links"][0]["status"] == "closed"


@pytest.mark.requirement("SC-11", stage="links")
async def test_the_operators_word_lets_a_paused_link_go_on(home: Home, join: Join) -> None:
    home.up(link_turns_max=2)
    alice, bob = [await join(name) for name in ("alice", "bob")]
    link = (await alice.send("bob", "one", direct=True)).link
    await bob.messages(wait_s=5)
    await bob.send(f"link:{link}", "two")
    assert told(home, "link", "list")["links"][0]["status"] == "paused"
    assert "paused (turns)" in run(home, "link", "show", link).out
    said = run(home, "link", "say", link, "Go on.", "--as", "stranger")
    assert (said.code, "not a member of link" in said.err) == (77, True)
    assert "`tellwire link list` shows yours" in said.err
    spoken = run_at_terminal(home, "link", "say", link, "Go on.")
    assert spoken.code == 0, spoken.out
    assert told(home, "link", "list")["links"][0]["status"] == "active"
    await hears(bob, "Go on.")
    await bob.send(f"link:{link}", "three")
    await hears(alice, "three")
    await alice.send(f"link:{link}", "four")
    assert told(home, "link", "resume", link)["turns"] == 0
    ended = run_at_terminal(home, "link", "close", link, "--message", "That is all.")
    assert ended.code == 0, ended.out
    await hears(bob, "That is all.")
    notes = json.loads(run_at_terminal(home, "inbox", "--json").out)["messages"]
    assert sum("is paused" in str(each["body"]) for each in notes) == 2, "each pause is told"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("link", "open", "alice"), 64),
        (("link", "open", "alice", "nobody"), 68),
        (("link", "open", "alice", "bob", "--role", "bob"), 64),
        (("link", "open"), 64),
        (("link", "show", "l99"), 68),
        (("link", "show", "no link"), 64),
        (("link", "close"), 64),
        (("link", "close", "l99"), 68),
        (("link", "say", "l99", "x", "--as", "x"), 68),
        (("link", "say", "??", "x", "--as", "x"), 64),
        (("link", "nonsense"), 64),
        (("watch", "l99"), 68),
        (("listen", "nobody", "--as", "x"), 68),
        (("listen", "x", "--as", "x"), 64),
        (("checkpoint", "nobody"), 68),
    ],
)
async def test_bad_input_ends_with_its_code_and_a_word_on_stderr(
    home: Home, join: Join, words: tuple[str, ...], code: int
) -> None:
    await join("alice")
    await join("bob")
    done = run(home, *words)
    assert (done.code, done.out) == (code, ""), done.err
    assert done.err


@pytest.mark.requirement("SC-9", stage="links")
async def test_listening_and_checkpoints(home: Home, join: Join) -> None:
    worker = await join("worker")
    assert told(home, "listen", "worker", "--as", "ci") == {"agents": ["worker"]}
    run(home, "send", "worker", "do it", "--as", "ci", "--listen")
    assert told(home, "checkpoint", "worker") == {"note": ""}
    assert "next turn of worker will be private" in run(home, "checkpoint", "worker").out
    await worker.__aexit__(None, None, None)
    (note,) = told(home, "inbox", "--as", "ci")["messages"]
    assert (note["from"], note["body"]) == ("tellwire", "worker is gone: it ended its session.")
    assert run(home, "unlisten", "worker", "--as", "ci").out == "Listening to: nobody.\n"


async def test_watching_a_link_shows_each_thing_said_once_until_it_is_closed(home: Home, join: Join) -> None:
    alice, _bob = await join("alice"), await join("bob")
    link = (await alice.send("bob", "before", direct=True)).link
    await alice.send("bob", "not on the link")
    process = await asyncio.create_subprocess_exec(
        *tellwire_command("watch", f"link:{link}", "--json"),
        env=home.environment(),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    first = json.loads(await asyncio.wait_for(process.stdout.readline(), 15))
    assert first["body"] == "before"
    home.signal(home.KILL)
    for number in range(3):
        await alice.send(f"link:{link}", f"word {number}")
        await alice.send("bob", "aside")

    async def back() -> bool:
        return any(agent.name == "bob" and agent.status == "online" for agent in await alice.peers())

    await until(back)
    await alice.links.close(link, message="the end")
    rest, _ = await asyncio.wait_for(process.communicate(), 20)
    lines = [json.loads(line) for line in rest.splitlines()]
    bodies = [line["body"] for line in lines if "body" in line]
    assert bodies == ["word 0", "word 1", "word 2", "the end"]
    assert lines[-1]["type"] == "link_closed"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("show", "l999"), "List the links with `tellwire link list`."),
        (("close", "l999"), "List the links with `tellwire link list`."),
        (("resume", "l999"), "List the links with `tellwire link list`."),
    ],
)
async def test_what_to_do_about_an_unknown_link_is_said_in_commands(
    home: Home, words: tuple[str, ...], advice: str
) -> None:
    home.up()
    refused = run(home, "link", *words)
    assert (refused.code, advice in refused.err) == (68, True), refused.err
    told = json.loads(run(home, "link", *words, "--json").err)["error"]
    assert (told["code"], told["advice"]) == ("unknown_link", advice)


def test_advice_with_a_link_in_it_is_a_command_that_can_be_copied(capfd: pytest.CaptureFixture[str]) -> None:
    tell_refusal("link_paused", "It is paused.", 'resume_link("l3") lets it go on.', as_json=False)
    assert "`tellwire link resume l3` lets it go on." in capfd.readouterr().err


async def test_names_of_links_are_completed(home: Home, join: Join) -> None:
    alice = await join("alice")
    await join("bob")
    link = (await alice.links.open(["bob"])).id
    for words, expected in (
        ("tellwire link show ", link),
        ("tellwire watch link:", f"link:{link}"),
        ("tellwire link ", "resume"),
    ):
        env = {
            **home.environment(),
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "_TELLWIRE_COMPLETE": "bash_complete",
        }
        done = await asyncio.create_subprocess_exec(
            *tellwire_command(), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(done.communicate(), 15)
        assert expected in out.decode(), (words, out, err)
