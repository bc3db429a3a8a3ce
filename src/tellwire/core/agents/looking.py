"""Looking into another agent's session: whose, and how much of it. The text itself is not the core's."""

from __future__ import annotations

from tellwire.core.agents.roster import find_agent
from tellwire.core.agents.visibility import sees, why_hidden
from tellwire.core.limits import Limits
from tellwire.core.state import Agent, State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.sessions import GetSessionData


def find_looked_at(state: State, operation: GetSessionData, asker: str, limits: Limits) -> Agent:
    """The agent that is asked about by the agent of id `asker`, if any.

    Raises:
        TellwireError: there is none, the asker does not see it, or the bounds make no sense.
    """
    if not 1 <= operation.tail <= limits.take_chars_max:
        raise TellwireError("limit_exceeded", f"`tail` must be from 1 to {limits.take_chars_max}.")
    if operation.since < 0:
        raise TellwireError("bad_request", "`since` must not be negative.")
    me = state.agents.get(asker)
    agent = find_agent(state, operation.agent, me)
    if me is not None and not sees(state, me, agent):
        raise TellwireError("not_visible", why_hidden(state, me, agent))
    return agent
