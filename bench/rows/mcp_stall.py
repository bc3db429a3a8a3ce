"""Whether others feel the first MCP session of a broker, when it loads the SDK: round trips of a ping."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.engine import RoundFailed
from bench.engines.tellwire_broker import TellwireEngine
from bench.load import quantile
from bench.mcp_process import McpProcess, opened_shim
from bench.process import START_TIMEOUT_S, settle, wait_for_quiet
from bench.report import Section, compare
from bench.rounds import interleave
from bench.rows.mcp_start import load_mcp
from bench.workshop import Workshop, part_detail

ROW = "ping while a shim comes"
FIRST = "tellwire, the first shim"
LATER = "tellwire, a later shim"
NOBODY = "tellwire, nobody comes"
HELLO = b'{"tellwire":1,"program":"bench"}\n'
REGISTER = b'{"n":1,"do":{"op":"register_agent","name":"pinger","session":"bench"}}\n'
PING = b'{"n":2,"do":{"op":"heartbeat"}}\n'
PONG = b'{"n":2,"ok":'
WARM_UP = 200


@dataclass(frozen=True)
class StallSample:
    """Round trips of pings, one after the other without a pause."""

    max_us: float
    p99_us: float


def measure_mcp_stall(workshop: Workshop) -> Section:
    """A fresh broker for each round: the first shim, one when MCP is loaded, and none."""
    outcomes = interleave(
        {
            FIRST: partial(_round, workshop, loaded=False, comes=True),
            LATER: partial(_round, workshop, loaded=True, comes=True),
            NOBODY: partial(_round, workshop, loaded=False, comes=False),
        },
        workshop.plan.rounds,
        workshop.tell,
    )
    section = Section()
    for key in ("max", "p99"):
        row = f"{ROW}: {key}"
        first, later, nobody = details = [
            part_detail(row, name, "us", outcome, lambda sample, key=key: getattr(sample, f"{key}_us"))
            for name, outcome in outcomes.items()
        ]
        section.details += details
        section.ratios += [
            compare(row, "us", first, nobody, "value"),
            compare(row, "us", later, nobody, "value"),
        ]
    return section


def _round(workshop: Workshop, *, loaded: bool, comes: bool) -> StallSample:
    engine, window_s = TellwireEngine(), workshop.plan.mcp_stall_s
    with workshop.folder() as home, workshop.running(engine, home), closing(Pinger(engine.home)) as pinger:
        if loaded:
            load_mcp(engine)
        settle(engine.pid, quiet_s=0.2)
        wait_for_quiet(workshop.plan.patience_s)
        for _ in range(WARM_UP):
            pinger.ping_s()
        if not comes:
            return _ping(pinger, window_s, lambda: True)
        with opened_shim(engine, "alice") as shim:
            shim.ask_initialize()
            return _ping(pinger, window_s, _once(shim))


def _once(shim: McpProcess) -> Callable[[], bool]:
    """Whether the shim's session has begun."""

    def answered() -> bool:
        if shim.has_answered():
            shim.answer()
            return True
        return False

    return answered


def _ping(pinger: "Pinger", window_s: float, over: Callable[[], bool]) -> StallSample:
    """Ping for the window, and on until it is over; what happens between two pings does not count."""
    times: list[float] = []
    begun, done = perf_counter(), False
    while not (done and perf_counter() - begun >= window_s):
        times.append(pinger.ping_s() * 1e6)
        done = done or over()
        if perf_counter() - begun > window_s + START_TIMEOUT_S:
            raise RoundFailed("the shim's session did not begin")
    times.sort()
    return StallSample(times[-1], quantile(times, 0.99))


class Pinger:
    """An agent on a plain socket."""

    def __init__(self, home: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(START_TIMEOUT_S)
        self._socket.connect(os.fspath(home / "socket"))
        self._ask(HELLO)
        answer = self._ask(REGISTER)
        if b'"ok"' not in answer:
            self.close()
            raise RoundFailed(f"the pinging agent could not join: {answer!r}")

    def ping_s(self) -> float:
        """One round trip."""
        begun = perf_counter()
        answer = self._ask(PING)
        took_s = perf_counter() - begun
        if not answer.startswith(PONG):
            raise RoundFailed(f"a ping was answered by {answer!r}")
        return took_s

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def _ask(self, line: bytes) -> bytes:
        self._socket.sendall(line)
        answer = b""
        while not answer.endswith(b"\n"):
            data = self._socket.recv(1 << 16)
            if not data:
                raise RoundFailed("the broker closed the connection")
            answer += data
        return answer
