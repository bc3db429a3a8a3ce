"""The kernel: `decide` answers a command without changing anything; `apply` is the only change.

    decide(state, command, context) -> Decision(reply, events, texts)
    apply(state, event)

A command is an operation of the protocol or one of the broker's own (core/context). The engine decides and
applies the commands of a tick one after another, commits their events at once, and only then lets anyone hear
of them. Replaying the journal through `apply` gives the same state again, so there is nothing else to save.
The tables below are the whole dispatch; to add an operation is to add a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tellwire.core.agents import muting, renaming, roster, seats
from tellwire.core.agents import register as agents
from tellwire.core.children import lineage
from tellwire.core.children.lineage import LineageCommand
from tellwire.core.context import (
    Context,
    Decision,
    EndSession,
    ExpireDue,
    FetchFor,
    ForgetAbsent,
    HandOver,
    MarkAlive,
    MarkSilent,
    NoteEvidence,
    NoteRefusals,
    PlaceSession,
    ReportTurn,
    ReturnLease,
    StartBroker,
    TellOperator,
    TellOverdue,
)
from tellwire.core.links import link_roster, links, listeners, turns
from tellwire.core.links.session_end import with_partings
from tellwire.core.mail import fetching as taking
from tellwire.core.mail import receipts, topics
from tellwire.core.mail import send as mailboxes
from tellwire.core.operator import needs
from tellwire.core.record import audit, history
from tellwire.core.state import State
from tellwire.protocol import events
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.events import links as conversations
from tellwire.protocol.operations import OPERATIONS, AnyOperation
from tellwire.protocol.operations.agents import (
    Done,
    GetAgent,
    Heartbeat,
    ListAgents,
    MuteAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.audit import ReadAudit
from tellwire.protocol.operations.base import AGENT, Operation
from tellwire.protocol.operations.feed import WatchFeed
from tellwire.protocol.operations.history import ReadHistory, SearchMessages
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from tellwire.protocol.operations.listeners import Listen, MarkCheckpoint, Unlisten
from tellwire.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    MessageStatus,
    PeekMessages,
    SendMessage,
    TakeMessages,
)
from tellwire.protocol.operations.needs import AnswerMessage, ListNeeds
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe

OwnCommand: TypeAlias = (
    HandOver
    | FetchFor
    | NoteEvidence
    | ReturnLease
    | ReportTurn
    | ExpireDue
    | PlaceSession
    | EndSession
    | MarkSilent
    | MarkAlive
    | ForgetAbsent
    | TellOverdue
    | TellOperator
    | NoteRefusals
    | StartBroker
    | LineageCommand
)
Command: TypeAlias = AnyOperation | OwnCommand
Decider: TypeAlias = Callable[[State, Any, Context], Decision]
Applier: TypeAlias = Callable[[State, Any], None]


def _decide_heartbeat(_state: State, _operation: Heartbeat, _context: Context) -> Decision:
    return Decision(Done())


DECIDERS: dict[type, Decider] = {
    RegisterAgent: with_partings(agents.decide_register),
    UpdateAgent: with_partings(renaming.decide_update),
    MuteAgent: muting.decide_mute,
    UnregisterAgent: with_partings(agents.decide_unregister),
    Heartbeat: _decide_heartbeat,
    ListAgents: roster.decide_list,
    GetAgent: roster.decide_get,
    SendMessage: mailboxes.decide_send,
    ClaimMessages: receipts.decide_claim,
    ConfirmMessages: receipts.decide_confirm,
    TakeMessages: taking.decide_take,
    PeekMessages: receipts.decide_peek,
    MessageStatus: receipts.decide_status,
    ListNeeds: needs.decide_needs,
    AnswerMessage: needs.decide_answer,
    Subscribe: topics.decide_subscribe,
    Unsubscribe: topics.decide_unsubscribe,
    OpenLink: links.decide_open,
    AddMember: links.decide_add,
    LeaveLink: links.decide_leave,
    CloseLink: links.decide_close,
    ResumeLink: links.decide_resume,
    ListLinks: link_roster.decide_list,
    LinkHistory: history.decide_link_history,
    Listen: listeners.decide_listen,
    Unlisten: listeners.decide_unlisten,
    MarkCheckpoint: turns.decide_checkpoint,
    TellOverdue: listeners.decide_overdue,
    TellOperator: audit.decide_tell_operator,
    ReadHistory: history.decide_history,
    SearchMessages: history.decide_search,
    ReadAudit: audit.decide_audit,
    WatchFeed: audit.decide_watch,
    HandOver: receipts.decide_hand_over,
    FetchFor: taking.decide_fetch,
    NoteEvidence: taking.decide_evidence,
    ReturnLease: taking.decide_return,
    ReportTurn: turns.decide_report,
    ExpireDue: receipts.decide_expire,
    PlaceSession: with_partings(seats.decide_place),
    EndSession: with_partings(agents.decide_end_session),
    MarkSilent: agents.decide_silent,
    MarkAlive: agents.decide_alive,
    ForgetAbsent: with_partings(agents.decide_forget_absent),
    NoteRefusals: audit.decide_note_refusals,
    StartBroker: agents.decide_start_broker,
    **lineage.DECIDERS,
}

CALLERS: dict[type, frozenset[str]] = {kind: kind.callers for kind in OPERATIONS.values()}

APPLIERS: dict[type, Applier] = {
    events.BrokerStarted: agents.apply_broker_started,
    events.AgentRegistered: agents.apply_registered,
    events.SessionStarted: agents.apply_session_started,
    events.SessionPlaced: seats.apply_placed,
    events.AgentUpdated: renaming.apply_updated,
    events.AgentOnline: agents.apply_online,
    events.AgentOffline: agents.apply_offline,
    events.AgentMuted: muting.apply_muted,
    events.AgentForgotten: agents.apply_forgotten,
    events.MessageQueued: mailboxes.apply_queued,
    events.MessagesDelivered: receipts.apply_delivered,
    events.MessagesReturned: taking.apply_returned,
    events.MessagesRead: receipts.apply_read,
    events.MessageAnswered: receipts.apply_answered,
    events.MessagesExpired: receipts.apply_expired,
    events.TopicJoined: topics.apply_topic_joined,
    events.TopicLeft: topics.apply_topic_left,
    conversations.TurnEnded: turns.apply_turn_ended,
    conversations.CheckpointMarked: turns.apply_checkpoint,
    conversations.LinkOpened: links.apply_opened,
    conversations.LinkJoined: links.apply_joined,
    conversations.LinkLeft: links.apply_left,
    conversations.LinkPaused: links.apply_paused,
    conversations.LinkResumed: links.apply_resumed,
    conversations.LinkClosed: links.apply_closed,
    conversations.ListenerAdded: listeners.apply_added,
    conversations.ListenerRemoved: listeners.apply_removed,
    conversations.AgentOverdue: listeners.apply_overdue,
    events.CallRefused: audit.apply_refused,
    **lineage.APPLIERS,
}


def decide(state: State, command: Command, context: Context) -> Decision:
    """Answer a command; the state stays as it is.

    Raises:
        TellwireError: the command is refused.
    """
    kind = type(command)
    callers = CALLERS.get(kind)
    if callers is not None and (context.caller.kind not in callers or context.caller.adrift):
        check_caller(command, context)  # pyright: ignore[reportArgumentType]  # only operations are in the table
    return DECIDERS[kind](state, command, context)


def apply(state: State, event: AnyEvent) -> None:
    """Take one fact over; whatever its audience (AUD-2)."""
    state.seq += 1
    APPLIERS[type(event)](state, event)


def apply_batch(state: State, batch: list[AnyEvent], *, seq: int, now: float, awake: float) -> None:
    """Replay one commit whose last event is `seq`; one that is already known changes nothing."""
    if seq <= state.seq:
        return
    state.now, state.awake = now, awake
    for event in batch:
        apply(state, event)


def check_caller(operation: Operation[Any], context: Context) -> None:
    """Refuse an operation that this kind of caller may not ask for.

    Raises:
        TellwireError: `not_registered` or `forbidden`.
    """
    if context.caller.adrift and AGENT not in operation.callers:
        raise TellwireError(
            "forbidden",
            f"This program may have been started by an agent, so it may not call {operation.word()}.",
            "Run the command in a terminal.",
        )
    if context.caller.kind in operation.callers:
        return
    if "agent" in operation.callers:
        raise TellwireError("not_registered", "This connection has no agent.")
    who = "An agent" if context.caller.kind == AGENT else "A program that no person runs at a terminal"
    raise TellwireError("forbidden", f"{who} may not call {operation.word()}.")
