"""The rows of the kernel's tables for peers, scopes and children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tellwire.core.agents import peers
from tellwire.core.children import asking, child_records, scopes
from tellwire.core.children import lifecycle as descent
from tellwire.core.children import spawn as children
from tellwire.core.context import (
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReserveAsk,
    ReserveChild,
    SweepLineage,
)
from tellwire.core.links.session_end import with_partings
from tellwire.protocol.events import children as lineage
from tellwire.protocol.operations.asking import AskAgent, CancelAsk
from tellwire.protocol.operations.children import ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.peers import ListPeers, MeshPolicy, RegisterPeer, RemovePeer, SendToPeer
from tellwire.protocol.operations.scopes import ClaimScope, ListScopes, ReleaseScope, WhoOwns

LineageCommand: TypeAlias = (
    ReserveChild | ReserveAsk | NoteChildStarted | NoteChildUp | NoteChildFailed | NoteChildEnd | SweepLineage
)

DECIDERS: dict[type, Callable[..., Any]] = {
    RegisterPeer: peers.decide_register_peer,
    RemovePeer: peers.decide_remove_peer,
    ListPeers: peers.decide_list_peers,
    SendToPeer: peers.decide_send_to_peer,
    MeshPolicy: peers.decide_policy,
    ClaimScope: scopes.decide_claim_scope,
    ReleaseScope: scopes.decide_release_scope,
    WhoOwns: scopes.decide_who_owns,
    ListScopes: scopes.decide_list_scopes,
    SpawnAgent: children.decide_spawn,
    ReserveChild: children.decide_reserve,
    AskAgent: asking.decide_ask,
    ReserveAsk: asking.decide_reserve_ask,
    CancelAsk: with_partings(asking.decide_cancel_ask),
    StopAgent: with_partings(children.decide_stop_agent),
    ListChildren: child_records.decide_list_children,
    NoteChildStarted: children.decide_child_started,
    NoteChildUp: children.decide_child_up,
    NoteChildFailed: with_partings(children.decide_child_failed),
    NoteChildEnd: with_partings(children.decide_child_end),
    SweepLineage: with_partings(children.decide_sweep),
}

APPLIERS: dict[type, Callable[..., None]] = {
    lineage.PeersJoined: peers.apply_peers_joined,
    lineage.PeersParted: peers.apply_peers_parted,
    lineage.PolicySet: peers.apply_policy,
    lineage.ScopeClaimed: scopes.apply_scope_claimed,
    lineage.ScopeReleased: scopes.apply_scope_released,
    lineage.ScopeSubDelegated: descent.apply_sub_delegated,
    lineage.ChildReserved: descent.apply_child_reserved,
    lineage.ChildStarted: descent.apply_child_started,
    lineage.ChildConfirmed: descent.apply_child_confirmed,
    lineage.ChildReported: descent.apply_child_reported,
    lineage.ChildUnheard: descent.apply_child_unheard,
    lineage.ChildFailed: descent.apply_child_failed,
    lineage.ChildStopAsked: descent.apply_stop_asked,
    lineage.ChildEnded: descent.apply_child_ended,
}
