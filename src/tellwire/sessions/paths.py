"""The paths of mail into one agent's model: which there are, whether each works now, and when it last did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tellwire.broker.ports import SessionMesh
from tellwire.clients import BY_KIND
from tellwire.clients.ports import Waker
from tellwire.clients.versions import judge_version
from tellwire.core.mail.reach import Contact
from tellwire.core.mail.waking import ENDED, FAILED, LEFT, OFTEN, STOPPED, Leave, describe
from tellwire.core.state import Agent
from tellwire.protocol.operations.agents import PathRecord
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.waking import Wakers, Waking

MID_TURN, END_OF_TURN, PULL = "mid-turn", "end of turn", "get_messages"
NO_HOLD = Leave()
NO_HOOKS = "no hook of this session has run yet"
DIALOG = "a dialog is waiting for its human"
OWN_DIALECT = "tellwire"


class PathView:
    """Reports to the listing and the core how mail gets to each agent."""

    def __init__(
        self,
        mesh: SessionMesh,
        wakers: Wakers,
        waking: Waking,
        *,
        session_of: Callable[[str], ClientSession | None],
        find: Callable[[Agent], ClientSession | None],
    ) -> None:
        self._mesh = mesh
        self._wakers = wakers
        self._waking = waking
        self._session_of = session_of
        self._find = find

    def paths_of(self, agent: str) -> list[PathRecord]:
        """How mail gets into an agent's model: the paths of its client, each with whether it works now."""
        known = self._mesh.state.agents.get(agent)
        connected = self._mesh.delivery.sessions.get(agent)
        if known is None or (connected is not None and not connected.pulls):
            return []  # an agent that mail is pushed to needs no path
        source = None if connected is None else connected.source
        session = self._known_session(known)
        hold = NO_HOLD if session is None else self._waking.hold(session)
        return list_paths(known, session, self._wakers_of(known, source) or [], source, hold)

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of the client of an agent that fetches its mail."""
        known = self._mesh.state.agents.get(agent)
        connected = self._mesh.delivery.sessions.get(agent)
        if known is None or connected is None:
            return None
        source = connected.source
        session = self._known_session(known)
        leave = NO_HOLD if session is None else self._waking.leave(session, known)
        contact = tell_contact(known, session, self._wakers_of(known, source), source, leave)
        return contact._replace(doubt=doubt_of(known))

    def _wakers_of(self, agent: Agent, source: object) -> list[Waker] | None:
        """What wakes an agent; None if it only fetches its mail, as in other dialects."""
        foreign = getattr(getattr(source, "hello", None), "dialect", OWN_DIALECT) != OWN_DIALECT
        return None if foreign else self._wakers.of(agent.kind)

    def _known_session(self, agent: Agent) -> ClientSession | None:
        """An agent's session; also if its first hook came before it joined."""
        session = self._session_of(agent.id)
        if session is None and agent.online and self._wakers.of(agent.kind) is not None:
            session = self._find(agent)
        return session


def doubt_of(agent: Agent) -> str:
    """What speaks against the version that an agent's client has told."""
    client, version = BY_KIND.get(agent.kind), agent.metadata.get("version")
    if client is None or not isinstance(version, str):
        return ""
    judged = judge_version(client, version)
    return judged.words if judged.is_serious else ""


def list_paths(
    agent: Agent,
    session: ClientSession | None,
    wakers: Sequence[Waker],
    source: object = None,
    hold: Leave = NO_HOLD,
) -> list[PathRecord]:
    """The best first; a `source` that holds a call open gets its mail by that at once."""
    pull = _pull(agent, session, source)
    if not wakers and session is None:
        return [pull]
    bound = is_bound(session)
    note = "" if bound else NO_HOOKS
    if not agent.online:
        bound, note = False, "offline"
    hooks = [
        PathRecord(name=name, works=bound, note=note, unproved=note == NO_HOOKS)
        for name in (MID_TURN, END_OF_TURN)
    ]
    found = [waker.path_of(agent) for waker in wakers]
    wakes = [_for_wake(path, agent, session, hold) for path in found if path is not None]
    paths = [*hooks, *wakes, pull]
    worked = {} if session is None else session.leases.worked
    return [
        each if each.last_at is not None else msgspec.structs.replace(each, last_at=worked.get(each.name))
        for each in paths
    ]


def is_bound(session: ClientSession | None) -> bool:
    """Whether a hook of this very session has been heard, in this life of the broker or an earlier one."""
    return session is not None and bool(session.conversation)


def tell_contact(
    agent: Agent,
    session: ClientSession | None,
    wakers: Sequence[Waker] | None,
    source: object = None,
    leave: Leave = NO_HOLD,
) -> Contact:
    """What the core has to know of an agent's client; `wakers` is None if it is no agent CLI that we know."""
    holds = bool(getattr(source, "news", False))
    if session is None or not is_bound(session):
        return Contact(hooked=wakers is not None, holds=holds)
    contact = Contact(
        hooked=True,
        bound=True,
        holds=holds,
        state=session.state,
        since=session.heard_at,
        lease_paths={call: lease.path for call, lease in session.open.items()},
        announced=session.leases.announced,
    )
    turn = session.turns.current
    if not session.is_wakeable:
        since = session.heard_at if turn is None or session.state == "waiting" else turn.began_at
        return contact._replace(since=since)
    found = [waker.path_of(agent) for waker in wakers or ()]
    paths = [path for path in found if path is not None]
    path = next((each.name for each in paths if each.works), "")
    shut = "" if path else "; ".join(f"{each.name}: {each.note}" for each in paths)
    held = describe(leave) if leave.why_not in (ENDED, FAILED, LEFT, OFTEN, STOPPED) else ""
    again_s = leave.again_s if held else 0.0
    return contact._replace(
        idle=True, woken_at=session.wakes.woken_at, held=held, again_s=again_s, path=path, shut=shut
    )


def _for_wake(path: PathRecord, agent: Agent, session: ClientSession | None, hold: Leave) -> PathRecord:
    """A path that wakes is shut while the agent is away, or after a wake that failed."""
    note = ""
    if not agent.online:
        note = "offline"
    elif not is_bound(session):
        return msgspec.structs.replace(path, works=False, note=NO_HOOKS, unproved=True)
    elif hold.why_not in (ENDED, FAILED, LEFT):
        note = describe(hold)
    elif session is not None and session.state == "waiting":
        note = DIALOG
    return msgspec.structs.replace(path, works=False, note=note) if note else path


def _pull(agent: Agent, session: ClientSession | None, source: object) -> PathRecord:
    holds = bool(getattr(source, "news", False))
    last: float | None = getattr(getattr(source, "evidence", None), "read_at", None)
    if session is not None:
        last = session.leases.worked.get(PULL, last)
    note = "a call is waiting for mail" if holds else "it fetches its own mail"
    return PathRecord(
        name=PULL,
        works=agent.online,
        note=note if agent.online else "offline",
        last_at=last,
        wakes=holds and agent.online,
    )
