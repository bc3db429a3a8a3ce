"""A question to a fresh agent (F2-9): a child that is there for it alone, and may write nowhere."""

from __future__ import annotations

import msgspec

from tellwire.core.agents.names import is_remembered, suffixed
from tellwire.core.agents.roster import caller_agent
from tellwire.core.children.lifecycle import ANSWERED
from tellwire.core.children.spawn import fail, reserve
from tellwire.core.context import Context, Decision, ReserveAsk
from tellwire.core.mail.drafts import known_request
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.children import ChildStopAsked
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.children import SpawnAgent

LOST = "The answer is lost: the broker stopped, or the agent was stopped, before it answered."
GIVEN_UP = "Nobody is waiting for its answer any more."


def decide_ask(state: State, ask: AskAgent, context: Context) -> Decision:
    """Take a name for the agent that is to be asked; a repeat gets the answer, if there is one."""
    parent = caller_agent(state, context)
    _check(ask, context)
    earlier = known_request(parent, ask.key, context)
    if earlier is not None:
        records = context.records([earlier.seq]) if earlier.status == ANSWERED else []
        if not records:
            raise TellwireError("child_failed", LOST, "Ask again.")
        body, name = records[0].body, records[0].sender
        text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
        return Decision(Answered(client=ask.client, name=name, text=text, message=records[0].id))
    spawn = SpawnAgent(
        name=_free_name(state),
        client=ask.client,
        task=ask.question,
        scope=[],
        cwd=ask.cwd,
        command=ask.command,
        headless=True,
        key=ask.key,
    )
    return reserve(state, spawn, context, asked=True)


def decide_reserve_ask(state: State, command: ReserveAsk, context: Context) -> Decision:
    """The same, on behalf of a caller whose answer waits until there is one."""
    return decide_ask(state, command.ask, context)


def _check(ask: AskAgent, context: Context) -> None:
    limits = context.limits
    if not ask.question.strip():
        raise TellwireError("bad_request", "`question` is empty.", "Ask something.")
    if ask.timeout_s is not None and not 0 < ask.timeout_s <= limits.ask_s_max:
        raise TellwireError("bad_request", f"`timeout_s` must be above 0 and at most {limits.ask_s_max:.0f}.")


def _free_name(state: State) -> str:
    """Made of the id that it will have, so that nobody bears it but by intent."""
    name = f"ask-{format_id('a', state.seq + 1)}"
    number = 1
    while state.find(name) is not None or is_remembered(state, name):
        number += 1
        name = suffixed(f"ask-{format_id('a', state.seq + 1)}", number)
    return name


def decide_cancel_ask(state: State, operation: CancelAsk, context: Context) -> Decision:
    """The agent that was started for a question ends; again is harmless."""
    parent = caller_agent(state, context)
    for agent_id, child in state.children.items():
        if child.asked and child.parent == parent.id and child.key == operation.key:
            if child.task:
                failed = fail(state, state.agents[agent_id], GIVEN_UP, "", context)
                return Decision(Done(), failed.events, failed.texts)
            if child.status != "stopping":
                return Decision(Done(), [ChildStopAsked(agent_id, parent.id)])
    return Decision(Done())
