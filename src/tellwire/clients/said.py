"""What was said in a session, out of the client's own record: for people and agents who look at a worker.

Each client's entries become the same few: what the user or a peer said, what the agent said, and a line for
each tool call. Reasoning and the results of tools stay out: they are long, and nobody asked for them.
"""

from __future__ import annotations

import html
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from tellwire.clients.events import Said, Who
from tellwire.clients.reader import decoded, listed, mapping, open_at_once, string

READ_BYTES_MAX = 32 << 20
"""Of a longer record only the end is read."""
ASKED_BYTES_MAX = 256 << 10
"""How far back the last question is searched for."""
CALL_CHARS_MAX = 160

EntryParser: TypeAlias = Callable[[Iterable[dict[str, Any]]], Iterator[Said]]

# What clients put into a user's place without its having said anything.
_HARNESS = re.compile(
    r"^\s*<(session_context|environment_context|user_instructions|system-reminder|command-name|"
    r"command-message|local-command-[a-z]+|task-notification|permissions instructions|skills_instructions)\b"
)
_PUT_IN = re.compile(r"<hook_(?:prompt|context)\b[^>]*>(.*?)</hook_(?:prompt|context)>", re.DOTALL)
"""What a hook said, as some clients put it into a user's message, escaped."""
_OURS = ("<peer-message ", "[tellwire: ")


# -- for the clients' modules ------------------------------------------------------------------------


def told(at: float, who: Who, text: str) -> Iterator[Said]:
    """A text that somebody said; text of the client itself or of a hook is marked as such."""
    for put_in in _PUT_IN.finditer(text):
        yield Said(at, "note", html.unescape(put_in[1]).strip())
    text = _PUT_IN.sub("", text).strip()
    if text and not (who == "user" and _HARNESS.match(text)):
        yield Said(at, "note" if who == "user" and text.startswith(_OURS) else who, text)


def blocks_said(at: float, blocks: list[Any], *, call: str, arguments: str) -> Iterator[Said]:
    """What an agent said in blocks of text and calls."""
    for block in map(mapping, blocks):
        if block.get("type") == "text":
            yield from told(at, "agent", string(block.get("text")))
        elif block.get("type") == call:
            yield Said(at, "tool", call_line(block.get("name"), block.get(arguments)))


def text_of(content: Any) -> str:
    """The text in a message's content: a text, or parts of which some are text."""
    if isinstance(content, str):
        return content
    texts = (string(part.get("text")) for part in map(mapping, listed(content)))
    return "\n".join(text for text in texts if text)


def call_line(name: Any, given: Any) -> str:
    """A tool call in one line."""
    text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    text = " ".join(text.split())
    text = text if len(text) <= CALL_CHARS_MAX else text[: CALL_CHARS_MAX - 1] + "…"
    return f"{string(name) or 'tool'} {text}"


# -- reading and writing ------------------------------------------------------------------------------


def last_asked(parse_entries: EntryParser, path: str) -> str:
    """What the model was asked last, by its user, a hook or a peer; empty if the record does not have it."""
    try:
        said = list(parse_entries(read_entries(path, bytes_max=ASKED_BYTES_MAX))) if path else []
    except OSError:
        return ""
    asked: list[str] = []
    for each in reversed(said):
        if each.who in ("user", "note"):
            asked.append(each.text)
        elif asked:
            break
    return "\n".join(reversed(asked))


def read_entries(path: str, *, bytes_max: int = READ_BYTES_MAX) -> list[dict[str, Any]]:
    """The JSON objects of a record, one on a line; what cannot be read is passed over.

    Raises:
        OSError: there is no such file, or it is none.
    """
    with open(path, "rb", opener=open_at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is not a file")
        if found.st_size > bytes_max:
            file.seek(found.st_size - bytes_max)
            file.readline()
        return [entry for line in file if (entry := mapping(decoded(line)))]


class Rendered(NamedTuple):
    """A conversation as Markdown."""

    text: str
    is_cut: bool
    last_at: float


def render(said: Iterable[Said], *, agent: str, since: float, chars: int) -> Rendered:
    """The end of a conversation, at most `chars` long, cut at the start of an entry if possible."""
    kept = [each for each in said if each.at >= since]
    parts: list[str] = []
    for place, each in enumerate(kept):
        last = kept[place - 1].who if place else None
        follows = last is not None and {last, each.who} <= {"agent", "tool"}
        parts.append(("" if follows else _heading(each, agent)) + _line(each))
    size, first = 0, len(parts)
    while first and size + len(parts[first - 1]) + 2 <= chars:
        first -= 1
        size += len(parts[first]) + 2
    text = "\n\n".join(parts[first:])
    if first == len(parts) and parts:
        text = "…" + parts[-1][-max(1, chars - 1) :]
    return Rendered(text, is_cut=first > 0, last_at=kept[-1].at if kept else 0.0)


def _heading(said: Said, agent: str) -> str:
    who = {"user": "user", "note": "received"}.get(said.who, agent)
    at = datetime.fromtimestamp(said.at, UTC).strftime(" · %Y-%m-%d %H:%M:%S UTC") if said.at else ""
    return f"### {who}{at}\n\n"


def _line(said: Said) -> str:
    return f"- `{said.text.replace('`', chr(39))}`" if said.who == "tool" else said.text
