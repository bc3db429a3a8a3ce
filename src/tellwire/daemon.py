"""Composition root: builds the broker from its settings, starts and stops it in order.

`tellwire.launch` is the program that runs it.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import logging.handlers
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from tellwire.broker.calls import LateAnswers
from tellwire.broker.consoles import NoticeTimes, Noticing
from tellwire.broker.engine import Engine
from tellwire.broker.housekeeping import Housekeeping, HousekeepingTimes
from tellwire.broker.ownership import BACKLOG, HomeOwnership, Losses, Space
from tellwire.broker.server import Server, connection_factory
from tellwire.broker.ticker import SLOW_BEAT_S, Ticker
from tellwire.children.asking import Asking, AskTimes
from tellwire.children.launcher import Launcher, LaunchTimes
from tellwire.core.agents.speaking import Identity
from tellwire.core.mail import framing
from tellwire.core.operator.person import is_operator
from tellwire.install.launcher import mend
from tellwire.machines.startup import Machines
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.audit import AcknowledgeLosses
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus, Diagnose, StopBroker
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.history import PurgeHistory
from tellwire.protocol.operations.machines import MachineCard, RenewMachine
from tellwire.sessions.diagnosis import Diagnostician
from tellwire.settings import Settings
from tellwire.store.losses import acknowledge_losses, find_losses
from tellwire.store.sqlite_journal import SqliteJournal
from tellwire.system.clock import Clock
from tellwire.system.tasks import Tasks
from tellwire.system.terminals import attached_clients
from tellwire.system.threads import in_thread
from tellwire.version import VERSION
from tellwire.wiring import SessionDoors, SessionTimes

log = logging.getLogger("tellwire.daemon")

LOG_BYTES_MAX = 5 * 1024 * 1024
LOG_FILES = 3
DESCRIPTORS = 65_536
"""Where the system sets no bound."""
HTTP_CONNECTIONS_MAX = 256
"""Or a quarter of the descriptors, if they are few: strangers can connect there."""
SPARE_DESCRIPTORS = 32
"""For files, and for programs that the broker runs."""
JUDGING = Tasks()
START_BYTES = 1 << 20
"""Free space below which a start that fails, fails for want of it."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a broker wait that have no setting for it; only tests have others."""

    asking: AskTimes = AskTimes()
    children: LaunchTimes = LaunchTimes()
    housekeeping: HousekeepingTimes = HousekeepingTimes()
    notices: NoticeTimes = NoticeTimes()
    judge_s: float = 2.0
    """How long tmux is waited for when it has to tell who looks at a terminal."""
    sessions: SessionTimes = SessionTimes()
    slow_beat_s: float = SLOW_BEAT_S
    warm_up_s: float = 2.0
    """A new broker first answers those who wait for it; then it prepares what takes long."""


def run(settings: Settings, *, ready: Callable[[], None], times: Times | None = None) -> None:
    """Run a broker until it is told to stop.

    Raises:
        TellwireError: it could not start; nothing was changed.
    """
    os.umask(0o077)
    try:
        ownership = HomeOwnership(home=settings.home, lock=settings.lock, socket=settings.socket, lost=_fatal)
        ownership.acquire()
        try:
            _start_log(settings)
            _raise_file_limit()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(settings, ownership, ready, times or Times()))
        finally:
            ownership.release()
    except (OSError, TellwireError) as error:
        raise explain_start(error, settings.home, free_bytes(settings.home)) from error


def free_bytes(folder: Path) -> int:
    """Free space for this user where a folder is, or will be."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def explain_start(error: OSError | TellwireError, home: Path, free: int) -> Exception:
    """Explain why a broker could not start: a full disk shows up as many different errors."""
    if isinstance(error, OSError):
        failed = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) or free < START_BYTES
        words = f"{error}."
    else:
        full = error.code == "storage_full"
        failed = full or (error.code == "storage_broken" and free < START_BYTES)
        words = error.message
    if not failed:
        return error
    if free < START_BYTES:
        room = f"The disk of {home} has {free >> 10} KiB free; {START_BYTES >> 10} KiB are needed."
        advice = "Free some space there and try again; the next command starts the broker."
    else:
        room, advice = words, "Fix the cause and try again; the next command starts the broker."
    return TellwireError("storage_full", f"The broker cannot start. {room}", advice)


def _start_log(settings: Settings) -> None:
    handler = logging.handlers.RotatingFileHandler(
        settings.log, maxBytes=LOG_BYTES_MAX, backupCount=LOG_FILES, encoding="utf-8", delay=True
    )
    logging.raiseExceptions = False  # a full disk must not fill the terminal
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("tellwire", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(settings.log_level.upper())


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _calm_collector() -> None:
    """The state lives as long as we do and has no cycles: do not look through it again and again.

    What is young is looked through often enough: sessions that are over are cycles, tens of megabytes of
    them in 50 rounds of the first generation.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 500)


def _fatal(error: TellwireError) -> None:
    """What is on disk is not known, or not ours any more: stop at once, say nothing more."""
    log.critical("stopping at once: %s", error)
    logging.shutdown()
    os._exit(74)


async def _serve(
    settings: Settings, ownership: HomeOwnership, ready: Callable[[], None], times: Times
) -> None:
    """Build the broker, listen, and run its background tasks until a signal or `stop_broker` ends it."""
    loop = asyncio.get_running_loop()
    journal = SqliteJournal(settings.database, bytes_max=settings.store_bytes_max)
    engine = _start_engine(settings, journal)
    _calm_collector()
    losses = _make_losses(engine, settings)
    keeping = _make_housekeeping(engine, journal, settings, times)
    server, doors = _make_doors(engine, settings, times)
    launcher, asking = _make_children(engine, server, settings, times)
    machines = _make_machines(engine, journal, server, settings)
    stop = asyncio.Event()
    _answer_for_broker(engine, server, settings, losses, stop)
    _answer_diagnoses(engine, journal, doors, settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    factory = connection_factory(server)
    await ownership.open(lambda sock: loop.create_unix_server(factory, sock=sock, backlog=BACKLOG))
    for fault in settings.faults:
        log.warning("%s", fault)
    log.info("broker %s runs, pid %d, socket %s", VERSION, os.getpid(), settings.socket)
    ready()
    ticker = _make_ticker(engine, server, settings, times, losses)
    keeping.after_commit()
    async with asyncio.TaskGroup() as tasks:
        works = (ticker.run(), doors.listen(), launcher.watch(), ownership.watch(settings.beat_s))
        running = [
            tasks.create_task(work) for work in (*works, _warm_up(times.warm_up_s, str(settings.home)))
        ]
        await stop.wait()
        await asking.drain()
        for task in running:
            task.cancel()
    log.info("broker stops")
    ownership.close()
    server.dismiss_all()
    await doors.shims.drain()
    await machines.close()
    ticker.note_refusals()
    await asyncio.sleep(0)  # let the last bytes leave
    while engine.scheduled:  # noqa: ASYNC110 - the loop has to turn for the last tick
        await asyncio.sleep(0)
    keeping.finish()
    journal.close()


async def _warm_up(after_s: float, home: str) -> None:
    await asyncio.sleep(after_s)
    await asyncio.to_thread(framing.prepare)
    await asyncio.to_thread(_mend_launcher, home)


def _mend_launcher(home: str) -> None:
    """After an installation moved, its clients' configurations lead to it again."""
    try:
        mend(home)
    except (OSError, TellwireError) as error:
        log.warning("the launcher leads nowhere and cannot be mended: %s", error)


def _make_ticker(engine: Engine, server: Server, settings: Settings, times: Times, losses: Losses) -> Ticker:
    space = Space(engine, settings.home, settings.free_bytes_min)
    space.beat()
    noticing = _make_noticing(engine, settings, times)
    return Ticker(
        engine,
        server,
        beat_s=settings.beat_s,
        offline_after_s=settings.offline_after_s,
        slow_beat_s=times.slow_beat_s,
        others=(losses.beat, space.beat, noticing.beat),
    )


def _make_noticing(engine: Engine, settings: Settings, times: Times) -> Noticing:
    noticing = Noticing(
        engine,
        engine.attendance,
        engine.own_context,
        command=settings.notify_command,
        quiet=settings.quiet,
        minute=lambda: 60 * (local := time.localtime()).tm_hour + local.tm_min,
        times=times.notices,
    )
    noticing.beat()  # nobody is notified of what an earlier broker has seen
    return noticing


def _start_engine(settings: Settings, journal: SqliteJournal) -> Engine:
    loss = journal.note_loss()
    engine = Engine(
        journal,
        Clock(hold_s=settings.offline_after_s),
        settings.limits,
        call_soon=asyncio.get_running_loop().call_soon,
        fatal=_fatal,
        grant_s=settings.offline_after_s / 2,  # over well before a silent session can be replaced
    )
    engine.start(VERSION)
    if loss is not None:
        journal.save_head()
    return engine


def _make_losses(engine: Engine, settings: Settings) -> Losses:
    words = [loss.words() for loss in find_losses(settings.database)]
    losses = Losses(engine, words, lambda: acknowledge_losses(settings.database))
    engine.handlers.answer(AcknowledgeLosses, losses.acknowledge)
    return losses


def _make_housekeeping(
    engine: Engine, journal: SqliteJournal, settings: Settings, times: Times
) -> Housekeeping:
    call_later = asyncio.get_running_loop().call_later
    keeping = Housekeeping(
        engine,
        journal,
        retention_s=settings.retention_s,
        call_later=call_later,
        fatal=_fatal,
        times=times.housekeeping,
    )
    engine.commits.observe(keeping.after_commit)
    engine.handlers.answer(PurgeHistory, keeping.purge)
    return keeping


def _make_doors(engine: Engine, settings: Settings, times: Times) -> tuple[Server, SessionDoors]:
    """The server and the doors for sessions; connections are bounded by the free file descriptors."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    descriptors = DESCRIPTORS if descriptors == resource.RLIM_INFINITY else descriptors
    http_max = min(HTTP_CONNECTIONS_MAX, descriptors // 4)
    server = Server(
        engine,
        settings.limits,
        version=VERSION,
        heartbeat_s=settings.heartbeat_s,
        greeting_s=settings.greeting_s,
        connections_max=min(settings.connections_max, descriptors - http_max - SPARE_DESCRIPTORS),
        attached=attached_clients,
        run_in_background=partial(_judge_in_thread, times.judge_s),
    )
    doors = SessionDoors(
        engine,
        server,
        settings.home,
        offline_after_s=settings.offline_after_s,
        typing=settings.typing,
        checkpoint_prompt=settings.checkpoint_prompt,
        http_connections_max=http_max,
        times=times.sessions,
    )
    return server, doors


def _judge_in_thread(
    within_s: float, work: Callable[[], Identity], then: Callable[[Identity | None], None]
) -> None:
    """Find out in a thread who calls: tmux is asked, and may not answer."""

    async def run() -> None:
        try:
            then(await in_thread(work, within_s=within_s))
        except Exception as error:
            log.warning("it could not be found out who calls: %r", error)
            then(None)

    JUDGING.run(run())


def _make_children(
    engine: Engine, server: Server, settings: Settings, times: Times
) -> tuple[Launcher, Asking]:
    """What runs the processes of children, and questions to fresh agents."""
    late = LateAnswers(engine, engine.refusals)
    launcher = Launcher(
        engine,
        engine.commits,
        late,
        settings.home,
        activity=engine.facts.activity,
        times=times.children,
    )
    asking = Asking(
        engine,
        engine.commits,
        late,
        launcher,
        is_connected=lambda source: source in server.connections,
        times=times.asking,
    )
    engine.handlers.defer(SpawnAgent, launcher.begin)
    engine.handlers.defer(AskAgent, asking.begin)
    return launcher, asking


def _make_machines(engine: Engine, journal: SqliteJournal, server: Server, settings: Settings) -> Machines:
    machines = Machines(
        engine,
        journal,
        engine.commits,
        LateAnswers(engine, engine.refusals),
        connections=server.connections,
        add_door=server.add_door,
        home=settings.home,
        version=VERSION,
    )
    engine.handlers.defer(MachineCard, machines.begin_card)
    engine.handlers.defer(RenewMachine, machines.begin_renewal)
    return machines


def _answer_diagnoses(
    engine: Engine, journal: SqliteJournal, doors: SessionDoors, settings: Settings
) -> None:
    diagnostician = Diagnostician(
        engine,
        journal,
        doors.tracker.faults,
        contact_of=engine.contact_of,
        port=lambda: doors.http.port,
        typing=settings.typing,
    )
    engine.handlers.answer(Diagnose, diagnostician.answer)


def _answer_for_broker(
    engine: Engine, server: Server, settings: Settings, losses: Losses, stop: asyncio.Event
) -> None:
    """Register the operations about the broker itself: `broker_status` and `stop_broker`."""
    began = time.monotonic()

    def status(_operation: BrokerStatus) -> BrokerState:
        state, trouble = engine.state, engine.storage.error or engine.storage.low
        agents = [each for each in state.agents.values() if not each.machine and not is_operator(each)]
        return BrokerState(
            pid=os.getpid(),
            version=VERSION,
            uptime_s=round(time.monotonic() - began, 3),
            agents=len(agents),
            online=sum(agent.online for agent in agents),
            pending=state.waiting(),
            connections=len(server.connections),
            sequence=state.seq,
            storage="ok" if trouble is None else trouble.message,
            storage_advice="" if trouble is None else trouble.advice,
            lost=losses.words,
            home=str(settings.home),
        )

    def stop_broker(_operation: StopBroker) -> Done:
        asyncio.get_running_loop().call_soon(stop.set)
        return Done(note="The broker is stopping.")

    engine.handlers.answer(BrokerStatus, status)
    engine.handlers.answer(StopBroker, stop_broker)
