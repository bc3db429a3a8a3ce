"""The journal's twin without a disk: the same promises for tests and simulations, and a tap for faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from tellwire.core.record.final_receipts import finals_of, settle
from tellwire.core.record.space import kept_of
from tellwire.core.record.stored import (
    Commit,
    Entry,
    FinalState,
    Header,
    MessagePage,
    Pruned,
    Query,
    StoredMessage,
    Talk,
    Talks,
    entries_of,
)
from tellwire.core.record.terms import matches, searched_text
from tellwire.protocol.addresses import conversation_of
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import parse_batch
from tellwire.store.chain import ORIGIN, next_hash


class MemoryJournal:
    """Keeps everything in lists; survives as long as the object does."""

    def __init__(self, *, fault: Callable[[], None] | None = None) -> None:
        self.commits: list[Commit] = []
        self._messages: dict[int, StoredMessage] = {}
        self._snapshots: list[tuple[int, bytes]] = []
        self._receipts: dict[int, dict[str, FinalState]] = {}
        self._derived = 0
        self._anchor = 0
        self._hash = ORIGIN
        self._fault = fault or (lambda: None)

    def commit(self, commit: Commit) -> None:
        """Save one tick; the fault, if any, is raised before anything is saved."""
        self._fault()
        self._hash = next_hash(self._hash, commit)
        self.commits.append(commit._replace(messages=[]))
        self._messages.update({message.seq: message for message in commit.messages})

    def check(self) -> None: ...

    def probe(self) -> None:
        self._fault()

    def save_snapshot(self, seq: int, data: bytes, keep: int = 2) -> None:
        others = [snapshot for snapshot in self._snapshots if snapshot[0] != seq]
        self._snapshots = sorted([(seq, data), *others], reverse=True)[:keep]

    def snapshots(self) -> list[tuple[int, bytes]]:
        return list(self._snapshots)

    def replay(self, after: int) -> Iterator[Commit]:
        known = {self._anchor, *(commit.seq for commit in self.commits), *(seq for seq, _ in self._snapshots)}
        if after not in known:
            raise TellwireError("database_corrupt", f"The journal does not reach back to {after}.")
        return iter([commit for commit in self.commits if commit.seq > after])

    def header(self, seq: int) -> Header | None:
        """A stored message without its text."""
        message = self._messages.get(seq)
        return None if message is None else message.header()

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        return [self._messages[seq] for seq in sorted(seqs) if seq in self._messages]

    def settled(self, seq: int) -> dict[str, FinalState]:
        tail = finals_of(self.replay(self._derived))
        return settle(dict(self._receipts.get(seq, {})), tail, seq)

    def receipts(self, seqs: Sequence[int]) -> dict[int, dict[str, FinalState]]:
        """The final receipts of several messages."""
        return {seq: self.settled(seq) for seq in seqs}

    def find(self, query: Query) -> MessagePage:
        """A page of messages, newest first, by looking at all of them."""
        page: list[StoredMessage] = []
        room = query.bytes_max
        for seq in sorted(self._messages, reverse=not query.after):
            message = self._messages[seq]
            if not _is_asked_for(message, query):
                continue
            if page and (len(page) >= query.limit or len(message.body) > room):
                return MessagePage(page, page[-1].seq)
            page.append(message)
            room -= len(message.body)
        return MessagePage(page)

    def talks(self, before: int, limit: int) -> Talks:
        """Conversations by their last words, newest first."""
        found: dict[str, Talk] = {}
        for seq, message in sorted(self._messages.items()):
            key = conversation_of(message.sender, message.recipients.split(), message.to)
            found[key] = Talk(key, seq, found[key].messages + 1 if key in found else 1)
        older = sorted(
            (talk for talk in found.values() if not before or talk.last < before), key=lambda talk: -talk.last
        )
        return Talks(older[:limit], more=len(older) > limit)

    def indexed(self) -> int:
        """Nothing is indexed, nothing has to be."""
        return self.head()[0]

    def index(self) -> bool:
        return False

    def entries(self, after: int, before: int, limit: int) -> list[Entry]:
        """Events in order: the first behind `after` if it is above 0, else the last ones before `before`."""
        found = [
            entry
            for commit in self.commits
            for entry in entries_of(commit.seq, commit.at, commit.data)
            if entry.seq > after and (not before or entry.seq < before)
        ]
        return found[:limit] if after else found[-limit:]

    def oldest(self) -> tuple[int, float] | None:
        """Sequence and time of the first commit that is kept."""
        return (self.commits[0].seq, self.commits[0].at) if self.commits else None

    def head(self) -> tuple[int, bytes]:
        return (self.commits[-1].seq if self.commits else self._anchor), self._hash

    def save_head(self) -> None: ...

    def derived(self) -> int:
        """Up to which event final receipts are filled."""
        return self._derived

    def derive(self, commits_max: int) -> bool:
        """Fill them from a few more commits; True if more are left."""
        commits = list(self.replay(self._derived))[:commits_max]
        if not commits:
            return False
        rows = finals_of(commits)
        for message in {row.message for row in rows}:
            settle(self._receipts.setdefault(message, {}), rows, message)
        self._derived = commits[-1].seq
        return self._derived < self.commits[-1].seq

    def kept(self) -> dict[str, int]:
        """Bytes of the messages that are stored, by sender."""
        return kept_of(parse_batch(commit.data) for commit in self.commits)

    def prune(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete what is old on the awake clock, a few commits at a time."""
        return self._let_go(lambda commit: commit.awake < before, open_from, rows_max)

    def purge(self, before: float, open_from: int, rows_max: int) -> Pruned:
        """Delete what is old by the wall clock, a few commits at a time."""
        return self._let_go(lambda commit: commit.at < before, open_from, rows_max)

    def _let_go(self, is_old: Callable[[Commit], bool], open_from: int, rows_max: int) -> Pruned:
        oldest_snapshot = min((seq for seq, _ in self._snapshots), default=0)
        reach = min(oldest_snapshot, self._derived, open_from - 1)
        old = list(takewhile(lambda commit: commit.seq <= reach and is_old(commit), self.commits))[:rows_max]
        if not old:
            return Pruned()
        count = len(self._messages)
        last = self._anchor = old[-1].seq
        self.commits = [commit for commit in self.commits if commit.seq > last]
        self._messages = {seq: message for seq, message in self._messages.items() if seq > last}
        self._receipts = {seq: known for seq, known in self._receipts.items() if seq > last}
        freed = kept_of(parse_batch(commit.data) for commit in old)
        return Pruned(len(old), count - len(self._messages), more=True, freed=freed)

    def close(self) -> None: ...


def _is_asked_for(message: StoredMessage, query: Query) -> bool:
    return (
        not (query.before and message.seq >= query.before)
        and message.seq > query.after
        and not (query.since > 0 and message.at < query.since)
        and not (query.until > 0 and message.at > query.until)
        and (query.re is None or message.re == query.re)
        and query.concerns(message.sender, message.recipients.split(" "), message.to)
        and matches(query.terms, searched_text(message.body, is_json=bool(message.json)))
    )
