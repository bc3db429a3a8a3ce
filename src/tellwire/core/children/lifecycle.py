"""Children in the state: the events about them applied, and what is listed of them.

Every `apply_` may meet its event twice, late, or about an agent that is gone, and then changes nothing
(AUD-2). The record of a child ends with the child; its own children are handed to its parent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tellwire.core.agents.peers import forget_peers, inherit_peers
from tellwire.core.agents.roster import SPEAKS_BY_COMMANDS
from tellwire.core.children.scopes import ancestors, claims_of, holding, inherit_claims
from tellwire.core.context import Context, Decision
from tellwire.core.state import Agent, Child, Claim, EndedChild, Request, State
from tellwire.protocol.events.children import (
    ChildConfirmed,
    ChildEnded,
    ChildFailed,
    ChildReported,
    ChildReserved,
    ChildStarted,
    ChildStopAsked,
    ChildUnheard,
    ScopeSubDelegated,
)
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.children import ChildRecord, Children, EndedRecord, ListChildren
from tellwire.system.bounded import forget_oldest

ENDED_KEPT = 64
"""Children that ended are remembered, at most. Not a setting: applying an event must not depend on one."""
STARTING = "starting"
"""Why a child is offline that was never up."""
SPAWNED = "spawned"
"""The status under which a parent remembers the request."""
ANSWERED = "answered"
"""The same, of a question that has its answer."""


class HasKey(Protocol):
    """A process, identified by `pid.start`."""

    @property
    def key(self) -> str: ...


def apply_child_reserved(state: State, event: ChildReserved) -> None:
    """Register the child with its parent, with its name and scope."""
    if event.agent not in state.agents or event.agent in state.children:
        return
    state.ended.pop(event.agent, None)
    state.children[event.agent] = Child(
        parent=event.parent,
        task=event.task,
        command=event.command,
        cwd=event.cwd,
        scoped=event.scoped,
        listen=event.listen,
        headless=event.headless,
        since=state.awake,
        key=event.key,
        again=event.again,
        asked=event.asked,
    )
    if event.rules:
        state.claims[event.agent] = [Claim(rule) for rule in event.rules]
    _know(state, event.parent, event.agent)
    parent = state.agents.get(event.parent)
    if parent is not None and event.key:
        parent.requests[event.key] = Request(SPAWNED, parse_id("a", event.agent) or 0, SPAWNED)


def apply_child_started(state: State, event: ChildStarted) -> None:
    """The process is the agent: everything that runs below it speaks only as this child."""
    agent, child = state.agents.get(event.agent), state.children.get(event.agent)
    if agent is None or child is None or child.status != "reserved":
        return
    child.status, child.since = "started", state.awake
    child.process, child.place, child.held_by = event.process, event.place, event.held_by
    agent.process = agent.owner = event.process
    agent.session = event.session


def apply_child_confirmed(state: State, event: ChildConfirmed) -> None:
    """The child is up; its task is a message from now on."""
    child = state.children.get(event.agent)
    if child is not None and child.status == "started":
        child.status, child.since, child.task = "running", state.awake, ""


def apply_sub_delegated(state: State, event: ScopeSubDelegated) -> None:
    """Register a grandchild with one of its ancestors."""
    if event.agent in state.agents and event.child in state.children:
        _know(state, event.agent, event.child)


def apply_child_reported(state: State, event: ChildReported) -> None:
    """The parent was notified of what its child said."""
    child = state.children.get(event.agent)
    if child is None:
        return
    child.result, child.unheard = event.message, False
    parent = state.agents.get(child.parent)
    if child.asked and parent is not None:  # a repeated question after a crash gets it
        parent.requests[child.key] = Request(ANSWERED, event.message, ANSWERED)


def apply_child_unheard(state: State, event: ChildUnheard) -> None:
    """The parent could not be notified: its inbox had no room."""
    child = state.children.get(event.agent)
    if child is not None:
        child.unheard = True


def apply_stop_asked(state: State, event: ChildStopAsked) -> None:
    child = state.children.get(event.agent)
    if child is not None:
        child.status, child.since = "stopping", state.awake


def apply_child_failed(state: State, event: ChildFailed) -> None:
    """Remove every trace of the child; of one that was a child before, the parent is still remembered."""
    child = state.children.get(event.agent)
    remove_child(state, event.agent)
    if child is not None and child.again and event.agent in state.agents:
        state.ended[event.agent] = EndedChild(child.parent, "exited", state.now)


def apply_child_ended(state: State, event: ChildEnded) -> None:
    """The agent stays known, with its mail; it is nobody's child any more."""
    agent, child = state.agents.get(event.agent), state.children.get(event.agent)
    if agent is not None and child is not None:
        agent.owner = ""
        if not child.asked:
            result = 0 if child.unheard else child.result
            state.ended[agent.id] = EndedChild(child.parent, event.how, state.now, result)
            forget_oldest(state.ended, ENDED_KEPT)
    remove_child(state, event.agent)


def remove_child(state: State, agent: str) -> None:
    """Remove a child: its scope and its children go back to its parent."""
    child = state.children.pop(agent, None)
    if child is None:
        return
    state.claims.pop(agent, None)
    _hand_on(state, agent, child.parent)
    below = state.children_of.pop(agent, {})
    for known in state.children_of.values():
        known.pop(agent, None)
    # Its ancestors were notified of each of them; its parent must know those that it gets in any case.
    for grandchild in below:
        if child.parent in ancestors(state, grandchild):
            _know(state, child.parent, grandchild)
    _tidy(state)


def forget_relations(state: State, agent: str) -> None:
    """Forget everything about an agent; its children go to its parent, if it has one."""
    forget_peers(state, agent)
    state.ended.pop(agent, None)
    child = state.children.get(agent)
    _hand_on(state, agent, "" if child is None else child.parent)
    remove_child(state, agent)
    state.claims.pop(agent, None)
    state.children_of.pop(agent, None)


def _hand_on(state: State, before: str, heir: str) -> None:
    """Give the children of an agent to its heir; those started for its questions get no other parent."""
    for agent, child in state.children.items():
        if child.parent == before:
            child.parent = "" if child.asked else heir
            if child.asked:
                _forget_above(state, agent)


def _forget_above(state: State, agent: str) -> None:
    """The ancestors of an agent forget it and its descendants."""
    lost = {agent, *(each for each in state.children if agent in ancestors(state, each))}
    for above, known in state.children_of.items():
        if above not in lost:
            for each in lost:
                known.pop(each, None)


def inherit_relations(state: State, before: str, heir: str) -> None:
    """An agent continues as another one: move its peers, claims and children."""
    inherit_peers(state, before, heir)
    inherit_claims(state, before, heir)
    for child in state.children.values():
        if child.parent == before:
            child.parent = heir
    for grandchild in state.children_of.pop(before, {}):
        _know(state, heir, grandchild)


def awaits_client(state: State, agent: Agent, operation: RegisterAgent) -> bool:
    """Whether this is the client of a child that was started, rather than a command which the child runs."""
    child = state.children.get(agent.id)
    if child is None or not child.process or agent.online or agent.offline_reason == "silent":
        return False
    return agent.kind in SPEAKS_BY_COMMANDS or operation.owns_process or operation.kind == agent.kind


def child_above(state: State, chain: Iterable[HasKey]) -> str:
    """The child whose process is among these; empty if none is."""
    keys = {process.key for process in chain}
    return next((agent for agent, child in state.children.items() if child.process in keys), "")


def _know(state: State, parent: str, child: str) -> None:
    if parent in state.agents and child in state.children:
        state.children_of.setdefault(parent, {})[child] = None


def _tidy(state: State) -> None:
    for agent in [agent for agent, known in state.children_of.items() if not known]:
        del state.children_of[agent]


def decide_list_children(state: State, _operation: ListChildren, context: Context) -> Decision:
    """The caller's children and theirs; for a caller that is no agent, all."""
    me = state.agents.get(context.caller.agent)
    known = list(state.children) if me is None else list(state.children_of.get(me.id, {}))
    agents = [state.agents[agent] for agent in known]
    agents.sort(key=lambda agent: (len(ancestors(state, agent.id)), agent.name.lower()))
    children = [record_of(state, agent, context) for agent in agents]
    return Decision(Children(children=children, ended=_ended(state, me)))


def _ended(state: State, parent: Agent | None) -> list[EndedRecord]:
    """The children that have ended; an agent sees only its own."""
    found: list[EndedRecord] = []
    for agent_id, ended in reversed(state.ended.items()):
        agent, above = state.agents.get(agent_id), state.agents.get(ended.parent)
        if agent is not None and (parent is None or parent is above):
            found.append(
                EndedRecord(
                    name=agent.name,
                    kind=agent.kind,
                    parent="" if above is None else above.name,
                    how=ended.how,
                    at=ended.at,
                    result=format_id("m", ended.result) if ended.result else "",
                )
            )
    return found


def record_of(state: State, agent: Agent, context: Context, status: str = "") -> ChildRecord:
    """A child as its parent sees it in a listing."""
    child = state.children[agent.id]
    parent = state.agents.get(child.parent)
    enforced, why = holding(state, agent, context) if child.scoped else ("", "")
    return ChildRecord(
        id=agent.id,
        name=agent.name,
        kind=agent.kind,
        parent="" if parent is None else parent.name,
        status=status or child.status,
        scoped=child.scoped,
        rules=[claim.rule for claim in claims_of(state, agent.id)],
        enforced=enforced,
        why=why,
        place=child.place,
        since=context.now + child.since - context.awake,
    )
