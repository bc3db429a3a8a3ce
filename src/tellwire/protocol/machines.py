"""Machines: labels, ids, cards, and the address `label:name` of an agent on another machine.

A machine is one computer with one broker. Its id is derived from its identity key and is what is stored and
compared; its label is the short name that people type, and can change.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tellwire.protocol.addresses import BROADCAST, OPERATOR, SYSTEM, is_name, shorten
from tellwire.protocol.errors import TellwireError

SPEAKS = (1, 1)
"""The lowest and the highest version of parcels that this program reads and writes."""
KNOWS = ("message", "withdraw", "receipts", "refused", "roster", "skip")
"""The kinds of items that this program takes."""
LABEL_LENGTH_MAX = 32
RESERVED_LABELS = frozenset({"id", "link", "local", BROADCAST, OPERATOR, SYSTEM})
"""Words that mean something else before a colon."""
Trust: TypeAlias = Literal["own", "team"]

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
_NOT_LABEL = re.compile(r"[^A-Za-z0-9-]+")
_MACHINE_ID = re.compile(r"k[0-9a-v]{16}")
_DIGITS = "0123456789abcdefghijklmnopqrstuv"


class BoxKey(msgspec.Struct, frozen=True, array_like=True):
    """One announced X25519 key of a machine."""

    number: int
    key: bytes


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a machine says of itself; whoever takes one has checked its signature before."""

    sign_key: bytes
    """Its Ed25519 identity."""
    label: str
    boxes: list[BoxKey] = []
    """Its X25519 keys, newest last."""
    speaks: tuple[int, int] = SPEAKS
    knows: list[str] = msgspec.field(default_factory=lambda: list(KNOWS))
    version: str = ""
    body_bytes_max: int = 64 * 1024

    @property
    def id(self) -> str:
        """The id that follows from the identity."""
        return machine_id(self.sign_key)


class RemoteName(NamedTuple):
    """The two parts of `label:name`."""

    label: str
    name: str


def machine_id(sign_key: bytes) -> str:
    """`k` and sixteen base-32 digits of a hash of the identity key: 80 bits."""
    number = int.from_bytes(blake2b(sign_key, digest_size=10, person=b"tellwire id 1").digest())
    return "k" + "".join(_DIGITS[number >> shift & 31] for shift in range(75, -1, -5))


def is_machine_id(text: str) -> bool:
    return _MACHINE_ID.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Tell whether `text` may be a machine's label."""
    return _LABEL.fullmatch(text) is not None and text.lower() not in RESERVED_LABELS


def parse_label(text: str) -> str:
    """Return `text` if a machine may bear it.

    Raises:
        TellwireError: `name_invalid`, with a label like it in the advice.
    """
    if is_label(text):
        return text
    near = propose_label(text)
    advice = f"Use letters, digits and '-', at most {LABEL_LENGTH_MAX}. For example: {near!r}."
    raise TellwireError("name_invalid", f"{shorten(text)} cannot be a machine's label.", advice)


def propose_label(host: str) -> str:
    """A label for a computer of this host name: its first part, as far as it can be one."""
    near = _NOT_LABEL.sub("-", host.partition(".")[0]).strip("-")[:LABEL_LENGTH_MAX].rstrip("-").lower()
    return near if is_label(near) else "machine"


def split_remote(text: str) -> RemoteName | None:
    """The parts of `label:name`; None if the text is not of that form."""
    label, colon, name = text.partition(":")
    if not colon or not is_label(label) or not is_name(name):
        return None
    return RemoteName(label, name)


def remote_name(label: str, name: str) -> str:
    """The address of an agent on another machine."""
    return f"{label}:{name}"
