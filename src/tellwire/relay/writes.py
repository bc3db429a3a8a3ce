"""Which files a tool call of an agent CLI would write, out of what the client tells before it runs.

One table for the broker and for a hook that has to judge without one: standard library only.
"""

from __future__ import annotations

import json
import re

from tellwire.paths import canonical

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PATCH = ""
"""In place of a field: the paths stand in a patch."""
PATHS_MAX = 1_000
"""A call that writes to more files is too long to be looked through."""
_MARK = "***"
_HEADER = re.compile(r"\*\*\* (?:(Add|Update|Delete) File|(Move) to):(.*)")
_BOUNDS = ("*** Begin Patch", "*** End Patch")
_FIELD = re.compile(rb'"(\w+)"\s*:\s*("(?:[^"\\]|\\.){0,4096}"|true|false|null|-?\d{1,18})')

EVENTS = {
    "claude-code": "PreToolUse",
    "codex": "PreToolUse",
    "gemini-cli": "BeforeTool",
    "opencode": "write_wanted",
    "pi": "write_wanted",
}
"""What each client tells before a tool runs."""
TOOLS = {
    "claude-code": {
        "Write": "file_path",
        "Edit": "file_path",
        "MultiEdit": "file_path",
        "NotebookEdit": "notebook_path",
    },
    "codex": {"apply_patch": PATCH},
    "gemini-cli": {"write_file": "file_path", "replace": "file_path"},
    "opencode": {
        "write": "filePath",
        "edit": "filePath",
        "multiedit": "filePath",
        "patch": PATCH,
        "apply_patch": PATCH,
    },
    "pi": {"write": "path", "edit": "path"},
}
"""The tools of each client that write files, and the field that says where."""


def written_paths(client: str, payload: Mapping[str, Any]) -> list[str] | None:
    """The paths, as the client has them; none for a call that writes no file.

    None: it writes, and does not tell where, for it is too long, or to too many files, or of a shape that is
    not known.
    """
    if client not in EVENTS or payload.get("hook_event_name") != EVENTS[client]:
        return []
    tools = TOOLS[client]
    name = payload.get("tool_name")
    if not isinstance(name, str) or name not in tools:
        return []
    # Of a payload that was too long only plain fields are left, all on one level.
    given: Any = payload.get("tool_input", payload)
    if not isinstance(given, dict):
        return None
    fields: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]  # no cast: it would cost an import
    if tools[name] == PATCH:
        paths = patched_paths(fields)
        return paths if 0 < len(paths) <= PATHS_MAX else None
    path = fields.get(tools[name])
    return [path] if isinstance(path, str) and path else None


def plain_fields(data: bytes) -> dict[str, Any]:
    """The plain fields in the beginning of a payload that is too long; of two of a name the outermost."""
    fields: dict[str, Any] = {}
    for name, value in _FIELD.findall(data):
        fields.setdefault(name.decode(), json.loads(value))
    return fields


def patched_paths(fields: dict[str, Any]) -> list[str]:
    """The paths in the headers of a patch, each once; the field is another one in each client."""
    texts = [value for value in fields.values() if isinstance(value, str)]
    return list(dict.fromkeys(path for text in texts for path in _headers(text) if path))


def _headers(text: str) -> list[str]:
    """What the headers of a patch name.

    They may be indented, with whatever is blank. Only where a file is updated is such a line its content:
    there a header stands at the very beginning.
    """
    found: list[str] = []
    is_updating = False
    for line in text.split("\n"):
        if _MARK not in line:
            continue
        head = line if is_updating else line.strip()
        if head.startswith(_BOUNDS):
            is_updating = False
        elif (header := _HEADER.match(head)) is not None:
            what, move, path = header.groups()
            is_updating = what == "Update" or bool(move)
            found.append(path.strip())
    return found


def targets(client: str, paths: list[str], cwd: str) -> list[str]:
    """What the paths are on disk, each once, seen from a folder.

    Where clients differ in what a path means, all that it can mean.
    """
    spelled: list[str] = []
    for path in paths:
        spelled.append(path)
        if path.startswith("~"):
            spelled.append(f"./{path}")
        if client == "pi" and path.startswith("@"):
            spelled.append(path[1:])
        if path.startswith("file://"):
            spelled.append(path[7:])
    return list(dict.fromkeys(canonical(path, cwd) for path in spelled))
