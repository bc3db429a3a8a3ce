"""Input for the doors: samples of what they take, changed at random by a seed. Nothing here has effects.

A case is bytes: for `frames` lines behind a greeting, for `hooks` a payload, for `http` a whole request, for
`mcp` lines of a client. The samples, and cases that once found something, are in `corpus/`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

CORPUS = Path(__file__).parent / "corpus"
DOORS = ("frames", "hooks", "http", "mcp")
BYTES_MAX = 1 << 17
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 10**400, 1.5, -0.0, 1e308),
    *("", " ", "id", "\0", "\n", "\u202e", "é", "😀", "../../etc/passwd", "/", "~", "x" * 5_000, "7", "null"),
    *([], {}, [[]], [{}], {"": ""}, {"id": 1}, [None] * 100),
]
RAW = [
    *(b'"\\ud83d"', b'"\\ud800\\udc"', b"NaN", b"-Infinity", b"1e999", b"05", b"tru", b'"\xff\xfe"', b"\x00"),
    *(b"[" * 300 + b"]" * 300, b'{"a":' * 300 + b"1" + b"}" * 300, b"[" * 5_000, b'"' + b"\\" * 99 + b'"'),
]
TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b",",
        b":",
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(
        b'"id":',
        b'"id":1,',
        b'"n":0,',
        b'"n":1',
        b'"do":',
        b'"op":',
        b'"method":',
        b'"params":',
        b'"jsonrpc":',
    ),
    *(
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"POST /wait/pi ",
    ),
    *(b'"hook_event_name":', b'"session_id":', b'"tool_input":', b'"cwd":', b'"pid":', b'"until_ms":'),
]


def samples(door: str) -> list[bytes]:
    """What is kept for a door."""
    return [path.read_bytes() for path in sorted((CORPUS / door).iterdir())]


def cases(door: str, seed: int) -> Iterator[bytes]:
    """The samples as they are, then changed ones without end."""
    known = samples(door)
    yield from known
    dice = random.Random(f"{door} {seed}")
    while True:
        yield change(dice.choice(known), known, dice)


def change(case: bytes, known: list[bytes], dice: random.Random) -> bytes:
    """A few changes, of the text's structure or of its bytes."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        lines = case.split(b"\n")
        place = dice.randrange(len(lines))
        structured = _change_json(lines[place], dice) if dice.random() < 0.6 else None
        if structured is not None:
            lines[place] = structured
            case = b"\n".join(lines)
        else:
            case = _change_bytes(case, known, dice)
    return case[:BYTES_MAX]


def _change_json(line: bytes, dice: random.Random) -> bytes | None:
    """The line with one of its values replaced, removed, doubled or moved; None if it has no JSON in it."""
    start = line.find(b"{")
    try:
        value = json.loads(line[start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        return None
    spots = list(_spots(value))
    if not spots:
        return None
    holder, key = dice.choice(spots)
    action = dice.randrange(6)
    mark = "\x01place\x01"
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(key, str):
        holder[dice.choice(["id", "n", "x", "", "hook_event_name", key.upper()])] = holder.pop(key)
    elif action == 2:
        other, name = dice.choice(spots)
        holder[key] = json.loads(json.dumps(other[name])) if name in _keys(other) else None
    elif action == 3:
        holder[key] = mark
    else:
        holder[key] = dice.choice(ODD)
    text = json.dumps(value, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    return line[:start] + text.replace(json.dumps(mark).encode(), dice.choice(RAW))


def _keys(holder: Any) -> list[Any]:
    return list(cast("dict[Any, Any]", holder)) if isinstance(holder, dict) else list(range(len(holder)))


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in _keys(value):
            yield value, key
            yield from _spots(value[key])


def _change_bytes(case: bytes, known: list[bytes], dice: random.Random) -> bytes:
    at, size = dice.randrange(len(case) + 1), dice.choice((1, 1, 2, 4, 16, 64, 1_000))
    action = dice.randrange(7)
    if action == 0:
        return case[:at]
    if action == 1:
        return case[:at] + case[at + size :]
    if action == 2:
        return case[:at] + dice.choice(TOKENS) + case[at:]
    if action == 3:
        return case[:at] + case[at : at + size] * dice.choice((2, 3, 50)) + case[at + size :]
    if action == 4:
        other = dice.choice(known)
        return case[:at] + other[dice.randrange(len(other) + 1) :]
    if action == 5:
        return case[:at] + dice.randbytes(size) + case[at + size :]
    return case[:at] + dice.choice(TOKENS) * dice.choice((1, 10, 2_000)) + case[at + size :]
