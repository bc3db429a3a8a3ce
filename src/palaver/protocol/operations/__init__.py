"""The table of operations: the one place where a surface learns what can be asked."""

from __future__ import annotations

from typing import Any, TypeAlias

from palaver.protocol.operations.agents import (
    GetAgent,
    Heartbeat,
    ListAgents,
    MuteAgent,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from palaver.protocol.operations.asking import AskAgent, CancelAsk
from palaver.protocol.operations.audit import ReadAudit
from palaver.protocol.operations.base import Operation
from palaver.protocol.operations.broker import BrokerStatus, Diagnose, StopBroker
from palaver.protocol.operations.children import ListChildren, SpawnAgent, StopAgent
from palaver.protocol.operations.feed import WatchFeed
from palaver.protocol.operations.history import PurgeHistory, ReadHistory, SearchMessages
from palaver.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from palaver.protocol.operations.listeners import Listen, MarkCheckpoint, Unlisten
from palaver.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    MessageStatus,
    PeekMessages,
    SendMessage,
    TakeMessages,
)
from palaver.protocol.operations.peers import ListPeers, MeshPolicy, RegisterPeer, RemovePeer, SendToPeer
from palaver.protocol.operations.scopes import ClaimScope, ListScopes, ReleaseScope, WhoOwns
from palaver.protocol.operations.sessions import GetSessionData
from palaver.protocol.operations.topics import Subscribe, Unsubscribe

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
    | Subscribe
    | Unsubscribe
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
    | ReadHistory
    | SearchMessages
    | PurgeHistory
    | GetSessionData
    | ReadAudit
    | WatchFeed
    | BrokerStatus
    | Diagnose
    | StopBroker
)

OPERATIONS: dict[str, type[Operation[Any]]] = {kind.word(): kind for kind in AnyOperation.__args__}
