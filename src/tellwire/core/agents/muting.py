"""Muting: an agent that wants to be left alone. Its mail waits and enters with its next turn.

Muted means: not woken while idle, and no turn kept from ending. What it fetches or is given in a running turn
stays as it is: it is busy then anyway.
"""

from __future__ import annotations

import msgspec

from tellwire.core.agents.roster import caller_agent, find_agent, record_of
from tellwire.core.context import Context, Decision
from tellwire.core.operator.person import is_operator
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentMuted, AnyEvent
from tellwire.protocol.operations.agents import MuteAgent
from tellwire.protocol.operations.base import OPERATOR


def decide_mute(state: State, operation: MuteAgent, context: Context) -> Decision:
    """Leave an agent alone for a time, or no longer; an agent may ask it for itself, the operator for all."""
    agent = caller_agent(state, context) if operation.name is None else find_agent(state, operation.name)
    own = agent.id == context.caller.agent
    if not own and context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", "Only the operator may mute another agent.")
    if is_operator(agent):
        raise TellwireError("bad_request", "Nothing wakes the operator.", "Name the agent to be left alone.")
    muted, until = not operation.off, _until(operation, context)
    now = (agent.is_muted(context.now), agent.muted_until)
    events: list[AnyEvent] = []
    if now != (muted, until) and (muted or now[0]):
        events.append(AgentMuted(agent.id, muted, until))
    record = record_of(agent, context, reason="self" if own else "open")
    return Decision(msgspec.structs.replace(record, muted=muted, muted_until=until), events)


def _until(operation: MuteAgent, context: Context) -> float:
    if operation.for_s is None:
        return 0.0
    if operation.off:
        raise TellwireError("bad_request", "`off` and `for_s` cannot be combined.")
    longest = context.limits.mute_s_max
    if not 0 < operation.for_s <= longest:
        raise TellwireError("bad_request", f"`for_s` must be above 0 and at most {longest:.0f}.")
    return context.now + operation.for_s


def apply_muted(state: State, event: AgentMuted) -> None:
    """Muted, or not; that a time is over needs no event."""
    agent = state.agents.get(event.agent)
    if agent is not None:
        agent.muted, agent.muted_until = event.muted, event.until
