"""What is searched for, and where: the words of a query, the words of a body.

A word is a run of letters and digits; case and the accents of Latin letters do not count. Each sign of a
script without spaces is a word of its own, so that a part of a Chinese or Japanese sentence is found as a
phrase. The store's index gets its words from here, and so does the scan of what it has not reached yet.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from tellwire.protocol.errors import TellwireError

QUERY_LENGTH_MAX = 1_000
TERMS_MAX = 32
PREFIX_LENGTH_MIN = 3
"""A shorter prefix matches too many words for an index to help."""

_PIECE = re.compile(r'"([^"]*)"?|([^\s"]+)')
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ASCII_WORD = re.compile(r"[0-9a-z]+")
_ACCENTS = range(0x300, 0x370)


class Term(NamedTuple):
    """Words that must follow each other; with `prefix`, the last one is only the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False


def parse_terms(query: str) -> tuple[Term, ...]:
    """Read a query: words, `"a phrase"`, `begin*`.

    Raises:
        TellwireError: `bad_request`: no word in it; `limit_exceeded`.
    """
    if len(query) > QUERY_LENGTH_MAX:
        raise TellwireError("limit_exceeded", f"The query is longer than {QUERY_LENGTH_MAX} characters.")
    terms: list[Term] = []
    for found in _PIECE.finditer(query):
        phrase, piece = found.group(1), found.group(2)
        words = tuple(words_of(piece if phrase is None else phrase))
        if words:
            terms.append(Term(words, prefix=phrase is None and piece.endswith("*") and _is_prefix(words[-1])))
    if not terms:
        raise TellwireError("bad_request", "The query has no word to search for.", "Use letters or digits.")
    if len(terms) > TERMS_MAX:
        raise TellwireError("limit_exceeded", f"The query has more than {TERMS_MAX} words.")
    return tuple(terms)


def _is_prefix(word: str) -> bool:
    if re.fullmatch(f"[{_UNSPACED}]", word):
        return False  # a word by itself: whatever follows is another one
    if len(word) < PREFIX_LENGTH_MIN:
        raise TellwireError(
            "bad_request",
            f"{word}* is too short.",
            f"Give at least {PREFIX_LENGTH_MIN} letters before `*`.",
        )
    return True


def words_of(text: str) -> list[str]:
    """The words of a text, folded, in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    bare = {ord(char): _bare(char) for char in set(text) if not char.isascii()}
    return _WORD.findall(text.translate(bare).casefold())


@lru_cache(maxsize=4_096)
def _bare(char: str) -> str:
    if ord(char) in _ACCENTS:
        return ""
    base, *marks = unicodedata.normalize("NFD", char)
    latin = base.isascii() and marks and all(ord(mark) in _ACCENTS for mark in marks)
    return base if latin else char


def matches(terms: tuple[Term, ...], text: str) -> bool:
    """Whether every term occurs in the text."""
    words = words_of(text)
    known = set(words)
    return all(_occurs(term, words, known) for term in terms)


def _occurs(term: Term, words: list[str], known: set[str]) -> bool:
    """Whether the words of a term follow each other in a text; the sets are looked at first."""
    *first, last = term.words
    if not all(word in known for word in first) or not (term.prefix or last in known):
        return False
    if not first:
        return not term.prefix or any(word.startswith(last) for word in known)
    length = len(first)
    return any(
        words[place : place + length] == first
        and (words[place + length].startswith(last) if term.prefix else words[place + length] == last)
        for place in range(len(words) - length)
    )


def searched_text(body: str, *, is_json: bool) -> str:
    """The text of a stored body: of a JSON value its keys and values, line by line."""
    if not is_json:
        return body
    lines: list[str] = []
    _gather(msgspec.json.decode(body), lines)
    return "\n".join(lines)


def _gather(value: Any, lines: list[str]) -> None:
    """Collect the keys and values of a JSON value."""
    if isinstance(value, str):
        lines.append(value)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            lines.append(key)
            _gather(item, lines)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            _gather(item, lines)
    else:
        lines.append(msgspec.json.encode(value).decode())
