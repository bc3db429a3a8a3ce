"""The journal as people read it: who did what to whom, and what was refused. Bodies appear by digest only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tellwire.core.agents.roster import find_agent
from tellwire.core.context import Context, Decision, NoteRefusals, TellOperator
from tellwire.core.mail.notices import Post
from tellwire.core.record.stored import Entry
from tellwire.core.state import State
from tellwire.protocol import events
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, CallRefused
from tellwire.protocol.events import children as child_events
from tellwire.protocol.events import links as link_events
from tellwire.protocol.events import machines as machine_events
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.audit import Audit, AuditRow, ReadAudit
from tellwire.protocol.operations.base import snake_case
from tellwire.protocol.operations.feed import FeedEvent, WatchFeed, Watching
from tellwire.protocol.suggestions import nearest

NameOf: TypeAlias = Callable[[str], str]
REPLAY_MAX = 10_000
"""Events behind `after` with which a feed goes on; who missed more asks for an overview."""
CHARS_MAX = 65_536
SCAN_MAX = 2_000
"""Events that one filtered page of the audit looks at."""


class AuditLine(NamedTuple):
    """An event described for people: who did it, to whom, and its details."""

    who: str
    whom: list[str]
    detail: dict[str, Any]


def decide_audit(state: State, operation: ReadAudit, context: Context) -> Decision:
    """A page of the journal, one row per event."""
    limit, rows_max = operation.limit, context.limits.audit_rows_max
    if not 1 <= limit <= rows_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {rows_max}.")
    if operation.after < 0 or operation.before < 0:
        raise TellwireError("bad_request", "`after` and `before` must not be negative.")
    check_types(operation.types)
    name_of = namer(state, context.former_name)
    agent = "" if operation.agent is None else find_agent(state, operation.agent).id
    wanted = Wanted(frozenset(operation.types), frozenset({agent} - {""}))
    kept, place = _filtered(operation, wanted, context)
    rows = [format_row(entry, name_of) for entry in kept]
    return Decision(Audit(rows=rows, more=bool(place), head=context.head(), next=place))


class Wanted(NamedTuple):
    """Which events somebody wants to hear of; empty sets for all."""

    types: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    """By id."""

    def takes(self, entry: Entry) -> bool:
        """Whether an event passes the filters."""
        if self.types and type_name_of(entry.event) not in self.types:
            return False
        if not self.agents:
            return True
        agent, others = parties_of(entry.event, entry.seq)
        return agent in self.agents or not self.agents.isdisjoint(others)


def _filtered(operation: ReadAudit, wanted: Wanted, context: Context) -> tuple[list[Entry], int]:
    """A page of events in order, and where the next one begins; a bounded number is looked at."""
    forwards, limit = operation.after > 0, operation.limit
    size = limit + 1 if not any(wanted) else SCAN_MAX
    entries = context.entries(operation.after, operation.before, size)
    found = [entry for entry in entries if wanted.takes(entry)]
    kept = found[:limit] if forwards else found[-limit:]
    if len(found) > limit:
        return kept, (kept[-1] if forwards else kept[0]).seq
    if len(entries) < size:
        return kept, 0
    return kept, (entries[-1] if forwards else entries[0]).seq


def check_types(types: list[str]) -> None:
    """Refuse types that no event has.

    Raises:
        TellwireError: `bad_request`, with the nearest.
    """
    unknown = [name for name in types if name not in _TYPE_NAMES.values()]
    if unknown:
        near = nearest(unknown[0], _TYPE_NAMES.values())
        advice = f"Did you mean {', '.join(near)}?" if near else None
        raise TellwireError("bad_request", f"There is no event {shorten(unknown[0])}.", advice)


def decide_watch(state: State, operation: WatchFeed, context: Context) -> Decision:
    """Check that the caller may watch, and where the feed begins; the broker sends it."""
    if operation.after is None:
        return Decision(Watching())
    if operation.after < 0 or not 0 <= operation.chars <= CHARS_MAX:
        raise TellwireError("bad_request", f"`after` must not be negative, `chars` be from 0 to {CHARS_MAX}.")
    check_types(operation.types)
    for name in operation.agents:
        find_agent(state, name)
    return Decision(Watching(seq=state.seq, reset=_is_lost(state, operation.after, context)))


def _is_lost(state: State, after: int, context: Context) -> bool:
    """Whether the feed cannot go on behind an event: too much has happened, or it is not known."""
    if after == state.seq:
        return False
    if after > state.seq or state.seq - after > REPLAY_MAX:
        return True
    entries = context.entries(after, 0, 1) if after else context.entries(0, 2, 1)
    return bool(entries) and entries[0].seq != after + 1


def decide_note_refusals(_state: State, command: NoteRefusals, _context: Context) -> Decision:
    return Decision(None, list(command.refusals))


def apply_refused(_state: State, _event: CallRefused) -> None:
    """A refusal changes nothing; that it was asked is the fact."""


def namer(state: State, former_name: NameOf) -> NameOf:
    """From an agent's id to its name, and from a machine's to its label; any other string stays."""

    def name_of(agent_id: str) -> str:
        if (agent := state.agents.get(agent_id)) is not None:
            return agent.name
        machine = state.machines.get(agent_id)
        return former_name(agent_id) if machine is None else machine.label

    return name_of


def format_row(entry: Entry, name_of: NameOf) -> AuditRow:
    line = describe(entry.event, entry.seq, name_of)
    name = type_name_of(entry.event)
    return AuditRow(seq=entry.seq, at=entry.at, type=name, who=line.who, whom=line.whom, detail=line.detail)


def whole_event(entry: Entry, name_of: NameOf, *, text: str = "") -> FeedEvent:
    """One event for a watcher that keeps the state: all its ids, whatever their number."""
    event, line = entry.event, describe(entry.event, entry.seq, name_of)
    agent, whom = parties_of(event, entry.seq)
    detail = dict(line.detail)
    if isinstance(event, events.SessionStarted):
        detail["keeps"] = event.keeps
    ids: list[str] = detail.pop("ids", None) or ([detail["id"]] if isinstance(event, _OF_ONE) else [])
    return FeedEvent(
        seq=entry.seq,
        at=entry.at,
        type=type_name_of(event),
        who=line.who,
        whom=line.whom,
        text=text,
        link=event.link if isinstance(event, events.MessageQueued) else str(detail.get("link", "")),
        agent=agent,
        whom_ids=whom,
        ids=ids,
        detail=detail,
    )


_OF_ONE = (events.MessageQueued, events.MessageAnswered)


def parties_of(event: AnyEvent, seq: int) -> tuple[str, list[str]]:
    """The ids of the agents that an event is about: whose doing it is, and whom else it concerns."""
    if isinstance(event, events.MessageQueued):
        return event.sender, event.recipients
    if isinstance(event, events.AgentRegistered):
        return format_id("a", seq), []
    if isinstance(event, CallRefused):
        return event.caller, []
    if isinstance(event, link_events.LinkOpened):
        return event.opener, [seat.agent for seat in event.members]
    if isinstance(event, link_events.LinkJoined):
        return event.by, [event.member.agent]
    if isinstance(event, link_events.ListenerAdded | link_events.ListenerRemoved):
        return event.listener, [event.agent]
    if isinstance(event, machine_events.RemoteAgentTold | machine_events.MachineRemoved):
        return "", []
    others = [str(getattr(event, name, "")) for name in _RELATED if not isinstance(event, _OnLink)]
    agent = str(getattr(event, "agent", "") or (getattr(event, "by", "")))
    return agent, [other for other in others if other and other != agent]


def type_name_of(event: AnyEvent) -> str:
    return _TYPE_NAMES[type(event)]


_TYPE_NAMES: dict[type, str] = {kind: snake_case(kind.__name__) for kind in events.EVENTS.values()}


def describe(event: AnyEvent, seq: int, name_of: NameOf) -> AuditLine:
    """Describe an event, with names instead of ids."""
    if isinstance(event, events.MessageQueued):
        return AuditLine(
            event.sender_name, [name_of(agent) for agent in event.recipients], _message(event, seq)
        )
    if isinstance(event, events.AgentRegistered):
        detail = {
            "id": format_id("a", seq),
            "kind": event.kind,
            "group": event.group,
            "process": event.process,
        }
        return AuditLine(event.name, [], detail)
    if isinstance(event, CallRefused):
        detail = {
            "operation": event.operation,
            "code": event.code,
            "count": event.count,
            "since": event.since,
        }
        return AuditLine(name_of(event.caller), [], detail)
    if isinstance(event, _OnLink):
        return _on_link(event, seq, name_of)
    if isinstance(event, events.BrokerStarted | machine_events.MachineEvent):
        return _of_machine_event(event, name_of)
    if isinstance(event, link_events.ListenerAdded | link_events.ListenerRemoved):
        return AuditLine(name_of(event.listener), [name_of(event.agent)], {})
    if isinstance(event, child_events.ChildEvent):
        return _of_child_event(event, name_of)
    return AuditLine(name_of(event.agent), [], _of_agent(event))


def _message(event: events.MessageQueued, seq: int) -> dict[str, Any]:
    detail = {
        "id": format_id("m", seq),
        "to": event.to,
        "kind": event.kind,
        "re": event.re,
        "mode": event.mode,
        "size": event.size,
        "digest": event.digest,
        "ttl_s": event.ttl_s,
        "weak": event.weak or "",
        "origin": format_id("m", event.origin) if event.origin else "",
    }
    return {key: value for key, value in detail.items() if value != ""}


_OfAgent: TypeAlias = (
    events.SessionStarted
    | events.AgentUpdated
    | events.AgentOnline
    | events.AgentOffline
    | events.AgentMuted
    | events.SessionPlaced
    | events.AgentForgotten
    | events.MessagesDelivered
    | events.MessagesReturned
    | events.MessagesRead
    | events.MessageAnswered
    | events.MessagesExpired
    | events.TopicJoined
    | events.TopicLeft
    | link_events.TurnEnded
    | link_events.AgentOverdue
    | link_events.CheckpointMarked
)


_PLAIN: dict[type, tuple[str, ...]] = {
    events.SessionStarted: ("group", "process"),
    events.AgentOffline: ("reason",),
    events.AgentMuted: ("muted", "until"),
    events.SessionPlaced: ("folder", "pane", "conversation"),
    link_events.TurnEnded: ("turn", "outcome", "size", "digest", "human", "checkpoint"),
    link_events.LinkLeft: ("link", "reason"),
    link_events.LinkPaused: ("link", "reason"),
    link_events.LinkResumed: ("link",),
    link_events.LinkClosed: ("link", "reason"),
}
"""Events with the fields that are shown unchanged."""


def _of_agent(event: _OfAgent) -> dict[str, Any]:
    if isinstance(event, events.MessagesRead):
        return {"ids": _ids(event.seqs), "evidence": event.evidence}
    if isinstance(event, events.MessagesDelivered | events.MessagesReturned | events.MessagesExpired):
        return {"ids": _ids(event.seqs)}
    if isinstance(event, events.MessageAnswered):
        return {"id": format_id("m", event.seq)}
    if isinstance(event, events.AgentUpdated):
        changes: dict[str, Any] = {"name": event.name, "kind": event.kind, "capabilities": event.capabilities}
        changes["metadata"] = event.metadata
        return {key: value for key, value in changes.items() if value is not None}
    if isinstance(event, events.TopicJoined | events.TopicLeft):
        return {"topic": f"#{event.topic}"}
    return _plain(event)


def _plain(event: AnyEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _PLAIN.get(type(event), ())}


_OnLink: TypeAlias = (
    link_events.LinkOpened
    | link_events.LinkJoined
    | link_events.LinkLeft
    | link_events.LinkPaused
    | link_events.LinkResumed
    | link_events.LinkClosed
)


def _on_link(event: _OnLink, seq: int, name_of: NameOf) -> AuditLine:
    if isinstance(event, link_events.LinkOpened):
        detail = {"link": format_id("l", seq), "direct": event.direct}
        return AuditLine(name_of(event.opener), [seat.name for seat in event.members], detail)
    if isinstance(event, link_events.LinkJoined):
        detail = {"link": event.link, "number": event.member.number, "role": event.member.role}
        return AuditLine(name_of(event.by), [event.member.name], detail)
    if isinstance(event, link_events.LinkLeft):
        return AuditLine(name_of(event.agent), [], _plain(event))
    by = "" if isinstance(event, link_events.LinkPaused) else name_of(event.by)
    return AuditLine(by, [], _plain(event))


_RELATED = ("peer", "parent", "child", "by")
"""Fields of an event that name another agent."""
_UNTOLD = frozenset({"agent", "task", "output", "session", *_RELATED})
"""Said elsewhere in the row, or words and secrets that a record does not repeat."""


def _of_child_event(event: child_events.ChildEvent, name_of: NameOf) -> AuditLine:
    fields = msgspec.structs.asdict(event)
    who = name_of(fields.get("agent", ""))
    whom = [name_of(fields[name]) for name in _RELATED if fields.get(name)]
    detail = {name: value for name, value in fields.items() if name not in _UNTOLD and value}
    return AuditLine(who, whom, msgspec.to_builtins(detail))


_OF_MACHINES = frozenset({"id", "machine", "agent", "card", "carriers", "mark", "seqs"})
"""Said elsewhere in the row, or keys and passwords that a record does not repeat."""


def _of_machine_event(
    event: events.BrokerStarted | machine_events.MachineEvent, name_of: NameOf
) -> AuditLine:
    if isinstance(event, events.BrokerStarted):
        return AuditLine("", [], {"version": event.version_text})
    fields = msgspec.structs.asdict(event)
    told = fields.get("agent", "")
    whom = [name_of(told)] if isinstance(told, str) and told else []
    if isinstance(event, machine_events.RemoteAgentTold):
        whom = [event.agent.name]
    detail = {word: value for word, value in fields.items() if word not in _OF_MACHINES and value}
    if fields.get("seqs"):
        detail["ids"] = _ids(fields["seqs"])
    who = name_of(fields.get("machine") or fields.get("id") or "")
    return AuditLine(who, whom, msgspec.to_builtins(detail))


def _ids(seqs: list[int]) -> list[str]:
    return [format_id("m", seq) for seq in seqs]


def decide_tell_operator(state: State, command: TellOperator, context: Context) -> Decision:
    """A notice to the operator, if it is registered yet."""
    post = Post(context)
    post.tell_all(state, [], command.text, "storage", operator=True)
    return Decision(None, post.events, post.texts)
