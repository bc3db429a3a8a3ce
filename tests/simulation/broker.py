"""One broker's life on a hand-turned loop and clock, and a journal that can be made to fail at any commit.

Engine, delivery, kernel and journal are the real ones; only what is outside of them is simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from tellwire.broker.engine import Engine, load_state
from tellwire.broker.ports import Journal
from tellwire.core.context import Caller
from tellwire.core.limits import Limits
from tellwire.core.record.stored import Commit
from tellwire.core.state import State
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import parse_broker_frame
from tellwire.protocol.ids import parse_message_id
from tellwire.protocol.operations.base import Reply
from tellwire.protocol.operations.messages import Offer
from tellwire.system.clock import Clock

TURNS_MAX = 10_000


class Crash(BaseException):
    """The process is gone."""


class Tap:
    """A journal whose commits meet the fate that the test gives them."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner
        self.journal = cast("Journal", cast("object", self))
        """This tap, as the engine takes it: what it does not say itself, the journal says."""
        self.fate: Callable[[], str] = lambda: ""
        """Asked at each commit: `before` and `after` crash there; else the code of an error, or nothing."""
        self.last = max((commit.seq for commit in inner.replay(0)), default=0)
        """The newest event on disk."""

    def commit(self, commit: Commit) -> None:
        fate = self.fate()
        if fate == "before":
            raise Crash(fate)
        if fate not in ("", "after"):
            raise TellwireError(fate, "As the test wants it.")
        self.inner.commit(commit)
        self.last = commit.seq
        if fate == "after":
            raise Crash(fate)

    def probe(self) -> None:
        if (fate := self.fate()) not in ("", "before", "after"):
            raise TellwireError(fate, "As the test wants it.")
        self.inner.probe()

    def __getattr__(self, name: str) -> Any:
        """All the rest is the journal's own."""
        return getattr(self.inner, name)


class Time:
    """The machine's clocks."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.monotonic = 100.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


class Life:
    """A broker from its start to its crash."""

    def __init__(
        self, tap: Tap, time: Time, limits: Limits | None = None, *, dead: set[str] | None = None
    ) -> None:
        gone = set[str]() if dead is None else dead
        self.tap = tap
        self.time = time
        self.queue: deque[Callable[[], None]] = deque()
        clock = Clock(hold_s=90.0, wall=lambda: time.wall, monotonic=lambda: time.monotonic)
        self.engine = Engine(
            tap.journal,
            clock,
            limits or Limits(),
            call_soon=self.queue.append,
            fatal=self._die,
            alive=lambda process: process not in gone,
        )
        self.engine.start("simulated")

    def run(self) -> None:
        """Turn the loop until nothing is to be done."""
        for _ in range(TURNS_MAX):
            if not self.queue:
                return
            self.time.pass_by(0.001)
            self.queue.popleft()()
        raise AssertionError("the loop never comes to rest")

    def equals_journal(self) -> bool:
        """Whether memory and disk tell the same, clocks aside."""
        stored, live = load_state(self.tap.journal), self.engine.state
        stored.now, stored.awake = live.now, live.awake
        return stored == live

    @property
    def state(self) -> State:
        return self.engine.state

    def _die(self, error: TellwireError) -> None:
        raise Crash(error.code)


Said = tuple[int, Reply | TellwireError | Offer]


class Port:
    """A connection as the engine sees it. It proves at every word that all of it is on disk (AUD-6)."""

    def __init__(self, life: Life, *, process: str = "") -> None:
        self._life = life
        self._out: list[Said] = []
        self.heard: list[Said] = []
        """What reached the other end."""
        self.farewell = ""
        self.caller = Caller(kind="script", process=process)
        self.group = "/project"
        self.writable = True
        self.last_seen = life.time.monotonic

    def _check_durable(self) -> None:
        assert self._life.tap.last == self._life.state.seq, "spoke of what is not on disk"

    def answer(self, n: int, reply: Reply) -> None:
        self._check_durable()
        self._out.append((n, reply))

    def refuse(self, n: int, error: TellwireError) -> None:
        self._out.append((n, error))

    def offer(self, frame: bytes) -> None:
        self._check_durable()
        offer = parse_broker_frame(frame).offer
        assert offer is not None
        for record in offer.messages:
            stored = self._life.tap.header(parse_message_id(record.id))
            assert stored is not None, "offered a message that is not stored"
            receipt = self._life.state.agents[self.caller.agent].leased[stored.seq]
            assert receipt.lease <= self._life.tap.last, "offered on a lease that is not stored"
        self._out.append((0, offer))

    def mail(self, waiting: int) -> None:
        self._check_durable()
        agent = self._life.state.agents[self.caller.agent]
        assert 0 < waiting == len(agent.pending), "told of mail that does not wait"
        self._out.append((0, Offer(messages=[], waiting=waiting)))

    def flush(self) -> None:
        self.heard += self._out
        self._out = []

    def attach(self, agent: str, *, is_own_client: bool) -> None:
        self.caller = Caller(kind="agent", agent=agent, is_own_client=is_own_client)

    def detach(self) -> None:
        self.caller = Caller(kind="script")

    def dismiss(self, error: TellwireError) -> None:
        self.farewell = error.code
