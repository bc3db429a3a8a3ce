"""The table of operations: the one place where a surface learns what can be asked."""

from __future__ import annotations

from typing import Any, TypeAlias

from palaver.protocol.operations.agents import (
    GetAgent,
    Heartbeat,
    ListAgents,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from palaver.protocol.operations.audit import ReadAudit
from palaver.protocol.operations.base import Operation
from palaver.protocol.operations.broker import BrokerStatus, StopBroker
from palaver.protocol.operations.feed import WatchFeed
from palaver.protocol.operations.history import PurgeHistory, ReadHistory, SearchMessages
from palaver.protocol.operations.messages import (
    ClaimMessages,
    ConfirmMessages,
    MessageStatus,
    PeekMessages,
    SendMessage,
    TakeMessages,
)
from palaver.protocol.operations.topics import Subscribe, Unsubscribe

AnyOperation: TypeAlias = (
    RegisterAgent
    | UpdateAgent
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
    | ReadHistory
    | SearchMessages
    | PurgeHistory
    | ReadAudit
    | WatchFeed
    | BrokerStatus
    | StopBroker
)

OPERATIONS: dict[str, type[Operation[Any]]] = {kind.word(): kind for kind in AnyOperation.__args__}
