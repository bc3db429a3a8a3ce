"""Which consoles the person looks at, and notifying them: by a console that can, else by a command.

The rules are in `core/operator/noticing`. A command is run without a shell, with the text as its last
argument behind `--`, and for a bounded time; nothing of an agent's can become an option or a word of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Callable, Sequence

import msgspec

from tellwire.broker.ports import MeshView, Source
from tellwire.core.context import Context
from tellwire.core.operator.noticing import (
    QUIET_S_MAX,
    Due,
    Notices,
    needs_now,
    notice_words,
)
from tellwire.core.operator.quiet_hours import is_quiet, parse_quiet
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import format_notice
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.needs import Attend, Attending, Notice
from tellwire.system.tasks import Tasks
from tellwire.views.words import clean, cut

log = logging.getLogger("tellwire.notices")

TEXT_WIDTH_MAX = 120
WAITING_MAX = 10
"""Notices on their way to the person at once; more are left out, the needs stay."""


class NoticeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long a notice takes at most."""

    hear_s: float = 1.0
    """A console that has not told within this that it showed a notice is passed over."""
    command_s: float = 5.0


class Attendance:
    """What the connections of the person have told of themselves."""

    def __init__(self) -> None:
        self._consoles: dict[int, tuple[Source, Attend]] = {}
        self._awaited: dict[int, asyncio.Event] = {}
        self.quiet_until = 0.0

    def attend(self, source: Source, told: Attend) -> None:
        """A console tells of itself, and perhaps that it has shown a notice."""
        self._consoles[id(source)] = (source, told)
        if told.heard in self._awaited:
            self._awaited[told.heard].set()

    def leave(self, source: Source) -> None:
        """Its connection was closed."""
        self._consoles.pop(id(source), None)

    def reply(self, told: Attend, now: float) -> Attending:
        """What the person's console is answered.

        Raises:
            TellwireError: `bad_request`.
        """
        if told.quiet_s is not None:
            if not 0 <= told.quiet_s <= QUIET_S_MAX:
                raise TellwireError("bad_request", f"`quiet_s` must be from 0 to {QUIET_S_MAX:.0f}.")
            self.quiet_until = now + told.quiet_s if told.quiet_s else 0.0
        until = self.quiet_until if self.quiet_until > now else 0.0
        return Attending(looking=told.focused or self.is_looking, quiet_until=until)

    @property
    def is_looking(self) -> bool:
        """Whether the person looks at any of them."""
        return any(told.focused for _, told in self._consoles.values())

    async def show(self, notice: Notice, hear_s: float) -> bool:
        """Have one console after the other notify the person, until one says that it did."""
        event = self._awaited[notice.id] = asyncio.Event()
        try:
            for source, told in list(self._consoles.values()):
                if not told.notifies or not source.writable or id(source) not in self._consoles:
                    continue
                source.offer(format_notice(notice))
                source.flush()
                try:
                    async with asyncio.timeout(hear_s):
                        await event.wait()
                except TimeoutError:
                    continue
                return True
            return False
        finally:
            del self._awaited[notice.id]


class Noticing:
    """Looks with each beat whether there is something to tell the person, and tells it once."""

    def __init__(
        self,
        mesh: MeshView,
        attendance: Attendance,
        context: Callable[[], Context],
        *,
        command: str,
        quiet: str,
        minute: Callable[[], int],
        times: NoticeTimes | None = None,
    ) -> None:
        self._mesh = mesh
        self._attendance = attendance
        self._context = context
        self._command = shlex.split(command)
        self._quiet = parse_quiet(quiet)
        self._minute = minute
        self._times = times or NoticeTimes()
        self._notices = Notices()
        self._number = 0
        self._tasks = Tasks()

    def beat(self) -> None:
        """Look once."""
        context, now = self._context(), self._mesh.clock.now
        quiet = now < self._attendance.quiet_until or is_quiet(self._quiet, self._minute())
        needs = needs_now(self._mesh.state, context)
        due = self._notices.look(needs, now, looking=self._attendance.is_looking, quiet=quiet)
        if due is not None and len(self._tasks) < WAITING_MAX:
            self._number += 1
            self._tasks.run(self._tell(self._notice(due, context)))

    async def drain(self) -> None:
        """Wait for the notices that are on their way."""
        await self._tasks.drain()

    def _notice(self, due: Due, context: Context) -> Notice:
        def text_of(seq: int) -> str:
            record = next(iter(context.records([seq])), None)
            return "" if record is None else str(record.body)

        words, more = notice_words(due, text_of)
        return Notice(
            id=self._number,
            text=cut(clean(words), TEXT_WIDTH_MAX - len(more)) + more,
            kind="digest" if due.digest else due.first.kind,
            who=clean(due.first.who),
            message=format_id("m", due.first.seq) if due.first.seq else "",
            more=due.more,
        )

    async def _tell(self, notice: Notice) -> None:
        if await self._attendance.show(notice, self._times.hear_s):
            return
        if self._command and not self._attendance.is_looking:
            await run_command(self._command, notice.text, self._times.command_s)


async def run_command(command: Sequence[str], text: str, within_s: float) -> bool:
    """Run a command with a text as its last argument; False if it failed, or was ended for its time."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            "--",
            text,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env={**_bus(), **os.environ},
        )
    except OSError as error:
        log.info("nobody is notified: %s cannot be run (%s)", command[0], error.strerror)
        return False
    try:
        async with asyncio.timeout(within_s):
            code = await process.wait()
    except TimeoutError:
        log.warning("%s did not end within %g s and was ended", command[0], within_s)
        process.kill()
        await process.wait()
        return False
    if code:
        log.info("nobody is notified: %s ended with %d", command[0], code)
    return not code


def _bus() -> dict[str, str]:
    """Where the person's desktop listens, which a broker started by an agent has not inherited."""
    path = f"{os.environ.get('XDG_RUNTIME_DIR') or f'/run/user/{os.getuid()}'}/bus"
    return {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={path}"} if os.path.exists(path) else {}
