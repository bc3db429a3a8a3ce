"""Which files a tool call of an agent CLI would write, out of what the client reports before it runs.

What a client tells is given as its facts (`writes`): the broker has them in the client's record, and puts
them into the file by which a hook judges without it. Standard library only. What the paths lead to on disk
is in `places`.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PATCH = ""
"""Instead of a field: the paths are in a patch."""
PATHS_MAX = 1_000
"""A call that writes to more files is too long to be looked through."""
_MARK = "***"
_HEADER = re.compile(r"\*\*\* (?:(Add|Update|Delete) File|(Move) to):(.*)")
_BOUNDS = ("*** Begin Patch", "*** End Patch")


def written_paths(writes: Mapping[str, Any], payload: Mapping[str, Any]) -> list[str] | None:
    """The paths, as the client has them; none for a call that writes no file.

    None: it may write, and does not tell where: it could not be read whole, writes too many files, or is of a
    shape that is not known.
    """
    if payload.get("hook_event_name") != writes["event"]:
        return []
    tools = writes["tools"]
    name = payload.get("tool_name")
    if not isinstance(name, str):
        return None
    if name not in tools:
        return []
    given: Any = payload.get("tool_input")
    if tools[name] == PATCH:
        paths = patched_paths(given)
        return paths if 0 < len(paths) <= PATHS_MAX else None
    path = _fields(given).get(tools[name])
    return [path] if isinstance(path, str) and path else None


def patched_paths(given: Any) -> list[str]:
    """The paths in the headers of a patch, each once; the field is another one in each client."""
    values = [given, *_fields(given).values()]
    texts = [value for value in values if isinstance(value, str)]
    return list(dict.fromkeys(path for text in texts for path in _headers(text) if path))


def _fields(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _headers(text: str) -> list[str]:
    """What the headers of a patch name.

    They may be indented, with whatever is blank. Only where a file is updated is such a line its content:
    there a header is at the very beginning of a line.
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
