"""Who talks with whom, how much and until when: derived in idle time behind the cursor `talks`.

Two rows of `cursors` for each conversation: `last:KEY` holds its last message, `said:KEY` how many there are.
What lies above the cursor is counted when somebody asks. All of it can be thrown away and is made again, also
for a file of an earlier version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from tellwire.core.record.stored import Talk, Talks
from tellwire.protocol.addresses import conversation_of

CURSOR = "talks"
LAST, LAST_END, COUNT = "last:", "last;", "said:"
SLICE_ROWS = 2_000
"""Messages that one slice counts: a few milliseconds."""
TAIL_ROWS_MAX = 2_000
"""Messages above the cursor that a question counts."""


def prepare(db: sqlite3.Connection) -> None:
    """Have the cursor, also in a file of an earlier version."""
    db.execute("insert or ignore into cursors values (?, 0)", (CURSOR,))


def index(db: sqlite3.Connection) -> bool:
    """Count a few more messages, within a transaction; True if more may be left."""
    rows = db.execute(
        'select seq, sender, recipients, "to" from messages where seq > ? order by seq limit ?',
        (_cursor(db), SLICE_ROWS),
    ).fetchall()
    if not rows:
        return False
    for talk in _counted(rows).values():
        db.execute("insert or replace into cursors values (?,?)", (LAST + talk.key, talk.last))
        db.execute(
            "insert into cursors values (?,?) on conflict (name) do update set seq = seq + excluded.seq",
            (COUNT + talk.key, talk.messages),
        )
    db.execute("update cursors set seq = ? where name = ?", (rows[-1][0], CURSOR))
    return True


def forget(db: sqlite3.Connection, last: int) -> None:
    """Messages up to `last` are about to be deleted, within a transaction."""
    rows = db.execute(
        'select seq, sender, recipients, "to" from messages where seq <= ?', (min(last, _cursor(db)),)
    )
    for talk in _counted(rows).values():
        names = (COUNT + talk.key, LAST + talk.key)
        db.execute("update cursors set seq = seq - ? where name = ?", (talk.messages, names[0]))
        (left,) = db.execute("select seq from cursors where name = ?", names[:1]).fetchone()
        if left <= 0:
            db.execute("delete from cursors where name in (?, ?)", names)


def listed(db: sqlite3.Connection, before: int, limit: int) -> Talks:
    """Those whose last message lies below `before`, or all if it is 0; newest first."""
    before = before or 1 << 62
    rows = db.execute(
        'select seq, sender, recipients, "to" from messages where seq > ? order by seq desc limit ?',
        (_cursor(db), TAIL_ROWS_MAX + 1),
    ).fetchall()
    tail = _counted(rows[:TAIL_ROWS_MAX])
    found = [talk for talk in _known(db, before, limit + len(tail) + 1) if talk.key not in tail]
    found += [talk for talk in tail.values() if talk.last < before]
    found.sort(key=lambda talk: -talk.last)
    page = [_whole(db, talk) for talk in found[:limit]]
    return Talks(page, more=len(found) > limit, partial=len(rows) > TAIL_ROWS_MAX)


def _known(db: sqlite3.Connection, before: int, limit: int) -> list[Talk]:
    rows = db.execute(
        f"select name, seq from cursors where name >= '{LAST}' and name < '{LAST_END}' and seq < ?"
        " order by seq desc limit ?",
        (before, limit),
    )
    return [Talk(name.removeprefix(LAST), last, 0) for name, last in rows]


def _whole(db: sqlite3.Connection, talk: Talk) -> Talk:
    """With the messages that are counted already."""
    row = db.execute("select seq from cursors where name = ?", (COUNT + talk.key,)).fetchone()
    return talk if row is None else talk._replace(messages=talk.messages + row[0])


def _counted(rows: Iterable[tuple[int, str, str, str]]) -> dict[str, Talk]:
    found: dict[str, Talk] = {}
    for seq, sender, recipients, to in rows:
        key = conversation_of(sender, recipients.split(), to)
        known = found.get(key)
        last, messages = (seq, 1) if known is None else (max(seq, known.last), known.messages + 1)
        found[key] = Talk(key, last, messages)
    return found


def _cursor(db: sqlite3.Connection) -> int:
    (seq,) = db.execute("select seq from cursors where name = ?", (CURSOR,)).fetchone()
    return seq
