"""Who can be written to: `name`, `#topic`, `broadcast`; and which names are names.

Owns the grammar only. Whether anyone answers to an address is decided in the core.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palaver.protocol.errors import PalaverError

NAME_LENGTH_MAX = 64
BROADCAST = "broadcast"
OPERATOR = "operator"
SYSTEM = "palaver"
"""The sender of the broker's own notices; nobody can register it."""
RESERVED = frozenset({BROADCAST, OPERATOR, SYSTEM, "all", "everyone", "system", "user", "self", "me"})

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_])?")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Address(NamedTuple):
    """One parsed destination; `kind` is `agent`, `topic` or `broadcast`."""

    kind: str
    value: str


def is_name(text: str) -> bool:
    """Tell whether `text` may be an agent's or a topic's name."""
    return _NAME.fullmatch(text) is not None


def parse_name(text: str) -> str:
    """Return `text` if an agent may bear it.

    Raises:
        PalaverError: `name_invalid`, with the nearest valid name in the advice.
    """
    if is_name(text) and text.lower() not in RESERVED:
        return text
    if text.lower() in RESERVED:
        raise PalaverError("name_invalid", f"The name {text!r} is reserved.", "Choose another name.")
    near = _NOT_NAME.sub("-", text).strip("-._")[:NAME_LENGTH_MAX].rstrip("-.")
    advice = f"For example: {near!r}." if near and near.lower() not in RESERVED else None
    raise PalaverError("name_invalid", f"{shorten(text)} is not a name.", advice)


def parse_topic(text: str) -> str:
    """Return the bare topic name of `#topic` or `topic`."""
    name = text.removeprefix("#")
    if is_name(name):
        return name
    raise PalaverError("address_invalid", f"{shorten(text)} is not a topic.", "A topic looks like `#build`.")


def parse_address(text: str) -> Address:
    """Parse one destination.

    Raises:
        PalaverError: `address_invalid`.
    """
    if text.startswith("#"):
        return Address("topic", parse_topic(text))
    if text == BROADCAST:
        return Address("broadcast", text)
    if is_name(text):
        return Address("agent", text)
    raise PalaverError("address_invalid", f"{shorten(text)} is not an address.")


def shorten(text: str, length_max: int = 40) -> str:
    """Quote foreign text for an error message: printable, and never long."""
    return repr(text if len(text) <= length_max else text[: length_max - 1] + "…")
