"""The state in brief, as rows by id; and which rows an event changes.

A console takes all rows once, then those that changed with each page of the feed. Small tables travel whole
when anything about them changes: what follows from an event is decided in one place, where it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias, TypeVar

import msgspec

from tellwire.core.agents.roster import terminal_of
from tellwire.core.children.write_rules import WRITE
from tellwire.core.context import Context, Decision
from tellwire.core.mail.reach import DEAF
from tellwire.core.operator.needs import open_needs
from tellwire.core.operator.questions import choices_in
from tellwire.core.record.audit import namer, whole_event
from tellwire.core.record.stored import Entry
from tellwire.core.state import Agent, Child, Link, State
from tellwire.protocol import events
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.events import children as child_events
from tellwire.protocol.events import links as link_events
from tellwire.protocol.events import machines as machine_events
from tellwire.protocol.ids import format_id, parse_id, parse_message_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.feed import (
    TABLES,
    AgentRow,
    ChildRow,
    ClaimRow,
    FeedEvent,
    LinkRow,
    MailRow,
    Overview,
    OverviewPage,
    Pulse,
    ReportActivity,
    Rows,
)
from tellwire.protocol.operations.messages import MessageRecord

T = TypeVar("T")
R = TypeVar("R")

PAGE_MAX = 500
WANTS_LENGTH_MAX = 200
FAMILY = ("children", "claims", "policies")
"""Tables that travel whole."""
MAIL_CHARS_MAX = 200
RECENT_MAX = 100
RECENT_SCAN_MAX = 1_000
RECENT_S = 86_400.0
Words: TypeAlias = Callable[[list[int]], Mapping[int, MessageRecord]]


def decide_overview(state: State, operation: Overview, context: Context) -> Decision:
    """One page of the state; nothing changes."""
    if not 1 <= operation.limit <= PAGE_MAX:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {PAGE_MAX}.")
    after = parse_id("a", operation.after) if operation.after else 0
    if after is None:
        raise TellwireError("bad_request", "`after` is not the id of an agent.")
    later = (agent for agent in state.agents if (parse_id("a", agent) or 0) > after)
    found = list(islice(later, operation.limit + 1))
    page = found[: operation.limit]
    keys = Keys(agents=set(page), whole=set(TABLES) if not after else set())
    pulses = [pulse_of(state.agents[agent], context) for agent in page if state.agents[agent].online]
    return Decision(
        OverviewPage(
            seq=state.seq,
            at=context.now,
            rows=rows_of(state, keys, _words(context)),
            pulses=[pulse for pulse in pulses if is_told(pulse)],
            recent=[] if after else _recent(state, context),
            next=page[-1] if len(found) > len(page) else "",
        )
    )


def decide_report_activity(_state: State, operation: ReportActivity, _context: Context) -> Decision:
    """A program reports what it does; the broker remembers it while the program is there."""
    if len(operation.wants) > WANTS_LENGTH_MAX:
        raise TellwireError("limit_exceeded", f"`wants` is longer than {WANTS_LENGTH_MAX} characters.")
    return Decision(Done())


def _words(context: Context) -> Words:
    def words_of(seqs: list[int]) -> dict[int, MessageRecord]:
        return {parse_message_id(record.id): record for record in context.records(seqs)}

    return words_of


def _recent(state: State, context: Context) -> list[FeedEvent]:
    """The last faults, in order; a bounded number of events is looked at."""
    entries = context.entries(0, state.seq + 1, RECENT_SCAN_MAX)
    name_of = namer(state, context.former_name)
    since = context.now - RECENT_S
    found = [whole_event(entry, name_of) for entry in entries if entry.at >= since and is_fault(entry.event)]
    return found[-RECENT_MAX:]


def is_fault(event: AnyEvent) -> bool:
    """Whether something went wrong that a person should see also later."""
    if isinstance(event, events.CallRefused):
        return event.operation == WRITE or event.code == "denied"
    return isinstance(event, events.MessagesExpired | child_events.ChildFailed | link_events.AgentOverdue)


def pulse_of(agent: Agent, context: Context) -> Pulse:
    """What an agent does now, as far as its client reports."""
    contact = context.contact(agent.id)
    doing = context.doing(agent.id)
    pulse = Pulse(
        agent=agent.id,
        activity=doing.activity,
        since=doing.since,
        wants=doing.wants,
        place=terminal_of(agent),
    )
    if contact is None or not agent.online:
        return pulse
    shut = DEAF if contact.is_deaf else ("" if contact.is_settling(context.now) else contact.shut)
    return msgspec.structs.replace(pulse, held=contact.held, shut=shut, way=contact.path)


def is_told(pulse: Pulse) -> bool:
    """Whether a pulse says anything."""
    return bool(pulse.activity or pulse.held or pulse.shut)


# -- rows ---------------------------------------------------------------------------------------------


class Keys:
    """Rows that changed: by id, or a whole table."""

    def __init__(self, *, agents: set[str] | None = None, whole: set[str] | None = None) -> None:
        self.agents = agents or set()
        self.links: set[str] = set()
        self.topics: set[str] = set()
        self.mail: set[int] = set()
        self.whole = whole or set()


def rows_of(state: State, keys: Keys, words_of: Words) -> Rows:
    """The rows of these keys as they are now; `words_of` looks messages up."""
    whole = keys.whole
    operator = state.find(OPERATOR)
    asked = operator is not None and (keys.mail or "mail" in whole)
    mail = open_needs(state, operator) if operator is not None and asked else []
    known = frozenset(mail)
    wanted = mail if "mail" in whole else sorted(keys.mail)
    words: Mapping[int, MessageRecord] = words_of([seq for seq in wanted if seq in known]) if known else {}
    return Rows(
        seq=state.seq,
        agents={agent: _agent_row(state, agent) for agent in sorted(keys.agents)},
        links=_table(state.links, keys.links, _link_row, whole="links" in whole),
        children=_table(state.children, (), _child_row, whole="children" in whole),
        claims={
            agent: ClaimRow(rules=[claim.rule for claim in claims])
            for agent, claims in (state.claims.items() if "claims" in whole else ())
        },
        policies=dict(state.policies) if "policies" in whole else {},
        topics=_table(state.topics, keys.topics, list, whole="topics" in whole),
        mail={
            format_id("m", seq): _mail_row(state, operator, seq, words.get(seq)) if seq in known else None
            for seq in wanted
        },
        whole=sorted(whole),
    )


def _table(
    known: Mapping[str, T], keys: Iterable[str], row: Callable[[T], R | None], *, whole: bool
) -> dict[str, R | None]:
    """The rows of some keys, None for one that is gone; or of all, without those."""
    found = {key: row(known[key]) if key in known else None for key in (known if whole else sorted(keys))}
    return {key: value for key, value in found.items() if value is not None or not whole}


def _agent_row(state: State, agent_id: str) -> AgentRow | None:
    agent = state.agents.get(agent_id)
    if agent is None:
        return None
    return AgentRow(
        name=agent.name,
        kind=agent.kind,
        group=agent.group,
        online=agent.online,
        offline_reason=agent.offline_reason,
        connected_at=agent.connected_at,
        gone_at=agent.gone_at,
        muted=agent.muted,
        muted_until=agent.muted_until if agent.muted else 0.0,
        pending=len(agent.pending),
        pending_since=next((each.since for each in agent.pending.values() if not each.weak), 0.0),
        delivered=len(agent.leased),
        delivered_since=next((each.since for each in agent.leased.values()), 0.0),
        overdue=agent.due < 0.0,
        terminal=terminal_of(agent),
        folder=agent.folder,
        process=agent.owner or agent.process,
    )


def _link_row(link: Link) -> LinkRow | None:
    if link.status == "closed":
        return None
    return LinkRow(
        members=link.here(),
        direct=link.direct,
        status=link.status,
        reason=link.reason,
        opened_at=link.opened_at,
        said=link.said,
        turns=link.turns,
        paused_at=link.paused_at if link.status == "paused" else 0.0,
    )


def _child_row(child: Child) -> ChildRow:
    return ChildRow(
        parent=child.parent, status=child.status, cwd=child.cwd, scoped=child.scoped, place=child.place
    )


def _mail_row(state: State, operator: Agent | None, seq: int, record: MessageRecord | None) -> MailRow:
    question = state.questions().get(seq)
    receipt = None if operator is None else operator.pending.get(seq)
    sender = receipt.sender if receipt is not None else question.sender if question is not None else ""
    row = MailRow(sender=sender, unread=receipt is not None, asks=question is not None)
    if record is None:
        return row
    body = record.body if isinstance(record.body, str) else msgspec.json.encode(record.body).decode()
    text, choices = body[:MAIL_CHARS_MAX], choices_in(record.context)
    return msgspec.structs.replace(row, at=record.sent_at, text=text, choices=choices)


# -- which rows an event changes ----------------------------------------------------------------------


def changed_by(state: State, entries: Iterable[Entry]) -> Keys:
    """The rows that these events may have changed; too many are harmless, too few are not."""
    keys = Keys()
    operator = state.find(OPERATOR)
    for entry in entries:
        if isinstance(entry.event, _OF_MACHINES):
            machine = state.machines.get(
                getattr(entry.event, "machine", "") or getattr(entry.event, "id", "")
            )
            keys.agents.update(() if machine is None else machine.agents.values())
            continue
        _add(keys, entry, "" if operator is None else operator.id)
        if isinstance(entry.event, link_events.TurnEnded) and entry.event.agent in state.agents:
            keys.links.update(state.agents[entry.event.agent].links)  # it may count on each of them
    if "agents" in keys.whole:
        keys.agents = set(state.agents)
    return keys


def _add(keys: Keys, entry: Entry, operator: str) -> None:
    """Add the rows that one event may have changed."""
    event = entry.event
    if isinstance(event, events.MessageQueued):
        keys.agents.update(event.recipients)
        if event.link:
            keys.links.add(event.link)
        if operator in event.recipients:
            keys.mail.add(entry.seq)
        return
    agent = getattr(event, "agent", "")
    if agent:
        keys.agents.add(agent)
    if agent == operator and isinstance(event, _OF_MAIL):
        keys.mail.update(_seqs(event))
    if isinstance(event, link_events.ConversationEvent):
        _add_link(keys, entry.seq, event)
    elif isinstance(event, child_events.ChildEvent):
        keys.whole.update(FAMILY)
        keys.agents.update(str(getattr(event, word)) for word in ("peer", "child") if hasattr(event, word))
    elif isinstance(event, events.BrokerStarted):
        keys.whole.update(TABLES)
    elif isinstance(event, events.AgentRegistered):
        keys.agents.add(format_id("a", entry.seq))
    else:
        _add_agent(keys, event)


_OF_MACHINES = (
    machine_events.RemoteAgentTold,
    machine_events.ParcelsAcked,
    machine_events.IncarnationBegun,
    machine_events.MachineUpdated,
)
"""They may change all agents of one machine."""
_OF_MAIL = (
    events.MessagesRead,
    events.MessagesExpired,
    events.MessageAnswered,
    events.MessagesDelivered,
    events.MessagesReturned,
)


def _seqs(event: AnyEvent) -> list[int]:
    return [event.seq] if isinstance(event, events.MessageAnswered) else list(getattr(event, "seqs", ()))


def _add_agent(keys: Keys, event: AnyEvent) -> None:
    if isinstance(event, events.AgentForgotten):
        keys.whole.update((*FAMILY, "topics", "mail", "links"))
    elif isinstance(event, events.SessionStarted):
        if event.was:
            keys.agents.add(event.was)
            keys.whole.update((*FAMILY, "topics", "mail", "links"))
    elif isinstance(event, events.TopicJoined | events.TopicLeft):
        keys.topics.add(event.topic)


def _add_link(keys: Keys, seq: int, event: link_events.ConversationEvent) -> None:
    if isinstance(event, link_events.LinkOpened):
        keys.links.add(format_id("l", seq))
    elif link := getattr(event, "link", ""):
        keys.links.add(link)
