"""Proving the journal: a reader of the database file that trusts nothing in it.

It reads the file on a connection of its own, in one view, whether a broker runs or not. From the anchor on,
every commit is hashed again, every message is held against its event and its digest, and the chain against
the head file and a hash that the caller kept. Who can write the file can write a whole new chain; only a hash
kept elsewhere tells that. Derived tables and snapshots prove nothing and are not looked into.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from tellwire.core.mail.drafts import digest_of
from tellwire.core.record.audit import format_row
from tellwire.core.record.stored import Commit, Entry, StoredMessage, entries_of
from tellwire.core.state import parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentRegistered, AgentUpdated, MessageQueued
from tellwire.protocol.ids import format_id
from tellwire.store.chain import Head, load_head, next_hash
from tellwire.store.database import explained
from tellwire.store.losses import find_losses

FINDINGS_MAX = 100
"""Findings that are listed; further ones are only counted."""
ACKNOWLEDGE = "Run `tellwire audit --acknowledge` at a terminal to confirm that you know."
HASH_DIGITS_MIN = 16
"""Of a hash given by its beginning."""

Progress = Callable[[int, int], None]


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it was written."""

    seq: int
    kind: str
    """`tampered`, `cut`, `inserted`, `body`, `missing`, `head` or `lost`: found at an earlier start."""
    text: str


class AuditResult(msgspec.Struct, kw_only=True):
    """What a verification found, and how far it got."""

    commits: int = 0
    events: int = 0
    messages: int = 0
    begins: int = 0
    """The journal begins after this event; everything before was deleted."""
    seq: int = 0
    """Of the newest commit."""
    head: str = ""
    """The hash of the newest commit, in hex."""
    findings: list[Finding] = []
    unnamed: int = 0
    """Findings beyond those listed."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.findings

    def add(self, seq: int, kind: str, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(seq, kind, text))
        else:
            self.unnamed += 1


def verify(path: Path, head: str | None = None, progress: Progress | None = None) -> AuditResult:
    """Prove the whole journal, against `head` too if it is given: the hash of any commit, kept earlier.

    Raises:
        TellwireError: the file cannot be read, or `bad_request`: `head` is not a hash.
    """
    wanted = _parse_hash(head)
    # Read first: the file may lag behind the journal, never lead.
    saved, unreadable = _load_head(path)
    with _reading(path) as db:
        check = _Check(db, wanted, saved)
        if unreadable:
            check.verdict.add(0, "head", unreadable)
        check.run(progress or (lambda _done, _total: None))
    for loss in find_losses(path):
        check.verdict.add(max(0, loss.seq), "lost", f"{loss.words()} {ACKNOWLEDGE}")
    return check.verdict


class _Check:
    """One pass over the journal, with the messages that belong to it."""

    def __init__(self, db: sqlite3.Connection, wanted: str | None, saved: Head | None) -> None:
        self.db = db
        self.wanted = wanted
        self.saved = saved
        self.verdict = AuditResult()
        self.found = wanted is None
        self.saved_hash: str | None = None
        self.passed = ""
        """The hash passed last, in hex."""

    def run(self, progress: Progress) -> None:
        """Walk over all commits from the anchor on; findings are added to the verdict."""
        verdict = self.verdict
        anchors = self.db.execute("select seq, hash from anchor").fetchall()
        if len(anchors) != 1:
            verdict.add(0, "tampered", f"The journal has {len(anchors)} starting points instead of one.")
            return
        seq, digest = anchors[0]
        (total,) = self.db.execute("select count(*) from journal").fetchone()
        verdict.begins = seq
        self._pass(seq, digest)
        messages = _MessageRows(self.db)
        for row in self.db.execute("select seq, at, awake, data, hash from journal order by seq"):
            self._commit(seq, digest, row, messages)
            seq, digest = row[0], row[4]
            verdict.commits += 1
            if verdict.commits % 1_000 == 0:
                progress(verdict.commits, total)
        self._strangers(messages.rest())
        verdict.seq, verdict.head = seq, self.passed
        self._heads()
        progress(verdict.commits, total)

    def _commit(self, seq: int, digest: bytes, row: tuple[Any, ...], messages: _MessageRows) -> None:
        """Compare a commit with its hash and its place, and its messages with its events."""
        verdict = self.verdict
        last, at, awake, data, stored = row
        try:
            entries = entries_of(last, at, data)
            expected = next_hash(digest, Commit(last, at, awake, data, []))
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError, struct.error):
            entries, expected = [], None
        first = entries[0].seq if entries else last
        if expected is None:
            verdict.add(last, "tampered", f"The commit at {last} cannot be read.")
        elif expected != stored:
            verdict.add(last, *_explain_break(seq, first, last))
        elif first != seq + 1:
            verdict.add(
                last, "tampered", f"The commit at {last} does not follow the one before it, at {seq}."
            )
        self._pass(last, stored)
        verdict.events += len(entries)
        queued = [entry for entry in entries if isinstance(entry.event, MessageQueued)]
        self._strangers(messages.up_to(first - 1))
        self._messages(queued, messages, last)

    def _messages(self, queued: list[Entry], messages: _MessageRows, last: int) -> None:
        """Compare the stored messages of a commit with the events that queued them."""
        verdict = self.verdict
        stored = {message.seq: message for message in messages.rows_up_to(last)}
        for entry in queued:
            name = format_id("m", entry.seq)
            message = stored.pop(entry.seq, None)
            event = entry.event
            if message is None or not isinstance(event, MessageQueued):
                verdict.add(
                    entry.seq, "missing", f"Message {name} is in the journal, but its text is missing."
                )
                continue
            verdict.messages += 1
            # `digest_of` covers address and body; the row as a whole must say what the event says.
            if digest_of(message.to, message.body) != event.digest:
                verdict.add(entry.seq, "body", f"The text of message {name} is not the one that was sent.")
            elif message != StoredMessage.of(entry.seq, entry.at, event, message.body):
                verdict.add(entry.seq, "tampered", f"Message {name} differs from what the journal says.")
        self._strangers(stored)

    def _strangers(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = format_id("m", seq) if seq > 0 else str(seq)
            self.verdict.add(seq, "inserted", f"Message {name} has no event in the journal.")

    def _pass(self, seq: int, digest: Any) -> None:
        """Note a hash of the chain on the way."""
        text = digest.hex() if isinstance(digest, bytes) else ""
        self.passed = text
        if self.wanted is not None and text.startswith(self.wanted):
            self.found = True
        if self.saved is not None and self.saved.seq == seq:
            self.saved_hash = text

    def _heads(self) -> None:
        """Compare the chain with the hashes that are stored elsewhere."""
        verdict, saved = self.verdict, self.saved
        if saved is not None and saved.seq > verdict.seq:
            verdict.add(
                verdict.seq, "cut", f"The journal ends at {verdict.seq}; it used to end at {saved.seq}."
            )
        elif saved is not None and saved.seq >= verdict.begins and self.saved_hash != saved.hash:
            verdict.add(
                saved.seq, "head", f"The commit at {saved.seq} is not the one that the head file names."
            )
        newest = self.db.execute("select max(seq) from snapshots").fetchone()[0]
        if newest is not None and newest > verdict.seq:
            verdict.add(verdict.seq, "cut", f"There is a snapshot at {newest}, past the end of the journal.")
        if not self.found:
            kept = f" History before {verdict.begins} was deleted; a hash from there cannot be found." * bool(
                verdict.begins
            )
            verdict.add(
                verdict.seq,
                "head",
                f"The given hash matches no commit: the journal was cut or rewritten.{kept}",
            )


def _explain_break(seq: int, first: int, last: int) -> tuple[str, str]:
    """Why a commit's hash does not follow from the one before, as far as its place tells."""
    if first > seq + 1:
        return "cut", f"The commits between {seq} and {first} are missing."
    if first <= seq:
        return "inserted", f"The commit at {last} overlaps others: it was inserted, or is out of order."
    return "tampered", f"The commit at {last} was changed, or is out of order."


class _MessageRows:
    """The messages in the order of the journal, read as the walk goes on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._rows: Iterator[StoredMessage] = (
            StoredMessage(*row) for row in db.cursor().execute("select * from messages order by seq")
        )
        self._ahead = next(self._rows, None)

    def rows_up_to(self, last: int) -> Iterator[StoredMessage]:
        """The next messages, none beyond `last`."""
        while self._ahead is not None and self._ahead.seq <= last:
            message, self._ahead = self._ahead, next(self._rows, None)
            yield message

    def up_to(self, last: int) -> list[int]:
        """The sequences of the next messages, none beyond `last`."""
        return [message.seq for message in self.rows_up_to(last)]

    def rest(self) -> list[int]:
        """The sequences of all that are left, but not without bound."""
        return self.up_to(1 << 62)


# -- the export -----------------------------------------------------------------------------------------


def export(path: Path, out: IO[str]) -> int:
    """Write every event as one line of JSON; the last one of a commit carries its hash. How many there were.

    Raises:
        TellwireError: the file cannot be read.
    """
    count = 0
    with _reading(path) as db:
        names = _names(db)
        for seq, at, data, digest in db.execute("select seq, at, data, hash from journal order by seq"):
            entries = entries_of(seq, at, data)
            for entry in entries:
                _learn(names, entry)
                row = msgspec.to_builtins(format_row(entry, lambda agent: names.get(agent, agent)))
                if entry.seq == seq:
                    row["hash"] = digest.hex()
                out.write(msgspec.json.encode(row).decode() + "\n")
                count += 1
    return count


def _names(db: sqlite3.Connection) -> dict[str, str]:
    """The agents as the newest snapshot knows them: for those who joined before the journal begins."""
    row = db.execute("select data from snapshots order by seq desc limit 1").fetchone()
    try:
        return (
            {} if row is None else {agent.id: agent.name for agent in parse_snapshot(row[0]).agents.values()}
        )
    except msgspec.DecodeError:
        return {}


def _learn(names: dict[str, str], entry: Entry) -> None:
    event = entry.event
    if isinstance(event, AgentRegistered):
        names[format_id("a", entry.seq)] = event.name
    elif isinstance(event, AgentUpdated) and event.name is not None:
        names[event.agent] = event.name


# -- reading ----------------------------------------------------------------------------------------------


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    """The file as it is at this moment, and nothing can be written through it."""
    if not path.exists():
        raise TellwireError(
            "database_corrupt", f"There is no database {path}.", "Set TELLWIRE_HOME to the right folder."
        )
    with explained(path):
        db = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5.0
        )
        try:
            db.execute("begin")
            yield db
        finally:
            db.close()


def _parse_hash(text: str | None) -> str | None:
    if text is None:
        return None
    digits = text.strip().lower()
    # All zeros is where every chain begins: it would prove nothing.
    known = set(digits) <= set("0123456789abcdef") and set(digits) != {"0"}
    if not HASH_DIGITS_MIN <= len(digits) <= 64 or not known:
        raise TellwireError(
            "bad_request", "--head is not a hash.", f"Give {HASH_DIGITS_MIN} to 64 hexadecimal digits."
        )
    return digits


def _load_head(path: Path) -> tuple[Head | None, str]:
    try:
        return load_head(path), ""
    except TellwireError as error:
        return None, error.message
