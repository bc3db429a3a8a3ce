"""What the next broker has to know of a client: its session, its activity, its open leases.

A client's start hook does not come again because a broker does. One small file for each agent, written
when something in it changes; a hint, not the truth: one that is missing, damaged or of another session is
passed by.
"""

from __future__ import annotations

import logging
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import msgspec

from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession, Place
from tellwire.sessions.turns import Turn
from tellwire.system.files import read_bounded, write_atomically

log = logging.getLogger("tellwire.hooks")

FILE_BYTES_MAX = 1 << 20


class RememberedSession(msgspec.Struct, kw_only=True):
    """One agent's client, as its file has it. Field names are those of earlier brokers' files."""

    instance: str
    """The agent's session on the mesh; with another one all of this is past."""
    kind: str
    session: str
    transcript: str
    state: str
    heard_at: float
    rested_at: float = 0.0
    """When the last turn ended."""
    turn: Turn | None = None
    handed: dict[str, float] = {}
    """From each open call to when its messages were handed over."""
    paths: dict[str, str] = msgspec.field(default_factory=dict, name="ways")
    due: list[str] = []
    """The calls whose messages have to be in the next request, whatever carries them."""
    left: dict[str, Place] = {}
    """From each call of a conversation that its human has left to that conversation."""
    changed_at: float = 0.0
    """When it went on to another conversation."""
    has_ended: bool = False
    interrupted_at: float = 0.0
    """When its human stopped it, if they have said nothing since."""
    worked: dict[str, float] = {}
    failures: int = 0
    failed_at: float = 0.0
    """How many woken turns in a row failed, and when the last did."""

    def restore(self, session: ClientSession) -> None:
        """Have a session go on where the earlier broker stopped; its leases are the fetcher's."""
        session.leases.move_to((self.session, self.transcript))
        session.leases.changed_at, session.leases.worked = self.changed_at, self.worked
        session.state, session.has_ended = self.state, self.has_ended
        session.heard_at, session.rested_at = self.heard_at, self.rested_at
        session.interrupted_at = self.interrupted_at
        session.turns.current = self.turn
        session.wakes.failures, session.wakes.failed_at = self.failures, self.failed_at


class RememberedSessions:
    """Stores one file per session, for the next broker to read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved: dict[str, bytes] = {}

    def save(self, agent: Agent, session: ClientSession) -> None:
        """Write down what is known about an agent's session."""
        leases = session.leases.held
        remembered = RememberedSession(
            instance=agent.session,
            kind=session.client.kind,
            session=session.conversation,
            transcript=session.transcript,
            state=session.state,
            heard_at=0.0,
            turn=session.turns.current,
            rested_at=session.rested_at,
            handed={call: lease.at for call, lease in leases.items()},
            paths={call: lease.path for call, lease in leases.items()},
            due=[call for call, lease in leases.items() if not lease.is_deferred],
            left={
                call: lease.place
                for call, lease in leases.items()
                if lease.place[0] not in ("", session.conversation)
            },
            changed_at=session.leases.changed_at,
            has_ended=session.has_ended,
            interrupted_at=session.interrupted_at,
            worked=session.leases.worked,
            failures=session.wakes.failures,
            failed_at=session.wakes.failed_at,
        )
        data = msgspec.json.encode(remembered)
        if self._saved.get(agent.id) == data:
            return  # a newer time alone is no reason to write
        self._saved[agent.id] = data
        remembered.heard_at = session.heard_at
        path = self._path(agent)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, msgspec.json.encode(remembered))
        except OSError as error:
            log.warning("a session could not be noted for the next broker: %s", error)

    def load(self, agent: Agent, kind: str = "") -> RememberedSession | None:
        """What an earlier broker kept of an agent's session, if it is still that one, and of that kind."""
        try:
            data = read_bounded(self._path(agent), FILE_BYTES_MAX)
            found = msgspec.json.decode(data, type=RememberedSession)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        return found if found.instance == agent.session and kind in ("", found.kind) else None

    def forget(self, agent: str) -> None:
        """Delete the file of a session that is over."""
        self._saved.pop(agent, None)
        with suppress(OSError):
            (self._folder / f"{agent}.json").unlink(missing_ok=True)

    def prune(self, agents: Set[str]) -> None:
        """Delete the files of all other agents."""
        with suppress(OSError):
            for path in list(self._folder.iterdir()):
                if path.stem not in agents:
                    path.unlink()

    def _path(self, agent: Agent) -> Path:
        return self._folder / f"{agent.id}.json"
