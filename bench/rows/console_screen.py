"""The terminal console: how fast it opens and answers, what it holds, and what it costs the broker."""

import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from bench.engine import Client, RoundFailed
from bench.engines.tellwire_broker import COMMAND, TellwireEngine
from bench.load import LoadSample, connect, disconnect, measure, run
from bench.process import cpu_s, rss_mb, wait_for_quiet
from bench.report import Section, Target, compare
from bench.rounds import interleave
from bench.rows.stored import BARE_PYTHON, bare_python_ms
from bench.workshop import Workshop, load_detail, value_detail

SIZE = (40, 120)
SHOWN_S = 30.0
IDLE_S = 10.0
STEADY_PER_S = 1_000
KEYS = 40
BODY_BYTES = 200


class Terminal:
    """A console at a terminal of its own; a thread reads what it paints."""

    def __init__(self, engine: TellwireEngine) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", *SIZE, 0, 0))
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(COMMAND), "tui"],
            env={**engine.environment(), "TERM": "xterm-256color", "LANG": "C.UTF-8"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
        )
        os.close(slave)
        self._shown = b""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master], [], [], 1.0)
                chunk = os.read(self._master, 65_536) if ready else b" "
            except (OSError, ValueError):
                return
            if ready:
                with self._changed:
                    self._shown = (self._shown + chunk)[-400_000:]
                    self._changed.notify_all()

    def wait_for(self, text: bytes) -> float:
        """Milliseconds from the start until a text was painted."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self._shown, SHOWN_S):
                raise RoundFailed(f"the console did not show {text!r}")
        return (time.perf_counter() - self._began) * 1_000

    def key_ms(self, key: bytes, text: bytes) -> float:
        """Milliseconds from a key until a text is painted."""
        with self._changed:
            self._shown = b""
        began = time.perf_counter()
        os.write(self._master, key)
        self.wait_for(text)
        return (time.perf_counter() - began) * 1_000

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        os.close(self._master)


@contextmanager
def consoles(engine: TellwireEngine, count: int) -> Generator[list[Terminal], None, None]:
    """So many consoles that show their picture."""
    opened = [Terminal(engine) for _ in range(count)]
    try:
        for each in opened:
            each.wait_for(b"Needs you")
        yield opened
    finally:
        for each in opened:
            each.close()


def measure_console_screen(workshop: Workshop) -> Section:
    """All of it."""
    section = Section()
    _measure_opening(workshop, section)
    _measure_scale(workshop, section)
    _measure_cost(workshop, section)
    return section


def _on_broker(workshop: Workshop, work: Callable[[TellwireEngine], float]) -> float:
    wait_for_quiet(workshop.plan.patience_s)
    engine = TellwireEngine()
    with workshop.folder() as folder, workshop.running(engine, folder):
        return work(engine)


def _measure_opening(workshop: Workshop, section: Section) -> None:
    def opens_ms(engine: TellwireEngine) -> float:
        terminal = Terminal(engine)
        try:
            return terminal.wait_for(b"Nothing needs you")
        finally:
            terminal.close()

    def idle_percent(engine: TellwireEngine) -> float:
        with consoles(engine, 1) as (terminal,):
            time.sleep(1.0)
            before = cpu_s(terminal.pid)
            time.sleep(IDLE_S)
            return (cpu_s(terminal.pid) - before) / IDLE_S * 100

    rounds, tell = workshop.plan.memory_rounds, workshop.tell
    row = "console: first picture"
    outcomes = interleave(
        {"tellwire tui": lambda: _on_broker(workshop, opens_ms), BARE_PYTHON: bare_python_ms}, rounds, tell
    )
    opened, bare = (value_detail(row, name, "ms", outcome) for name, outcome in outcomes.items())
    section.details += [opened, bare]
    section.ratios.append(compare(row, "ms", opened, bare, "value", target=Target("≤", 500.0, of="figure")))
    row = "console: CPU while nothing happens"
    idle = interleave({"tellwire tui": lambda: _on_broker(workshop, idle_percent)}, rounds, tell)
    detail = value_detail(row, "tellwire tui", "%", idle["tellwire tui"])
    section.details.append(detail)
    section.ratios.append(compare(row, "%", detail, detail, "value", target=Target("≤", 0.5, of="figure")))


def _measure_scale(workshop: Workshop, section: Section) -> None:
    agents = workshop.plan.connections

    async def scaled(engine: TellwireEngine, work: Callable[[Terminal], float], *, busy: bool) -> float:
        clients = await connect(engine, agents)
        pace = asyncio.create_task(_pace(clients[0], STEADY_PER_S)) if busy else None
        try:
            with consoles(engine, 1) as (terminal,):
                await asyncio.to_thread(terminal.wait_for, f"Agents {agents}".encode())
                return await asyncio.to_thread(work, terminal)
        finally:
            if pace is not None:
                pace.cancel()
            await disconnect(clients)

    def holds_mb(terminal: Terminal) -> float:
        time.sleep(2.0)
        return rss_mb(terminal.pid)

    def keys_ms(terminal: Terminal) -> float:
        times: list[float] = []
        for number in range(KEYS):
            pane = b"4 Files" if number % 2 == 0 else b"Conversation"
            times.append(terminal.key_ms(b"4" if number % 2 == 0 else b"1", pane))
            time.sleep(0.1)
        return statistics.quantiles(times, n=20)[18]

    rounds, tell = workshop.plan.memory_rounds, workshop.tell
    for row, unit, work, busy, most in (
        (f"console: RSS with {agents:,} agents", "MB", holds_mb, False, 80.0),
        (f"console: key to paint, p95, {STEADY_PER_S:,} messages/s", "ms", keys_ms, True, 50.0),
    ):
        outcomes = interleave(
            {
                "tellwire tui": lambda work=work, busy=busy: _on_broker(
                    workshop, lambda engine: run(scaled(engine, work, busy=busy))
                )
            },
            rounds,
            tell,
        )
        detail = value_detail(row, "tellwire tui", unit, outcomes["tellwire tui"])
        section.details.append(detail)
        target = Target("≤", most, of="figure")
        section.ratios.append(compare(row, unit, detail, detail, "value", target=target))


async def _pace(client: Client, per_s: int) -> None:
    """Send a steady stream from one client to the next, and let nobody wait for it."""
    began, sent = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * per_s) - sent
        if due > 0:
            await asyncio.gather(*(client.send(1, "x" * BODY_BYTES) for _ in range(min(due, 100))))
            sent += min(due, 100)
        await asyncio.sleep(0.005)


def _measure_cost(workshop: Workshop, section: Section) -> None:
    """What two open consoles cost the broker: its throughput, and its CPU for each message."""
    shape = workshop.plan.shape(10, BODY_BYTES)

    def loaded(count: int) -> LoadSample:
        wait_for_quiet(workshop.plan.patience_s)
        engine = TellwireEngine()
        with workshop.folder() as folder, workshop.running(engine, folder), consoles(engine, count):
            return run(measure(engine, shape, workshop.bodies))

    names = ("tellwire, two consoles open", "tellwire, none open")
    outcomes = interleave(
        {names[0]: lambda: loaded(2), names[1]: lambda: loaded(0)}, workshop.plan.rounds, workshop.tell
    )
    row = "console: load beside two consoles"
    watched, alone = (load_detail(row, name, outcome) for name, outcome in outcomes.items())
    section.details += [watched, alone]
    section.ratios += [
        compare(row, "msg/s", watched, alone, "per_s", target=Target("≥", 0.85)),
        compare(
            "console: broker CPU per message", "µs", watched, alone, "server_cpu_us", target=Target("≤", 1.15)
        ),
    ]
