"""Turns as the broker knows them through hooks: who began them, how they ended, and what a client hides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tellwire.daemon import Times
from tellwire.sessions.tracker import HookTimes
from tellwire.sessions.turn_probe import ProbeTimes
from tellwire.wiring import SessionTimes
from tests.integration.hook_client import (
    Claude,
    Client,
    Turns,
    activity,
    open_claude,
    open_client,
    said,
    state_of,
)
from tests.integration.world import WITHIN_S, Home, Join, OpenRaw, until

OFTEN = Times(sessions=SessionTimes(hook_answer_s=WITHIN_S, hooks=HookTimes(probe=ProbeTimes(look_s=0.2))))
"""Files of a client are looked at ten times as often as usual, and hooks are answered however late."""
GEMINI = "gemini-cli-mcp-client"
LOOK_S = 60.0
"""Within this a look at the files of a client has told."""


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up(OFTEN)
    return home


@pytest.fixture
async def codex(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A stand-in for Codex, registered as `worker`."""
    async with open_client(running, tmp_path / "rollout.jsonl", patient=True) as client:
        yield client


@pytest.fixture
async def claude(running: Home, tmp_path: Path) -> AsyncIterator[Claude]:
    """A stand-in for Claude Code, registered as `worker`."""
    async with open_claude(running, tmp_path / "config", patient=True) as client:
        yield client


@pytest.fixture
async def gemini(running: Home, tmp_path: Path) -> AsyncIterator[Client]:
    """A stand-in for Gemini CLI, registered as `worker`."""
    async with open_client(running, tmp_path / "chat.jsonl", program=GEMINI, patient=True) as client:
        yield client


@pytest.fixture
def turns(raw: OpenRaw) -> Turns:
    """Turns as the audit has them."""
    return Turns(raw)


# -- every client -------------------------------------------------------------------------------------


async def test_a_turn_is_reported_once_with_its_final_text(codex: Client, turns: Turns) -> None:
    await codex.hook("UserPromptSubmit", prompt="Work.")
    await codex.hook("PostToolUse", tool_name="x", tool_input={})
    await codex.hook("Stop", last_assistant_message="\x1b[1mDone.\x1b[0m")
    await codex.hook("Stop", last_assistant_message="\x1b[1mDone.\x1b[0m")  # registered twice
    await codex.hook("UserPromptSubmit", prompt="More.", turn_id="t2")
    await codex.hook("Interrupt", turn_id="t2")
    assert await turns.ended(2) == [("ended", True, said("Done.")), ("interrupted", True, "")]


async def test_what_was_said_before_mail_kept_a_turn_going_is_told_too(
    codex: Client, join: Join, turns: Turns
) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    await alice.send("worker", "One more thing.")
    assert (await codex.hook("Stop", last_assistant_message="First."))["decision"] == "block"
    assert await codex.hook("Stop", last_assistant_message="First.") == {}, "registered twice"
    assert await activity(alice) == "busy"
    await codex.hook("Stop", last_assistant_message="All of it.")
    assert await turns.ended(2) == [("ended", True, said("First.")), ("ended", False, said("All of it."))]
    assert await activity(alice) == "idle"


async def test_a_turn_that_our_own_prompt_began_is_no_humans(codex: Client, turns: Turns) -> None:
    frame = "[tellwire: 1 message.]\n<peer-message id=m1 from=alice age=1s>\nHi\n</peer-message>"
    await codex.hook("UserPromptSubmit", prompt=frame)
    await codex.hook("Stop", last_assistant_message="Hello.")
    await codex.hook("PostToolUse", tool_name="x", tool_input={}, turn_id="t2")
    await codex.hook("Stop", last_assistant_message="Again.", turn_id="t2")
    assert [human for _, human, _ in await turns.ended(2)] == [False, False]


async def test_a_client_that_waits_for_its_human_is_told_of(claude: Claude, join: Join, turns: Turns) -> None:
    alice = await join("alice")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    notice = {"notification_type": "permission_prompt", "message": "It needs your permission."}
    await claude.hook("Notification", **notice)
    await claude.hook("Notification", **notice)
    assert await activity(alice) == "waiting"
    await claude.hook("PostToolBatch")
    assert await activity(alice) == "busy"
    await claude.hook("Stop", last_assistant_message="Done.")
    told = [("waiting", True, said("It needs your permission.")), ("ended", True, said("Done."))]
    assert await turns.ended(2) == told


async def test_a_compaction_in_the_middle_ends_no_turn(claude: Claude, join: Join, turns: Turns) -> None:
    alice = await join("alice")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    await claude.hook("SessionStart", source="compact")
    assert await activity(alice) == "busy"
    await claude.hook("Stop", last_assistant_message="Done.")
    assert len(await turns.ended(1)) == 1


# -- what Claude Code does not tell -------------------------------------------------------------------


async def test_mail_wakes_a_claude_that_was_interrupted(claude: Claude, join: Join, turns: Turns) -> None:
    alice = await join("alice")
    await claude.client.do("wait", client="claude-code")
    claude.status("busy")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    sent = await alice.send("worker", "Is it done?")
    assert (await claude.client.do("woken", within_s=0.3))["code"] is None, "the turn runs"
    claude.status("idle")  # Esc: no hook tells it
    woken = await claude.client.do("woken", within_s=LOOK_S)
    assert woken["code"] == 2
    assert f"id={sent.id} from=alice" in woken["err"]
    assert await turns.ended(1) == [("interrupted", True, "")]


async def test_without_the_file_an_interrupt_is_known_by_the_next_turn(claude: Claude, turns: Turns) -> None:
    await claude.hook("UserPromptSubmit", prompt="Work.")
    await claude.hook("UserPromptSubmit", prompt="Also this.")  # into the same turn
    await claude.hook("UserPromptSubmit", prompt="Something else.", prompt_id="p2")
    await claude.hook("Stop", last_assistant_message="Done.", prompt_id="p2")
    assert await turns.ended(2) == [("interrupted", True, ""), ("ended", True, said("Done."))]


async def test_a_state_does_not_stay_busy_though_no_mail_waits(claude: Claude, join: Join) -> None:
    alice = await join("alice")
    claude.status("busy")
    await claude.hook("UserPromptSubmit", prompt="Work.")
    claude.status("idle")

    async def idle() -> bool:
        return await activity(alice) == "idle"

    await until(idle, within_s=2 * LOOK_S, what="idle")


# -- what Codex does not tell -------------------------------------------------------------------------


async def test_a_model_of_codex_that_failed_is_known_by_the_rollout(
    codex: Client, join: Join, turns: Turns
) -> None:
    alice = await join("alice")
    await codex.hook("UserPromptSubmit", prompt="Work.")
    await alice.send("worker", "Is it done?")
    codex.write("event_msg", type="task_complete", turn_id="t1", error={"message": "no"})
    assert await turns.ended(1, within_s=LOOK_S) == [("errored", True, "")]
    assert await activity(alice) == "errored"


async def test_the_next_prompt_finds_out_that_the_model_of_codex_had_failed(
    codex: Client, turns: Turns
) -> None:
    await codex.hook("UserPromptSubmit", prompt="Work.")
    codex.write("event_msg", type="task_complete", turn_id="t1", error={"message": "no"})
    codex.write("event_msg", type="task_started", turn_id="t2")
    await codex.hook("UserPromptSubmit", prompt="And?", turn_id="t2")
    await codex.hook("Stop", last_assistant_message="Done.", turn_id="t2")
    assert await turns.ended(2) == [("errored", True, ""), ("ended", True, said("Done."))]


# -- an agent that fails ------------------------------------------------------------------------------


async def test_an_agent_that_errs_after_a_wake_is_left_alone_until_it_shows_life(
    claude: Claude, join: Join, turns: Turns
) -> None:
    alice = await join("alice")
    await claude.hook("SessionStart", source="startup")
    await claude.client.do("wait", client="claude-code")
    await alice.send("worker", "Wake up.")
    woken = await claude.client.do("woken", within_s=WITHIN_S)
    await claude.hook("UserPromptSubmit", prompt=f"<task-notification>{woken['err']}", prompt_id="p2")
    await claude.hook("StopFailure", error="unknown", prompt_id="p2")
    assert await turns.ended(1) == [("errored", False, "")]
    await claude.client.do("wait", client="claude-code")
    sent = await alice.send("worker", "Are you there?")
    assert (await claude.client.do("woken", within_s=1.0))["code"] is None
    assert await state_of(alice, sent.id) == ("pending", "")
    given = await claude.hook("UserPromptSubmit", prompt="I am back.", prompt_id="p3")
    assert f"id={sent.id} " not in json.dumps(given), "the earlier one of the pair is on its way still"
    await claude.hook("Stop", last_assistant_message="Fine.", prompt_id="p3")
    bob = await join("bob")
    await bob.send("worker", "And now?")
    assert (await claude.client.do("woken", within_s=WITHIN_S))["code"] == 2


# -- sub-agents of Gemini -----------------------------------------------------------------------------


async def test_no_tool_of_a_sub_agent_takes_mail(gemini: Client, join: Join) -> None:
    alice = await join("alice")

    async def hook(event: str, tool: str = "", **fields: Any) -> dict[str, Any]:
        return await gemini.hook(event, kind="gemini-cli", tool_name=tool, **fields)

    await hook("BeforeAgent", prompt="Work.")
    assert await hook("BeforeTool", "invoke_agent") == {}
    sent = await alice.send("worker", "For you alone.")
    assert await hook("AfterTool", "read_file") == {}
    given = (await hook("AfterTool", "invoke_agent"))["hookSpecificOutput"]
    assert f"id={sent.id} " in given["additionalContext"]


async def test_a_sub_agent_that_told_no_end_shuts_nobody_out(gemini: Client, join: Join) -> None:
    alice = await join("alice")
    bob = await join("bob")
    await gemini.hook("BeforeAgent", kind="gemini-cli", prompt="Work.")
    await gemini.hook("BeforeTool", kind="gemini-cli", tool_name="invoke_agent")
    sent = await alice.send("worker", "For you alone.")
    assert await gemini.hook("AfterTool", kind="gemini-cli", tool_name="read_file") == {}
    ended = await gemini.hook("AfterAgent", kind="gemini-cli", prompt="Work.", prompt_response="…")
    assert f"id={sent.id} " in ended["reason"]
    await bob.send("worker", "Me too.")
    assert await gemini.hook("AfterTool", kind="gemini-cli", tool_name="read_file")


async def test_the_gate_is_open_while_a_sub_agent_runs(gemini: Client, running: Home) -> None:
    marks = running.path / "marks"
    await gemini.hook("BeforeAgent", kind="gemini-cli", prompt="Work.")
    assert not (marks / str(gemini.pid)).exists()
    await gemini.hook("BeforeTool", kind="gemini-cli", tool_name="invoke_agent")
    assert (marks / str(gemini.pid)).exists(), "its end must come through"
    await gemini.hook("AfterTool", str(marks), kind="gemini-cli", tool_name="invoke_agent")
    assert not (marks / str(gemini.pid)).exists()


# -- checkpoints --------------------------------------------------------------------------------------


@pytest.mark.requirement("SC-6", stage="links")
async def test_a_configured_prompt_makes_a_turn_a_checkpoints_also_when_a_hook_put_it_in(
    home: Home, tmp_path: Path, join: Join
) -> None:
    home.up(checkpoint_prompt="[checkpoint]")
    async with open_client(home, tmp_path / "rollout.jsonl") as codex:
        alice = await join("alice")
        await alice.turns.listen("worker")
        await codex.hook("UserPromptSubmit", prompt="[checkpoint] Write down where you are.")
        await codex.hook("Stop", last_assistant_message="I am here.")
        await codex.hook("UserPromptSubmit", prompt="Work.", turn_id="t2")
        codex.ask("user", "Work.")
        codex.answer("Done.")
        await codex.hook("Stop", last_assistant_message="Done.", turn_id="t2")
        codex.ask("user", "<hook_prompt hook_run_id='x'>[checkpoint] Tidy up.</hook_prompt>")
        codex.answer("Tidied up.")
        await codex.hook("Stop", last_assistant_message="Tidied up.", turn_id="t2")
        await codex.hook("UserPromptSubmit", prompt="More.", turn_id="t3")
        codex.ask("user", "More.")
        codex.answer("All done.")
        await codex.hook("Stop", last_assistant_message="All done.", turn_id="t3")
        heard: list[str] = []
        while not any("All done." in each for each in heard):
            got = await alice.messages(wait_s=WITHIN_S)
            assert got, heard
            heard += [str(message.body) for message in got]
    whole = "\n".join(heard)
    assert "Done." in whole
    assert "I am here." not in whole
    assert "Tidied up." not in whole
