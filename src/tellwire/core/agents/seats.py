"""Which name a client's session bears: its own again, that of the one that ended in its place, or a new one.

A session is known by the client's own id of the conversation, a place by the terminal pane, the folder and
the kind of client (FIRST-4). Both are what the broker found out, never what a program says.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tellwire.core.agents.names import ENDED, is_remembered, next_name
from tellwire.core.context import Context, Decision, PlaceSession, Seat
from tellwire.core.state import Agent, State
from tellwire.protocol.events import (
    AgentForgotten,
    AgentOffline,
    AgentRegistered,
    AnyEvent,
    SessionPlaced,
    SessionStarted,
)
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.agents import Done, Registered

UNKNOWN_PANE = "?"
"""Not known yet: nothing is taken over until it is."""
CONVERSATIONS_MAX = 8
"""Of one agent. Not a setting: applying an event must not depend on one."""


class Choice(NamedTuple):
    """Which agent a session continues, and which name it lost."""

    agent: Agent | None
    """None if the session gets a new agent."""
    lost: str = ""
    """The name it had before, if another session bears that by now."""


def choose(state: State, kind: str, seat: Seat, context: Context, me: Agent | None = None) -> Choice:
    """Who a session in a seat is; `me` is the agent that it has been so far."""
    if seat.beneath or (me is not None and (seat.named or me.id in state.children)):
        return Choice(me)
    if me is not None and is_seated(me, seat.conversation) and me.pane != UNKNOWN_PANE:
        return Choice(me)
    had = _bearer_of(state, seat.conversation)
    if had is not None and not (me is not None and had is me and me.provisional):
        current = had.conversations[-1] == seat.conversation
        own = current or (had.pane == seat.pane and _is_here(had, seat))
        if had is me or _has_mail_already(me):
            return Choice(me, "" if had is me else had.name)
        if own and had.kind == kind and _is_over(state, had, context):
            return Choice(had)
        return Choice(me if me is not None and me.provisional else None, had.name)
    if _has_mail_already(me) or (me is not None and me.pane != UNKNOWN_PANE):
        return Choice(me)  # a new conversation of the same client
    if seat.pane == UNKNOWN_PANE:
        return Choice(me)
    return Choice(_ended_here(state, kind, seat, context) or me)


def _has_mail_already(me: Agent | None) -> bool:
    """Whether somebody wrote to the name that a session bears until it is known which one it is."""
    return me is not None and me.provisional and bool(me.pending or me.leased)


def is_seated(agent: Agent, conversation: str) -> bool:
    """Whether an agent is known to be in this conversation."""
    return agent.conversations[-1:] in ([conversation], [_second(conversation, agent.id)])


def conversing(state: State, seat: Seat | None, agent: str, context: Context) -> Seat | None:
    """The seat as it is noted; who opens a conversation that is open elsewhere has it under another word."""
    had = None if seat is None else _bearer_of(state, seat.conversation)
    if seat is None or had is None or had.id == agent or _is_over(state, had, context):
        return seat
    if had.conversations[-1] != seat.conversation:
        return seat  # that one is in another by now
    return msgspec.structs.replace(seat, conversation=_second(seat.conversation, agent))


def _second(conversation: str, agent: str) -> str:
    return f"{conversation}~{agent}"


def _bearer_of(state: State, conversation: str) -> Agent | None:
    if not conversation:
        return None
    return next((each for each in state.agents.values() if conversation in each.conversations), None)


def _ended_here(state: State, kind: str, seat: Seat, context: Context) -> Agent | None:
    """The agent whose session ended last in this pane; else the first one whose pane is gone."""
    away = [
        each
        for each in state.agents.values()
        if each.kind == kind and _is_here(each, seat) and _is_over(state, each, context)
    ]
    there = [each for each in away if seat.pane and each.pane == seat.pane]
    if there:
        return max(there, key=lambda each: (each.gone_awake, each.gone_at))
    gone = [each for each in away if not context.alive(pane_process(each.pane))]
    return min(gone, key=lambda each: parse_id("a", each.id) or 0, default=None)


def is_successor(state: State, agent: Agent, bearer: Agent, context: Context) -> bool:
    """Whether an agent's session is in the pane and folder in which another one's ended."""
    seat = Seat(folder=agent.folder, pane=agent.pane)
    return is_same_place(bearer, seat) and _is_over(state, bearer, context)


def is_same_place(agent: Agent, seat: Seat) -> bool:
    """Whether a seat is in the very pane and folder of an agent."""
    return seat.pane not in ("", UNKNOWN_PANE) and agent.pane == seat.pane and _is_here(agent, seat)


def _is_here(agent: Agent, seat: Seat) -> bool:
    return seat.folder != "" and (agent.folder or agent.metadata.get("cwd")) == seat.folder


def _is_over(state: State, agent: Agent, context: Context) -> bool:
    """Whether nobody bears the name: the session has ended, or its process is gone and nobody noticed yet."""
    if agent.id in state.children or agent.offline_reason == "starting":
        return False
    if agent.offline_reason in ENDED:
        return agent.owner == "" or not context.alive(agent.owner)
    return not context.alive(agent.owner or agent.process)


def pane_process(pane: str) -> str:
    """The process, as `pid.start`, with which a pane ends: the tmux server, or the leader of the terminal."""
    return pane.split(" ")[2] if pane.count(" ") == 2 else ""


def free_name(state: State, asked: str) -> str:
    """The name asked for, or the first with a number behind it, that nobody has or had."""
    name, number = asked, 1
    while state.find(name) is not None or is_remembered(state, name):
        number, name = next_name(asked, number)
    return name


def lost_note(lost: str, name: str) -> str:
    """The note for a session that does not get its name back."""
    if not lost:
        return ""
    return f"Another session has taken over {lost!r} and its mail; you are {name!r}."


def seated(state: State, agent_id: str, context: Context) -> list[SessionPlaced]:
    """The fact that the session of a new agent sits where its caller does."""
    return placed(None, agent_id, conversing(state, context.caller.seat, agent_id, context))


def placed(agent: Agent | None, agent_id: str, seat: Seat | None) -> list[SessionPlaced]:
    """The fact that an agent's session sits there, unless that is known."""
    if seat is None:
        return []
    pane = seat.pane
    if agent is not None:
        if pane == UNKNOWN_PANE and seat.conversation == "":
            return []
        known = agent.conversations[-1:] == [seat.conversation] or not seat.conversation
        if known and (agent.folder, agent.pane, agent.provisional) == (seat.folder, pane, False):
            return []
    provisional = pane == UNKNOWN_PANE or (agent is None and not seat.conversation)
    return [SessionPlaced(agent_id, seat.folder, pane, seat.conversation, provisional)]


# -- a session of which more is known ---------------------------------------------------------------------


def decide_place(state: State, command: PlaceSession, context: Context) -> Decision:
    """The caller's session is this conversation, in this pane: have it bear the name that belongs to it."""
    me, seat = state.agents.get(context.caller.agent), context.caller.seat
    if me is None or seat is None or not context.caller.is_own_client:
        return Decision(Done())
    pane = command.pane or (me.pane if seat.pane == UNKNOWN_PANE else seat.pane)
    seat = msgspec.structs.replace(seat, conversation=command.conversation, pane=pane)
    agent, lost = choose(state, me.kind, seat, context, me)
    if agent is me:
        same = is_seated(me, command.conversation)
        noted = msgspec.structs.replace(seat, conversation="") if same else seat
        noted = conversing(state, noted, me.id, context)
        reply = Registered(id=me.id, name=me.name, note=lost_note(lost, me.name))
        return Decision(reply, [*placed(me, me.id, noted)])
    name = free_name(state, command.name) if agent is None else agent.name
    number = format_id("a", state.seq + 1) if agent is None else agent.id
    noted = conversing(state, seat, number, context) or seat
    events: list[AnyEvent] = [
        _begun(me, agent, name, context),
        SessionPlaced(number, noted.folder, noted.pane, noted.conversation),
        _ended(state, me, context),
    ]
    note = lost_note(lost, name) or f"You are {name!r}."
    return Decision(Registered(id=number, name=name, note=note, resumed=agent is not None), events)


def _begun(me: Agent, agent: Agent | None, name: str, context: Context) -> AgentRegistered | SessionStarted:
    """Move the session of `me` to `agent`, or to a new agent."""
    if agent is None:
        return AgentRegistered(
            name=name,
            kind=me.kind,
            session=me.session,
            group=me.group,
            capabilities=me.capabilities,
            metadata=me.metadata,
            process=me.process,
            owner=me.owner,
        )
    return SessionStarted(
        agent=agent.id,
        session=me.session,
        group=me.group,
        capabilities=me.capabilities or agent.capabilities,
        metadata=me.metadata,
        process=me.process,
        owner=me.owner,
        seen=context.claimed(agent.id),
        was=me.id if me.provisional and me.conversations else "",  # it may have said something
    )


def _ended(state: State, me: Agent, context: Context) -> AgentForgotten | AgentOffline:
    """What becomes of the agent that a session was by mistake, or has left: nothing of it is lost."""
    kept = not me.provisional or me.id in state.children_of
    return AgentOffline(me.id, "left", context.claimed(me.id)) if kept else AgentForgotten(me.id)


def apply_placed(state: State, event: SessionPlaced) -> None:
    """Remember where an agent's session sits, and which conversation it is."""
    agent = state.agents[event.agent]
    agent.folder, agent.pane, agent.provisional = event.folder, event.pane, event.provisional
    for other in state.agents.values():
        if other is not agent and other.session == agent.session:
            other.session = ""  # it was given back: a session that returns is not that one
        if event.conversation and event.conversation in other.conversations:
            other.conversations = [each for each in other.conversations if each != event.conversation]
    if event.conversation:
        agent.conversations = [*agent.conversations, event.conversation][-CONVERSATIONS_MAX:]
