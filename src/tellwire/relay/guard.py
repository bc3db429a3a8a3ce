"""Judges a write by an agent's guard: in the broker, and in a hook of a scoped agent that cannot ask it.

The broker keeps a file with the guard of each scoped agent. `rules` are in order, the first that covers a
path decides; `otherwise` is the refusal for any other path of a scoped agent. A rule without a reason allows
the write. `writes` has, by kind of client, what it reports before it writes, and how its hook refuses; it is
in the mark file as well. What cannot be judged is refused, and if even those facts are lost, by an exit code
that every client takes for a refusal.

    {"process": "4711.889", "rules": [{"path": "/shop/src"}], "otherwise": "{path} is outside of your scope.",
     "writes": {"codex": {"event": "PreToolUse", "tools": {"apply_patch": ""}, "refusal": {"…": "{reason}"}}}}
"""

from __future__ import annotations

import json
import os

from tellwire.relay.payloads import read
from tellwire.relay.places import UnclearError, WrittenFile, look
from tellwire.relay.starts import start_of
from tellwire.relay.writes import written_paths

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FILE_BYTES_MAX = 1 << 20
REASONS_MAX = 8
PLACE = "{path}"
REASON = "{reason}"
"""In a client's form of a refusal."""
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
UNCLEAR = (
    "You have a scope, and tellwire cannot tell whether this write is within it. Nothing was written: "
    "try again, or ask the operator to look at `tellwire doctor`."
)
UNREADABLE = (
    "tellwire cannot tell which files this call would write, and some files are not yours to write. "
    "Split it into smaller calls, and name each file by its absolute path."
)
LINKED = "{path} is a hard link to a file that is not within your scope. Replace it with a copy first."
LOOK_S = 0.2
"""How long other names of a file are searched for: everything in a hook is bounded."""
CONFLICT, OUTSIDE, INVALID = "scope_conflict", "scope_outside", "path_invalid"


def denial(client: str, payload: bytes, folder: str, *, cut: bool) -> tuple[bytes, bool]:
    """What a hook says to refuse a write; empty if it is none, or within the scope.

    True: it is in no client's form, since no file tells it.
    """
    client_pid = os.getppid()
    try:
        told = read(payload, cut=cut)
    except ValueError:
        return b"", False  # it does not even say that it asks
    path = os.path.join(folder, str(client_pid))
    try:
        guard = _load(f"{path}.json")
    except FileNotFoundError:
        return b"", False
    try:
        known = _writes(guard, path)
        if client not in known:
            return b"", False
        wanted, form = written_paths(known[client], told), known[client]["refusal"]
    except DAMAGED:
        return (UNCLEAR.encode(), True) if asks(told) else (b"", False)
    reason = "" if wanted == [] else _reason(guard, known[client], told, client_pid)
    return (json.dumps(filled(form, reason)).encode() if reason else b"", False)


def _load(path: str) -> Any:
    """What a guard's file says; None if it makes no sense."""
    with open(path, "rb") as file:
        try:
            return json.loads(file.read(FILE_BYTES_MAX))
        except (ValueError, RecursionError):
            return None


def _writes(guard: Any, mark: str) -> dict[str, Any]:
    """What clients report before they write: in the guard, or, if that is damaged, behind the mark."""
    if isinstance(guard, dict) and isinstance(guard.get("writes"), dict):  # pyright: ignore[reportUnknownMemberType]
        return guard["writes"]  # pyright: ignore[reportUnknownVariableType]
    with open(mark, "rb") as file:
        known = json.loads(file.read(FILE_BYTES_MAX).partition(b"\n")[2])
    if not isinstance(known, dict):
        raise TypeError("the facts are an object")
    return known  # pyright: ignore[reportUnknownVariableType]


def _reason(guard: Any, writes: Mapping[str, Any], told: Mapping[str, Any], pid: int) -> str:
    try:
        if not is_of(guard["process"], pid):
            return ""  # of one that had the same number before
        if not guard["otherwise"]:
            raise ValueError("only a scoped agent has a file")
        return in_words([why for _, why in judge(guard, writes, told, within_s=LOOK_S)])
    except DAMAGED:
        return UNCLEAR


def asks(told: Mapping[str, Any]) -> bool:
    """Whether a tool is about to run, as every client reports it."""
    return ("tool_name" in told or "tool_input" in told) and "tool_response" not in told


def judge(
    guard: Mapping[str, Any], writes: Mapping[str, Any], told: Mapping[str, Any], *, within_s: float
) -> list[tuple[str, str]]:
    """Why a call may not write, as code and words for each file; empty if it may. It looks at the disk."""
    wanted, cwd = written_paths(writes, told), told.get("cwd")
    scoped = bool(guard["otherwise"])
    rules = [rule for rule in guard["rules"] if scoped or rule.get("reason")]
    search = [(str(rule["path"]), bool(rule.get("recursive", True))) for rule in rules]
    try:
        if wanted is None or not isinstance(cwd, str):
            raise UnclearError("it does not say where it writes")
        tool = str(told.get("tool_name"))
        places = look(writes, wanted, tool=tool, cwd=cwd, rules=search, within_s=within_s)
    except UnclearError:
        return [(INVALID, UNREADABLE)]
    refused = [why(guard, place.path) or _why_linked(guard, place, scoped=scoped) for place in places]
    return [each for each in refused if each is not None]


def _why_linked(guard: Mapping[str, Any], place: WrittenFile, *, scoped: bool) -> tuple[str, str] | None:
    """Why a file may not be written that has other names; of a scoped agent's file all have to be known."""
    for name in place.names:
        if (refused := why(guard, name)) is not None:
            return refused[0], f"{place.path} is a hard link to {name}. {refused[1]}"
    if scoped and not place.complete:
        return OUTSIDE, LINKED.replace(PLACE, place.path)
    return None


def in_words(refused: list[str]) -> str:
    """Each reason once, and what came of the call; empty if there is none."""
    if not refused:
        return ""
    reasons = list(dict.fromkeys(refused))
    more = [f"{len(reasons) - REASONS_MAX} more files."] if len(reasons) > REASONS_MAX else []
    return " ".join([*reasons[:REASONS_MAX], *more, "Nothing was written."])


def why(guard: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    """Why one path may not be written, as code and words; None if it may."""
    for rule in guard["rules"]:
        if covers(rule["path"], path, recursive=rule.get("recursive", True)):
            reason = str(rule.get("reason", ""))
            return (CONFLICT, reason.replace(PLACE, path)) if reason else None
    reason = str(guard["otherwise"])
    return (OUTSIDE, reason.replace(PLACE, path)) if reason else None


def covers(ruled: str, path: str, *, recursive: bool) -> bool:
    """Whether a rule is about a path, as the broker sees it."""
    if path == ruled:
        return True
    if recursive:
        return path.startswith("/" if ruled == "/" else f"{ruled}/")
    return (path.rpartition("/")[0] or "/") == ruled


def is_of(process: object, pid: int) -> bool:
    """Whether a process is the one that the file is about; where the system does not report it, yes.

    Raises:
        ValueError: the file is damaged: it is named by this pid, and tells of no start of it.
    """
    if not isinstance(process, str) or not process.startswith(f"{pid}."):
        raise ValueError("a file's process has the number by which the file is named")
    start = start_of(pid)
    return not start or process == f"{pid}.{start}"


def filled(form: Any, reason: str) -> Any:
    """A client's form of a refusal, with the reason in its place."""
    if isinstance(form, dict):
        return {key: filled(value, reason) for key, value in form.items()}  # pyright: ignore[reportUnknownVariableType]
    return reason if form == REASON else form
