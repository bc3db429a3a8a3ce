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
from typing import Any, Literal, NamedTuple, TypeAlias

from tellwire.integrations.transcripts import decoded, listed, mapping, open_at_once, seconds, string

READ_BYTES_MAX = 32 << 20
"""Of a longer record only the end is read."""
ASKED_BYTES_MAX = 256 << 10
"""So far back the last question is looked for."""
CALL_CHARS_MAX = 160
Who: TypeAlias = Literal["user", "agent", "tool", "note"]


class Said(NamedTuple):
    """One entry."""

    at: float
    who: Who
    text: str


Teller: TypeAlias = Callable[[Iterable[dict[str, Any]]], Iterator[Said]]

# What clients put into a user's place without its having said anything.
_HARNESS = re.compile(
    r"^\s*<(session_context|environment_context|user_instructions|system-reminder|command-name|"
    r"command-message|local-command-[a-z]+|task-notification|permissions instructions|skills_instructions)\b"
)
_PUT_IN = re.compile(r"<hook_(?:prompt|context)\b[^>]*>(.*?)</hook_(?:prompt|context)>", re.DOTALL)
"""What a hook said, as some clients put it into a user's message, escaped."""
_OURS = ("<peer-message ", "[tellwire: ")
_FEEDBACK = "Stop hook feedback:"
"""Before what a hook of Claude Code says to keep its turn going."""


# -- one teller for each client -----------------------------------------------------------------------


def tell_claude(entries: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Claude Code's transcript; what its sub-agents said is not the session's."""
    for entry in entries:
        if entry.get("isSidechain"):
            continue
        at, kind = seconds(entry.get("timestamp")), entry.get("type")
        content = mapping(entry.get("message")).get("content")
        if entry.get("isMeta"):
            _, mark, fed_back = _text_of(content).partition(_FEEDBACK)
            yield from _told(at, "note", fed_back if mark else "")
        elif kind == "user":
            yield from _told(at, "user", _text_of(content))
        elif kind == "assistant":
            yield from _blocks(at, listed(content), call="tool_use", arguments="input")
        elif kind == "attachment":
            yield from _told(at, "note", _hook_text(mapping(entry.get("attachment"))))


def tell_codex(entries: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Codex's rollout."""
    for entry in entries:
        if entry.get("type") != "response_item":
            continue
        at, item = seconds(entry.get("timestamp")), mapping(entry.get("payload"))
        if item.get("type") == "message" and item.get("role") in ("user", "assistant"):
            who: Who = "user" if item["role"] == "user" else "agent"
            yield from _told(at, who, _text_of(item.get("content")))
        elif item.get("type") in ("function_call", "custom_tool_call", "local_shell_call"):
            given = item.get("arguments") or item.get("input") or item.get("action")
            yield Said(at, "tool", _call(item.get("name") or "shell", given))


def tell_gemini(entries: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Gemini CLI's chat file, in which later lines replace earlier ones."""
    history: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if isinstance(replaced := mapping(entry.get("$set")).get("messages"), list):
            history = {string(each.get("id")): each for each in map(mapping, listed(replaced))}
        elif (first := string(entry.get("$rewindTo"))) in history:
            kept = list(history)[: list(history).index(first)]
            history = {each: history[each] for each in kept}
        elif string(entry.get("id")):
            history[entry["id"]] = entry
    for entry in history.values():
        at, kind = seconds(entry.get("timestamp")), entry.get("type")
        if kind in ("user", "gemini"):
            yield from _told(at, "user" if kind == "user" else "agent", _text_of(entry.get("content")))
        for call in map(mapping, listed(entry.get("toolCalls"))):
            yield Said(at, "tool", _call(call.get("name"), call.get("args")))


def tell_opencode(entries: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """The messages of an OpenCode session, as its plugin hands them over."""
    for entry in entries:
        info = mapping(entry.get("info"))
        created = mapping(info.get("time")).get("created")
        at = created / 1_000 if isinstance(created, int | float) else 0.0
        who: Who = "user" if info.get("role") == "user" else "agent"
        for part in map(mapping, listed(entry.get("parts"))):
            if part.get("type") == "text":
                yield from _told(at, who, string(part.get("text")))
            elif part.get("type") == "tool":
                yield Said(at, "tool", _call(part.get("tool"), mapping(part.get("state")).get("input")))


def tell_pi(entries: Iterable[dict[str, Any]]) -> Iterator[Said]:
    """Pi's session file: the branch that the last entry belongs to."""
    known = {string(each.get("id")): each for each in entries if string(each.get("id"))}
    branch: list[dict[str, Any]] = []
    entry = known.pop(next(reversed(known))) if known else {}
    while entry:
        branch.append(entry)
        entry = known.pop(string(entry.get("parentId")), {})
    for entry in reversed(branch):
        at, message = seconds(entry.get("timestamp")), mapping(entry.get("message"))
        if entry.get("type") == "custom_message":
            yield from _told(at, "note", _text_of(entry.get("content")))
        elif message.get("role") == "user":
            yield from _told(at, "user", _text_of(message.get("content")))
        elif message.get("role") == "assistant":
            yield from _blocks(at, listed(message.get("content")), call="toolCall", arguments="arguments")


TELLERS: dict[str, Teller] = {
    "claude-code": tell_claude,
    "codex": tell_codex,
    "gemini-cli": tell_gemini,
    "opencode": tell_opencode,
    "pi": tell_pi,
}


def _told(at: float, who: Who, text: str) -> Iterator[Said]:
    for put_in in _PUT_IN.finditer(text):
        yield Said(at, "note", html.unescape(put_in[1]).strip())
    text = _PUT_IN.sub("", text).strip()
    if text and not (who == "user" and _HARNESS.match(text)):
        yield Said(at, "note" if who == "user" and text.startswith(_OURS) else who, text)


def _blocks(at: float, blocks: list[Any], *, call: str, arguments: str) -> Iterator[Said]:
    for block in map(mapping, blocks):
        if block.get("type") == "text":
            yield from _told(at, "agent", string(block.get("text")))
        elif block.get("type") == call:
            yield Said(at, "tool", _call(block.get("name"), block.get(arguments)))


def _text_of(content: Any) -> str:
    """The text in a message's content: a text, or parts of which some are text."""
    if isinstance(content, str):
        return content
    texts = (string(part.get("text")) for part in map(mapping, listed(content)))
    return "\n".join(text for text in texts if text)


def _hook_text(attachment: dict[str, Any]) -> str:
    """What a hook, or another session, put into the conversation."""
    if attachment.get("type") == "hook_additional_context":
        content = attachment.get("content")
        return "\n".join(map(string, listed(content))) if isinstance(content, list) else string(content)
    return string(attachment.get("prompt")) if attachment.get("type") == "queued_command" else ""


def _call(name: Any, given: Any) -> str:
    """A tool call in one line."""
    text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    text = " ".join(text.split())
    text = text if len(text) <= CALL_CHARS_MAX else text[: CALL_CHARS_MAX - 1] + "…"
    return f"{string(name) or 'tool'} {text}"


# -- reading and writing ------------------------------------------------------------------------------


def last_asked(kind: str, path: str) -> str:
    """What the model was asked last, by its user, a hook or a peer; empty if the record does not tell."""
    teller = TELLERS.get(kind)
    try:
        said = list(teller(read_entries(path, bytes_max=ASKED_BYTES_MAX))) if teller and path else []
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
    """The end of a conversation, so many characters at most, cut where an entry begins if one does."""
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
