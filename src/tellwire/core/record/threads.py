"""Threads: messages that answer one another, found from any of them."""

from __future__ import annotations

from collections import deque

from tellwire.core.context import (
    Context,
    Decision,
)
from tellwire.core.mail.receipts import statuses_of
from tellwire.core.mail.waiting import Waiting
from tellwire.core.record.explain import as_history, find_message, may_read, root_of
from tellwire.core.record.stored import Header, Query
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_message_id
from tellwire.protocol.operations.explain import ReadThread, Thread
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.messages import MessageRecord

THREAD_MAX = 1_000
"""Messages of one thread that are looked at."""
ANSWERS_MAX = 200
"""Direct answers to one message."""


def decide_thread(state: State, operation: ReadThread, context: Context) -> Decision:
    """One page of the thread of a message."""
    limits = context.limits
    if not 1 <= operation.limit <= limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {limits.peek_max}.")
    after = 0 if operation.after is None else parse_message_id(operation.after)
    _, asked = find_message(state, operation.id, context)
    root = root_of(state, asked, context)
    found, cut = _gather(state, root, context)
    later = sorted(seq for seq in found if seq > after)
    page, room = later[: operation.limit], limits.page_bytes_max
    records = {record.id: record for record in context.records(page)}
    settled, waiting = context.receipts(page), Waiting(context)
    messages: list[HistoryRecord] = []
    for seq in page:
        record = records[format_id("m", seq)]
        room -= len(str(record.body))
        if messages and room < 0:
            break
        statuses = statuses_of(state, found[seq], settled.get(seq, {}), waiting)
        messages.append(as_history(record, statuses))
    more = len(messages) < len(later)
    last = messages[-1].id if more else ""
    return Decision(Thread(root=root, messages=messages, more=more, next=last, cut=cut))


def _gather(state: State, root: str, context: Context) -> tuple[dict[int, Header], bool]:
    """All answers below a message that the caller may read, and whether some were left out."""
    header = context.header(parse_message_id(root))
    found = {} if header is None else {header.seq: header}
    open_ids, cut = deque([root]), False
    while open_ids:
        answers, more = _answers(open_ids.popleft(), context)
        cut = cut or more
        for each, record in answers:
            if each.seq in found or not may_read(state, each, context):
                continue
            if len(found) >= THREAD_MAX:
                return found, True
            found[each.seq] = each
            open_ids.append(record.id)
    return found, cut


def _answers(message: str, context: Context) -> tuple[list[tuple[Header, MessageRecord]], bool]:
    """The direct answers to one message; whether there are more."""
    found: list[tuple[Header, MessageRecord]] = []
    before = 0
    while len(found) < ANSWERS_MAX:
        query = Query(ANSWERS_MAX, context.limits.page_bytes_max, re=message, before=before)
        past = context.find(query)
        found += past.messages
        before = past.next
        if not before or before <= parse_message_id(message):
            return found, False
    return found, True
