"""One message: all of it, why it has not been read yet, and what happens next."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tellwire.core.agents.roster import caller_agent
from tellwire.core.context import (
    Context,
    Decision,
)
from tellwire.core.mail.receipts import statuses_of
from tellwire.core.mail.waiting import Gate, Waiting, format_span
from tellwire.core.record.stored import Entry, Header
from tellwire.core.state import Agent, State
from tellwire.protocol import events
from tellwire.protocol.addresses import link_of, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import machines as machine_events
from tellwire.protocol.ids import parse_id
from tellwire.protocol.operations.base import AGENT
from tellwire.protocol.operations.explain import (
    Explained,
    ExplainMessage,
    Explanation,
    FoundMessage,
    GetMessage,
    Step,
)
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.messages import MessageRecord, RecipientStatus

TEXT_LENGTH_MAX = 200
EVENTS_MAX = 1_000
"""Events behind a message that are looked through for what happened to it."""
STEPS_MAX = 20
"""Of one recipient."""
HOPS_MAX = 100
"""Answers to answers that are followed up to the first message."""

NEXT = {
    "offline": "It is delivered when {name} comes back.",
    "busy": "It is delivered during this turn, or when the turn ends.",
    "dialog": "Answer the dialog in the terminal of {name}; the message follows with that turn.",
    "muted": "It is delivered with the next turn of {name}, or after `tellwire mute {name} --off`.",
    "often": "{name} is woken again when it has had some rest.",
    "stopped": "{name} is woken as soon as its human has had time to type.",
    "failed": "{name} is woken again by itself.",
    "left": "{name} is not woken any more: type something in its terminal.",
    "ended": "It is delivered when {name} begins a session.",
    "unwakeable": "It is delivered with the next turn of {name}: type something in its terminal.",
    "weak": "It is delivered with the next turn of {name}, whatever begins that.",
    "chain": "It is delivered after a word of a person or new work: `tellwire send {name} TEXT`.",
    "behind": "It is delivered when {name} has read the earlier one.",
    "waking": "{name} is woken now.",
    "fetch": "It is read when {name} next fetches its mail.",
    "deaf": "It is read when {name} fetches its mail. `tellwire doctor` says what is wrong.",
    "large": "{name} has to fetch it, with `get_messages` and its id.",
    "program": "It is delivered when the program reads its connection.",
    "unconfirmed": "It is read when the program confirms it, and waits again if the program ends first.",
    "fetched": "It is read with the next call of {name}, and waits again if its session ends first.",
    "evidence": "It is read when the transcript of {name} shows it, else it waits again.",
    "unseen": "It is shown by `tellwire inbox` and `tellwire needs`.",
    "held": "{name} is woken when that is over.",
}
"""What happens next, by gate."""
DONE = {
    "read": "Nothing: it was read.",
    "answered": "Nothing: it was answered.",
    "expired": "Nothing: it expired. Send it again if it still matters.",
    "denied": "Nothing: it was refused.",
}


def decide_get_message(state: State, operation: GetMessage, context: Context) -> Decision:
    """A whole message, and the first of its thread."""
    header, record = find_message(state, operation.id, context)
    status = statuses_of(state, header, context.settled(header.seq), Waiting(context))
    root = root_of(state, record, context)
    return Decision(
        FoundMessage(message=as_history(record, status), link=link_of(header.to) or "", root=root)
    )


def as_history(record: MessageRecord, recipients: list[RecipientStatus]) -> HistoryRecord:
    """A message of the past with its receipts."""
    return HistoryRecord(
        id=record.id,
        sender=record.sender,
        to=record.to,
        body=record.body,
        sent_at=record.sent_at,
        kind=record.kind,
        re=record.re,
        mode=record.mode,
        context=record.context,
        recipients=recipients,
    )


def find_message(state: State, text: str, context: Context) -> tuple[Header, MessageRecord]:
    """A message that the caller may read: an agent what it sent or received, others all.

    Raises:
        TellwireError: `unknown_message`, with how to find one.
    """
    seq = parse_id("m", text)
    header = None if seq is None else context.header(seq)
    if header is not None and may_read(state, header, context):
        records = context.records([header.seq])
        if records:
            return header, records[0]
    raise TellwireError(
        "unknown_message",
        f"There is no message {shorten(text)}, or it is not yours.",
        "`tellwire history` and `tellwire search WORD` list messages with their ids.",
    )


def may_read(state: State, header: Header, context: Context) -> bool:
    """Whether the caller may read a message."""
    if context.caller.kind != AGENT:
        return True
    return caller_agent(state, context).id in (header.sender, *header.recipients)


def root_of(state: State, record: MessageRecord, context: Context) -> str:
    """The first message of the chain of answers that a message ends, as far as the caller may read it."""
    for _ in range(HOPS_MAX):
        seq = None if record.re is None else parse_id("m", record.re)
        header = None if seq is None else context.header(seq)
        if header is None or not may_read(state, header, context):
            break
        records = context.records([header.seq])
        if not records:
            break
        record = records[0]
    return record.id


# -- why ----------------------------------------------------------------------------------------------


def decide_explain(state: State, operation: ExplainMessage, context: Context) -> Decision:
    """For each recipient: what happened, what it waits for, and what comes next."""
    header, record = find_message(state, operation.id, context)
    waiting = Waiting(context)
    statuses = statuses_of(state, header, context.settled(header.seq), waiting)
    entries = context.entries(header.seq, 0, EVENTS_MAX)
    recipients = [
        _explain(state, header, agent_id, status, context, waiting, entries)
        for agent_id, status in zip(header.recipients, statuses, strict=True)
    ]
    body = record.body if isinstance(record.body, str) else msgspec.json.encode(record.body).decode()
    return Decision(
        Explanation(
            id=operation.id,
            sender=header.sender_name,
            to=header.to,
            at=header.at,
            text=body[:TEXT_LENGTH_MAX],
            recipients=recipients,
        )
    )


def _explain(
    state: State,
    header: Header,
    agent_id: str,
    status: RecipientStatus,
    context: Context,
    waiting: Waiting,
    entries: list[Entry],
) -> Explained:
    """What happened for one recipient and, while the message is open, what it waits for and what is next."""
    agent = state.agents.get(agent_id)
    receipt = None if agent is None else agent.pending.get(header.seq) or agent.leased.get(header.seq)
    steps = [Step(at=header.at, what="stored"), *_steps(entries, agent_id, header.seq)]
    told = Explained(
        name=status.name,
        state=status.state,
        evidence=status.evidence,
        steps=[steps[0], *steps[1:][-STEPS_MAX:]],
        more=len(entries) >= EVENTS_MAX,
        next=DONE.get(status.state, ""),
    )
    if agent is None or receipt is None:
        return told
    gate = waiting.gate(agent, header.seq, receipt, header.at)
    left_s = 0.0 if receipt.lease else max(0.0, receipt.deadline - state.awake)
    next_at = _next_at(agent, gate, waiting.again_s(agent.id), context)
    return msgspec.structs.replace(
        told,
        gate=gate.code,
        why=gate.text,
        next=_next(agent, gate, next_at, left_s, context),
        next_at=next_at,
        expires_at=context.now + left_s if left_s else 0.0,
    )


def _next(agent: Agent, gate: Gate, next_at: float, left_s: float, context: Context) -> str:
    text = NEXT[gate.code].format(name=agent.name)
    if next_at:
        text += f" That is in {format_span(next_at - context.now)}."
    if left_s:
        text += f" It expires in {format_span(left_s)} if nothing happens."
    return text


def _next_at(agent: Agent, gate: Gate, again_s: float, context: Context) -> float:
    if gate.code == "muted":
        return agent.muted_until
    return context.now + again_s if again_s > 0 and gate.code in ("often", "stopped", "failed") else 0.0


def _steps(entries: list[Entry], agent: str, seq: int) -> Iterator[Step]:
    """The events of one message and one recipient, in order."""
    for entry in entries:
        event = entry.event
        if getattr(event, "agent", "") != agent:
            continue
        what, note = _step(event, seq)
        if what:
            yield Step(at=entry.at, what=what, note=note)


_OF_MESSAGES: dict[type, str] = {
    events.MessagesDelivered: "delivered",
    events.MessagesReturned: "returned",
    events.MessagesRead: "read",
    events.MessagesExpired: "expired",
    machine_events.MessagesWithdrawn: "withdrawn",
    machine_events.MessagesRefused: "denied",
}


def _step(event: events.AnyEvent, seq: int) -> tuple[str, str]:
    word = _OF_MESSAGES.get(type(event), "")
    if isinstance(event, machine_events.ReceiptsTaken):
        return (event.state, "told by its machine") if seq in event.seqs else ("", "")
    if word:
        note = event.evidence if isinstance(event, events.MessagesRead) else ""
        note = event.note if isinstance(event, machine_events.MessagesRefused) else note
        return (word, note) if seq in getattr(event, "seqs", ()) else ("", "")
    if isinstance(event, events.MessageAnswered):
        return ("answered", "") if event.seq == seq else ("", "")
    if isinstance(event, events.AgentOffline):
        return "offline", event.reason
    if isinstance(event, events.SessionStarted | events.AgentOnline):
        return "online", ""
    if isinstance(event, events.AgentMuted):
        return ("muted" if event.muted else "unmuted"), ""
    return "", ""
