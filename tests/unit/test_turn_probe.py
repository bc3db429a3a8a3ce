"""What clients' own files tell of a turn of which no hook told the end."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.codex.facts import CODEX
from tellwire.clients.events import HookEvent, OpenTurn, TurnState
from tellwire.clients.gemini.facts import GEMINI
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.reader import seconds
from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.turn_probe import ProbeTimes, TurnProbe
from tellwire.sessions.turns import Ending
from tests.unit.transcripts import SAMPLES

STATUSES: dict[str, dict[str, Any]] = {
    row["when"]: row["file"] for row in json.loads((SAMPLES / "claude/status.json").read_bytes())
}
LINES = (SAMPLES / "claude/status-transcript.jsonl").read_bytes().splitlines()
PID, SESSION = STATUSES["busy"]["pid"], STATUSES["busy"]["sessionId"]
PROMPTS = {
    "answered": "First.",
    "busy": "Think.",
    "interrupted": "Think.",
    "waiting": "Run it.",
    "refused": "Run it.",
    "failed": "Fail.",
}


def claude(config: Path, when: str) -> OpenTurn:
    """Claude Code's files as they were at a moment of the recording, and the turn under way then."""
    folder = config / "projects" / "-home-user-project"
    folder.mkdir(parents=True, exist_ok=True)
    at = STATUSES[when]["statusUpdatedAt"] / 1_000
    lines = [line for line in LINES if seconds(json.loads(line)["timestamp"]) <= at + 0.5]
    (folder / f"{SESSION}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    write_status(config, STATUSES[when])
    began = [
        json.loads(line)["timestamp"]
        for line in LINES
        if json.loads(line).get("message", {}).get("content") == PROMPTS[when]
    ]
    since = seconds(began[0])
    return OpenTurn(
        pid=PID,
        session=SESSION,
        transcript=str(folder / f"{SESSION}.jsonl"),
        since=since,
        began_at=since - 0.05,
    )


def write_status(config: Path, status: Any) -> None:
    folder = config / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    data = status if isinstance(status, bytes) else json.dumps(status).encode()
    (folder / f"{PID}.json").write_bytes(data)


@pytest.mark.parametrize(
    ("when", "state", "outcome", "text"),
    [
        ("answered", "idle", "ended", "Ready."),
        ("busy", "busy", "interrupted", ""),
        ("interrupted", "idle", "interrupted", ""),
        ("waiting", "waiting", "interrupted", "permission prompt"),
        ("refused", "idle", "interrupted", ""),
        ("failed", "idle", "errored", ""),
    ],
)
def test_claude_codes_own_file_tells_how_a_turn_stands(
    tmp_path: Path, when: str, state: str, outcome: str, text: str
) -> None:
    found = CLAUDE.transcript.turn_state(claude(tmp_path, when))
    assert found is not None
    assert (found.state, found.outcome, found.text) == (state, outcome, text)
    assert found.at == STATUSES[when]["statusUpdatedAt"] / 1_000


def test_all_blocks_of_a_final_answer_count_and_nothing_before_a_tool(tmp_path: Path) -> None:
    turn = claude(tmp_path, "answered")
    parts = [
        ("m1", "text", "Before."),
        ("m1", "tool_use", ""),
        ("m2", "text", "One "),
        ("m2", "text", "two."),
    ]
    entries = [
        {
            "type": "assistant",
            "timestamp": "2026-11-16T02:40:02.400Z",
            "message": {"id": name, "role": "assistant", "content": [{"type": kind, "text": text}]},
        }
        for name, kind, text in parts
    ]
    with Path(turn.transcript).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
    found = CLAUDE.transcript.turn_state(turn)
    assert found is not None
    assert (found.outcome, found.text) == ("ended", "One two.")


@pytest.mark.parametrize(
    "status",
    [
        b"",
        b"{",
        b"[]",
        {},
        {**STATUSES["busy"], "status": "meditating"},
        {**STATUSES["busy"], "sessionId": "another"},
        {**STATUSES["busy"], "pid": 1},
        {**STATUSES["busy"], "statusUpdatedAt": "yesterday"},
    ],
)
def test_a_file_of_another_version_or_session_tells_nothing(tmp_path: Path, status: Any) -> None:
    turn = claude(tmp_path, "busy")
    write_status(tmp_path, status)
    assert CLAUDE.transcript.turn_state(turn) is None


def test_without_a_file_or_a_place_for_it_nothing_is_told(tmp_path: Path) -> None:
    turn = claude(tmp_path, "busy")
    (tmp_path / "sessions" / f"{PID}.json").unlink()
    assert CLAUDE.transcript.turn_state(turn) is None
    for path in ("", "/", "/a/b", "relative/projects/x/y.jsonl", "/a/other/b/c.jsonl"):
        assert CLAUDE.transcript.turn_state(msgspec.structs.replace(turn, transcript=path)) is None


@given(data=st.binary(max_size=300))
def test_whatever_is_in_the_file_nobody_is_hurt(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    config = tmp_path_factory.mktemp("config")
    turn = claude(config, "busy")
    write_status(config, data)
    assert CLAUDE.transcript.turn_state(turn) is None


# -- Codex --------------------------------------------------------------------------------------------


def rollout(path: Path, case: str, until: str = "") -> OpenTurn:
    """A recorded rollout up to a line; the turn is the last one that began in it."""
    kept: list[bytes] = []
    word = ""
    for line in (SAMPLES / f"codex/{case}.jsonl").read_bytes().splitlines():
        kept.append(line)
        payload = json.loads(line).get("payload", {})
        if payload.get("type") == "task_started":
            word = payload["turn_id"]
        if until and payload.get("type") == until:
            break
    path.write_bytes(b"\n".join(kept) + b"\n")
    return OpenTurn(pid=1, session="s", transcript=str(path), since=0.0, began_at=0.0, client_id=word)


@pytest.mark.parametrize(
    ("case", "until", "state", "outcome", "text"),
    [
        ("reader_http400", "task_complete", "idle", "errored", ""),
        ("reader_http400", "", "idle", "ended", "after"),
        ("reader_esc", "turn_aborted", "idle", "interrupted", ""),
        ("reader_esc", "function_call", "busy", "interrupted", ""),
    ],
)
def test_codex_rollout_tells_how_a_turn_stands(
    tmp_path: Path, case: str, until: str, state: str, outcome: str, text: str
) -> None:
    found = CODEX.transcript.turn_state(rollout(tmp_path / "rollout", case, until))
    assert isinstance(found, TurnState)
    assert (found.state, found.outcome, found.text) == (state, outcome, text)


def test_the_end_of_another_turn_of_codex_tells_nothing(tmp_path: Path) -> None:
    turn = rollout(tmp_path / "rollout", "reader_http400", "task_complete")
    assert CODEX.transcript.turn_state(msgspec.structs.replace(turn, client_id="another")) is None
    assert CODEX.transcript.turn_state(msgspec.structs.replace(turn, transcript="")) is None


def test_the_turn_of_codex_that_came_next_does_not_hide_how_the_last_one_ended(tmp_path: Path) -> None:
    first = rollout(tmp_path / "first", "reader_http400", "task_complete")
    whole = rollout(tmp_path / "whole", "reader_http400")
    found = CODEX.transcript.turn_state(msgspec.structs.replace(whole, client_id=first.client_id))
    assert found is not None
    assert (found.state, found.outcome) == ("idle", "errored")


# -- Gemini CLI ---------------------------------------------------------------------------------------


def chat(path: Path, last: str, since: float = 0.0) -> OpenTurn:
    """A recorded chat file up to the first line with a text in it."""
    lines = (SAMPLES / "gemini/transcript-terminal.jsonl").read_bytes().splitlines()
    ends = next(number for number, line in enumerate(lines) if last.encode() in line)
    path.write_bytes(b"\n".join(lines[: ends + 1]) + b"\n")
    return OpenTurn(pid=1, session="s", transcript=str(path), since=since, began_at=0.0)


def test_geminis_chat_file_tells_of_an_end_that_nobody_heard(tmp_path: Path) -> None:
    turn = chat(tmp_path / "chat", "Hello to you.")
    found = GEMINI.transcript.turn_state(turn)
    assert found is not None
    assert (found.state, found.outcome, found.text) == ("idle", "ended", "Hello to you.")
    heard_now = msgspec.structs.replace(turn, since=time.time())
    assert GEMINI.transcript.turn_state(heard_now) is None, "mail may have kept the turn going"
    heard_since = msgspec.structs.replace(turn, since=found.at + 0.01)
    assert GEMINI.transcript.turn_state(heard_since) == found, "what it was given was lost"
    assert GEMINI.transcript.turn_state(chat(tmp_path / "chat", "Say hello.")) is None
    assert GEMINI.transcript.turn_state(msgspec.structs.replace(turn, transcript="/nowhere")) is None


def test_an_answer_of_gemini_that_has_just_come_is_no_end_yet(tmp_path: Path) -> None:
    turn = chat(tmp_path / "chat", "Hello to you.")
    *before, last = Path(turn.transcript).read_bytes().splitlines()
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    fresh = json.dumps({**json.loads(last), "timestamp": now}).encode()
    Path(turn.transcript).write_bytes(b"\n".join([*before, fresh]) + b"\n")
    assert GEMINI.transcript.turn_state(turn) is None, "its hook is on its way"


def test_plugins_tell_every_end_themselves(tmp_path: Path) -> None:
    assert OPENCODE.opened().transcript.turn_state(rollout(tmp_path / "rollout", "reader_esc")) is None


# -- a client that is silent --------------------------------------------------------------------------


async def look_once(session: ClientSession, silent_s: float) -> list[str]:
    """Look at a busy agent until something is told: how turns ended."""
    told: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

    def tell(_: ClientSession, endings: list[Ending]) -> None:
        if not told.done():
            told.set_result([ending.outcome for ending in endings])

    agent = Agent(id="a1", name="worker", kind=session.client.kind, session="i", owner=f"{PID}.1")
    looking = asyncio.create_task(
        TurnProbe(lambda: [(session, agent)], tell, ProbeTimes(silent_s=silent_s)).run()
    )
    try:
        async with asyncio.timeout(ProbeTimes().look_s / 2):
            return await told
    finally:
        looking.cancel()


def busy(kind: Any, transcript: str = "/nowhere") -> ClientSession:
    """An agent in a turn, whose client is of a kind."""
    session = ClientSession("a1", kind, lambda: "t1")
    session.note(HookEvent(what="prompt", name="p", session=SESSION, transcript=transcript, typed=True))
    return session


async def test_a_turn_of_which_nothing_is_heard_for_long_is_not_known_and_still_a_turn(
    tmp_path: Path,
) -> None:
    session = busy(GEMINI)
    endings = await look_once(session, silent_s=0.0)
    assert (session.state, endings) == ("", [])
    assert session.turns.current is not None, "its end may still be told"
    growing = tmp_path / "chat.jsonl"
    growing.write_text("{}\n", "utf-8")
    session = busy(GEMINI, str(growing))
    session.heard_at -= 3_600
    with pytest.raises(TimeoutError):
        await look_once(session, silent_s=1_800.0)
    assert session.state == "busy", "its transcript grows"


async def test_a_word_of_a_client_that_is_older_than_its_last_hook_waits(tmp_path: Path) -> None:
    turn = claude(tmp_path, "interrupted")
    write_status(tmp_path, {**STATUSES["interrupted"], "statusUpdatedAt": (time.time() - 5) * 1_000})
    session = busy(CLAUDE, turn.transcript)
    with pytest.raises(TimeoutError):
        await look_once(session, silent_s=900.0)
    assert session.state == "busy", "the file may be from before the prompt"
    session.heard_at -= 60
    endings = await look_once(session, silent_s=900.0)
    assert (session.state, endings, session.was_interrupted) == ("idle", ["interrupted"], True)
