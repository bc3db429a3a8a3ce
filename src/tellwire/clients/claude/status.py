"""What Claude Code keeps of each running session: `<config>/sessions/<pid>.json`, with a `status`.

An Esc runs no hook, and this file tells it at once. Undocumented, seen with 2.1.325; a file that is not
there, of another session or with other words tells nothing, and then a turn is over when the next one begins.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from tellwire.clients.events import OpenTurn, Outcome, TurnState
from tellwire.clients.reader import decoded, lines_backwards, listed, mapping, open_at_once, seconds, string

STATUS_BYTES_MAX = 1 << 16


class _Status(msgspec.Struct, rename="camel"):
    pid: int
    session_id: str
    status: Literal["idle", "busy", "waiting"]
    status_updated_at: float
    """In milliseconds."""
    waiting_for: str = ""


def read_turn_state(turn: OpenTurn) -> TurnState | None:
    """What the session says of itself; of one that is idle also how its last turn went."""
    status = _load(turn)
    if status is None or (status.pid, status.session_id) != (turn.pid, turn.session):
        return None
    at = status.status_updated_at / 1_000
    if status.status == "waiting":
        return TurnState(state="waiting", at=at, text=status.waiting_for)
    if status.status == "idle":
        outcome, text = _outcome(turn.transcript, turn.began_at)
        return TurnState(state="idle", at=at, outcome=outcome, text=text)
    return TurnState(state="busy", at=at)


def _load(turn: OpenTurn) -> _Status | None:
    # The transcript is <config>/projects/<folder>/<session>.jsonl, wherever the configuration is.
    parts = turn.transcript.rsplit("/", 3)
    if len(parts) != 4 or parts[1] != "projects" or turn.pid <= 0:
        return None
    path = f"{parts[0]}/sessions/{turn.pid}.json"
    try:
        with open(path, "rb", opener=open_at_once) as file:
            return msgspec.json.decode(os.read(file.fileno(), STATUS_BYTES_MAX), type=_Status)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def _outcome(path: str, began_at: float) -> tuple[Outcome, str]:
    """How the last turn ended: with an answer, an error, or, if there is neither, by its human."""
    said: list[str] = []
    name = ""
    for line in lines_backwards(path):
        entry = mapping(decoded(line))
        kind = entry.get("type")
        if kind not in ("assistant", "user") or entry.get("isSidechain") or entry.get("agentId"):
            continue
        message = mapping(entry.get("message"))
        if kind == "user" or seconds(entry.get("timestamp")) < began_at:
            break
        if entry.get("isApiErrorMessage"):
            return ("ended", "".join(said)) if name else ("errored", "")
        if name and message.get("id") != name:
            break
        parts = [mapping(part) for part in _content(message)]
        if any(part.get("type") == "tool_use" for part in parts):
            return "interrupted", ""
        name = string(message.get("id")) or "?"
        said.insert(0, "".join(string(part.get("text")) for part in parts if part.get("type") == "text"))
    return ("ended", "".join(said)) if name else ("interrupted", "")


def _content(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)
