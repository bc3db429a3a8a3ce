"""Reads what a client sends to its hook, and makes a long payload short. Standard library only.

A payload that cannot be read whole (cut, nested too deeply, not UTF-8) still tells its plain fields, such as
the session. It never tells where a tool would write: in a part, a path may belong to something else.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False  # as in `paths`
if TYPE_CHECKING:
    from typing import Any

BEFORE_TOOLS = ("PreToolUse", "BeforeTool", "write_wanted")
"""The events that ask before a tool runs, of all clients."""
FIELD_LENGTH_MAX = 4_096
"""A longer field of a payload that is made short is left out; no path is longer."""
LIST_LENGTH_MAX = 100
DEPTH_MAX = 4
LINE_LENGTH_MAX = 3 * FIELD_LENGTH_MAX
PATCH_MARK = "***"
"""Every header of a patch contains it."""
_FIELD = re.compile(rb'"(\w+)"\s*:\s*("(?:[^"\\]|\\.){0,4096}"|true|false|null|-?\d{1,18})')
_SURROGATES = re.compile("[\ud800-\udfff]")
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def read(data: bytes, *, cut: bool) -> dict[str, Any]:
    """What a client sends; of what cannot be read whole, its plain fields.

    Raises:
        ValueError: it has none.
    """
    if not cut:
        try:
            return parse(data)
        except ValueError:
            pass
    return glean(data)


def parse(data: bytes) -> dict[str, Any]:
    """A payload in UTF-8, UTF-16 or UTF-32; half a surrogate pair is U+FFFD, as JavaScript writes it to disk.

    Raises:
        ValueError: it is not a JSON object, or nested too deeply.
    """
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
        told = json.loads(text)
        if _HALF.search(text):
            told = json.loads(_SURROGATES.sub(_REPLACEMENT, json.dumps(told, ensure_ascii=False)))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(told, dict):
        raise ValueError("a hook's payload is a JSON object")
    return told  # pyright: ignore[reportUnknownVariableType]  # no cast: it would cost an import


def glean(data: bytes) -> dict[str, Any]:
    """The plain fields of a payload that cannot be read whole; of two of a name the first.

    If it may ask before a tool runs, it does, and says neither which tool nor where it writes.

    Raises:
        ValueError: there is no field at all.
    """
    fields: dict[str, Any] = {}
    for name, value in _FIELD.findall(data):
        try:
            told = json.loads(value)
        except ValueError:
            continue
        text = _SURROGATES.sub(_REPLACEMENT, told) if isinstance(told, str) else told
        fields.setdefault(name.decode(errors="replace"), text)
    asked = fields.get("hook_event_name")
    # A quote within a string is escaped, so this is a value of its own.
    event = next((word for word in BEFORE_TOOLS if f'"{word}"'.encode() in data or asked == word), "")
    if event:
        fields["hook_event_name"], fields["tool_name"], fields["tool_input"] = event, None, None
    if not fields:
        raise ValueError("a hook's payload is a JSON object")
    return fields


def shorten(data: bytes, size_max: int) -> bytes:
    """The same payload without its long texts; possible headers of a patch stay. Empty if it fails."""
    try:
        told = {name: _short(value, 1) for name, value in parse(data).items()}
        short = json.dumps(told, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return b""
    if len(short) > size_max:
        told["tool_input"] = None
        short = json.dumps(told, separators=(",", ":")).encode()
    return short if len(short) <= size_max else b""


def _short(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        if len(value) <= FIELD_LENGTH_MAX:
            return value
        return "\n".join(_short_line(line) for line in value.split("\n") if PATCH_MARK in line)
    if isinstance(value, dict):
        fields: dict[str, Any] = value if depth < DEPTH_MAX else {}  # pyright: ignore[reportUnknownVariableType]
        return {name: _short(inner, depth + 1) for name, inner in fields.items()}
    if isinstance(value, list):
        items: list[Any] = value if depth < DEPTH_MAX else []  # pyright: ignore[reportUnknownVariableType]
        return [_short(inner, depth + 1) for inner in items[:LIST_LENGTH_MAX]]
    return value


def _short_line(line: str) -> str:
    """A line that may be a header, long enough to see that its path is too long for one."""
    if len(line) <= LINE_LENGTH_MAX:
        return line
    return line[:1] + line[1:].strip()[:LINE_LENGTH_MAX]
