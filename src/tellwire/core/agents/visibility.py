"""Who sees whom, and why: the first reason that holds, of those in `REASONS`.

Under the policy `open` agents see each other. Where the project of either has the policy `peers`, only what
ties two agents counts. The operator is a person and sees and is seen by all.
"""

from __future__ import annotations

from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR

REASONS = ("self", "child", "parent", "peer", "link", "open")
"""Child goes before peer (PEER-4)."""
OPEN = "open"
PEERS = "peers"


def policy_of(state: State, group: str) -> str:
    """The policy of a project: who sees whom in it."""
    return state.policies.get(group, OPEN)


def reason_for(state: State, me: Agent | None, other: Agent) -> str:
    """Why `me` sees `other`; empty if it does not. Nobody in particular sees all."""
    if me is None:
        return OPEN
    if me is other:
        return "self"
    if other.id in state.children_of.get(me.id, ()):
        return "child"
    if me.id in state.children_of.get(other.id, ()):
        return "parent"
    if other.id in state.peers.get(me.id, ()):
        return "peer"
    if not me.links.keys().isdisjoint(other.links):
        return "link"
    return OPEN if _is_open(state, me, other) else ""


def sees(state: State, me: Agent | None, other: Agent) -> bool:
    """Whether `me` sees `other`; quick where no policy was ever set."""
    return not state.policies or bool(reason_for(state, me, other))


def why_hidden(state: State, me: Agent, other: Agent) -> str:
    """What to say of an agent that is there and not seen."""
    group = other.group if policy_of(state, other.group) != OPEN else me.group
    where = f"in {group} only peers see each other" if group else "only peers see each other"
    return f"{other.name!r} is not visible to {me.name!r}: {where}."


def _is_open(state: State, me: Agent, other: Agent) -> bool:
    if not state.policies or OPERATOR in (me.name, other.name):  # a name that no program can take
        return True
    return policy_of(state, me.group) == policy_of(state, other.group) == OPEN
