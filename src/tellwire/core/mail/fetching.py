"""Fetching mail: for clients that ask when they can take it, and show by what they do next that they did.

A fetch leases messages to the call that asked. Evidence for the call makes them `read`; a cancelled call
gives them back. While a message of a sender is on a lease, later ones of that sender stay where they are,
so two fetches under way at once cannot put a pair's messages into the context in the wrong order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tellwire.core.context import Context, Decision, FetchFor, NoteEvidence, ReturnLease
from tellwire.core.machines.outbox import note_receipts
from tellwire.core.mail.framing import page_chars, render_large_notice, render_message, render_page
from tellwire.core.mail.receipts import holder
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, MessagesDelivered, MessagesRead, MessagesReturned
from tellwire.protocol.ids import parse_id, parse_message_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.messages import MessageRecord, TakeMessages, Taken

LARGE_MAX = 8
"""Messages looked at in one fetch that are probably too large for it."""


class FetchBudget(NamedTuple):
    """How much one fetch may take along."""

    limit: int
    chars: int
    measure: Callable[[str], int] = len


def decide_take(state: State, operation: TakeMessages, context: Context) -> Decision:
    """Lease what fits to the call; a repeat of the call gets the same again."""
    agent = holder(state, context)
    limits = context.limits
    chars = operation.chars or limits.take_chars_max
    if not 0 < chars <= limits.take_chars_max:
        raise TellwireError("limit_exceeded", f"`chars` must be from 1 to {limits.take_chars_max}.")
    if not 1 <= operation.limit <= limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {limits.peek_max}.")
    if operation.offset < 0 or (operation.offset and operation.id is None):
        raise TellwireError("bad_request", "`offset` must not be negative, and needs an `id`.")
    if len(operation.call) > limits.text_length_max:
        raise TellwireError("limit_exceeded", f"`call` is longer than {limits.text_length_max}.")
    if operation.id is not None:
        return _take_page(agent, operation, context, chars)
    measure = _bytes_of if operation.in_bytes else len
    read = _read_with(agent, operation)
    room = FetchBudget(operation.limit, chars, measure)
    return _fetch(agent, operation.call, context, room, read)


def decide_fetch(state: State, command: FetchFor, context: Context) -> Decision:
    """The same for a hook of the agent's client, which the broker has recognised."""
    agent = state.agents.get(command.agent)
    if agent is None or not agent.online or not agent.pending:
        return Decision(Taken())
    measure = _bytes_of if command.in_bytes else len
    return _fetch(agent, command.call, context, FetchBudget(context.limits.peek_max, command.room, measure))


def _read_with(agent: Agent, operation: TakeMessages) -> list[int]:
    """What the caller says it has read: the message that it names, and everything fetched with it."""
    named = agent.leased.get(parse_id("m", operation.after or "") or 0)
    if named is None or agent.calls.get(operation.call) == named.lease:
        return []
    return [seq for seq, receipt in agent.leased.items() if receipt.lease == named.lease]


def _bytes_of(text: str) -> int:
    return len(text.encode())


def _fetch(
    agent: Agent, call: str, context: Context, room: FetchBudget, read: Sequence[int] = ()
) -> Decision:
    """Lease what fits to a call, after what the call before it shows to be read."""
    lease = agent.calls.get(call) if call else None
    if lease is not None:
        seqs = [seq for seq, receipt in agent.leased.items() if receipt.lease == lease]
        return Decision(Taken(messages=_records(agent, seqs, context), waiting=len(agent.pending)))
    held = {seq: receipt for seq, receipt in agent.leased.items() if seq not in read}
    places = min(room.limit, context.limits.window_messages_max - len(held))
    senders = {receipt.sender for receipt in held.values()}
    taken, large = _choose(agent, room._replace(limit=places), context, senders)
    waiting = len(agent.pending) - len(taken)
    reply = Taken(messages=[record for _, record in taken], large=large, waiting=waiting)
    seqs = [seq for seq, _ in taken]
    events: list[AnyEvent] = [MessagesRead(agent.id, list(read), "next_call")] if read else []
    return Decision(reply, [*events, MessagesDelivered(agent.id, seqs, call)] if seqs else events)


def _choose(
    agent: Agent, place: FetchBudget, context: Context, held: set[str]
) -> tuple[list[tuple[int, MessageRecord]], list[MessageRecord]]:
    """What goes along now, oldest first, and what is too large to; order holds for each sender."""
    room, chars, measure = place
    candidates = _candidates(agent, held, room, chars)
    whole = chars
    taken: list[tuple[int, MessageRecord]] = []
    large: list[MessageRecord] = []
    for seq, record in zip(candidates, _records(agent, candidates, context), strict=True):
        sender = agent.pending[seq].sender
        if sender in held:
            continue
        text = render_message(record, now=context.now)
        size = measure(text)
        if size <= chars and len(taken) < room:
            chars -= size
            taken.append((seq, record))
            continue
        held.add(sender)  # what it sent later must not overtake this one
        if (size > whole or not taken) and (chars > 0 or not large):
            large.append(msgspec.structs.replace(record, body=len(text), context=None))
            chars -= len(render_large_notice(record, now=context.now, size=len(text)))
    return taken, large


def _candidates(agent: Agent, held: set[str], room: int, chars: int) -> list[int]:
    """The first that may fit, judged by their sizes in bytes: rendering adds to a text and takes nothing."""
    candidates: list[int] = []
    room_bytes = 4 * chars  # no character has more
    large = 0
    passed = set(held)
    for seq, receipt in agent.pending.items():
        if len(candidates) - large >= room or room_bytes <= 0 or large >= LARGE_MAX:
            break
        if receipt.sender in passed:
            continue
        candidates.append(seq)
        if receipt.size <= chars:
            room_bytes -= receipt.size
        else:
            large += 1  # probably only announced: it must not keep smaller ones of others waiting
            passed.add(receipt.sender)
    return candidates


def _take_page(agent: Agent, operation: TakeMessages, context: Context, chars: int) -> Decision:
    """One part of a message. It is leased with its last part: the caller has seen the others."""
    seq = parse_message_id(operation.id or "")
    if seq not in agent.pending and seq not in agent.leased:
        raise TellwireError(
            "unknown_message",
            f"No message {operation.id!r} is waiting for you.",
            "It was already fetched, or is not for you.",
        )
    (record,) = _records(agent, [seq], context)
    chars = page_chars(record, chars, offset=operation.offset, in_bytes=operation.in_bytes)
    _, following, total = render_page(record, now=context.now, offset=operation.offset, chars=chars)
    if operation.offset and operation.offset >= total:
        raise TellwireError("bad_request", f"`offset` must be below {total}, the length of {operation.id}.")
    fetched = seq in agent.pending and not following
    reply = Taken(messages=[record], waiting=len(agent.pending) - fetched, next_offset=following)
    return Decision(reply, [MessagesDelivered(agent.id, [seq], operation.call)] if fetched else [])


def _records(agent: Agent, seqs: list[int], context: Context) -> list[MessageRecord]:
    records = context.records(seqs)
    for place, seq in enumerate(seqs):
        receipt = agent.leased.get(seq) or agent.pending[seq]
        if receipt.seen_by not in ("", agent.session):
            records[place] = msgspec.structs.replace(records[place], repeat=True)
    return records


# -- what became of it --------------------------------------------------------------------------------


def decide_evidence(state: State, command: NoteEvidence, _context: Context) -> Decision:
    """What these calls fetched was read."""
    agent = _of_session(state, command)
    if agent is None:
        return Decision()
    leases = {agent.calls[call] for call in command.calls if call in agent.calls}
    seqs = [seq for seq, receipt in agent.leased.items() if receipt.lease in leases]
    return Decision(None, [MessagesRead(agent.id, seqs, command.evidence)] if seqs else [])


def decide_return(state: State, command: ReturnLease, _context: Context) -> Decision:
    """What this call fetched was not read."""
    agent = _of_session(state, command)
    lease = None if agent is None else agent.calls.get(command.call)
    if agent is None or lease is None:
        return Decision(Done())
    seqs = [seq for seq, receipt in agent.leased.items() if receipt.lease == lease]
    return Decision(Done(), [MessagesReturned(agent.id, seqs)] if seqs else [])


def _of_session(state: State, command: NoteEvidence | ReturnLease) -> Agent | None:
    agent = state.agents.get(command.agent)
    return agent if agent is not None and agent.session == command.session else None


def apply_returned(state: State, event: MessagesReturned) -> None:
    """The messages wait again, in their old places."""
    agent = state.agents[event.agent]
    back: dict[int, Receipt] = {}
    for seq in event.seqs:
        receipt = agent.leased.pop(seq)
        receipt.lease = 0
        receipt.since = state.now
        receipt.deadline += state.awake
        agent.earliest = min(agent.earliest, receipt.deadline)
        agent.leased_bytes -= receipt.size
        agent.pending_bytes += receipt.size
        back[seq] = receipt
    if state.machines:
        note_receipts(state, agent, back.values(), "received")
    agent.pending = dict(sorted({**back, **agent.pending}.items()))
