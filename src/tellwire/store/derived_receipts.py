"""Final receipts: from a table that is filled from the journal in idle time, then from the journal's tail.

The sums of stored bytes (`kept`) are derived along with it, up to the same event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tellwire.core.record.final_receipts import FinalReceipt, final_receipts, finals_of, settle
from tellwire.core.record.space import kept_of
from tellwire.core.record.stored import Commit, FinalState
from tellwire.protocol.events import parse_batch
from tellwire.store import kept
from tellwire.store.database import Database, explained


class DerivedReceipts:
    """Answers from the table, then from the commits behind its cursor."""

    def __init__(self, database: Database, replay: Callable[[int], Iterator[Commit]]) -> None:
        self._database = database
        self._db = database.connection
        self._replay = replay
        self._tail: dict[int, list[FinalReceipt]] = {}
        """Final receipts behind the table's cursor, filled when somebody asks."""
        self._tail_seq = 0

    def settled(self, seq: int) -> dict[str, FinalState]:
        with explained(self._database.path):
            found = self._db.execute(
                "select recipient, state, evidence, at from receipts where message = ?", (seq,)
            )
            known = {recipient: FinalState(state, evidence, at) for recipient, state, evidence, at in found}
            self._read_tail()
        return settle(known, self._tail.get(seq, []), seq)

    def settled_all(self, seqs: Sequence[int]) -> dict[int, dict[str, FinalState]]:
        known: dict[int, dict[str, FinalState]] = {seq: {} for seq in seqs}
        with explained(self._database.path):
            marks = ",".join("?" * len(seqs))
            for message, recipient, *rest in self._db.execute(
                f"select message, recipient, state, evidence, at from receipts where message in ({marks})",
                seqs,
            ):
                known[message][recipient] = FinalState(*rest)
            self._read_tail()
        return {seq: settle(found, self._tail.get(seq, []), seq) for seq, found in known.items()}

    def _read_tail(self) -> None:
        """Read the commits that the table lacks; those seen before are not read again."""
        self._tail_seq = max(self._tail_seq, self.derived())
        for commit in self._replay(self._tail_seq):
            for row in finals_of([commit]):
                self._tail.setdefault(row.message, []).append(row)
            self._tail_seq = commit.seq

    def derived(self) -> int:
        """Up to which event the table is filled."""
        (seq,) = self._db.execute("select seq from cursors where name = 'receipts'").fetchone()
        return seq

    def derive(self, commits_max: int, last: int) -> bool:
        """Fill the table from a few more commits; True if some are left up to `last`."""
        with explained(self._database.path):
            rows = self._db.execute(
                "select seq, at, awake, data from journal where seq > ? order by seq limit ?",
                (self.derived(), commits_max),
            )
            commits = [Commit(seq, at, awake, data, []) for seq, at, awake, data in rows]
        if not commits:
            return False
        batches = [parse_batch(commit.data) for commit in commits]
        finals = [
            row
            for commit, batch in zip(commits, batches, strict=True)
            for row in final_receipts(batch, commit.at)
        ]
        with self._database.transaction() as db:
            kept.add(db, kept_of(batches))
            db.executemany(
                "insert into receipts values (?,?,?,?,?) on conflict do update set state = excluded.state,"
                " at = excluded.at, evidence = iif(excluded.evidence = '', evidence, excluded.evidence)",
                finals,
            )
            db.execute("update cursors set seq = ? where name = 'receipts'", (commits[-1].seq,))
            kept.advance(db, commits[-1].seq)
        if commits[-1].seq >= self._tail_seq:
            self._tail.clear()
        return commits[-1].seq < last
