"""How many bytes of each sender's messages are stored: derived in idle time, with the final receipts.

Rows `kept:AGENT` of `cursors` hold the sums up to the event in the row `kept`, which goes along with the
cursor of the receipts. If it does not (an earlier version wrote the file), they are counted anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec

from tellwire.core.record.space import kept_of
from tellwire.protocol.events import parse_batch

CURSOR = "kept"
OF = "kept:"


def prepare(db: sqlite3.Connection) -> None:
    """Have sums that are as far as the receipts."""
    (derived,) = db.execute("select seq from cursors where name = 'receipts'").fetchone()
    row = db.execute("select seq from cursors where name = ?", (CURSOR,)).fetchone()
    if row is not None and row[0] == derived:
        return
    rows = db.execute("select data from journal where seq <= ?", (derived,))
    try:
        sums = kept_of(parse_batch(data) for (data,) in rows)
    except (msgspec.DecodeError, TypeError):  # damaged, or of a newer version: reading it back tells
        return
    db.execute("begin immediate")
    try:
        db.execute("delete from cursors where name glob ?", (f"{OF}*",))
        add(db, sums)
        advance(db, derived)
        db.execute("commit")
    except BaseException:
        db.execute("rollback")
        raise


def load(db: sqlite3.Connection) -> dict[str, int]:
    """The sums, by the id of the sender."""
    rows = db.execute("select name, seq from cursors where name glob ?", (f"{OF}*",))
    return {name.removeprefix(OF): size for name, size in rows}


def add(db: sqlite3.Connection, sums: Mapping[str, int]) -> None:
    """Add to the stored bytes of senders."""
    db.executemany(
        "insert into cursors values (?,?) on conflict do update set seq = seq + excluded.seq",
        [(f"{OF}{sender}", size) for sender, size in sums.items()],
    )


def subtract(db: sqlite3.Connection, sums: Mapping[str, int]) -> None:
    """Subtract deleted bytes from the sums of senders."""
    add(db, {sender: -size for sender, size in sums.items()})
    db.execute("delete from cursors where name glob ? and seq <= 0", (f"{OF}*",))


def advance(db: sqlite3.Connection, seq: int) -> None:
    """Record up to which event the sums are complete."""
    db.execute("insert or replace into cursors values (?,?)", (CURSOR, seq))
