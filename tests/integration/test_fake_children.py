"""Children with hooks and tools of their own: what of their turns reaches whom (AUD-4, AUD-7, F2-9)."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fake_clients import FakeClient, ended, errored, exits
from tests.integration.hook_client import Claude, Turns, open_claude
from tests.integration.program import Program, StartProgram
from tests.integration.test_spawning import end_children, none_left
from tests.integration.world import ROOT, WITHIN_S, Home, Join, OpenRaw, take, tellwire_command, until

QUIET_S = 1.0


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """A client on the path; made before the broker and the parent are."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return FakeClient(folder, monkeypatch)


@pytest.fixture
async def parent(home: Home, fake: FakeClient, tmp_path: Path) -> AsyncIterator[Claude]:
    """An idle agent with hooks, registered as `worker`, that has children."""
    del fake
    home.up()
    try:
        async with open_claude(home, tmp_path / "config") as client:
            await client.hook("SessionStart", source="startup")
            await client.client.do("wait", client="claude-code")
            yield client
    finally:
        home.end()
        end_children(home)


async def call(parent: Claude, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of the parent's."""
    params = {"name": tool, "arguments": arguments}
    return (await parent.client.do("rpc", method="tools/call", params=params))["result"]


async def spawn(parent: Claude) -> None:
    born = await call(
        parent, "spawn_agent", name="kid", client="claude-code", task="Count.", headless=True, cwd="/"
    )
    assert not born.get("isError"), born


async def wake_of(parent: Claude, within_s: float = WITHIN_S) -> str:
    woken = await parent.client.do("woken", within_s=within_s)
    assert woken["code"] in (None, 2), woken
    return woken["err"]


# -- the table of events ------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-4", "CHILD-1", stage="lineage")
async def test_row_the_end_of_a_childs_turn_is_seen_by_its_parent_and_wakes_it(
    parent: Claude, fake: FakeClient
) -> None:
    fake.does(ended("There are forty-two."))
    await spawn(parent)
    told = await wake_of(parent)
    assert "from=kid" in told
    assert "There are forty-two." in told


@pytest.mark.requirement("AUD-4", stage="lineage")
async def test_row_an_error_of_a_child_is_seen_by_its_parent_and_wakes_it(
    parent: Claude, fake: FakeClient
) -> None:
    fake.does(errored())
    await spawn(parent)
    assert "Your child kid stopped with an error" in await wake_of(parent)


@pytest.mark.requirement("AUD-4", "CHILD-4", stage="lineage")
async def test_row_the_end_of_a_child_is_seen_by_its_parent_and_wakes_it(
    parent: Claude, fake: FakeClient, home: Home
) -> None:
    fake.does({}, exits(0))
    await spawn(parent)
    await call(parent, "agent_send", to="kid", body="You may go.")
    assert "Your child kid" in await wake_of(parent), "of the turn that the mail broke off, or of the end"
    await none_left(home)
    await until(lambda: "Your child kid has ended." in told(home))
    assert told(home).count("was interrupted") == 1, "of the turn that it died in, only the end is told"


def told(home: Home) -> str:
    """All that was ever said."""
    return home.tellwire("history", "--json").stdout


@pytest.mark.requirement("AUD-7", stage="lineage")
async def test_row_a_turn_that_a_notice_began_stays_silent_upward_and_one_of_the_parents_does_not(
    parent: Claude, fake: FakeClient, program: StartProgram, join: Join, raw: OpenRaw
) -> None:
    del parent
    boss = await program("boss")
    fake.does(ended("First."), ended("To a notice."), ended("To its parent."))
    born = await boss.call("children.spawn", "kid", "claude-code", "Count.", headless=True, cwd="/")
    assert born["status"] == "running", born
    assert await words_to(boss) == "First."
    alice, bob, carol = [await join(name) for name in ("alice", "bob", "carol")]
    await alice.turns.listen("kid")
    await bob.links.open(["kid", carol.name])
    await Turns(raw).ended(2)
    await boss.call("send", "kid", "And now?")
    assert await words_to(boss) == "To its parent.", "the next that it hears"
    (heard,) = await take(alice, 1)
    assert "To its parent." in str(heard.body), "nor do listeners"


async def words_to(boss: Program) -> str:
    """What the parent is told next."""
    (message,) = await boss.call("messages", wait_s=WITHIN_S)
    await boss.call("confirm", [message["id"]])
    return str(message["body"])


@pytest.mark.requirement("AUD-3", "AUD-5", stage="lineage")
async def test_row_scope_that_goes_on_to_a_grandchild_is_seen_by_no_model_and_wakes_nobody(
    parent: Claude, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    spawning = tellwire_command(
        "spawn", "grandkid", "command", "--task", "t", "--headless", "--scope", str(tmp_path / "a" / "b")
    )
    program = f"{shlex.join(spawning)} -- sleep 300; exec sleep 300"
    words = {"client": "command", "task": "t", "command": ["sh", "-c", program], "headless": True}
    await call(parent, "spawn_agent", name="kid", scope=[str(tmp_path / "a")], cwd=str(ROOT), **words)

    async def known() -> bool:
        return "grandkid" in (await parent.client.do("tellwire", words=["children"]))["out"]

    await until(known, what="the registry two levels up knows it")
    assert await wake_of(parent, QUIET_S) == "", "idle, it is not woken"
    took = await parent.hook("PostToolBatch")
    assert took == {}, "in a turn, it is not told"
    assert "No messages" in json.dumps(await call(parent, "get_messages"))
    owner = home.tellwire("who-owns", str(tmp_path / "a" / "b" / "f"), "--json")
    assert json.loads(owner.stdout)["owner"] == "grandkid"


# -- one question -------------------------------------------------------------------------------------


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_a_client_that_is_asked_answers_with_the_final_words_of_its_turn(
    parent: Claude, fake: FakeClient, home: Home
) -> None:
    fake.does(ended("Forty-two."), ended("Nobody hears this."))
    done = await ask(parent)
    assert (done["code"], done["out"]) == (0, "Forty-two.\n"), done
    await none_left(home)
    assert await wake_of(parent, QUIET_S) == "", "the answer is no mail besides"


@pytest.mark.requirement("F2-9", stage="lineage")
async def test_a_client_that_is_asked_and_fails_is_told_with_its_own_output(
    parent: Claude, fake: FakeClient, home: Home
) -> None:
    fake.does(exits(1, "Invalid API key\n"))
    done = await ask(parent)
    assert done["code"] == 75
    assert "Invalid API key" in done["err"]
    await none_left(home)
    assert await wake_of(parent, QUIET_S) == ""


async def ask(parent: Claude) -> dict[str, Any]:
    """The parent's model asks with its shell."""
    done: dict[str, Any] = await parent.client.do("tellwire", words=["ask", "claude-code", "What is it?"])
    return done
