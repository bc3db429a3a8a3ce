"""What two machines say to each other: a parcel of numbered items. Pure, msgpack.

Parcels and items are arrays. Fields are only ever added at the end, and unknown fields behind the known ones
are ignored, so that machines of two versions understand each other. Every item has a tag: the marks of a lane
are made of tags, not of bytes, because what is left to live changes with each sending.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

ITEMS_MAX = 128
"""Items in one parcel."""
PARCEL_BYTES_MAX = 192 * 1024
"""Bytes of the items in one parcel; a larger item goes alone."""
WINDOW_ITEMS_MAX = 256
WINDOW_BYTES_MAX = 1 << 20
"""How much may be under way without an acknowledgement."""
TAG_BYTES = 8
ZERO = bytes(TAG_BYTES)
"""The mark of a lane on which nothing was said."""
GO_BACK = 1
"""Flag: something is missing; send again what is not acknowledged."""
ANSWER = 2
"""Flag: answer this at once."""
FOLLOWS = 4
"""Flag: this incarnation was begun because the receiver began one."""


class RemoteAgent(msgspec.Struct, frozen=True, array_like=True):
    """An agent as its own machine describes it to another one."""

    id: str
    name: str
    kind: str = ""
    project: str = ""
    capabilities: list[str] = []
    online: bool = False
    offline_reason: str = ""


class ReceiptRow(msgspec.Struct, frozen=True, array_like=True):
    """How far one message got with one recipient."""

    seq: int
    """The message's number where it was sent."""
    agent: str
    """The recipient's id where it lives."""
    state: str
    """`received` (again), `delivered`, `read`, `answered` or `expired`."""
    evidence: str = ""


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One numbered thing; the base of all kinds."""

    version: int
    tag: bytes


class Skip(Item, frozen=True, array_like=True, tag="skip"):
    """Nothing: an item that is void by now keeps its number."""


class Message(Item, frozen=True, array_like=True, tag="message"):
    """A message for agents of the receiving machine."""

    seq: int
    sender: RemoteAgent
    recipients: list[str]
    """Ids of the receiving machine."""
    body: str
    ttl_left_s: float
    age_s: float = 0.0
    json: bool = False
    kind: str = "request"
    re: int = 0
    """The number of the answered message on the receiving machine; 0 if it is none of its own."""
    mode: str = ""
    context: str = ""
    hops: int = 0
    weak: bool = False
    several: bool = False
    repeat: bool = False
    """It may have arrived before: the sending or the receiving store was put back to an older copy."""


class Withdraw(Item, frozen=True, array_like=True, tag="withdraw"):
    """Messages whose time is over: they expire where they were not handed over yet."""

    seqs: list[int]
    recipient: str


class Receipts(Item, frozen=True, array_like=True, tag="receipts"):
    """What became of messages of the receiving machine."""

    rows: list[ReceiptRow]


class Refused(Item, frozen=True, array_like=True, tag="refused"):
    """A message was not taken for one recipient."""

    seq: int
    recipient: str
    code: str
    note: str = ""


class Roster(Item, frozen=True, array_like=True, tag="roster"):
    """All agents of the sending machine that the receiving one may see."""

    number: int
    """Which roster this is; a higher one is newer."""
    agents: list[RemoteAgent]


AnyItem: TypeAlias = Skip | Message | Withdraw | Receipts | Refused | Roster


class Unknown(Item, frozen=True, array_like=True, tag="unknown"):
    """Stands for an item of a kind, or of a shape, that this program does not know."""

    word: str = ""


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """What crosses at once; see `federation.exchange` for what the numbers mean."""

    speaks: int
    inc: int
    """The incarnation of the sender's lane."""
    life: int
    """A random number of this life of the sender."""
    echo: int = 0
    """The newest life of the receiver that the sender has heard."""
    first: int = 0
    """The number of the first item; 0 if there is none."""
    items: list[msgspec.Raw] = []
    ack_inc: int = 0
    ack: int = 0
    """Everything up to this number of the receiver's incarnation `ack_inc` is on the sender's disk."""
    mark: bytes = ZERO
    """The running hash over the tags of these."""
    room: int = WINDOW_ITEMS_MAX
    """How many items beyond `ack` the sender takes now."""
    flags: int = 0
    base: bytes = ZERO
    """The mark of the sender's lane before the first item: what follows another history is not taken."""


_items = msgspec.msgpack.Decoder(AnyItem)
_parcels = msgspec.msgpack.Decoder(Parcel)
_encoder = msgspec.msgpack.Encoder()


def next_mark(mark: bytes, tag: bytes) -> bytes:
    """The mark of a lane after one more item."""
    return blake2b(mark + tag, digest_size=TAG_BYTES).digest()


def make_tag(kind: str, seq: int, now: float, digest: str) -> bytes:
    """The tag of an item: the same whenever it is sent, and unlike that of any other history."""
    return blake2b(f"{kind} {seq} {now!r} {digest}".encode(), digest_size=TAG_BYTES).digest()


def format_item(item: Item) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(item))


def parse_item(data: msgspec.Raw) -> AnyItem | Unknown | None:
    """Decode one item; `Unknown` if this program does not know it, None if it cannot even be numbered."""
    try:
        return _items.decode(data)
    except msgspec.DecodeError:
        pass
    try:
        row = msgspec.msgpack.decode(data, type=list[Any])
    except msgspec.DecodeError:
        return None
    if len(row) < 3 or not isinstance(row[0], str) or not isinstance(row[2], bytes):
        return None
    return Unknown(0, row[2], row[0][:64])


def format_parcel(parcel: Parcel) -> bytes:
    return _encoder.encode(parcel)


def parse_parcel(data: bytes) -> Parcel | None:
    """Decode a parcel; None if it is none, or of no version that this program reads."""
    try:
        parcel = _parcels.decode(data)
    except msgspec.DecodeError:
        return None
    sane = len(parcel.items) <= ITEMS_MAX and len(parcel.mark) == TAG_BYTES
    numbers = (parcel.inc, parcel.life, parcel.echo, parcel.first, parcel.ack_inc, parcel.ack, parcel.room)
    return parcel if sane and all(0 <= number < 1 << 63 for number in numbers) else None
