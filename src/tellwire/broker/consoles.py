"""The terminals of the person who runs all this: each is offered the operator's mail, none gets it alone.

Nothing is leased to a terminal, so nothing has to be given back when it goes away. What one has shown is
read for all; what another was offered meanwhile it may still show. Consoles also tell whether the person
looks at them, and notify them; if none can, a command does. It is run without a shell, with the text as its
last argument behind `--`, and for a bounded time. The rules of notices are in `core/operator/noticing`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Callable, Sequence
from itertools import takewhile

import msgspec

from tellwire.broker.ports import MeshView, Source
from tellwire.core.context import Context
from tellwire.core.limits import Limits
from tellwire.core.operator.noticing import QUIET_S_MAX, Due, Notices, needs_now, notice_words
from tellwire.core.operator.quiet_hours import is_quiet, parse_quiet
from tellwire.core.record.stored import StoredMessage
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import format_notice, format_offer
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.needs import Attend, Attending, Notice
from tellwire.system.tasks import Tasks
from tellwire.views.words import clean, cut

log = logging.getLogger("tellwire.notices")

TEXT_WIDTH_MAX = 120
WAITING_MAX = 10
"""Notices on their way to the person at once; more are left out, the needs stay."""

_encode = msgspec.json.Encoder().encode


class Console:
    """One connection of the operator that wants to be offered mail."""

    __slots__ = ("last", "offered", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.offered: set[int] = set()
        """Its window: what it was offered and nobody has read."""
        self.last = 0
        """Everything up to here was offered to it once."""


class Consoles:
    """The connections at which the operator is offered mail."""

    def __init__(self, load: Callable[[Sequence[int]], list[StoredMessage]], limits: Limits) -> None:
        self._load = load
        self._limits = limits
        self._consoles: dict[int, Console] = {}

    def join(self, source: Source) -> None:
        """Offer this connection what waits, and what comes from now on."""
        self._consoles[id(source)] = Console(source)

    def leave(self, source: Source) -> None:
        """Offer this connection nothing more: it is closed, or reads no mail."""
        self._consoles.pop(id(source), None)

    def __contains__(self, source: Source) -> bool:
        return id(source) in self._consoles

    def unread(self, state: State) -> int:
        """How many messages the operator has not read."""
        operator = state.find(OPERATOR)
        return 0 if operator is None else len(operator.pending)

    def offer_new(self, state: State, fresh: dict[int, StoredMessage]) -> list[Source]:
        """After a commit: offer what is new to each that can take it; those that got something."""
        operator = state.find(OPERATOR) if self._consoles else None
        if operator is None:
            return []
        told: list[Source] = []
        for console in self._consoles.values():
            if console.source.writable and self._offer(console, operator, fresh):
                told.append(console.source)
        return told

    def _offer(self, console: Console, operator: Agent, fresh: dict[int, StoredMessage]) -> bool:
        """Offer a console what fits into its window; False if there is nothing to offer."""
        pending = operator.pending
        console.offered = {seq for seq in console.offered if seq in pending}
        newer = list(takewhile(lambda seq: seq > console.last, reversed(pending)))[::-1]
        room = self._limits.window_messages_max - len(console.offered)
        room_bytes = self._limits.window_bytes_max - sum(pending[seq].size for seq in console.offered)
        seqs: list[int] = []
        for seq in newer[: max(0, room)]:
            room_bytes -= pending[seq].size
            # A message larger than the whole window still goes, alone.
            if room_bytes < 0 and (seqs or console.offered):
                break
            seqs.append(seq)
        if not seqs:
            return False
        console.offered.update(seqs)
        console.last = seqs[-1]
        known = {message.seq: message for message in self._load([seq for seq in seqs if seq not in fresh])}
        frames = [_encode((fresh.get(seq) or known[seq]).record()) for seq in seqs]
        console.source.offer(format_offer(frames, len(newer) - len(seqs)))
        return True


# -- notices ------------------------------------------------------------------------------------------


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
