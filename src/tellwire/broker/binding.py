"""Which connection is which agent's client: bound in a tick, taken back if the tick never was."""

from __future__ import annotations

from tellwire.broker.delivery import Delivery
from tellwire.broker.ports import Source
from tellwire.broker.tick import Binding, Tick
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import AgentRecord, RegisterAgent, Registered


def bind_registered(
    delivery: Delivery, tick: Tick, source: Source, operation: RegisterAgent, reply: Registered
) -> None:
    """The connection is the agent's client, or only speaks for it."""
    if reply.attached:
        source.attach(reply.id, holds=False)
        return
    earlier = delivery.attach(
        reply.id, source, operation.session, pulls=operation.pulls, grants=operation.grants
    )
    source.attach(reply.id, holds=True)
    tick.attached.append(Binding(reply.id, source, earlier))


def bind_moved(delivery: Delivery, tick: Tick, state: State, reply: AgentRecord) -> None:
    """The operator had an agent go on as another one: its own connection moves, not the operator's."""
    agent = state.agents.get(reply.id)
    for session in list(delivery.sessions.values()):
        if agent is not None and session.word == agent.session:
            bind_updated(delivery, tick, session.source, reply)


def bind_updated(delivery: Delivery, tick: Tick, source: Source, reply: AgentRecord | Registered) -> None:
    """An agent that goes on as another one takes its connection along."""
    before = source.caller.agent
    if not source.caller.holds or reply.id == before:
        return
    session = delivery.sessions.pop(before)
    earlier = delivery.attach(reply.id, source, session.word, pulls=session.pulls, grants=session.grants)
    source.attach(reply.id, holds=True)
    tick.attached.append(Binding(reply.id, source, earlier, (before, session)))


def unbind(delivery: Delivery, tick: Tick) -> None:
    """The tick never was: everybody is who they were before it."""
    for binding in reversed(tick.attached):
        if binding.earlier is None:
            delivery.sessions.pop(binding.agent, None)
        else:
            delivery.sessions[binding.agent] = binding.earlier
        if binding.moved is None:
            binding.source.detach()
        else:
            before, session = binding.moved
            delivery.sessions[before] = session
            binding.source.attach(before, holds=True)


def dismiss_replaced(tick: Tick) -> None:
    """After the commit: tell those whose name another session goes on under."""
    for binding in tick.attached:
        earlier = binding.earlier
        if earlier is not None and earlier.source is not binding.source:
            earlier.source.detach()
            earlier.source.dismiss(
                TellwireError("session_replaced", "Another session goes on under this name.")
            )
