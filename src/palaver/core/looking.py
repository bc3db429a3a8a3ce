"""Looking into another agent's session: whose, and how much of it. The text itself is not the core's."""

from __future__ import annotations

from palaver.core.limits import Limits
from palaver.core.roster import find_agent
from palaver.core.state import Agent, State
from palaver.core.visibility import sees, why_hidden
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.sessions import GetSessionData


def find_looked_at(state: State, operation: GetSessionData, asker: str, limits: Limits) -> Agent:
    """The agent that is asked about by the agent of id `asker`, if any.

    Raises:
        PalaverError: there is none, the asker does not see it, or the bounds make no sense.
    """
    if not 1 <= operation.tail <= limits.take_chars_max:
        raise PalaverError("limit_exceeded", f"`tail` must be from 1 to {limits.take_chars_max}.")
    if operation.since < 0:
        raise PalaverError("bad_request", "`since` must not be negative.")
    me = state.agents.get(asker)
    agent = find_agent(state, operation.agent, me)
    if me is not None and not sees(state, me, agent):
        raise PalaverError("not_visible", why_hidden(state, me, agent))
    return agent
