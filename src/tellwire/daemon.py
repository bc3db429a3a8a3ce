"""Composition root: builds the broker from its settings, starts and stops it in order.

`tellwire.launch` is the program that runs it.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import logging.handlers
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvloop

from tellwire.broker.clock import Clock
from tellwire.broker.engine import Engine
from tellwire.broker.housekeeping import Housekeeping
from tellwire.broker.server import Server, connection_factory
from tellwire.broker.ticker import Ticker
from tellwire.gateways.asking import Asking
from tellwire.gateways.diagnosis import Diagnostician
from tellwire.gateways.inside import Inside
from tellwire.gateways.launching import Launcher
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus, Diagnose, StopBroker
from tellwire.protocol.operations.history import PurgeHistory
from tellwire.settings import Settings
from tellwire.store.sqlite_journal import SqliteJournal
from tellwire.version import VERSION

log = logging.getLogger("tellwire.daemon")

LOG_BYTES_MAX = 5 * 1024 * 1024
LOG_FILES = 3
BACKLOG = 1_024


def run(settings: Settings, *, ready: Callable[[], None]) -> None:
    """Run a broker until it is told to stop.

    Raises:
        TellwireError: it could not start; nothing was changed.
    """
    os.umask(0o077)
    prepare_folder(settings.home)
    prepare_folder(settings.socket.parent)
    lock = take_lock(settings.lock)
    try:
        _start_log(settings)
        _raise_file_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, ready))
    finally:
        os.close(lock)


def prepare_folder(folder: Path) -> None:
    """Have a folder that only its owner can enter.

    Raises:
        TellwireError: it belongs to somebody else, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as error:
        raise TellwireError(
            "storage_broken", f"{folder} cannot be made: {error}.", "Set TELLWIRE_HOME."
        ) from error
    if status.st_uid != os.getuid():
        raise TellwireError("forbidden", f"{folder} belongs to another user.", "Set TELLWIRE_HOME.")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def take_lock(path: Path) -> int:
    """Take the lock of the one broker; the kernel lets go of it whatever happens to us.

    Raises:
        TellwireError: `already_running`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(fd, 32).decode().strip()
        os.close(fd)
        raise TellwireError("already_running", f"A broker runs already (pid {pid}).") from None
    os.ftruncate(fd, 0)
    os.write(fd, b"%d\n" % os.getpid())
    return fd


def _start_log(settings: Settings) -> None:
    handler = logging.handlers.RotatingFileHandler(
        settings.log, maxBytes=LOG_BYTES_MAX, backupCount=LOG_FILES, encoding="utf-8", delay=True
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("tellwire", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(settings.log_level.upper())


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _calm_collector() -> None:
    """The state lives as long as we do and has no cycles: do not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def _fatal(error: TellwireError) -> None:
    """Nobody knows what is on disk: stop at once, say nothing more, replay at the next start."""
    log.critical("stopping at once: %s", error)
    logging.shutdown()
    os._exit(74)


async def _serve(settings: Settings, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    journal = SqliteJournal(settings.database, bytes_max=settings.store_bytes_max)
    clock = Clock(hold_s=settings.offline_after_s)
    engine = Engine(
        journal,
        clock,
        settings.limits,
        call_soon=loop.call_soon,
        fatal=_fatal,
        grant_s=settings.offline_after_s / 2,  # over well before a silent session can be replaced
    )
    engine.start(VERSION)
    _calm_collector()
    keeping = _make_housekeeping(engine, journal, settings)
    server, inside = _make_doors(engine, settings)
    launcher = Launcher(engine, settings.home)
    asking = Asking(engine, server, launcher)
    engine.answerers[Diagnose] = Diagnostician(engine, journal, inside).answer
    stop = asyncio.Event()
    _answer_for_broker(engine, server, settings, stop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listener = await loop.create_unix_server(
        connection_factory(server), sock=_bind(settings.socket), backlog=BACKLOG
    )
    log.info("broker %s runs, pid %d, socket %s", VERSION, os.getpid(), settings.socket)
    ready()
    ticker = Ticker(engine, server, beat_s=settings.beat_s, offline_after_s=settings.offline_after_s)
    keeping.after_commit()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(work) for work in (ticker.run(), inside.listen(), launcher.watch())]
        await stop.wait()
        await asking.drain()
        for task in running:
            task.cancel()
    log.info("broker stops")
    listener.close()
    settings.socket.unlink(missing_ok=True)
    server.dismiss_all()
    await inside.shims.drain()
    ticker.note_refusals()
    await asyncio.sleep(0)  # let the last bytes leave
    while engine.scheduled:  # noqa: ASYNC110 - the loop has to turn for the last tick
        await asyncio.sleep(0)
    keeping.finish()
    journal.close()


def _make_housekeeping(engine: Engine, journal: SqliteJournal, settings: Settings) -> Housekeeping:
    call_later = asyncio.get_running_loop().call_later
    keeping = Housekeeping(
        engine, journal, retention_s=settings.retention_s, call_later=call_later, fatal=_fatal
    )
    engine.observers.append(keeping.after_commit)
    engine.answerers[PurgeHistory] = keeping.purge
    engine.alone.add(PurgeHistory)
    return keeping


def _make_doors(engine: Engine, settings: Settings) -> tuple[Server, Inside]:
    server = Server(
        engine,
        settings.limits,
        version=VERSION,
        heartbeat_s=settings.heartbeat_s,
        greeting_s=settings.greeting_s,
        connections_max=settings.connections_max,
    )
    inside = Inside(
        engine,
        server,
        settings.home,
        offline_after_s=settings.offline_after_s,
        typing=settings.typing,
        checkpoint_prompt=settings.checkpoint_prompt,
    )
    return server, inside


def _bind(path: Path) -> socket.socket:
    """Listen on a fresh socket; the lock makes sure that an old one is nobody's."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.bind(str(path))
    path.chmod(0o600)
    sock.listen(BACKLOG)
    return sock


def _answer_for_broker(engine: Engine, server: Server, settings: Settings, stop: asyncio.Event) -> None:
    began = time.monotonic()

    def status(_operation: BrokerStatus) -> BrokerState:
        state = engine.state
        return BrokerState(
            pid=os.getpid(),
            version=VERSION,
            uptime_s=round(time.monotonic() - began, 3),
            agents=len(state.agents),
            online=sum(agent.online for agent in state.agents.values()),
            pending=state.waiting(),
            connections=len(server.connections),
            sequence=state.seq,
            storage="ok" if engine.storage_error is None else engine.storage_error.message,
            home=str(settings.home),
        )

    def stop_broker(_operation: StopBroker) -> Done:
        asyncio.get_running_loop().call_soon(stop.set)
        return Done(note="The broker stops.")

    engine.answerers[BrokerStatus] = status
    engine.answerers[StopBroker] = stop_broker
