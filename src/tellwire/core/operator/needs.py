"""What waits for the operator, and its answers: each question is answered once, from whichever terminal."""

from __future__ import annotations

from collections import Counter

from tellwire.core.agents.roster import caller_agent
from tellwire.core.context import (
    Context,
    Decision,
)
from tellwire.core.mail.send import decide_send
from tellwire.core.mail.waiting import format_span
from tellwire.core.operator.person import is_operator
from tellwire.core.operator.questions import choices_in, open_at
from tellwire.core.record.stored import FinalState, Header, Query
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.messages import MessageRecord, SendMessage
from tellwire.protocol.operations.needs import AnswerMessage, Counts, Glance, ListNeeds, Need, Needs
from tellwire.protocol.suggestions import nearest

QUOTED_MAX = 40
"""Characters of an earlier answer that are shown."""
READ = "Read it with `tellwire inbox`."
LOOKED_AT = 200
"""Messages that are looked through for an earlier answer."""


# -- what waits ---------------------------------------------------------------------------------------


def decide_needs(state: State, operation: ListNeeds, context: Context) -> Decision:
    """Unread messages and open questions, the oldest first; nothing changes."""
    if not 1 <= operation.limit <= context.limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {context.limits.peek_max}.")
    operator = state.find(OPERATOR)
    if operator is None:
        return Decision(Needs())
    seqs = open_needs(state, operator)
    room = context.limits.page_bytes_max
    needs: list[Need] = []
    for seq in seqs[: operation.limit]:
        records = context.records([seq])
        header = context.header(seq)
        if not records or header is None:
            continue
        room -= len(str(records[0].body))
        if room < 0 and needs:
            break
        needs.append(_need(state, operator, header, records[0]))
    senders = {receipt.sender for receipt in operator.pending.values() if receipt.sender}
    full = [
        state.agents[sender].name
        for sender in senders
        if sender in state.agents and open_at(state, sender, operator) >= context.limits.operator_share_max
    ]
    return Decision(Needs(needs=needs, more=len(seqs) - len(needs), full=sorted(full)))


def open_needs(state: State, operator: Agent) -> list[int]:
    """The messages that the operator has not read, or has not answered though they ask."""
    return sorted({*state.questions(), *operator.pending})


def decide_glance(state: State, _operation: Glance, context: Context) -> Decision:
    """The same in numbers, with those of the agents; nothing changes."""
    operator = state.find(OPERATOR)
    seqs = [] if operator is None else open_needs(state, operator)
    oldest = context.header(seqs[0]) if seqs else None
    here = [agent for agent in state.agents.values() if not agent.machine and not is_operator(agent)]
    online = [agent.id for agent in here if agent.online]
    doing = Counter(context.activity(agent) for agent in online)
    return Decision(
        Counts(
            needs=len(seqs),
            oldest_at=0.0 if oldest is None else oldest.at,
            waiting=doing["waiting"],
            errored=doing["errored"],
            busy=doing["busy"],
            idle=doing["idle"],
            online=len(online),
        )
    )


def _need(state: State, operator: Agent, header: Header, record: MessageRecord) -> Need:
    return Need(
        id=record.id,
        who=record.sender,
        body=record.body,
        at=record.sent_at,
        choices=choices_in(record.context),
        unread=header.seq in operator.pending,
        answerable=header.sender in state.agents,
    )


# -- answering ----------------------------------------------------------------------------------------


def decide_answer(state: State, operation: AnswerMessage, context: Context) -> Decision:
    """Send the answer to the asker, unless there is one already or it is too late."""
    operator = caller_agent(state, context)
    header = _find(state, operator, operation.id, context)
    asker = state.agents.get(header.sender)
    (record,) = context.records([header.seq]) or (None,)
    body = operation.body.strip()
    if asker is None or record is None:
        gone = "comes from the broker itself" if not header.sender else "was sent by an agent that is gone"
        raise TellwireError("question_closed", f"{operation.id} {gone}: there is nobody to answer.", READ)
    if operation.key not in operator.requests:  # a repeat gets the answer of the first one
        _check_open(state, operator, header, context)
    if not body:
        raise TellwireError("bad_request", "The answer is empty.", "Say something.")
    body = _chosen(choices_in(record.context), body, asker)
    send = SendMessage(to=asker.name, body=body, re=operation.id, key=operation.key)
    return decide_send(state, send, context)


def _find(state: State, operator: Agent, text: str, context: Context) -> Header:
    seq = parse_id("m", text)
    header = None if seq is None else context.header(seq)
    if header is None or operator.id not in header.recipients:
        near = nearest(text, [format_id("m", each) for each in open_needs(state, operator)])
        hint = f"Did you mean {', '.join(near)}? " if near else ""
        raise TellwireError(
            "unknown_message",
            f"No message {shorten(text)} to you is known.",
            f"{hint}`tellwire needs` lists what waits for you.",
        )
    return header


def _check_open(state: State, operator: Agent, header: Header, context: Context) -> None:
    """Refuse an answer that comes too late, or second.

    Raises:
        TellwireError: `question_closed`, with what closed it and when.
    """
    if header.seq in operator.pending:
        return
    final = context.settled(header.seq).get(operator.id)
    asked = isinstance(state.asked, dict) and header.seq in state.asked
    name, again = format_id("m", header.seq), f"To say more: tellwire send {header.sender_name} TEXT"
    if final is not None and final.state == "answered":
        how = _earlier(operator, header, final, context)
        raise TellwireError("question_closed", f"{name} is answered already{how}.", again)
    late = asked and header.seq not in state.questions()
    if final is None or final.state == "expired" or late:
        when = f" {_ago(final.at, context)}" if final is not None and final.state == "expired" else ""
        raise TellwireError("question_closed", f"{name} expired{when}: nobody waits for an answer.", again)


def _earlier(operator: Agent, header: Header, final: FinalState, context: Context) -> str:
    """By what and when a message was answered, as far as the record shows."""
    bytes_max = context.limits.page_bytes_max
    page = context.find(Query(LOOKED_AT, bytes_max, agent=operator.id, peer=header.sender))
    for sent, record in page.messages:
        if sent.sender == operator.id and record.re == format_id("m", header.seq):
            words = " ".join(str(record.body).split())
            words = words if len(words) <= QUOTED_MAX else words[: QUOTED_MAX - 1] + "…"
            return f', with "{words}" ({record.id}), {_ago(record.sent_at, context)}'
    return f", {_ago(final.at, context)}"


def _ago(at: float, context: Context) -> str:
    return f"{format_span(max(0.0, context.now - at))} ago"


def _chosen(choices: list[str], body: str, asker: Agent) -> str:
    """The choice that a word means, as it was offered.

    Raises:
        TellwireError: `bad_request`: it is none of them.
    """
    if not choices:
        return body
    for choice in choices:
        if choice.casefold() == body.casefold():
            return choice
    raise TellwireError(
        "bad_request",
        f"{shorten(body)} is none of the choices: {', '.join(choices)}.",
        f"Choose one of them, or say something else: tellwire send {asker.name} TEXT",
    )
