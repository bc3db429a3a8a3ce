"""Peers: pairs of agents. One event makes both directions, so there is never only one (PEER-1).

A peer is a colleague: the relation gives no scope, no ownership, no notices, and knows nothing of children.
"""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent, find_agent, has_ended
from tellwire.core.agents.visibility import OPEN, policy_of, reason_for, sees, why_hidden
from tellwire.core.context import Context, Decision
from tellwire.core.mail.send import decide_send
from tellwire.core.state import Agent, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.children import PeersJoined, PeersParted, PolicySet
from tellwire.protocol.operations.base import AGENT, OPERATOR
from tellwire.protocol.operations.messages import SendMessage, Sent
from tellwire.protocol.operations.peers import (
    ListPeers,
    MeshPolicy,
    PeerRecord,
    Peers,
    PolicyState,
    RegisterPeer,
    RemovePeer,
    SendToPeer,
)

PATH_LENGTH_MAX = 4096
PEERING = "agents are peers across machines"
GONE = "Wait until it is back, or ask another agent."
INTRODUCE = "The operator can introduce you: tellwire peer add {} {}"


# -- shaking hands ------------------------------------------------------------------------------------


def decide_register_peer(state: State, operation: RegisterPeer, context: Context) -> Decision:
    """Make two agents peers; if they are, nothing changes."""
    me, other = _pair(state, operation, context)
    if me is other:
        raise TellwireError("peer_self", f"{me.name!r} cannot be its own peer.")
    known = state.peers.get(me.id, {})
    if other.id in known:
        return Decision(_reply(state, me, list(known)))
    for agent in (me, other):
        if has_ended(agent):
            raise TellwireError("agent_gone", f"The session of {agent.name!r} has ended.", GONE)
    if context.caller.kind == AGENT and not sees(state, me, other):
        raise TellwireError(
            "not_visible", why_hidden(state, me, other), INTRODUCE.format(me.name, other.name)
        )
    for agent in (me, other):
        if len(state.peers.get(agent.id, ())) >= context.limits.peers_max:
            raise TellwireError("limit_exceeded", f"{agent.name!r} has {context.limits.peers_max} peers.")
    return Decision(_reply(state, me, [*known, other.id], changed=True), [PeersJoined(me.id, other.id)])


def decide_remove_peer(state: State, operation: RemovePeer, context: Context) -> Decision:
    """End that two agents are peers; if they are not, nothing changes."""
    me, other = _pair(state, operation, context)
    if me is other:
        raise TellwireError("peer_self", f"{me.name!r} cannot be its own peer.")
    known = state.peers.get(me.id, {})
    rest = [peer for peer in known if peer != other.id]
    if other.id not in known:
        return Decision(_reply(state, me, rest))
    return Decision(_reply(state, me, rest, changed=True), [PeersParted(me.id, other.id)])


def decide_list_peers(state: State, operation: ListPeers, context: Context) -> Decision:
    me = caller_agent(state, context) if operation.name is None else find_agent(state, operation.name)
    if context.caller.kind == AGENT and me.id != context.caller.agent:
        raise TellwireError("forbidden", "An agent may list only its own peers.")
    return Decision(_reply(state, me, list(state.peers.get(me.id, {}))))


def apply_peers_joined(state: State, event: PeersJoined) -> None:
    """Record the relation in both directions, so that neither can exist alone."""
    if event.agent in state.agents and event.peer in state.agents:
        state.peers.setdefault(event.agent, {})[event.peer] = None
        state.peers.setdefault(event.peer, {})[event.agent] = None


def apply_peers_parted(state: State, event: PeersParted) -> None:
    """Remove the relation in both directions."""
    _part(state, event.agent, event.peer)
    _part(state, event.peer, event.agent)


def forget_peers(state: State, agent: str) -> None:
    """Remove all relations of an agent that is deleted."""
    for peer in state.peers.pop(agent, {}):
        _part(state, peer, agent)


def inherit_peers(state: State, before: str, heir: str) -> None:
    """Move the relations of an agent that takes over another one."""
    for peer in state.peers.pop(before, {}):
        _part(state, peer, before)
        if peer != heir:
            state.peers.setdefault(heir, {})[peer] = None
            state.peers.setdefault(peer, {})[heir] = None


def _part(state: State, agent: str, peer: str) -> None:
    peers = state.peers.get(agent)
    if peers is not None:
        peers.pop(peer, None)
        if not peers:
            del state.peers[agent]


def _pair(state: State, operation: RegisterPeer | RemovePeer, context: Context) -> tuple[Agent, Agent]:
    """The two agents: the caller and another, or two that the operator names."""
    if operation.other is None:
        me = caller_agent(state, context)
        return me, find_agent(state, operation.name, me, here=PEERING)
    if context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may pair two other agents.")
    one = find_agent(state, operation.name, here=PEERING)
    return one, find_agent(state, operation.other, here=PEERING)


def _reply(state: State, me: Agent, ids: list[str], *, changed: bool = False) -> Peers:
    agents = sorted((state.agents[peer] for peer in ids), key=lambda agent: agent.name.lower())
    records = [
        PeerRecord(
            name=agent.name,
            kind=agent.kind,
            status="online" if agent.online else "offline",
            group=agent.group,
        )
        for agent in agents
    ]
    return Peers(name=me.name, peers=records, changed=changed)


# -- writing to a peer --------------------------------------------------------------------------------


def decide_send_to_peer(state: State, operation: SendToPeer, context: Context) -> Decision:
    """A send like any other, but to a peer only (PEER-5)."""
    me = caller_agent(state, context)
    other = state.reach(operation.to)
    if other is not None and other is not me and other.id not in state.peers.get(me.id, ()):
        reason = reason_for(state, me, other)
        what = {"child": "your child", "parent": "your parent", "": "not visible to you"}
        note = f"{other.name!r} is {what.get(reason, 'not your peer')}."
        return Decision(Sent(status="denied", note=note))
    send = SendMessage(
        to=operation.to, body=operation.body, re=operation.re, ttl_s=operation.ttl_s, key=operation.key
    )
    return decide_send(state, send, context)


# -- who sees whom ------------------------------------------------------------------------------------


def decide_policy(state: State, operation: MeshPolicy, context: Context) -> Decision:
    """Tell a project's policy, or set it; that is for the operator."""
    me = state.agents.get(context.caller.agent)
    group = operation.group or (me.group if me is not None else context.group)
    if len(group) > PATH_LENGTH_MAX:
        raise TellwireError("limit_exceeded", f"`group` is longer than {PATH_LENGTH_MAX} characters.")
    now = policy_of(state, group)
    if operation.policy is None:
        return Decision(PolicyState(group=group, policy=now))  # pyright: ignore[reportArgumentType]  # only such words are stored
    if context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may set the policy of a project.")
    if not group:
        raise TellwireError("bad_request", "No project was named.", "Give its folder.")
    if operation.policy == now:
        return Decision(PolicyState(group=group, policy=operation.policy))
    if operation.policy != OPEN and len(state.policies) >= context.limits.agents_max:
        raise TellwireError("limit_exceeded", "Too many projects have their own policy.")
    reply = PolicyState(group=group, policy=operation.policy, changed=True)
    return Decision(reply, [PolicySet(group, operation.policy)])


def apply_policy(state: State, event: PolicySet) -> None:
    if event.policy == OPEN:
        state.policies.pop(event.group, None)
    else:
        state.policies[event.group] = event.policy
