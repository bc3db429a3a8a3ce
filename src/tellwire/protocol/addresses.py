"""Who can be written to: `name`, `machine:name`, `id:ID`, `#topic`, `broadcast`, `link:ID`; what is a name.

Owns the grammar only. Whether anyone answers to an address is decided in the core.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tellwire.protocol.errors import TellwireError

NAME_LENGTH_MAX = 64
BROADCAST = "broadcast"
OPERATOR = "operator"
SYSTEM = "tellwire"
"""The sender of the broker's own notices; nobody can register it."""
FORMER = "palaver"
"""The name before this one: nobody can register it either, and what it left elsewhere is known by it."""
LINK = "link:"
"""What the address of a link begins with; `link:ID/7` is the seventh thing said there.

An id may name the machine that keeps the link, as `l4f2k@desk`.
"""
ID = "id:"
"""What the address of an agent by its id begins with; no name holds a colon."""
TOPIC, PAIR, SEVERAL = "topic:", "pair:", "several:"
"""What the keys of conversations begin with; that of a link is its address."""
RESERVED = frozenset({BROADCAST, OPERATOR, SYSTEM, FORMER, "all", "everyone", "system", "user", "self", "me"})

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_])?")
_LINK = re.compile(r"(?:link:)?(l[0-9a-v]{1,12})(?:@([A-Za-z0-9._-]{1,64}))?(?:/\d{1,12})?")
_REMOTE = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9-]{{0,30}}[A-Za-z0-9])?:{_NAME.pattern}")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MARKS = str.maketrans("", "", "._-")
_DIGITS = {"o": "0", "l": "1", "i": "1", "e": "3", "a": "4", "s": "5"}
"""The digits that letters are read into."""


def _disguised(word: str) -> str:
    return "".join(f"[{letter}{_DIGITS[letter]}]" if letter in _DIGITS else letter for letter in word)


_PERSON = _disguised(OPERATOR)
_RESERVED = re.compile("|".join([*map(_disguised, sorted(RESERVED)), f"{_PERSON}.*", f".*{_PERSON}"]))


class Address(NamedTuple):
    """One parsed destination; `kind` is `agent`, `topic`, `link` or `broadcast`.

    An agent of another machine is an `agent` too; its value is `label:name`.
    """

    kind: str
    value: str


def is_name(text: str) -> bool:
    """Tell whether `text` may be an agent's or a topic's name."""
    return _NAME.fullmatch(text) is not None


def is_reserved(text: str) -> bool:
    """Tell whether a name is reserved, or looks like one that is: `0perator-2`, `Op.erator`, `m-3`."""
    return _RESERVED.fullmatch(text.lower().translate(_MARKS)) is not None


def parse_name(text: str) -> str:
    """Return `text` if an agent may bear it.

    Raises:
        TellwireError: `name_invalid`, with the nearest valid name in the advice.
    """
    if is_name(text) and not is_reserved(text):
        return text
    if is_name(text):
        raise TellwireError("name_invalid", f"The name {text!r} is reserved.", "Choose another name.")
    near = _NOT_NAME.sub("-", text).strip("-._")[:NAME_LENGTH_MAX].rstrip("-.")
    advice = f"For example: {near!r}." if near and not is_reserved(near) else None
    raise TellwireError("name_invalid", f"{shorten(text)} is not a name.", advice)


def parse_topic(text: str) -> str:
    """Return the bare topic name of `#topic` or `topic`."""
    name = text.removeprefix("#")
    if is_name(name):
        return name
    raise TellwireError("address_invalid", f"{shorten(text)} is not a topic.", "A topic looks like `#build`.")


def parse_link(text: str) -> str:
    """Return the bare id of `link:ID`, `ID` or `link:ID/7`.

    Raises:
        TellwireError: `address_invalid`, or `unknown_link` for a link of another machine.
    """
    found = _LINK.fullmatch(text)
    if found is None:
        raise TellwireError(
            "address_invalid", f"{shorten(text)} is not a link.", "A link looks like `link:l4f2k`."
        )
    if found[2]:
        raise TellwireError("unknown_link", f"{shorten(text)} belongs to another machine.")
    return found[1]


def link_of(to: str) -> str:
    """The id of the link that a stored message was for; empty if it was for no link."""
    return to[len(LINK) :].partition("/")[0] if to.startswith(LINK) else ""


def parse_address(text: str) -> Address:
    """Parse one destination.

    Raises:
        TellwireError: `address_invalid`.
    """
    if text.startswith("#"):
        return Address("topic", parse_topic(text))
    if text == BROADCAST:
        return Address("broadcast", text)
    if is_name(text) or (text.startswith(ID) and is_name(text[len(ID) :])):
        return Address("agent", text)
    if text.startswith(LINK):
        return Address("link", parse_link(text))
    if _REMOTE.fullmatch(text) is not None:
        return Address("agent", text)
    raise TellwireError("address_invalid", f"{shorten(text)} is not an address.")


def shorten(text: str, length_max: int = 40) -> str:
    """Quote foreign text for an error message: printable, and never long."""
    return repr(text if len(text) <= length_max else text[: length_max - 1] + "…")


def conversation_of(sender: str, recipients: Iterable[str], to: str) -> str:
    """The conversation that a message belongs to, by the ids of its parties and where it was addressed.

    `link:l4`, `topic:#builds`, `pair:a1 a2`, or `several:a1` for what one agent sent to more than one.
    """
    link = link_of(to)
    if link:
        return f"{LINK}{link}"
    if to.startswith("#"):
        return f"{TOPIC}{to}"
    parties = sorted({sender, *recipients} - {""}, key=lambda agent: (len(agent), agent))
    return f"{PAIR}{' '.join(parties)}" if len(parties) <= 2 else f"{SEVERAL}{sender}"
