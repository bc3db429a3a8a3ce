"""Judges a write without a broker: for a hook of an agent that was given a scope, from the file about it.

The broker keeps the file current. `rules` are in order, the first that covers a path decides; `otherwise` is
what is said of any other path. A rule without a reason is one to write by.

    {"process": "4711.889", "rules": [{"path": "/shop/src"}], "otherwise": "{path} is outside of your scope."}
"""

from __future__ import annotations

import json
import os

from tellwire.relay.starts import start_of
from tellwire.relay.writes import EVENTS, plain_fields, targets, written_paths

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from typing import Any

FILE_BYTES_MAX = 1 << 20
REASONS_MAX = 8
PLACE = "{path}"
UNCLEAR = (
    "You have a scope, and tellwire cannot tell whether this write is within it. Nothing was written: "
    "try again, or ask the operator to look at `tellwire doctor`."
)
TOO_LONG = "You have a scope, and this call is too long to see where it writes. Split it into smaller ones."


def denial(client: str, payload: bytes, folder: str, *, cut: bool) -> bytes:
    """What a hook prints to refuse a write; empty if it is none, or within the scope."""
    client_pid = os.getppid()
    event = ""
    try:
        told = plain_fields(payload) if cut else json.loads(payload)
        event, wanted = str(told["hook_event_name"]), written_paths(client, told)
        if wanted == []:
            return b""
        with open(os.path.join(folder, f"{client_pid}.json"), "rb") as file:
            guard = json.loads(file.read(FILE_BYTES_MAX))
        if not is_of(guard["process"], client_pid):
            return b""  # of one that had the same number before
        reason = TOO_LONG if wanted is None else judge(guard, targets(client, wanted, str(told["cwd"])))
    except FileNotFoundError:
        return b""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        reason = UNCLEAR
    return refusal(client, event or EVENTS.get(client, ""), reason) if reason else b""


def judge(guard: dict[str, Any], paths: list[str]) -> str:
    """Why not all of the paths may be written; empty if they may."""
    return in_words([reason for path in paths if (reason := why(guard, path))])


def in_words(refused: list[str]) -> str:
    """Each reason once, and what came of the call; empty if there is none."""
    if not refused:
        return ""
    reasons = list(dict.fromkeys(refused))
    more = [f"{len(reasons) - REASONS_MAX} more files."] if len(reasons) > REASONS_MAX else []
    return " ".join([*reasons[:REASONS_MAX], *more, "Nothing was written."])


def why(guard: dict[str, Any], path: str) -> str:
    """Why one path may not be written; empty if it may."""
    if not path.startswith("/"):
        return UNCLEAR
    for rule in guard["rules"]:
        if covers(rule["path"], path, recursive=rule.get("recursive", True)):
            return str(rule.get("reason", "")).replace(PLACE, path)
    return str(guard["otherwise"]).replace(PLACE, path)


def covers(ruled: str, path: str, *, recursive: bool) -> bool:
    """Whether a rule is about a path, as the broker sees it."""
    if path == ruled:
        return True
    if recursive:
        return path.startswith("/" if ruled == "/" else f"{ruled}/")
    return (path.rpartition("/")[0] or "/") == ruled


def is_of(process: object, pid: int) -> bool:
    """Whether a process is the one that the file is about; where the system does not tell, yes."""
    if not isinstance(process, str):
        raise TypeError("a process is a word")
    start = start_of(pid)
    return not start or process == f"{pid}.{start}"


def refusal(client: str, event: str, reason: str) -> bytes:
    """In the client's own form."""
    if client == "gemini-cli":
        return json.dumps({"decision": "deny", "reason": reason}).encode()
    verdict = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **verdict}}).encode()
