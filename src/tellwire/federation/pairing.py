"""How two machines get to know each other: three messages, the same over ssh and over Redis. No I/O.

    host   offer    its signed card, and how it wants to be trusted
    guest  join     its signed card, and how it wants to be trusted; made for that offer
    host   answer   done, or why not; made for that join

Over ssh the host is the machine that is logged in to, and ssh protects the messages. Over Redis the host has
made an invite, and the messages are sealed under its secret: whoever has not got the invite can neither read
nor make one. The first join that opens uses the invite up. Nothing is stored before the labels were compared;
the host stores first, and a guest that fails after that can simply be paired again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeVar

import msgspec

from tellwire.federation.carriers.frames import machine_of, tag_of
from tellwire.federation.seal import fingerprint, open_once, read_card, seal_once
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.machines import LABEL_LENGTH_MAX, Card, Trust, is_label

INVITE_PREFIX = "tellwire1."
INVITE_LENGTH_MAX = 4_096
INVITE_S = 600.0
SECRET_BYTES = 16
CHECK_BYTES = 4
TEXT_LENGTH_MAX = 1_000

M = TypeVar("M", bound=msgspec.Struct)


class Offer(msgspec.Struct, frozen=True, array_like=True, tag="offer"):
    """What the host begins with."""

    card: bytes
    trust: Trust


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """What the guest answers."""

    offer: bytes
    """The digest of the offer."""
    card: bytes
    trust: Trust


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """How it ended."""

    join: bytes
    """The digest of the join; empty if the host has withdrawn its offer."""
    code: str = ""
    message: str = ""
    advice: str = ""
    agents: int = 0
    """How many agents the host has."""


class Partner(NamedTuple):
    """The other machine, as it was paired."""

    card: Card
    trust: Trust

    @property
    def words(self) -> str:
        """Its fingerprint, for people to compare."""
        return fingerprint(self.card.sign_key)


Message = Offer | Join | Answer
_decoder = msgspec.msgpack.Decoder(Message)


# -- invites -------------------------------------------------------------------------------------------


class Invite(msgspec.Struct, frozen=True, array_like=True):
    """What one person hands to the other machine, as one long word."""

    secret: bytes
    host: bytes
    """The tag of the machine that made it."""
    carrier: str
    trust: Trust = "own"

    @property
    def machine(self) -> str:
        """The machine that made it."""
        return machine_of(self.host)

    @property
    def stream(self) -> str:
        """Names the stream on which it is answered; it does not tell the secret."""
        return hashlib.blake2b(self.secret, digest_size=16, person=b"tellwire invite1").hexdigest()

    @property
    def key(self) -> bytes:
        """What its messages are sealed under."""
        return hashlib.blake2b(self.secret, digest_size=32, person=b"tellwire join 1").digest()


def make_invite(secret: bytes, *, host: str, carrier: str, trust: Trust) -> Invite:
    return Invite(secret, tag_of(host), carrier, trust)


def format_invite(invite: Invite) -> str:
    """The word that is handed over; a mistyped one is noticed."""
    body = msgspec.msgpack.encode(invite)
    text = base64.b32encode(body + _check(body)).decode().rstrip("=").lower()
    return INVITE_PREFIX + text


def parse_invite(text: str) -> Invite:
    """Read an invite.

    Raises:
        TellwireError: `invite_invalid`.
    """
    text = "".join(text.split())
    if not text.lower().startswith(INVITE_PREFIX) or len(text) > INVITE_LENGTH_MAX:
        raise TellwireError("invite_invalid", f"An invite begins with {INVITE_PREFIX!r}.")
    digits = text[len(INVITE_PREFIX) :].upper()
    try:
        data = base64.b32decode(digits + "=" * (-len(digits) % 8))
    except (binascii.Error, ValueError):
        raise TellwireError("invite_invalid", "The invite is damaged.") from None
    body, check = data[:-CHECK_BYTES], data[-CHECK_BYTES:]
    if check != _check(body):
        raise TellwireError("invite_invalid", "The invite is damaged or not complete.")
    try:
        invite = msgspec.msgpack.decode(body, type=Invite)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise TellwireError("invite_invalid", "The invite is of a newer version.") from None
    if len(invite.secret) != SECRET_BYTES or len(invite.host) != 10:
        raise TellwireError("invite_invalid", "The invite is damaged.")
    return invite


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=CHECK_BYTES, person=b"tellwire check 1").digest()


# -- labels --------------------------------------------------------------------------------------------


def check_labels(card: Card, *, label: str, taken: Mapping[str, str], whose: Literal["here", "there"]) -> str:
    """What to call a machine; `taken` is from labels in lower case to machines.

    Raises:
        TellwireError: `label_taken`, with another one that is free; or `name_invalid`.
    """
    name = label or card.label
    if not is_label(name):
        raise TellwireError("name_invalid", f"{name[:40]!r} cannot be a machine's label.")
    if taken.get(name.lower(), card.id) == card.id:
        return name
    free = next(
        each
        for number in range(2, 1_000)
        if (each := f"{name[: LABEL_LENGTH_MAX - 4]}-{number}").lower() not in taken
    )
    option = "--as" if whose == "here" else "--me"
    place = "here" if whose == "here" else "on the other machine"
    raise TellwireError(
        "label_taken", f"Another machine is called {name} {place}.", f"Add `{option} {free}`, for example."
    )


# -- the handshake -------------------------------------------------------------------------------------


class Host:
    """The side that offers. With a key, messages are sealed under it."""

    def __init__(self, card: bytes, *, trust: Trust = "own", key: bytes = b"") -> None:
        self._key = key
        self._mine = read_card(card)
        self._offer = msgspec.msgpack.encode(Offer(card, trust))
        self._trust: Trust = trust
        self._join = b""

    def offer(self) -> bytes:
        """The first message."""
        return _close(self._offer, self._key)

    def take(self, data: bytes) -> Partner | None:
        """The machine that joins; None for anything that is no join to this offer.

        Raises:
            TellwireError: it proves to know the secret, but it cannot be paired.
        """
        plain, join = _open(data, self._key) or (b"", None)
        if not isinstance(join, Join) or join.offer != _digest(self._offer):
            return None
        self._join = _digest(plain)
        card = read_card(join.card)
        if card.id == self._mine.id:
            raise TellwireError("bad_request", "This is the machine that made the offer.")
        return Partner(card, _lower(self._trust, join.trust))

    def accept(self, agents: int = 0) -> bytes:
        """Tell the machine that has joined that it is paired."""
        return _close(msgspec.msgpack.encode(Answer(self._join, agents=agents)), self._key)

    def refuse(self, error: TellwireError) -> bytes:
        """Tell it why it is not; before anybody has joined, that the offer is withdrawn."""
        answer = Answer(self._join, error.code, error.message, error.advice)
        return _close(msgspec.msgpack.encode(answer), self._key)


class Guest:
    """The side that joins."""

    def __init__(self, card: bytes, *, trust: Trust = "own", key: bytes = b"", host: str = "") -> None:
        self._card = card
        self._mine = read_card(card)
        self._key = key
        self._host = host
        """The machine that made the invite; empty if ssh tells who it is."""
        self._trust: Trust = trust
        self._offer: bytes = b""
        self._join = b""
        self.partner: Partner | None = None
        """Whom we were offered."""

    def take(self, data: bytes) -> Answer | None:
        """Take any message: an offer sets `partner`, and the answer to our join is returned.

        Raises:
            TellwireError: the offer is not what it claims to be, or it is over.
        """
        opened = _open(data, self._key)
        if opened is None:
            return None
        plain, message = opened
        if isinstance(message, Offer) and self.partner is None:
            self._take_offer(plain, message)
        elif isinstance(message, Answer):
            return self._take_answer(message)
        return None

    def _take_offer(self, plain: bytes, offer: Offer) -> None:
        card = read_card(offer.card)
        if self._host and card.id != self._host:
            raise TellwireError("invite_invalid", "The machine that answers did not make the invite.")
        if card.id == self._mine.id:
            raise TellwireError(
                "bad_request", "The other side is this machine itself.", "Run it on the other machine."
            )
        if card.speaks[0] > self._mine.speaks[1] or card.speaks[1] < self._mine.speaks[0]:
            raise TellwireError(
                "machine_too_old",
                f"{card.label} runs a version of tellwire ({card.version}) that does not fit this one.",
                "Upgrade the older of the two.",
            )
        self._offer = _digest(plain)
        self.partner = Partner(card, _lower(offer.trust, self._trust))

    def _take_answer(self, answer: Answer) -> Answer | None:
        if self._join and answer.join == self._join:
            if answer.code:
                code = answer.code if answer.code in ERRORS else "bad_request"
                raise TellwireError(code, answer.message[:TEXT_LENGTH_MAX], answer.advice[:TEXT_LENGTH_MAX])
            return answer
        if not answer.join:
            raise TellwireError("invite_invalid", "The invite was withdrawn.")
        if not answer.code:
            raise TellwireError("invite_used", "Another machine has used this invite.")
        return None

    def join(self) -> bytes:
        """The message that joins, for the offer that was taken."""
        plain = msgspec.msgpack.encode(Join(self._offer, self._card, self._trust))
        self._join = _digest(plain)
        return _close(plain, self._key)


def _lower(first: Trust, second: Trust) -> Trust:
    return "own" if first == second == "own" else "team"


def _digest(plain: bytes) -> bytes:
    return hashlib.blake2b(plain, digest_size=16, person=b"tellwire hand 1").digest()


def _close(plain: bytes, key: bytes) -> bytes:
    return seal_once(key, plain) if key else plain


def _open(data: bytes, key: bytes) -> tuple[bytes, Message] | None:
    plain = open_once(key, data) if key else data
    if plain is None:
        return None
    try:
        return plain, _decoder.decode(plain)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
