"""Finding messages: by words, by agent, by time; newest first, in bounded steps.

Two tables are derived in idle time behind one cursor, `search`: `messages_fts`, the words of the bodies, and
`parties`, who a message concerns and what it answers. What lies above the cursor is scanned. A second cursor,
`unindexed`, tells up to where the rows have been taken out again because their messages are about to go.
Cursors that begin with `step:` tell where the clock had been set back: between two of them times only grow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import inf
from time import monotonic

from tellwire.core.record.stored import MessagePage, Query, StoredMessage
from tellwire.core.record.terms import Term, matches, searched_text, words_of
from tellwire.protocol.addresses import LINK, link_of

SLICE_BYTES = 60_000
"""Of bodies: about 4 ms."""
SLICE_ROWS = 200
SLICE_PARTIES = 2_000
MERGE_PAGES = 16
"""Of the index, tidied up with each slice; left to FTS5 it would come in lumps of 40 ms."""
FIND_S = 0.005
"""How long a search without results may run before it returns where it stopped. The sizes of its steps:"""
TAIL_SEQS_MAX = 2_000
"""Places in the journal above the cursor."""
SEARCH_SEQS_MAX = 500_000
"""Places in the journal within the index; not for the beginning of a word, which costs alike in any part."""
LOOKED_AT_MAX = 2_000
"""Index rows held against the filters."""
STEP = "step:"
IS_STEP = "name >= 'step:' and name < 'step;'"
RE = "re:"
"""Before the id of a message, in `parties`: its answers."""
ANSWERS = "answers"
"""The cursor up to which answers are in `parties`: a file of an earlier version has none there at first."""
SLICE_ANSWERS = 5_000


# -- filling ------------------------------------------------------------------------------------------


def indexed(db: sqlite3.Connection) -> int:
    """Up to which event the tables are filled."""
    return _cursor(db, "search")


def index(db: sqlite3.Connection) -> bool:
    """Fill the tables a little further, within a transaction; True if more is left."""
    done = indexed(db)
    if _cursor(db, ANSWERS) < done:
        _index_answers(db, done)
        return True
    rows = _slice(db, done, None)
    if not rows:
        return False
    db.executemany("insert into messages_fts (rowid, body) values (?,?)", _words(rows))
    db.executemany("insert or ignore into parties values (?,?)", _parties(rows))
    _merge(db)
    _set_cursor(db, "search", rows[-1].seq)
    _set_cursor(db, ANSWERS, rows[-1].seq)
    return True


def prepare(db: sqlite3.Connection) -> None:
    """Have the cursor of answers, also in a file of an earlier version."""
    db.execute("insert or ignore into cursors values (?, 0)", (ANSWERS,))


def _index_answers(db: sqlite3.Connection, last: int) -> None:
    """What an earlier version indexed without its answers."""
    rows = db.execute(
        "select seq, re from messages where seq > ? and seq <= ? order by seq limit ?",
        (_cursor(db, ANSWERS), last, SLICE_ANSWERS),
    ).fetchall()
    db.executemany(
        "insert or ignore into parties values (?,?)", [(f"{RE}{re}", seq) for seq, re in rows if re]
    )
    _set_cursor(db, ANSWERS, rows[-1][0] if len(rows) == SLICE_ANSWERS else last)


def unindex(db: sqlite3.Connection, last: int) -> bool:
    """Take the rows of messages up to `last` out again, within a transaction; True if more is left."""
    last = min(last, indexed(db))
    rows = _slice(db, _cursor(db, "unindexed"), last)
    if not rows:
        return False
    db.executemany("insert into messages_fts (messages_fts, rowid, body) values ('delete',?,?)", _words(rows))
    db.executemany("delete from parties where agent = ? and seq = ?", _parties(rows))
    _merge(db)
    _set_cursor(db, "unindexed", rows[-1].seq)
    return True


def _merge(db: sqlite3.Connection) -> None:
    db.execute("insert into messages_fts (messages_fts, rank) values ('merge', ?)", (MERGE_PAGES,))


def _slice(db: sqlite3.Connection, after: int, last: int | None) -> list[StoredMessage]:
    found = db.execute(
        "select * from messages where seq > ? and seq <= ? order by seq limit ?",
        (after, 1 << 62 if last is None else last, SLICE_ROWS),
    )
    rows: list[StoredMessage] = []
    size = parties = 0
    for row in found:
        message = StoredMessage(*row)
        rows.append(message)
        size += len(message.body)
        parties += message.recipients.count(" ") + 2
        if size >= SLICE_BYTES or parties >= SLICE_PARTIES:
            break
    return rows


def _words(rows: Iterable[StoredMessage]) -> list[tuple[int, str]]:
    return [(row.seq, " ".join(words_of(searched_text(row.body, is_json=bool(row.json))))) for row in rows]


def _parties(rows: Iterable[StoredMessage]) -> list[tuple[str, int]]:
    """Who a message concerns: agents by id, its link by its address, and the message that it answers."""
    return [
        (party, row.seq)
        for row in rows
        for party in {row.sender, *row.recipients.split(" "), *_link(row.to), *_answered(row.re)}
    ]


def _link(to: str) -> list[str]:
    link = link_of(to)
    return [f"{LINK}{link}"] if link else []


def _answered(re: str) -> list[str]:
    return [f"{RE}{re}"] if re else []


def _cursor(db: sqlite3.Connection, name: str) -> int:
    (seq,) = db.execute("select seq from cursors where name = ?", (name,)).fetchone()
    return seq


def _set_cursor(db: sqlite3.Connection, name: str, seq: int) -> None:
    db.execute("update cursors set seq = ? where name = ?", (seq, name))


# -- finding ------------------------------------------------------------------------------------------


class _Page:
    """What has been found so far, and where to go on."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.messages: list[StoredMessage] = []
        self.room = query.bytes_max
        self.next = 0

    def take(self, row: tuple[object, ...]) -> bool:
        """Add a row if it is asked for; True once there is no room for more."""
        message = StoredMessage(*row)  # pyright: ignore[reportArgumentType]  # a row of `messages`
        query = self.query
        if not query.concerns(message.sender, message.recipients.split(" "), message.to):
            return False
        if query.re is not None and message.re != query.re:
            return False
        if message.at < query.since or 0 < query.until < message.at:
            return False
        size = len(message.body)
        if self.messages and (len(self.messages) >= self.query.limit or size > self.room):
            self.next = self.messages[-1].seq
            return True
        self.messages.append(message)
        self.room -= size
        return False


def find(db: sqlite3.Connection, query: Query) -> MessagePage:
    """One page, newest first. It may be empty and still tell where to go on: each question is bounded."""
    until = monotonic() + FIND_S
    found = _step(db, query)
    while found.next and not found.messages and monotonic() < until:
        place = {"after" if query.after else "before": found.next}
        found = _step(db, query._replace(**place))
    return found


def _step_forwards(db: sqlite3.Connection, query: Query) -> MessagePage:
    """A bounded number of places in the journal, the oldest first; the index of words is not needed."""
    page = _Page(query)
    low, high = _range(db, query)
    low = max(low, query.after + 1)
    party = query.agent if query.link is None else f"{LINK}{query.link}"
    if party is not None and query.re is None and low <= (border := indexed(db)):
        first = db.execute(
            "select seq from parties where agent = ? and seq >= ? order by seq limit 1", (party, low)
        ).fetchone()
        low = max(low, border + 1 if first is None else first[0])
    last = min(high, low + TAIL_SEQS_MAX - 1)
    condition, words = _may_match(query.terms)
    rows = db.execute(
        f"select * from messages where seq between ? and ?{condition} order by seq", (low, last, *words)
    )
    for row in rows:
        if query.terms and not matches(query.terms, searched_text(row[-1], is_json=bool(row[9]))):
            continue
        if page.take(row):
            return MessagePage(page.messages, page.next)
    return MessagePage(page.messages, last if last < high else 0)


def _step(db: sqlite3.Connection, query: Query) -> MessagePage:
    """One bounded step of a query: first what is not indexed yet, then the index."""
    if query.after:
        return _step_forwards(db, query)
    page = _Page(query)
    low, high = _range(db, query)
    border = indexed(db) if query.re is None else min(indexed(db), _cursor(db, ANSWERS))
    plain = query.agent is None and query.link is None and query.re is None and not query.terms
    if high > border and not plain:
        floor = max(low, border + 1, high - TAIL_SEQS_MAX + 1)
        if _scan_tail(db, page, floor, high):
            return MessagePage(page.messages, page.next)
        if floor > max(low, border + 1):
            return MessagePage(page.messages, floor)
        high = border
    if low <= high:
        if plain:
            _read_all(db, page, low, high)
        elif query.terms:
            _search(db, page, low, high)
        else:
            _read_parties(db, page, low, high)
    return MessagePage(page.messages, page.next)


def _scan_tail(db: sqlite3.Connection, page: _Page, low: int, high: int) -> bool:
    terms = page.query.terms
    condition, words = _may_match(terms)
    rows = db.execute(
        f"select * from messages where seq between ? and ?{condition} order by seq desc", (low, high, *words)
    )
    for row in rows:
        if terms and not matches(terms, searched_text(row[-1], is_json=bool(row[9]))):
            continue
        if page.take(row):
            return True
    return False


def _may_match(terms: tuple[Term, ...]) -> tuple[str, list[str]]:
    """A cheap condition that every matching row fulfils: plain text contains the word unchanged.

    Text with other than ASCII characters, or with a NUL, which ends `like`, is always looked at: SQLite
    counts fewer characters in it than bytes.
    """
    words = [f"%{word}%" for term in terms for word in term.words if word.isascii()]
    if not words:
        return "", []
    likes = " and ".join(["body like ?"] * len(words))
    return f" and (({likes}) or length(body) <> length(cast(body as blob)))", words


def _read_all(db: sqlite3.Connection, page: _Page, low: int, high: int) -> None:
    query = page.query
    for row in db.execute(
        "select * from messages where seq between ? and ? and at >= ? and at <= ? order by seq desc limit ?",
        (low, high, query.since, query.until if query.until > 0 else inf, query.limit + 1),
    ):
        if page.take(row):
            return


def _read_parties(db: sqlite3.Connection, page: _Page, low: int, high: int) -> None:
    """Read messages by agent, link or answered message; with a peer, a bounded number of index rows."""
    agent, peer = page.query.agent, page.query.peer
    if page.query.re is not None:  # what else is asked for is held against the rows
        agent, peer = f"{RE}{page.query.re}", None
    elif page.query.link is not None:
        agent, peer = f"{LINK}{page.query.link}", agent
    both = ""
    floor = low
    parameters: list[object] = [agent]
    if peer is not None:
        both = "join parties q on q.agent = ? and q.seq = p.seq"
        parameters = [peer, agent]
        looked_at = db.execute(
            "select seq from parties where agent = ? and seq between ? and ?"
            " order by seq desc limit 1 offset ?",
            (agent, low, high, LOOKED_AT_MAX - 1),
        ).fetchone()
        floor = low if looked_at is None else looked_at[0]
    rows = db.execute(
        f"select m.* from parties p {both} join messages m on m.seq = p.seq"
        " where p.agent = ? and p.seq between ? and ? order by p.seq desc",
        (*parameters, floor, high),
    )
    for row in rows:
        if page.take(row):
            return
    if floor > low:
        page.next = floor


def _search(db: sqlite3.Connection, page: _Page, low: int, high: int) -> None:
    """Hold the hits against the filters before their bodies are read."""
    query = page.query
    looked_at_max = query.limit + 1 if query.agent is None and query.link is None else LOOKED_AT_MAX
    whole = any(term.prefix for term in query.terms)
    floor = low if whole else max(low, high - SEARCH_SEQS_MAX + 1)
    hits = db.execute(
        'select m.seq, m.sender, m.recipients, m."to" from messages_fts f join messages m on m.seq = f.rowid'
        " where messages_fts match ? and f.rowid between ? and ? order by f.rowid desc limit ?",
        (format_match(query.terms), floor, high, looked_at_max),
    ).fetchall()
    for seq, sender, recipients, to in hits:
        if query.concerns(sender, recipients.split(" "), to):
            row = db.execute("select * from messages where seq = ?", (seq,)).fetchone()
            if page.take(row):
                return
    if len(hits) == looked_at_max:
        page.next = hits[-1][0]
    elif floor > low:
        page.next = floor


def format_match(terms: tuple[Term, ...]) -> str:
    """A query in the language of FTS5. Terms hold letters and digits only, so quotes suffice."""
    return " AND ".join(f'"{" ".join(term.words)}"{"*" if term.prefix else ""}' for term in terms)


def _range(db: sqlite3.Connection, query: Query) -> tuple[int, int]:
    """The first and the last sequence that can be meant; times grow with sequences, but for steps back."""
    # One at a time: SQLite looks only a lone `min` or `max` up in the index.
    (low,) = db.execute("select coalesce(min(seq), 1) from messages").fetchone()
    (high,) = db.execute("select coalesce(max(seq), 0) from messages").fetchone()
    if query.before:
        high = min(high, query.before - 1)
    if query.since <= 0 >= query.until or low > high:
        return low, high
    found = [_narrow(db, query, first, last) for first, last in _runs(db, low, high)]
    found = [(first, last) for first, last in found if first <= last]
    return (found[0][0], found[-1][1]) if found else (low, low - 1)


def _narrow(db: sqlite3.Connection, query: Query, low: int, high: int) -> tuple[int, int]:
    """The part of a run that can be meant."""
    first = low if query.since <= 0 else _first_at(db, query.since, low, high)
    last = high if query.until <= 0 else _first_at(db, query.until, low, high, behind=True) - 1
    return first, min(high, last)


def _runs(db: sqlite3.Connection, low: int, high: int) -> list[tuple[int, int]]:
    """Parts of a range within which times only grow."""
    steps = db.execute(f"select seq from cursors where {IS_STEP} and seq between ? and ?", (low, high))
    starts = sorted({low, *(seq for (seq,) in steps)})
    return list(zip(starts, [*(start - 1 for start in starts[1:]), high], strict=True))


def note_step(db: sqlite3.Connection, seq: int) -> None:
    """From `seq` on times begin anew: the clock was set back."""
    db.execute("insert or replace into cursors values (?,?)", (f"{STEP}{seq}", seq))


def forget_steps(db: sqlite3.Connection, seq: int) -> None:
    """Forget steps of the clock up to `seq`, whose commits are deleted."""
    db.execute(f"delete from cursors where {IS_STEP} and seq <= ?", (seq,))


def _first_at(db: sqlite3.Connection, at: float, low: int, high: int, *, behind: bool = False) -> int:
    """The first sequence from `low` on whose message is not older than `at`; with `behind`, is newer."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            "select seq, at from messages where seq >= ? order by seq limit 1", (middle,)
        ).fetchone()
        if row is None or row[1] > at or (row[1] == at and not behind):
            high = middle
        else:
            low = row[0] + 1
    return low
