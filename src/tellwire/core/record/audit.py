"""The journal as people read it: who did what to whom, and what was refused. Bodies appear by digest only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tellwire.core.context import Context, Decision, NoteRefusals, TellOperator
from tellwire.core.mail.notices import Post
from tellwire.core.record.queries import Entry
from tellwire.core.state import State
from tellwire.protocol import events
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, CallRefused
from tellwire.protocol.events import children as lineage
from tellwire.protocol.events import links as conversations
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.audit import Audit, AuditRow, ReadAudit
from tellwire.protocol.operations.base import snake_case
from tellwire.protocol.operations.feed import WatchFeed

NameOf: TypeAlias = Callable[[str], str]


class Line(NamedTuple):
    """An event in words."""

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
    entries = context.entries(operation.after, operation.before, limit + 1)
    more = len(entries) > limit
    kept = entries[:limit] if operation.after else entries[-limit:]
    name_of = namer(state, context.former_name)
    rows = [format_row(entry, name_of) for entry in kept]
    return Decision(Audit(rows=rows, more=more, head=context.head()))


def decide_watch(_state: State, _operation: WatchFeed, _context: Context) -> Decision:
    """Whoever may watch may; the broker's feed does the rest."""
    return Decision(Done())


def decide_note_refusals(_state: State, command: NoteRefusals, _context: Context) -> Decision:
    """Record refused calls as events."""
    return Decision(None, list(command.refusals))


def apply_refused(_state: State, _event: CallRefused) -> None:
    """A refusal changes nothing; that it was asked is the fact."""


def namer(state: State, former_name: NameOf) -> NameOf:
    """From an agent's id to its name; any other word stays."""

    def name_of(agent_id: str) -> str:
        agent = state.agents.get(agent_id)
        return former_name(agent_id) if agent is None else agent.name

    return name_of


def format_row(entry: Entry, name_of: NameOf) -> AuditRow:
    """One event as a row."""
    line = describe(entry.event, entry.seq, name_of)
    word = word_of(entry.event)
    return AuditRow(seq=entry.seq, at=entry.at, type=word, who=line.who, whom=line.whom, detail=line.detail)


def word_of(event: AnyEvent) -> str:
    """The event's word in the journal."""
    return _WORDS[type(event)]


_WORDS: dict[type, str] = {kind: snake_case(kind.__name__) for kind in events.EVENTS.values()}


def describe(event: AnyEvent, seq: int, name_of: NameOf) -> Line:
    """Put an event into words."""
    if isinstance(event, events.MessageQueued):
        return Line(event.sender_name, [name_of(agent) for agent in event.recipients], _message(event, seq))
    if isinstance(event, events.AgentRegistered):
        detail = {
            "id": format_id("a", seq),
            "kind": event.kind,
            "group": event.group,
            "process": event.process,
        }
        return Line(event.name, [], detail)
    if isinstance(event, CallRefused):
        detail = {
            "operation": event.operation,
            "code": event.code,
            "count": event.count,
            "since": event.since,
        }
        return Line(name_of(event.caller), [], detail)
    if isinstance(event, events.BrokerStarted):
        return Line("", [], {"version": event.version_text})
    if isinstance(event, _OnLink):
        return _on_link(event, seq, name_of)
    if isinstance(event, conversations.ListenerAdded | conversations.ListenerRemoved):
        return Line(name_of(event.listener), [name_of(event.agent)], {})
    if isinstance(event, lineage.LineageEvent):
        return _of_lineage(event, name_of)
    return Line(name_of(event.agent), [], _of_agent(event))


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
    | conversations.TurnEnded
    | conversations.AgentOverdue
    | conversations.CheckpointMarked
)


_PLAIN: dict[type, tuple[str, ...]] = {
    events.SessionStarted: ("group", "process"),
    events.AgentOffline: ("reason",),
    events.AgentMuted: ("muted", "until"),
    events.SessionPlaced: ("folder", "pane", "conversation"),
    conversations.TurnEnded: ("turn", "outcome", "size", "digest", "human", "checkpoint"),
    conversations.LinkLeft: ("link", "reason"),
    conversations.LinkPaused: ("link", "reason"),
    conversations.LinkResumed: ("link",),
    conversations.LinkClosed: ("link", "reason"),
}
"""Events of which some fields are told as they are."""


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
    conversations.LinkOpened
    | conversations.LinkJoined
    | conversations.LinkLeft
    | conversations.LinkPaused
    | conversations.LinkResumed
    | conversations.LinkClosed
)


def _on_link(event: _OnLink, seq: int, name_of: NameOf) -> Line:
    if isinstance(event, conversations.LinkOpened):
        detail = {"link": format_id("l", seq), "direct": event.direct}
        return Line(name_of(event.opener), [seat.name for seat in event.members], detail)
    if isinstance(event, conversations.LinkJoined):
        detail = {"link": event.link, "number": event.member.number, "role": event.member.role}
        return Line(name_of(event.by), [event.member.name], detail)
    if isinstance(event, conversations.LinkLeft):
        return Line(name_of(event.agent), [], _plain(event))
    by = "" if isinstance(event, conversations.LinkPaused) else name_of(event.by)
    return Line(by, [], _plain(event))


_KIN = ("peer", "parent", "child", "by")
"""Fields of an event that name another agent."""
_UNTOLD = frozenset({"agent", "task", "output", "session", *_KIN})
"""Said elsewhere in the row, or words and secrets that a record does not repeat."""


def _of_lineage(event: lineage.LineageEvent, name_of: NameOf) -> Line:
    fields = msgspec.structs.asdict(event)
    who = name_of(fields.get("agent", ""))
    whom = [name_of(fields[word]) for word in _KIN if fields.get(word)]
    detail = {word: value for word, value in fields.items() if word not in _UNTOLD and value}
    return Line(who, whom, msgspec.to_builtins(detail))


def _ids(seqs: list[int]) -> list[str]:
    return [format_id("m", seq) for seq in seqs]


def decide_tell_operator(state: State, command: TellOperator, context: Context) -> Decision:
    """A notice to the operator, if there is one yet."""
    post = Post(context)
    post.tell_all(state, [], command.text, "storage", operator=True)
    return Decision(None, post.events, post.texts)
