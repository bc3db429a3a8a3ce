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

from tellwire.core.agents import peers, profile, register, roster, seats
from tellwire.core.children import lifecycle, scopes, spawn
from tellwire.core.context import (
    BeginIncarnation,
    Caller,
    Context,
    Decision,
    EndSession,
    ExpireDue,
    FetchFor,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    NameMachine,
    NoteAcked,
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    NoteEvidence,
    NoteMachine,
    NoteParcels,
    NoteRefusals,
    OfferWaiting,
    PlaceSession,
    ReportTurn,
    ReserveAsk,
    ReserveChild,
    ReturnLease,
    StartBroker,
    SweepChildren,
    TakeItems,
    TellOperator,
    TellOverdue,
    TellRoster,
)
from tellwire.core.links import links, listeners, turns
from tellwire.core.links.session_end import with_session_end
from tellwire.core.machines import inbound, outbox, pairing, remote_agents
from tellwire.core.mail import fetching, receipts, send, topics
from tellwire.core.operator import needs
from tellwire.core.record import audit, explain, history, overview, talks, threads
from tellwire.core.state import State
from tellwire.protocol import events
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent
from tellwire.protocol.events import children as child_events
from tellwire.protocol.events import links as link_events
from tellwire.protocol.events import machines as machine_events
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
from tellwire.protocol.operations.asking import AskAgent, CancelAsk
from tellwire.protocol.operations.audit import ReadAudit
from tellwire.protocol.operations.base import AGENT, Operation
from tellwire.protocol.operations.children import ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.explain import ExplainMessage, GetMessage, ReadThread
from tellwire.protocol.operations.feed import Overview, ReportActivity, WatchFeed
from tellwire.protocol.operations.history import ListConversations, ReadHistory, SearchMessages
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
from tellwire.protocol.operations.machines import (
    ListMachines,
    PairMachine,
    RemoveMachine,
    RenameMachine,
    SetTrust,
    ShowMachine,
)
from tellwire.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    MessageStatus,
    PeekMessages,
    SendMessage,
    TakeMessages,
)
from tellwire.protocol.operations.needs import AnswerMessage, Glance, ListNeeds
from tellwire.protocol.operations.peers import ListPeers, MeshPolicy, RegisterPeer, RemovePeer, SendToPeer
from tellwire.protocol.operations.scopes import ClaimScope, ListScopes, ReleaseScope, WhoOwns
from tellwire.protocol.operations.topics import ListTopics, Subscribe, Unsubscribe

OwnCommand: TypeAlias = (
    OfferWaiting
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
    | ReserveChild
    | ReserveAsk
    | NoteChildStarted
    | NoteChildUp
    | NoteChildFailed
    | NoteChildEnd
    | SweepChildren
    | TakeItems
    | NoteAcked
    | BeginIncarnation
    | NoteMachine
    | TellRoster
    | NoteParcels
    | NameMachine
)
Command: TypeAlias = AnyOperation | OwnCommand
Decider: TypeAlias = Callable[[State, Any, Context], Decision]
Applier: TypeAlias = Callable[[State, Any], None]


def _decide_heartbeat(_state: State, _operation: Heartbeat, _context: Context) -> Decision:
    return Decision(Done())


DECIDERS: dict[type, Decider] = {
    RegisterAgent: with_session_end(register.decide_register),
    UpdateAgent: with_session_end(profile.decide_update),
    MuteAgent: profile.decide_mute,
    UnregisterAgent: with_session_end(register.decide_unregister),
    Heartbeat: _decide_heartbeat,
    ListAgents: roster.decide_list,
    GetAgent: roster.decide_get,
    SendMessage: send.decide_send,
    ClaimMessages: receipts.decide_claim,
    ConfirmMessages: receipts.decide_confirm,
    TakeMessages: fetching.decide_take,
    PeekMessages: receipts.decide_peek,
    MessageStatus: receipts.decide_status,
    ListNeeds: needs.decide_needs,
    Glance: needs.decide_glance,
    AnswerMessage: needs.decide_answer,
    Subscribe: topics.decide_subscribe,
    Unsubscribe: topics.decide_unsubscribe,
    ListTopics: topics.decide_list_topics,
    OpenLink: links.decide_open,
    AddMember: links.decide_add,
    LeaveLink: links.decide_leave,
    CloseLink: links.decide_close,
    ResumeLink: links.decide_resume,
    ListLinks: links.decide_list,
    LinkHistory: history.decide_link_history,
    Listen: listeners.decide_listen,
    Unlisten: listeners.decide_unlisten,
    MarkCheckpoint: turns.decide_checkpoint,
    TellOverdue: listeners.decide_overdue,
    TellOperator: audit.decide_tell_operator,
    GetMessage: explain.decide_get_message,
    ExplainMessage: explain.decide_explain,
    ReadThread: threads.decide_thread,
    ListConversations: talks.decide_conversations,
    ReadHistory: history.decide_history,
    SearchMessages: history.decide_search,
    ReadAudit: audit.decide_audit,
    WatchFeed: audit.decide_watch,
    Overview: overview.decide_overview,
    ReportActivity: overview.decide_report_activity,
    OfferWaiting: receipts.decide_offer,
    FetchFor: fetching.decide_fetch,
    NoteEvidence: fetching.decide_evidence,
    ReturnLease: fetching.decide_return,
    ReportTurn: turns.decide_report,
    ExpireDue: receipts.decide_expire,
    PlaceSession: with_session_end(seats.decide_place),
    EndSession: with_session_end(register.decide_end_session),
    MarkSilent: register.decide_silent,
    MarkAlive: register.decide_alive,
    ForgetAbsent: with_session_end(register.decide_forget_absent),
    NoteRefusals: audit.decide_note_refusals,
    StartBroker: register.decide_start_broker,
    RegisterPeer: peers.decide_register_peer,
    RemovePeer: peers.decide_remove_peer,
    ListPeers: peers.decide_list_peers,
    SendToPeer: peers.decide_send_to_peer,
    MeshPolicy: peers.decide_policy,
    ClaimScope: scopes.decide_claim_scope,
    ReleaseScope: scopes.decide_release_scope,
    WhoOwns: scopes.decide_who_owns,
    ListScopes: scopes.decide_list_scopes,
    SpawnAgent: spawn.decide_spawn,
    ReserveChild: spawn.decide_reserve,
    AskAgent: spawn.decide_ask,
    ReserveAsk: spawn.decide_reserve_ask,
    CancelAsk: with_session_end(spawn.decide_cancel_ask),
    StopAgent: with_session_end(spawn.decide_stop_agent),
    ListChildren: lifecycle.decide_list_children,
    NoteChildStarted: spawn.decide_child_started,
    NoteChildUp: spawn.decide_child_up,
    NoteChildFailed: with_session_end(spawn.decide_child_failed),
    NoteChildEnd: with_session_end(spawn.decide_child_end),
    SweepChildren: with_session_end(spawn.decide_sweep),
    ListMachines: pairing.decide_list_machines,
    ShowMachine: pairing.decide_show_machine,
    PairMachine: pairing.decide_pair,
    RenameMachine: pairing.decide_rename_machine,
    SetTrust: pairing.decide_set_trust,
    RemoveMachine: pairing.decide_remove_machine,
    TakeItems: inbound.decide_take,
    NoteAcked: inbound.decide_acked,
    BeginIncarnation: inbound.decide_incarnation,
    NoteMachine: inbound.decide_note_machine,
    TellRoster: inbound.decide_tell_roster,
    NoteParcels: pairing.decide_note_parcels,
    NameMachine: pairing.decide_name_machine,
}

CALLERS: dict[type, frozenset[str]] = {kind: kind.callers for kind in OPERATIONS.values()}

APPLIERS: dict[type, Applier] = {
    events.BrokerStarted: register.apply_broker_started,
    events.AgentRegistered: register.apply_registered,
    events.SessionStarted: register.apply_session_started,
    events.SessionPlaced: seats.apply_placed,
    events.AgentUpdated: profile.apply_updated,
    events.AgentOnline: register.apply_online,
    events.AgentOffline: register.apply_offline,
    events.AgentMuted: profile.apply_muted,
    events.AgentForgotten: register.apply_forgotten,
    events.MessageQueued: send.apply_queued,
    events.MessagesDelivered: receipts.apply_delivered,
    events.MessagesReturned: fetching.apply_returned,
    events.MessagesRead: receipts.apply_read,
    events.MessageAnswered: receipts.apply_answered,
    events.MessagesExpired: receipts.apply_expired,
    events.TopicJoined: topics.apply_topic_joined,
    events.TopicLeft: topics.apply_topic_left,
    link_events.TurnEnded: turns.apply_turn_ended,
    link_events.CheckpointMarked: turns.apply_checkpoint,
    link_events.LinkOpened: links.apply_opened,
    link_events.LinkJoined: links.apply_joined,
    link_events.LinkLeft: links.apply_left,
    link_events.LinkPaused: links.apply_paused,
    link_events.LinkResumed: links.apply_resumed,
    link_events.LinkClosed: links.apply_closed,
    link_events.ListenerAdded: listeners.apply_added,
    link_events.ListenerRemoved: listeners.apply_removed,
    link_events.AgentOverdue: listeners.apply_overdue,
    events.CallRefused: audit.apply_refused,
    child_events.PeersJoined: peers.apply_peers_joined,
    child_events.PeersParted: peers.apply_peers_parted,
    child_events.PolicySet: peers.apply_policy,
    child_events.ScopeClaimed: scopes.apply_scope_claimed,
    child_events.ScopeReleased: scopes.apply_scope_released,
    child_events.ScopeSubDelegated: lifecycle.apply_sub_delegated,
    child_events.ChildReserved: lifecycle.apply_child_reserved,
    child_events.ChildStarted: lifecycle.apply_child_started,
    child_events.ChildConfirmed: lifecycle.apply_child_confirmed,
    child_events.ChildReported: lifecycle.apply_child_reported,
    child_events.ChildUnheard: lifecycle.apply_child_unheard,
    child_events.ChildFailed: lifecycle.apply_child_failed,
    child_events.ChildStopAsked: lifecycle.apply_stop_asked,
    child_events.ChildEnded: lifecycle.apply_child_ended,
    machine_events.MachineNamed: pairing.apply_named,
    machine_events.MachinePaired: pairing.apply_paired,
    machine_events.MachineUpdated: pairing.apply_updated,
    machine_events.MachineRemoved: pairing.apply_removed,
    machine_events.MachineOnline: pairing.apply_machine_online,
    machine_events.MachineOffline: pairing.apply_machine_offline,
    machine_events.RemoteAgentTold: remote_agents.apply_told,
    machine_events.RosterTaken: pairing.apply_roster_taken,
    machine_events.RosterTold: outbox.apply_roster_told,
    machine_events.ParcelTaken: outbox.apply_taken,
    machine_events.ParcelsAcked: outbox.apply_acked,
    machine_events.IncarnationBegun: outbox.apply_incarnation,
    machine_events.ItemRefused: outbox.apply_item_refused,
    machine_events.MessagesWithdrawn: outbox.apply_withdrawn,
    machine_events.ReceiptGiven: outbox.apply_receipt_given,
    machine_events.ReceiptsTaken: outbox.apply_receipts_taken,
    machine_events.MessagesRefused: outbox.apply_messages_refused,
    machine_events.ParcelsRefused: pairing.apply_parcels_refused,
}


def decide(state: State, command: Command, context: Context) -> Decision:
    """Answer a command without changing the state.

    Raises:
        TellwireError: the command is refused.
    """
    kind = type(command)
    callers = CALLERS.get(kind)
    if callers is not None and (context.caller.kind not in callers or context.caller.adrift):
        check_caller(command, context.caller)  # pyright: ignore[reportArgumentType]  # these are operations
    return DECIDERS[kind](state, command, context)


def apply(state: State, event: AnyEvent) -> None:
    """Apply one event, whatever its audience (AUD-2)."""
    state.seq += 1
    APPLIERS[type(event)](state, event)


def apply_batch(state: State, batch: list[AnyEvent], *, seq: int, now: float, awake: float) -> None:
    """Replay one commit whose last event is `seq`; one that is already known changes nothing."""
    if seq <= state.seq:
        return
    state.now, state.awake = now, awake
    for event in batch:
        apply(state, event)


def check_caller(operation: Operation[Any], caller: Caller) -> None:
    """Refuse an operation that this kind of caller may not ask for.

    Raises:
        TellwireError: `not_registered` or `forbidden`.
    """
    if caller.adrift and AGENT not in operation.callers:
        raise TellwireError(
            "forbidden",
            f"This program may have been started by an agent, so it may not call {operation.wire_name()}.",
            "Run the command in a terminal.",
        )
    if caller.kind in operation.callers:
        return
    if "agent" in operation.callers:
        raise TellwireError("not_registered", "This connection has no agent.")
    who = "An agent" if caller.kind == AGENT else "A program that no person runs at a terminal"
    raise TellwireError("forbidden", f"{who} may not call {operation.wire_name()}.")
