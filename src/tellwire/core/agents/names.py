"""Names and profiles: what every rule about them shares."""

from __future__ import annotations

import msgspec

from tellwire.core.context import Context
from tellwire.core.limits import Limits, check_depth, check_numbers
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import NAME_LENGTH_MAX, is_reserved
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import RegisterAgent, UpdateAgent

ENDED = frozenset({"left", "disconnected"})
FORMER_NAMES_MAX = 8
"""Of one agent. Not a setting: applying an event must not depend on one."""


def suffixed(asked: str, number: int) -> str:
    """The name with a number behind it, no longer than a name may be."""
    suffix = f"-{number}"
    return asked[: NAME_LENGTH_MAX - len(suffix)] + suffix


def next_name(asked: str, number: int) -> tuple[int, str]:
    """The next number for a name, and the name with it; `m-3` is skipped, because it looks like `me`."""
    while True:
        number += 1
        name = suffixed(asked, number)
        if not is_reserved(name):
            return number, name


def is_free(agent: Agent, context: Context) -> bool:
    """Whether another session may take over this name."""
    # After a restart of the broker a session whose process lives is about to come back.
    returning = agent.offline_reason == "restart" and context.alive(agent.process)
    # A child's name is its own from the reservation until its process is gone.
    child = agent.offline_reason == "starting" or (
        agent.offline_reason in ENDED and agent.owner != "" and context.alive(agent.owner)
    )
    return not agent.online and not returning and not child


def is_remembered(state: State, name: str, but: str = "") -> bool:
    """Whether an agent that is here had this name before: answers to what it said then must reach it."""
    heir = state.agents.get(state.former.get(name.lower(), ""))
    return heir is not None and heir.online and heir.id != but


def leave_name(state: State, agent: Agent, heir: str) -> None:
    """The name is free for others; until one takes it, what is sent to it reaches `heir`."""
    state.names.pop(agent.name.lower(), None)
    others = {name: bearer for name, bearer in state.former.items() if bearer not in (heir, agent.id)}
    mine = [name for name, bearer in state.former.items() if bearer == heir]
    mine += [name for name, bearer in state.former.items() if bearer == agent.id != heir]
    mine = [*dict.fromkeys([*mine, agent.name.lower()])][-FORMER_NAMES_MAX:]
    state.former = {**others, **dict.fromkeys(mine, heir)}


def check_profile(operation: RegisterAgent | UpdateAgent, limits: Limits) -> None:
    """Check the profile against its bounds.

    Raises:
        TellwireError: `bad_request` or `limit_exceeded`.
    """
    words = list(operation.capabilities or [])
    if isinstance(operation, UpdateAgent):
        words += [operation.kind or ""]
        if operation.kind == "":
            raise TellwireError("bad_request", "`kind` must not be empty.")
    else:
        words += [operation.kind, operation.session]
        if not operation.kind or not operation.session:
            raise TellwireError("bad_request", "`kind` and `session` must not be empty.")
        if len(operation.cwd) > 4096:
            raise TellwireError("limit_exceeded", "`cwd` is longer than 4096 characters.")
    if len(operation.capabilities or []) > limits.capabilities_max:
        raise TellwireError("limit_exceeded", f"More than {limits.capabilities_max} capabilities.")
    if any(len(word) > limits.text_length_max for word in words):
        raise TellwireError(
            "limit_exceeded", f"A capability or kind is longer than {limits.text_length_max}."
        )
    check_depth(operation.metadata, "metadata")
    check_numbers(operation.metadata, "metadata")
    if operation.metadata and len(msgspec.json.encode(operation.metadata)) > limits.metadata_bytes_max:
        raise TellwireError(
            "limit_exceeded", f"The metadata is larger than {limits.metadata_bytes_max} bytes."
        )
