"""What is told of children: of those that run, and of those that are no more."""

from __future__ import annotations

from tellwire.core.children.scopes import claims_of, holding, line_above
from tellwire.core.context import Context, Decision
from tellwire.core.state import Agent, State
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.children import ChildRecord, Children, EndedRecord, ListChildren


def decide_list_children(state: State, _operation: ListChildren, context: Context) -> Decision:
    """One's own children and theirs; for who is no agent, all."""
    me = state.agents.get(context.caller.agent)
    known = list(state.children) if me is None else list(state.offspring.get(me.id, {}))
    agents = [state.agents[agent] for agent in known]
    agents.sort(key=lambda agent: (len(line_above(state, agent.id)), agent.name.lower()))
    children = [record_of(state, agent, context) for agent in agents]
    return Decision(Children(children=children, ended=_ended(state, me)))


def _ended(state: State, parent: Agent | None) -> list[EndedRecord]:
    """Those that are no more; an agent hears of its own."""
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
    """A child as its parent sees it."""
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
