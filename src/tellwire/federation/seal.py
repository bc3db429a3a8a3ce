"""Keys of this machine: its identity, what it signs, and the sealing of blobs for one other machine each.

Nothing but the key file is read or written here, and only this module uses PyNaCl. A blob is all that a
carrier ever sees:

    0x01 | key id (8) | nonce (24) | secretbox(key of this pair and direction, padded content)
    content: length (4) | kind (1) | announcement (104, if the kind says so) | parcel

Each pair of machines has its own keys, made from one X25519 session key of each side. These hang on the
pinned Ed25519 identities: the first session key is in the signed card that pairing exchanges, and each later
one is announced, signed, in the blobs themselves, until a blob sealed to it proves that the other side knows
it. Only then is it used, and the former ones go. So keys rotate without a clock, and nobody is locked out:
what a machine that was away for a year last knew is kept until it comes back.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from nacl import bindings
from nacl.exceptions import CryptoError

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.machines import BoxKey, Card, machine_id
from tellwire.system.files import read_bounded, write_atomically

log = logging.getLogger("tellwire.seal")

SUITE = 1
BLOB_BYTES_MAX = 256 * 1024
KEY_ID_BYTES = 8
NONCE_BYTES = bindings.crypto_secretbox_NONCEBYTES
HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES
BLOB_BYTES_MIN = HEAD_BYTES + bindings.crypto_secretbox_MACBYTES + 5
CONTENT_BYTES_MIN = 64
SIGNATURE_BYTES = bindings.crypto_sign_BYTES
KEY_FILE = "machine.key"
KEY_FILE_VERSION = 1
KEY_FILE_BYTES_MAX = 1 << 20
KEPT_SECRETS = 2
"""Session keys that are kept although every machine knows a newer one: blobs may be on the way."""
CARRIERS_MAX = 64
BOXES_MAX = 3
"""Session keys of another machine that are known at a time."""
ROTATE_S = 24 * 3_600.0
"""How long a session key is used, in seconds that this machine is awake."""

CARD = b"tellwire card 1"
BOX = b"tellwire box 1"
INTRODUCE = b"tellwire introduce 1"
REMOVE = b"tellwire remove 1"
RENEW = b"tellwire renew 1"
"""Domains: a signature for one purpose is none for another."""
PAIR_PERSON = b"tellwire pair 1"
WORDS_PERSON = b"tellwire words 1"
WORDS = 6

MOVED = (
    "If this home was moved and the former one is gone: `tellwire machine renew --moved`. "
    "If it is a copy: `tellwire machine renew`, then pair it again."
)
PLAIN = 0
ANNOUNCING = 1
_LENGTH = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
_ANNOUNCEMENT = struct.Struct(">Q32s64s")


class SealError(TellwireError):
    """A signed statement that is not what it claims to be."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_request", message, "Pair the machines again.")


class _Secret(msgspec.Struct):
    """A session key of this machine."""

    number: int
    secret: bytes


class _Known(msgspec.Struct):
    """What another machine has announced, and which of our session keys it has proved to know."""

    sign_key: bytes
    boxes: list[BoxKey]
    proven: int


class _KeyFile(msgspec.Struct, kw_only=True):
    version: int = KEY_FILE_VERSION
    seed: bytes
    home: str
    computer: str
    secrets: list[_Secret]
    offered: int = 0
    """The session key in the card that was last given out."""
    machines: dict[str, _Known] = {}
    carriers: dict[str, str] = {}
    """Addresses of carriers with their passwords, by the address without; the newest last."""


class _Opening(NamedTuple):
    """How to open the blobs that have one key id."""

    machine: str
    key: bytes
    own: int


class _Sealing(NamedTuple):
    """How to seal blobs for one machine."""

    head: bytes
    key: bytes
    announcement: bytes


# -- words and ids -------------------------------------------------------------------------------------


def fingerprint(sign_key: bytes) -> str:
    """Six words that stand for an identity key."""
    digest = hashlib.blake2b(sign_key, digest_size=16, person=WORDS_PERSON).digest()
    bits, words = int.from_bytes(digest, "big"), _word_list()
    return " ".join(words[(bits >> (11 * at)) & 2047] for at in range(WORDS))


def _word_list() -> list[str]:
    return Path(__file__).with_name("words.txt").read_text(encoding="ascii").split()


def computer_id() -> str:
    """A hash of this computer's own id; empty if it does not tell one."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid"):
        try:
            told = read_bounded(path, 256).strip()
        except OSError:
            continue
        if told:
            return hashlib.blake2b(told, digest_size=16, person=b"tellwire host 1").hexdigest()
    return ""


# -- signatures ----------------------------------------------------------------------------------------


def check_signed(sign_key: bytes, domain: bytes, signed: bytes) -> bytes:
    """What an identity has signed for a purpose.

    Raises:
        SealError: it has not.
    """
    signature, body = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
    try:
        bindings.crypto_sign_open(signature + domain + b"\0" + body, sign_key)
    except (CryptoError, ValueError, TypeError):
        raise SealError("A signature is not that of the machine that it names.") from None
    return body


def read_card(signed: bytes) -> Card:
    """The card in a signed one.

    Raises:
        SealError: it is damaged, or signed by another key than its own.
    """
    try:
        card = msgspec.msgpack.decode(signed[SIGNATURE_BYTES:], type=Card)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise SealError("The card of the other machine cannot be read.") from None
    if len(card.sign_key) != 32 or not card.boxes or not all(map(_is_box, card.boxes)):
        raise SealError("The card of the other machine has no valid keys.")
    check_signed(card.sign_key, CARD, signed)
    return card


def _is_box(box: BoxKey) -> bool:
    return len(box.key) == 32 and 0 < box.number < 1 << 53


# -- padding -------------------------------------------------------------------------------------------


def padded_size(size: int) -> int:
    """Padmé: a size that tells little, at most 12 % more."""
    size = max(size, CONTENT_BYTES_MIN)
    exponent = size.bit_length() - 1
    mask = (1 << (exponent - exponent.bit_length())) - 1
    return (size + mask) & ~mask


# -- secrets shared by an invite -----------------------------------------------------------------------


def seal_once(key: bytes, plain: bytes) -> bytes:
    """Seal under a key of 32 bytes that both sides have by other means."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + bindings.crypto_secretbox(plain, nonce, key)


def open_once(key: bytes, sealed: bytes) -> bytes | None:
    """What was sealed so; None if it was not."""
    try:
        return bindings.crypto_secretbox_open(sealed[NONCE_BYTES:], sealed[:NONCE_BYTES], key)
    except (CryptoError, ValueError, TypeError):
        return None


# -- the keys of this machine --------------------------------------------------------------------------


class Keyring:
    """The identity and the session keys of this machine, as its key file has them; implements `Seal`."""

    def __init__(self, path: Path, file: _KeyFile) -> None:
        self._path = path
        self._file = file
        self.sign_key, self._signer = bindings.crypto_sign_seed_keypair(file.seed)
        self.id = machine_id(self.sign_key)
        self.words = fingerprint(self.sign_key)
        self.refused: Counter[str] = Counter()
        """How many blobs did not open, by reason."""
        self._is_retired = False
        self._sealing: dict[str, _Sealing] = {}
        self._opening: dict[bytes, _Opening] = {}
        for machine in file.machines:
            self._derive(machine)

    # -- the file -------------------------------------------------------------------------------------

    @classmethod
    def load(cls, home: Path, *, here: str = "", computer: str | None = None) -> Keyring | None:
        """The keys in a home folder, with a fresh session key to announce; None if there are none yet.

        `here` is the machine that the journal there belongs to; empty if it does not say.

        Raises:
            TellwireError: `identity_copied`: the file was made for another journal, home or computer.
            OSError: it cannot be read or written.
        """
        path = home / KEY_FILE
        try:
            data = read_bounded(path, KEY_FILE_BYTES_MAX)
        except FileNotFoundError:
            if here:
                raise TellwireError("identity_copied", f"{path} is gone.") from None
            return None
        try:
            file = msgspec.json.decode(data, type=_KeyFile)
            ring = cls(path, file)
        except (msgspec.MsgspecError, CryptoError, ValueError, TypeError) as error:
            raise TellwireError("identity_copied", f"{path} cannot be read: {error}.") from None
        if here and ring.id != here:
            raise TellwireError("identity_copied", f"{path} was not made for the journal in {home}.")
        if file.home != os.path.realpath(home):
            raise TellwireError("identity_copied", f"{path} was made for {file.home}.", MOVED)
        on = computer_id() if computer is None else computer
        if file.computer and on and file.computer != on:
            raise TellwireError("identity_copied", f"{path} was made on another computer.", MOVED)
        ring.rotate()
        return ring

    @classmethod
    def create(cls, home: Path, *, computer: str | None = None) -> Keyring:
        """A new identity for a home folder, in place of one that may be there.

        Raises:
            OSError: the file cannot be written.
        """
        secret = _Secret(_next_number(0), os.urandom(32))
        file = _KeyFile(
            seed=os.urandom(32),
            home=os.path.realpath(home),
            computer=computer_id() if computer is None else computer,
            secrets=[secret],
        )
        ring = cls(home / KEY_FILE, file)
        ring._save()
        return ring

    @classmethod
    def move(cls, home: Path, *, computer: str | None = None) -> Keyring:
        """The keys of a home that was moved here as a whole, and is nowhere else.

        Raises:
            TellwireError: `identity_copied`: there are none, or they cannot be read.
            OSError: the file cannot be written.
        """
        path = home / KEY_FILE
        try:
            file = msgspec.json.decode(read_bounded(path, KEY_FILE_BYTES_MAX), type=_KeyFile)
            ring = cls(path, file)
        except (OSError, msgspec.MsgspecError, CryptoError, ValueError, TypeError) as error:
            raise TellwireError("identity_copied", f"{path} cannot be read: {error}.") from None
        file.home = os.path.realpath(home)
        file.computer = computer_id() if computer is None else computer
        ring.rotate()
        return ring

    def retire(self) -> None:
        """Another identity takes this one's place: seal, open and write nothing any more."""
        self._is_retired = True
        self._sealing.clear()
        self._opening.clear()

    def _save(self) -> None:
        if self._is_retired:
            return
        write_atomically(self._path, msgspec.json.encode(self._file), mode=0o600, fsync=True)

    # -- what this machine says of itself -------------------------------------------------------------

    @property
    def newest(self) -> BoxKey:
        """The newest session key of this machine."""
        secret = self._file.secrets[-1]
        return BoxKey(secret.number, bindings.crypto_scalarmult_base(secret.secret))

    def sign(self, domain: bytes, body: bytes) -> bytes:
        """Sign a statement for one purpose."""
        signed = bindings.crypto_sign(domain + b"\0" + body, self._signer)
        return signed[:SIGNATURE_BYTES] + body

    def card(self, label: str, *, version: str = "", body_bytes_max: int = 64 * 1024) -> bytes:
        """The signed card of this machine, to pair with; `read_card` reads it.

        Raises:
            OSError: the key file cannot be written.
        """
        card = Card(
            sign_key=self.sign_key,
            label=label,
            boxes=[self.newest],
            version=version,
            body_bytes_max=body_bytes_max,
        )
        self._file.offered = self.newest.number
        self._save()
        return self.sign(CARD, msgspec.msgpack.encode(card))

    # -- secrets of carriers ---------------------------------------------------------------------------

    @property
    def carriers(self) -> dict[str, str]:
        """Addresses with their passwords, by the address that may be shown; the newest last."""
        return dict(self._file.carriers)

    def keep_carrier(self, shown: str, address: str) -> None:
        """Keep the address of a carrier here, because its password must not be in the journal.

        Raises:
            OSError: the key file cannot be written.
        """
        kept = {name: each for name, each in self._file.carriers.items() if name != shown}
        self._file.carriers = {**dict(list(kept.items())[-CARRIERS_MAX:]), shown: address}
        self._save()

    # -- other machines -------------------------------------------------------------------------------

    @property
    def machines(self) -> frozenset[str]:
        """The machines whose keys are pinned."""
        return frozenset(self._file.machines)

    def learn(self, machine: str, sign_key: bytes, boxes: Sequence[BoxKey]) -> None:
        """Exchange sealed blobs with a paired machine; what it announced since is kept.

        Raises:
            OSError: the key file cannot be written.
        """
        if self._is_retired:
            return
        known = self._file.machines.get(machine)
        if known is None or known.sign_key != sign_key:
            known = _Known(sign_key, [], 0)
        elif not boxes or boxes[-1].number <= known.boxes[-1].number:
            return
        known.boxes = [*known.boxes, *boxes][-BOXES_MAX:]
        kept = {each.number for each in self._file.secrets}
        known.proven = self._file.offered if self._file.offered in kept else self.newest.number
        self._file.machines[machine] = known
        self._derive(machine)
        self._save()

    def forget(self, machine: str) -> None:
        """Forget the keys of a machine: what it sends is noise from now on.

        Raises:
            OSError: the key file cannot be written; the keys are forgotten until the next start.
        """
        self._sealing.pop(machine, None)
        self._opening = {key: each for key, each in self._opening.items() if each.machine != machine}
        if self._file.machines.pop(machine, None) is not None:
            self._tidy()
            self._save()

    def rotate(self) -> None:
        """Make a new session key. It is announced to each machine, and used once that machine knows it.

        Raises:
            OSError: the key file cannot be written.
        """
        number = _next_number(self._file.secrets[-1].number)
        self._file.secrets.append(_Secret(number, os.urandom(32)))
        self._tidy()
        for machine in self._file.machines:
            self._derive(machine)
        self._save()

    def _tidy(self) -> None:
        """Delete session keys that no machine needs any more."""
        secrets = self._file.secrets
        needed = {known.proven for known in self._file.machines.values()}
        recent = {each.number for each in secrets[-1 - KEPT_SECRETS :]}
        self._file.secrets = [each for each in secrets if each.number in needed | recent]

    def _derive(self, machine: str) -> None:
        """Make the keys of one pair."""
        known = self._file.machines[machine]
        self._opening = {key: each for key, each in self._opening.items() if each.machine != machine}
        for secret in self._file.secrets:
            for box in known.boxes:
                out, back = self._pair_keys(machine, secret, box)
                self._opening[_key_id(back)] = _Opening(machine, back, secret.number)
                if box is known.boxes[-1] and secret.number == known.proven:
                    head = bytes([SUITE]) + _key_id(out)
                    self._sealing[machine] = _Sealing(head, out, self._announcement(known))

    def _pair_keys(self, machine: str, secret: _Secret, box: BoxKey) -> tuple[bytes, bytes]:
        """The keys for the two directions: ours, and theirs."""
        shared = bindings.crypto_scalarmult(secret.secret, box.key)
        ends = sorted([(self.id, secret.number), (machine, box.number)])
        words = b"".join(word.encode() for word, _ in ends)
        numbers = b"".join(_NUMBER.pack(number) for _, number in ends)
        keys = hashlib.blake2b(shared + words + numbers, digest_size=64, person=PAIR_PERSON).digest()
        low, high = keys[:32], keys[32:]
        return (low, high) if ends[0][0] == self.id else (high, low)

    def _announcement(self, known: _Known) -> bytes:
        """Our newest session key, signed; empty if the other machine knows it."""
        box = self.newest
        if box.number == known.proven:
            return b""
        signed = self.sign(BOX, _NUMBER.pack(box.number) + box.key)
        return _ANNOUNCEMENT.pack(box.number, box.key, signed[:SIGNATURE_BYTES])

    # -- blobs ----------------------------------------------------------------------------------------

    def seal(self, machine: str, plain: bytes) -> bytes:
        """A blob that only that machine can open.

        Raises:
            TellwireError: `not_paired`; or `limit_exceeded`: it is too large for a blob.
        """
        sealing = self._sealing.get(machine)
        if sealing is None:
            raise TellwireError("not_paired", f"This machine has no keys for {machine}.")
        kind = ANNOUNCING if sealing.announcement else PLAIN
        content = b"".join((_LENGTH.pack(len(plain)), bytes([kind]), sealing.announcement, plain))
        size = padded_size(len(content))
        if size + HEAD_BYTES + bindings.crypto_secretbox_MACBYTES > BLOB_BYTES_MAX:
            raise TellwireError("limit_exceeded", f"{len(plain)} bytes are too many for one blob.")
        nonce = os.urandom(NONCE_BYTES)
        sealed = bindings.crypto_secretbox(content.ljust(size, b"\0"), nonce, sealing.key)
        return sealing.head + nonce + sealed

    def open(self, blob: bytes) -> tuple[str, bytes] | None:
        """Who has sealed a blob for us, and what; None, and counted, if nobody has."""
        if not BLOB_BYTES_MIN <= len(blob) <= BLOB_BYTES_MAX:
            return self._refuse("size")
        if blob[0] != SUITE:
            return self._refuse("version")
        opening = self._opening.get(blob[1 : 1 + KEY_ID_BYTES])
        if opening is None:
            return self._refuse("key")
        try:
            content = bindings.crypto_secretbox_open(
                blob[HEAD_BYTES:], blob[1 + KEY_ID_BYTES : HEAD_BYTES], opening.key
            )
        except (CryptoError, ValueError, TypeError):
            return self._refuse("seal")
        size, kind = _LENGTH.unpack_from(content)[0], content[4]
        begin = 5 + (_ANNOUNCEMENT.size if kind == ANNOUNCING else 0)
        if kind not in (PLAIN, ANNOUNCING) or begin + size > len(content):
            return self._refuse("content")
        known = self._file.machines[opening.machine]
        if opening.own > known.proven:
            self._prove(known, opening.own)
        if kind == ANNOUNCING:
            self._take(opening.machine, known, content[5:begin])
        return opening.machine, content[begin : begin + size]

    def _refuse(self, reason: str) -> None:
        self.refused[reason] += 1

    def _prove(self, known: _Known, number: int) -> None:
        """The other machine has sealed to this session key of ours: use it, and let go of older ones."""
        known.proven = number
        self._tidy()
        for machine in self._file.machines:
            self._derive(machine)
        self._keep()

    def _take(self, machine: str, known: _Known, announcement: bytes) -> None:
        """Learn a newer session key of another machine. An older one is a blob that came late."""
        number, key, signature = _ANNOUNCEMENT.unpack(announcement)
        if number <= known.boxes[-1].number:
            return
        try:
            check_signed(known.sign_key, BOX, signature + _NUMBER.pack(number) + key)
            bindings.crypto_scalarmult(self._file.secrets[-1].secret, key)
        except (SealError, CryptoError):
            self._refuse("announcement")
            return
        known.boxes = [*known.boxes, BoxKey(number, key)][-BOXES_MAX:]
        self._derive(machine)
        self._keep()

    def _keep(self) -> None:
        try:
            self._save()
        except OSError as error:  # nothing is lost by it: the other machine is told again at the next start
            log.warning("cannot write %s: %s", self._path, error)


def _next_number(last: int) -> int:
    """The number of a new session key: higher than any before, also where an older key file was put back."""
    return max(last + 1, time.time_ns() // 1_000)


def _key_id(key: bytes) -> bytes:
    """Names a key, and neither of the machines that have it."""
    return hashlib.blake2b(key, digest_size=KEY_ID_BYTES, person=b"tellwire key 1").digest()
