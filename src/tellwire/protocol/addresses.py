"""Who can be written to: `name`, `#topic`, `broadcast`, `link:ID`; and which names are names.

Owns the grammar only. Whether anyone answers to an address is decided in the core.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tellwire.protocol.errors import TellwireError

NAME_LENGTH_MAX = 64
BROADCAST = "broadcast"
OPERATOR = "operator"
SYSTEM = "tellwire"
"""The sender of the broker's own notices; nobody can register it."""
LINK = "link:"
"""What the address of a link begins with; `link:ID/7` is the seventh thing said there.

An id may name the machine that keeps the link, as `l4f2k@desk`.
"""
RESERVED = frozenset({BROADCAST, OPERATOR, SYSTEM, "all", "everyone", "system", "user", "self", "me"})

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_])?")
_LINK = re.compile(r"(?:link:)?(l[0-9a-v]{1,12})(?:@([A-Za-z0-9._-]{1,64}))?(?:/\d{1,12})?")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Address(NamedTuple):
    """One parsed destination; `kind` is `agent`, `topic`, `link` or `broadcast`."""

    kind: str
    value: str


def is_name(text: str) -> bool:
    """Tell whether `text` may be an agent's or a topic's name."""
    return _NAME.fullmatch(text) is not None


def parse_name(text: str) -> str:
    """Return `text` if an agent may bear it.

    Raises:
        TellwireError: `name_invalid`, with the nearest valid name in the advice.
    """
    if is_name(text) and text.lower() not in RESERVED:
        return text
    if text.lower() in RESERVED:
        raise TellwireError("name_invalid", f"The name {text!r} is reserved.", "Choose another name.")
    near = _NOT_NAME.sub("-", text).strip("-._")[:NAME_LENGTH_MAX].rstrip("-.")
    advice = f"For example: {near!r}." if near and near.lower() not in RESERVED else None
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
        raise TellwireError("unknown_link", f"{shorten(text)} is kept by another machine.")
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
    if is_name(text):
        return Address("agent", text)
    if text.startswith(LINK):
        return Address("link", parse_link(text))
    raise TellwireError("address_invalid", f"{shorten(text)} is not an address.")


def shorten(text: str, length_max: int = 40) -> str:
    """Quote foreign text for an error message: printable, and never long."""
    return repr(text if len(text) <= length_max else text[: length_max - 1] + "…")
