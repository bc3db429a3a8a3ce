"""The tables of a TOML text with their places, and changing one of them without touching the rest.

Owns the text. Meaning is asked of `tomllib`, before and after; a text it refuses is never edited.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, NamedTuple, cast

from tellwire.install.formats.jsonc import BadTextError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)


class Statement(NamedTuple):
    """`key = value`: where its lines begin and end."""

    key: str
    start: int
    end: int


class Section(NamedTuple):
    """A table with a header. Comments and blank lines behind its last statement are not its own."""

    path: tuple[str, ...]
    start: int
    end: int
    statements: tuple[Statement, ...]


def load(text: str) -> dict[str, Any]:
    """What the text means.

    Raises:
        BadTextError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = str(error)
        found = _PLACE.search(why)
        at = len(text)
        if found and found[1]:
            lines = text.split("\n")[: int(found[1]) - 1]
            at = sum(len(line) + 1 for line in lines) + int(found[2]) - 1
        words = _PLACE.sub("", why).strip()
        raise BadTextError(text, at, words[:1].lower() + words[1:]) from error
    except RecursionError as error:
        raise BadTextError(text, 0, "brackets are nested too deeply") from error


def sections(text: str) -> list[Section]:
    """The tables with headers, in their order; the text must be valid."""
    found: list[Section] = []
    path: tuple[str, ...] = ()
    start, end, statements = 0, 0, list[Statement]()
    for first, last in _statements(text):
        words = text[first:last].lstrip(" \t")
        if words.startswith("["):
            found.append(Section(path, start, end, tuple(statements)))
            path, start, end, statements = _header(words), first, last, []
        else:
            statements.append(Statement(_key(words), first, last))
            end = last
    found.append(Section(path, start, end, tuple(statements)))
    return found[1:]


def set_top(text: str, key: str, value: Any) -> str:
    """Set a key that stands above all tables; its comment stays, a new one follows the last of its kind."""
    statement = _find_top(text, key)
    if statement is not None:
        words = text[statement.start : statement.end]
        at = _value_end(words)
        head = re.match(r"\s*", words)
        indent = "" if head is None else head[0]
        line = f"{indent}{format_key(key)} = {format_value(value)}{words[at:]}"
        return text[: statement.start] + line + text[statement.end :]
    newline = newline_of(text)
    tops, first = _tops(text)
    at = tops[-1].end if tops else first
    before, after = text[:at], text[at:]
    gap = newline if before and not before.endswith("\n") else ""
    apart = newline if after and not tops else ""
    return f"{before}{gap}{format_key(key)} = {format_value(value)}{newline}{apart}{after}"


def unset_top(text: str, key: str) -> str:
    """Take a key that stands above all tables out, with its line."""
    statement = _find_top(text, key)
    return text if statement is None else text[: statement.start] + text[statement.end :]


def _find_top(text: str, key: str) -> Statement | None:
    return next((each for each in _tops(text)[0] if each.key == key), None)


def _tops(text: str) -> tuple[list[Statement], int]:
    """The assignments above all tables, and where the first table begins."""
    found: list[Statement] = []
    for first, last in _statements(text):
        words = text[first:last].lstrip(" \t")
        if words.startswith("["):
            return found, first
        found.append(Statement(_key(words), first, last))
    return found, len(text)


def _value_end(words: str) -> int:
    """Where the value of an assignment ends: before its comment and line end."""
    at, end, depth = 0, 0, 0
    while at < len(words):
        token = _TOKEN.match(words, at)
        part = token[0] if token else words[at]
        depth += (part in ("[", "{")) - (part in ("]", "}"))
        if not depth and (part.startswith("#") or part == "\n"):
            break
        at += len(part)
        if not part.isspace():
            end = at
    return end


def append(text: str, tables: list[tuple[tuple[str, ...], bool, dict[str, Any]]]) -> str:
    """Add tables at the end: their path, whether they are items of a list, and their values."""
    newline = newline_of(text)
    if text and not text.endswith("\n"):
        text += newline
    for path, listed, values in tables:
        header = ".".join(map(format_key, path))
        lines = [f"[[{header}]]" if listed else f"[{header}]"]
        lines += [f"{format_key(key)} = {format_value(value)}" for key, value in values.items()]
        text += (newline if text else "") + newline.join(lines) + newline
    return text


def cut(text: str, section: Section) -> str:
    """Take a table out, and the blank line above it."""
    before = text[: section.start]
    for blank in ("\r\n", "\n"):
        if before.endswith("\n" + blank) or before == blank:
            before = before[: -len(blank)]
            break
    return before + text[section.end :]


def put(text: str, section: Section, *, key: str, value: Any) -> str:
    """Set a key of a table that is there."""
    line = f"{format_key(key)} = {format_value(value)}{newline_of(text)}"
    for statement in section.statements:
        if statement.key == key:
            return text[: statement.start] + line + text[statement.end :]
    if not text[: section.end].endswith("\n"):
        line = newline_of(text) + line
    return text[: section.end] + line + text[section.end :]


def newline_of(text: str) -> str:
    """How lines end here."""
    return "\r\n" if "\r\n" in text else "\n"


def format_key(key: str) -> str:
    """Bare where that is allowed."""
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def format_value(value: Any) -> str:
    """A string, number, truth value or list of those; each is written as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _statements(text: str) -> list[tuple[int, int]]:
    """From where to where each header and each assignment goes, whole lines."""
    found: list[tuple[int, int]] = []
    depth, begin, blank, at = 0, 0, True, 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        words = token[0] if token else text[at]
        at += len(words)
        if words == "\n" and depth == 0:
            if not blank:
                found.append((begin, at))
            begin, blank = at, True
        elif words in ("[", "{"):
            depth, blank = depth + 1, False
        elif words in ("]", "}"):
            depth -= 1
        elif not words.isspace() and not words.startswith("#"):
            blank = False
    if not blank:
        found.append((begin, at))
    return found


def _header(words: str) -> tuple[str, ...]:
    """The path of a header line."""
    return _chain(tomllib.loads(words))


def _key(words: str) -> str:
    return next(iter(tomllib.loads(words)))


def _chain(value: Any) -> tuple[str, ...]:
    path: list[str] = []
    while value:
        inner = cast("dict[str, Any]", value[0] if isinstance(value, list) else value)
        path += list(inner)[:1]
        value = inner[path[-1]] if inner else None
    return tuple(path)
