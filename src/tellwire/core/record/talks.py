"""Conversations: who talks with whom, by the last word; out of a table that the store keeps."""

from __future__ import annotations

import msgspec

from tellwire.core.context import Context, Decision
from tellwire.core.record.audit import namer
from tellwire.core.record.stored import Header, Talk
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import LINK, PAIR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_message_id
from tellwire.protocol.operations.history import Conversation, Conversations, ListConversations
from tellwire.protocol.operations.messages import MessageRecord

CHARS_MAX = 4_096


def decide_conversations(state: State, operation: ListConversations, context: Context) -> Decision:
    """One page of conversations; nothing changes."""
    if not 1 <= operation.limit <= context.limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {context.limits.peek_max}.")
    if not 0 <= operation.chars <= CHARS_MAX:
        raise TellwireError("bad_request", f"`chars` must be from 0 to {CHARS_MAX}.")
    before = 0 if operation.before is None else parse_message_id(operation.before)
    page = context.talks(before, operation.limit)
    records = {record.id: record for record in context.records([talk.last for talk in page.talks])}
    rows: list[Conversation] = []
    for talk in page.talks:
        header, record = context.header(talk.last), records.get(format_id("m", talk.last))
        if header is not None and record is not None:
            rows.append(_row(state, talk, header, record, chars=operation.chars, context=context))
    last = format_id("m", page.talks[-1].last) if page.more else ""
    return Decision(Conversations(conversations=rows, more=page.more, next=last, partial=page.partial))


def _row(
    state: State, talk: Talk, header: Header, record: MessageRecord, *, chars: int, context: Context
) -> Conversation:
    name_of = namer(state, context.former_name)
    agents = _parties(state, talk, header)
    body = record.body if isinstance(record.body, str) else msgspec.json.encode(record.body).decode()
    return Conversation(
        key=talk.key,
        kind=talk.key.split(":", 1)[0],
        agents=[name_of(agent) for agent in agents],
        agent_ids=agents,
        messages=talk.messages,
        unread=_unread(state, talk, header, agents),
        at=header.at,
        last=record.id,
        sender=header.sender_name,
        text=body[:chars],
    )


def _parties(state: State, talk: Talk, header: Header) -> list[str]:
    if talk.key.startswith(PAIR):
        return talk.key.removeprefix(PAIR).split()
    link = state.links.get(talk.key.removeprefix(LINK)) if talk.key.startswith(LINK) else None
    known = list(header.recipients) if link is None else list(link.members)
    return [*([header.sender] if header.sender and header.sender not in known else []), *known]


def _unread(state: State, talk: Talk, header: Header, agents: list[str]) -> int:
    """Messages that somebody has not read; each counts once, however many have not."""
    here = [state.agents[agent] for agent in agents if agent in state.agents]
    if talk.key.startswith(PAIR):
        others = {*agents, ""} if len(agents) == 1 else {*agents}
        return sum(_open_from(agent, others - {agent.id}) for agent in here)
    if talk.key.startswith(LINK):
        link = talk.key.removeprefix(LINK)
        seqs = {
            seq
            for agent in here
            for seq, heard in agent.heard.items()
            if heard.link == link and (seq in agent.pending or seq in agent.leased)
        }
        return len(seqs)
    return int(any(header.seq in agent.pending or header.seq in agent.leased for agent in here))


def _open_from(agent: Agent, senders: set[str]) -> int:
    """Messages of these that an agent has not read; what was said on a link is counted there."""
    boxes = (agent.pending, agent.leased)
    return sum(
        receipt.sender in senders and seq not in agent.heard for box in boxes for seq, receipt in box.items()
    )
