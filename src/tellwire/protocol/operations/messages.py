"""Operations on messages: send, take over, confirm, look, ask how far one got."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from tellwire.protocol.operations.base import AGENT, MCP, SDK, SPEAKERS, Operation, Reply

Json: TypeAlias = Any
Mode: TypeAlias = Literal["challenge", "agree", "collaborate", "deduce"]
ContentKind: TypeAlias = Literal["request", "response", "notification"]
SendStatus: TypeAlias = Literal["received", "queued", "denied", "refused", "sent", "timeout"]
ReceiptState: TypeAlias = Literal["pending", "received", "delivered", "read", "answered", "expired", "denied"]
"""`received` is for agents of other machines: on that machine's disk, and not handed over yet."""


class MessageRecord(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"sender": "from", "sent_at": "at"},
):
    """One message as its recipient gets it; the broker stamps `from`."""

    id: str
    sender: str
    to: str
    body: Json
    sent_at: float
    kind: ContentKind = "request"
    re: str | None = None
    mode: Mode | None = None
    context: Json = None
    repeat: bool = False
    """It may have been seen before: an earlier session ended without confirming it."""


class Outcome(Reply, frozen=True, kw_only=True):
    """What became of one recipient of a send to several."""

    name: str
    status: SendStatus
    note: str = ""


class Sent(Reply, frozen=True, kw_only=True):
    """How far a send got at once.

    `received`: in the inbox of an online agent. `queued`: kept for one that is offline, or that nothing
    reaches now (`why`). `sent`: to several, see `recipients`. `denied`: nobody by that name, or it cannot
    take it. `refused`: to oneself.
    """

    id: str = ""
    status: SendStatus
    note: str = ""
    why: str = ""
    """If it is `queued` for an agent that is online: why that agent cannot be reached now."""
    suggestions: list[str] = []
    recipients: list[Outcome] = []
    link: str = ""
    """The id of the link, if it was sent on one."""
    made: Literal["", "created", "reused"] = ""
    """For a direct send: whether the link was `created` or `reused`."""


class SendMessage(Operation[Sent], frozen=True, kw_only=True):
    """Send to one agent, several, `broadcast` (online agents of the group), `#topic` or `link:ID`."""

    reply = Sent
    callers: ClassVar[frozenset[str]] = SPEAKERS
    repeats = True
    to: str | list[str]
    body: Json
    re: str | None = None
    mode: Mode | None = None
    kind: ContentKind | None = None
    """Left out: `response` with `re`, otherwise `request`."""
    context: Json = None
    ttl_s: float | None = None
    key: str = ""
    """The caller's request id, `<birth, hex>-<word>`; repeating a call with the same key is harmless.

    The birth is in microseconds, by the clock in the broker's greeting.
    """
    confirm: bool = False
    """Required for a very large broadcast."""
    once_s: float = 0.0
    """Do not send it again if the same was sent within this many seconds; return the first answer."""
    direct: bool = False
    """To one agent: use the direct link of the two, which is opened if there is none."""
    listen: bool = False
    """To one agent: also be notified when it finishes a turn."""
    choices: list[str] | None = None
    """To `operator`: up to nine short answers to choose from; they travel in the `context`."""


class Claimed(Reply, frozen=True, kw_only=True):
    """The ids that the caller holds and may show to its application."""

    ids: list[str] = []
    waiting: int = 0
    """How many more are waiting at the broker."""


class ClaimMessages(Operation[Claimed], frozen=True, kw_only=True):
    """Claim offered messages before the application sees them; those that are no longer available are left
    out.
    """

    reply = Claimed
    reads = True
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    ids: list[str]


class Confirmed(Reply, frozen=True, kw_only=True):
    """How many messages became `read` by this call; those that were already do not count."""

    count: int = 0


class ConfirmMessages(Operation[Confirmed], frozen=True, kw_only=True):
    """Confirm that messages were read: the evidence that turns their receipts to `read`."""

    reply = Confirmed
    callers: ClassVar[frozenset[str]] = SPEAKERS
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    ids: list[str]


class Inbox(Reply, frozen=True, kw_only=True):
    """Messages, oldest first, and how many more wait behind them."""

    messages: list[MessageRecord] = []
    waiting: int = 0


class PeekMessages(Operation[Inbox], frozen=True, kw_only=True):
    """Look at waiting messages without taking them."""

    reply = Inbox
    reads = True
    limit: int = 50
    name: str | None = None
    """Another agent's inbox (not for agents). Left out: the caller's own."""


class Taken(Reply, frozen=True, kw_only=True):
    """Messages handed to the caller on a lease, oldest first."""

    messages: list[MessageRecord] = []
    large: list[MessageRecord] = []
    """Messages too large to be included, without their bodies; fetch each by its `id`."""
    waiting: int = 0
    """How many more are waiting, including the large ones."""
    next_offset: int = 0
    """For a message fetched by `id`: where its next part begins; 0 if this was the last."""


class TakeMessages(Operation[Taken], frozen=True, kw_only=True):
    """Fetch waiting messages, as many as fit a model's context at once, or a large message in parts."""

    reply = Taken
    callers: ClassVar[frozenset[str]] = frozenset({AGENT})
    surfaces: ClassVar[frozenset[str]] = frozenset({MCP})
    limit: int = 50
    id: str | None = None
    """One message, even if it does not fit as a whole."""
    offset: int = 0
    """With `id`: the character to start at."""
    chars: int = 0
    """How much text to return; 0 for the default."""
    in_bytes: bool = False
    """Count bytes of UTF-8 instead of characters."""
    call: str = ""
    """The caller's id for this call; a repeat gets the same messages."""
    after: str | None = None
    """The last message that the caller got: it was read, and so was everything that came with it."""


class RecipientStatus(Reply, frozen=True, kw_only=True):
    """How far a message got with one recipient, and what shows it."""

    name: str
    state: ReceiptState
    evidence: str = ""
    at: float = 0.0
    why: str = ""
    """Of one that is not read: why it still waits, if that is longer than its path needs."""


class MessageStatusReply(Reply, frozen=True, kw_only=True):
    """The receipts of one message."""

    id: str
    sender: str
    to: str
    at: float
    recipients: list[RecipientStatus] = []


class MessageStatus(Operation[MessageStatusReply], frozen=True, kw_only=True):
    """How far a message got, for each recipient; open to its sender, its recipients and the operator."""

    reply = MessageStatusReply
    reads = True
    id: str


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages handed to a connected client: `delivered`, until confirmed."""

    messages: list[MessageRecord]
    waiting: int = 0
    """How many more wait beyond what this client may hold at once."""
    until: float = 0.0
    """Granted until then on the machine's monotonic clock: shown before it without asking, else claimed."""
