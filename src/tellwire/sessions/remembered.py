"""What outlives a broker of an agent's client: which session it is in, what it does, what is on its way.

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
from tellwire.sessions.client_session import Book, Place
from tellwire.sessions.turns import Turn
from tellwire.system.files import read_bounded, write_atomically

log = logging.getLogger("tellwire.hooks")

FILE_BYTES_MAX = 1 << 20


class Binding(msgspec.Struct, kw_only=True):
    """One agent's client."""

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
    ways: dict[str, str] = {}
    due: list[str] = []
    """The calls whose messages have to be in the next request, whatever path they took."""
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


class Bindings:
    """Stores one file per session, for the next broker to read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saved: dict[str, bytes] = {}

    def save(self, agent: Agent, book: Book) -> None:
        """Write down what is known about an agent's session."""
        leases = book.leases
        binding = Binding(
            instance=agent.session,
            kind=book.client.kind,
            session=book.session,
            transcript=book.transcript,
            state=book.state,
            heard_at=0.0,
            turn=book.turns.current,
            rested_at=book.rested_at,
            handed={call: given.at for call, given in leases.items()},
            ways={call: given.way for call, given in leases.items()},
            due=[call for call, given in leases.items() if not given.is_deferred],
            left={
                call: given.place
                for call, given in leases.items()
                if given.place[0] not in ("", book.session)
            },
            changed_at=book.changed_at,
            has_ended=book.has_ended,
            interrupted_at=book.interrupted_at if book.was_interrupted else 0.0,
            worked=book.worked,
            failures=book.failures,
            failed_at=book.failed_at,
        )
        data = msgspec.json.encode(binding)
        if self._saved.get(agent.id) == data:
            return  # when it was heard of last is no reason to write
        self._saved[agent.id] = data
        binding.heard_at = book.heard_at
        path = self._path(agent)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, msgspec.json.encode(binding))
        except OSError as error:
            log.warning("a session could not be noted for the next broker: %s", error)

    def load(self, agent: Agent) -> Binding | None:
        """What an earlier broker kept of an agent's session, if it is still that one."""
        try:
            binding = msgspec.json.decode(read_bounded(self._path(agent), FILE_BYTES_MAX), type=Binding)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        return binding if binding.instance == agent.session else None

    def forget(self, agent: str) -> None:
        """The session is over."""
        self._saved.pop(agent, None)
        with suppress(OSError):
            (self._folder / f"{agent}.json").unlink(missing_ok=True)

    def prune(self, agents: Set[str]) -> None:
        """Keep only what is about these."""
        with suppress(OSError):
            for path in list(self._folder.iterdir()):
                if path.stem not in agents:
                    path.unlink()

    def _path(self, agent: Agent) -> Path:
        return self._folder / f"{agent.id}.json"
