"""JSON with comments and trailing commas: reading it with places, changing a place without touching the rest.

Owns the text. It is never written anew from values: a change is a few spans, the rest stays byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias, cast

DEPTH_MAX = 100
INDENT_MAX = 8
Key: TypeAlias = str | int
Path: TypeAlias = tuple[Key, ...]
Span: TypeAlias = tuple[int, int, str]
"""From, to, and the replacement."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)")


class BadTextError(ValueError):
    """The text is not what it should be; tells where."""

    def __init__(self, text: str, at: int, why: str) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        self.why = why
        super().__init__(f"line {self.line}, column {self.column}: {why}")


class Node:
    """A value in the text. A part is one that an object or array holds, with its key and its comma."""

    __slots__ = ("comma", "end", "key", "parts", "place", "start", "value")

    def __init__(self, start: int, value: Any) -> None:
        self.start = start
        self.end = start
        self.value = value
        self.parts: list[Node] = []
        self.key: Key = 0
        self.place = start
        """Where the part begins: at its key, in an object."""
        self.comma = -1
        """Where the comma behind the part is."""

    @property
    def is_object(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return isinstance(self.value, list)


class Parser:
    """Reads one text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.comment = -1
        """Where the first comment is."""
        self.comma = -1
        """Where the first comma before a closing bracket is."""

    def parse(self) -> Node:
        """The whole.

        Raises:
            BadTextError: it is not JSON, comments and trailing commas allowed.
        """
        self._skip()
        node = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._bad("nothing may follow here")
        return node

    def _value(self, depth: int) -> Node:
        sign = self.text[self.at : self.at + 1]
        if sign in ("{", "["):
            if depth >= DEPTH_MAX:
                raise self._bad("brackets are nested too deeply")
            return self._container(depth, is_object=sign == "{")
        pattern = _STRING if sign == '"' else _WORD
        node = Node(self.at, self._scalar(pattern))
        node.end = self.at
        return node

    def _scalar(self, pattern: re.Pattern[str]) -> Any:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._bad("a value is missing or malformed")
        try:
            value = json.loads(found[0])
        except ValueError as error:
            raise self._bad("a value is malformed") from error
        self.at = found.end()
        return value

    def _container(self, depth: int, *, is_object: bool) -> Node:
        closing = "}" if is_object else "]"
        node = Node(self.at, {} if is_object else [])
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at : self.at + 1] == closing:
                if node.parts and self.comma < 0:
                    self.comma = node.parts[-1].comma
                self.at += 1
                node.end = self.at
                return node
            if node.parts and node.parts[-1].comma < 0:
                raise self._bad(f"a comma or {closing!r} is missing")
            node.parts.append(self._part(node, depth, is_object=is_object))
            self._skip()
            if self.text[self.at : self.at + 1] == ",":
                node.parts[-1].comma = self.at
                self.at += 1

    def _part(self, node: Node, depth: int, *, is_object: bool) -> Node:
        place = self.at
        key: Key = len(node.parts)
        if is_object:
            if self.text[self.at : self.at + 1] != '"':
                raise self._bad("a key in double quotes or '}' is missing")
            key = cast("str", self._scalar(_STRING))
            self._skip()
            if self.text[self.at : self.at + 1] != ":":
                raise self._bad("a colon is missing")
            self.at += 1
            self._skip()
        part = self._value(depth + 1)
        part.key, part.place = key, place
        if is_object:
            node.value[key] = part.value
        else:
            node.value.append(part.value)
        return part

    def _skip(self) -> None:
        end = _after_blank(self.text, self.at)
        if end > self.at and self.comment < 0:
            self.comment = self.text.find("/", self.at, end)
        self.at = end

    def _bad(self, why: str) -> BadTextError:
        return BadTextError(
            self.text, self.at, "the text ends too early" if self.at >= len(self.text) else why
        )


def parse(text: str, *, comments: bool = True, commas: bool = True) -> Node:
    """The text as a tree of places; not to be changed, it may be handed out again.

    Some readers of JSON allow no comments, or no comma before a closing bracket.

    Raises:
        BadTextError: it is not JSON, with what is allowed beyond it.
    """
    root, comment, comma = _tree(text)
    if comment >= 0 and not comments:
        raise BadTextError(text, comment, "no comments are allowed here")
    if comma >= 0 and not commas:
        raise BadTextError(text, comma, "no comma is allowed before a closing bracket")
    return root


@lru_cache(maxsize=4)
def _tree(text: str) -> tuple[Node, int, int]:
    """Kept for a few texts: a client's file may have megabytes, and each step looks at it again."""
    parser = Parser(text)
    return parser.parse(), parser.comment, parser.comma


def find(text: str, node: Node, path: Path) -> Node | None:
    """The node at a path; None if there is none.

    Raises:
        BadTextError: a key of the path occurs twice, so that it is unclear which one counts.
    """
    for key in path:
        found = [part for part in node.parts if part.key == key]
        if len(found) > 1:
            raise BadTextError(text, found[1].place, f"the key {key!r} occurs twice")
        if not found:
            return None
        node = found[0]
    return node


# -- changes ------------------------------------------------------------------------------------------


def replace(text: str, path: Path, value: Any) -> str:
    """Put another value at a path that is there."""
    root = parse(text)
    node = _at(text, root, path)
    lined = "\n" in text[node.start : node.end] or _is_lined(text, node if node.parts else root)
    words = _format(text, value, indent=_indent_at(text, node.start), lined=lined)
    return _change(text, [(node.start, node.end, words)])


def put_back(text: str, path: Path, source: str) -> str:
    """Restore an earlier text at a path."""
    node = _at(text, parse(text), path)
    return _change(text, [(node.start, node.end, source)])


def empties(text: str, paths: Iterable[Path]) -> dict[Path, str]:
    """Of some paths those of empty objects and arrays, with their text."""
    root = parse(text)
    nodes = {path: find(text, root, path) for path in paths}
    return {
        path: text[node.start : node.end]
        for path, node in nodes.items()
        if node is not None and (node.is_object or node.is_list) and not node.parts
    }


def source_at(text: str, path: Path) -> str:
    """The text of what is at a path."""
    node = _at(text, parse(text), path)
    return text[node.start : node.end]


def insert(text: str, path: Path, value: Any) -> str:
    """Add a member, or an item where the path ends in a number, behind the others of its container.

    Containers that are missing are made.

    Raises:
        BadTextError: what should hold it is neither object nor array, or occurs twice.
    """
    root = parse(text)
    holder = root
    for size, key in enumerate(path):
        kind = "a list" if isinstance(key, int) else "an object"
        if not (holder.is_list if isinstance(key, int) else holder.is_object):
            raise BadTextError(text, holder.start, f"{_spell(path[:size])} should be {kind}")
        within = find(text, root, path[: size + 1]) if size < len(path) - 1 else None
        if within is None:
            for inner in reversed(path[size + 1 :]):
                value = [value] if isinstance(inner, int) else {inner: value}
            return _change(text, _insertion(text, holder, key=key, value=value))
        holder = within
    raise AssertionError(path)


def remove(text: str, path: Path) -> str:
    """Take a member or an item out, with its comma; comments stay."""
    root = parse(text)
    holder, node = _at(text, root, path[:-1]), _at(text, root, path)
    index = holder.parts.index(node)
    before = holder.parts[index - 1].comma + 1 if index else holder.start + 1
    start = before + len(text[before : node.place].rstrip(" \t\r\n"))
    end = node.comma + 1 if node.comma >= 0 else node.end
    if len(holder.parts) == 1 and not text[before : node.place].strip() + text[end : holder.end - 1].strip():
        return _change(text, [(holder.start + 1, holder.end - 1, "")])
    # A comment that ends with its line must not swallow what follows.
    commented = any(each.startswith("//") for each in _COMMENT.findall(text, before, start)[-1:])
    goes_on = not text[end:].lstrip(" \t\r").startswith("\n")
    spans: list[Span] = [(start, end, "\n" if commented and goes_on else "")]
    if index and index == len(holder.parts) - 1 and node.comma < 0:
        spans.insert(0, (before - 1, before, ""))
    return _change(text, spans)


def _insertion(text: str, holder: Node, *, key: Key, value: Any) -> list[Span]:
    colon = '":' if _is_compact(text) else '": '
    name = f"{json.dumps(key, ensure_ascii=False)[:-1]}{colon}" if isinstance(key, str) else ""
    newline = _newline(text)
    if not holder.parts:
        return [_first_part(text, holder, name=name, value=value)]
    last = holder.parts[-1]
    after = last.comma + 1 if last.comma >= 0 else last.end
    at = _end_of_words(text, after, holder.end - 1)
    rows = _is_lined(text, holder)
    lined = rows or at > after
    indent = _indent_at(text, last.place) + ("" if rows or not lined else _unit(text))
    words = name + _format(text, value, indent=indent, lined=lined)
    blank = "" if _is_compact(text) else " "
    words = newline + indent + words if lined else blank + words
    if last.comma >= 0:
        return [(at, at, words + ",")]
    return [(after, after, ","), (at, at, words)]


def _first_part(text: str, holder: Node, *, name: str, value: Any) -> Span:
    """In an empty container: on lines of its own, unless the whole text is one line with something in it."""
    at = _end_of_words(text, holder.start + 1, holder.end - 1)
    root = parse(text)
    if root.parts and not _is_lined(text, root) and at == holder.start + 1:
        return (at, at, name + _format(text, value, indent="", lined=False))
    base = _indent_at(text, holder.start)
    indent = base + _unit(text)
    words = _newline(text) + indent + name + _format(text, value, indent=indent, lined=True)
    return (at, at, words if "\n" in text[at : holder.end - 1] else words + _newline(text) + base)


def _at(text: str, root: Node, path: Path) -> Node:
    node = find(text, root, path)
    if node is None:
        raise KeyError(path)
    return node


def _end_of_words(text: str, start: int, end: int) -> int:
    """Behind the last comment between two places."""
    return start + len(text[start:end].rstrip(" \t\r\n"))


def _change(text: str, spans: list[Span]) -> str:
    for start, end, words in reversed(spans):
        text = text[:start] + words + text[end:]
    return text


# -- looks --------------------------------------------------------------------------------------------


def _format(text: str, value: Any, *, indent: str, lined: bool) -> str:
    if not lined:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if _is_compact(text) else None)
    words = json.dumps(value, ensure_ascii=False, indent=_unit(text))
    return words.replace("\n", _newline(text) + indent)


def _is_lined(text: str, holder: Node) -> bool:
    """Whether the parts are on lines of their own."""
    return not holder.parts or "\n" in text[holder.start : holder.parts[0].place]


def _is_compact(text: str) -> bool:
    """Whether the whole is one line without blanks, as programs write it."""
    root = parse(text)
    return bool(root.parts) and not any(sign.isspace() for sign in text[root.start : root.parts[0].end])


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """One step of indentation, as the outermost parts have it."""
    root = _after_blank(text, 0)
    first = _after_blank(text, root + 1)
    indent = _indent_at(text, first) if "\n" in text[root:first] else ""
    return indent if 0 < len(indent) <= INDENT_MAX else "  "


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _spell(path: Path) -> str:
    return ".".join(map(str, path)) or "the whole"
