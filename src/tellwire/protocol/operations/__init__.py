"""The table of operations, one file for each noun: every surface is built from it. Imports only `base`."""

from __future__ import annotations

from typing import Any, TypeAlias

from tellwire.protocol.operations.agents import (
    GetAgent,
    Heartbeat,
    ListAgents,
    MuteAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.asking import AskAgent, CancelAsk
from tellwire.protocol.operations.audit import AcknowledgeLosses, ReadAudit
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.broker import BrokerStatus, Diagnose, StopBroker
from tellwire.protocol.operations.children import ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.explain import ExplainMessage, GetMessage, ReadThread
from tellwire.protocol.operations.feed import Overview, ReportActivity, WatchFeed
from tellwire.protocol.operations.history import ListConversations, PurgeHistory, ReadHistory, SearchMessages
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
    MachineCard,
    PairMachine,
    RemoveMachine,
    RenameMachine,
    RenewMachine,
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
from tellwire.protocol.operations.needs import AnswerMessage, Attend, Glance, ListNeeds
from tellwire.protocol.operations.peers import ListPeers, MeshPolicy, RegisterPeer, RemovePeer, SendToPeer
from tellwire.protocol.operations.scopes import ClaimScope, ListScopes, ReleaseScope, WhoOwns
from tellwire.protocol.operations.sessions import GetSessionData
from tellwire.protocol.operations.topics import ListTopics, Subscribe, Unsubscribe

AnyOperation: TypeAlias = (
    RegisterAgent
    | UpdateAgent
    | MuteAgent
    | UnregisterAgent
    | Heartbeat
    | ListAgents
    | GetAgent
    | SendMessage
    | ClaimMessages
    | ConfirmMessages
    | TakeMessages
    | PeekMessages
    | MessageStatus
    | ListNeeds
    | Glance
    | AnswerMessage
    | Attend
    | Subscribe
    | Unsubscribe
    | ListTopics
    | RegisterPeer
    | RemovePeer
    | ListPeers
    | SendToPeer
    | MeshPolicy
    | ClaimScope
    | ReleaseScope
    | WhoOwns
    | ListScopes
    | SpawnAgent
    | StopAgent
    | ListChildren
    | AskAgent
    | CancelAsk
    | OpenLink
    | AddMember
    | LeaveLink
    | CloseLink
    | ResumeLink
    | ListLinks
    | LinkHistory
    | Listen
    | Unlisten
    | MarkCheckpoint
    | ListMachines
    | ShowMachine
    | PairMachine
    | RenameMachine
    | SetTrust
    | RemoveMachine
    | MachineCard
    | RenewMachine
    | GetMessage
    | ExplainMessage
    | ReadThread
    | ReadHistory
    | SearchMessages
    | ListConversations
    | PurgeHistory
    | GetSessionData
    | ReadAudit
    | AcknowledgeLosses
    | WatchFeed
    | Overview
    | ReportActivity
    | BrokerStatus
    | Diagnose
    | StopBroker
)

OPERATIONS: dict[str, type[Operation[Any]]] = {kind.wire_name(): kind for kind in AnyOperation.__args__}
