"""ssh as a carrier: the system's `ssh` runs tellwire on the other machine, and blobs go through its stdio.

The machine that can reach the other one calls (`SshCarrier`), the other one waits to be called
(`IncomingSsh`, to which the broker's door hands connections). One connection serves both directions.
"""

from __future__ import annotations

import asyncio
import random
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from tellwire.federation.carriers.frames import NOBODY, FrameDecoder, FrameError, format_frame, tag_of
from tellwire.federation.ports import BLOB_BYTES_MAX
from tellwire.protocol.errors import TellwireError
from tellwire.system.tasks import owned

MARK = b"\0tellwire-wire 1\n"
"""As `relay.wire` writes it."""
GREETING_BYTES_MAX = 64 * 1024
"""What a shell may print before the mark."""
READ_BYTES = 1 << 16
PENDING_BYTES_MAX = 1 << 20
SAID_BYTES_MAX = 2_000
OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"),
    *("-o", "ConnectTimeout=15", "-o", "ClearAllForwardings=yes", "-o", "ControlPath=none"),
)
PLACES = (
    "$HOME/.local/bin/tellwire",
    "$HOME/bin/tellwire",
    "$HOME/.local/share/uv/tools/tellwire/bin/tellwire",
    "$HOME/.local/pipx/venvs/tellwire/bin/tellwire",
    "$HOME/.local/share/pipx/venvs/tellwire/bin/tellwire",
    "/usr/local/bin/tellwire",
    "/opt/homebrew/bin/tellwire",
    "/usr/bin/tellwire",
)
"""Where installers put the program; a shell that is not interactive often does not look there."""
NOT_FOUND = 127


class SshTimes(NamedTuple):
    """How long the carrier waits; only tests have others."""

    begin_s: float = 60.0
    """Until the other end says that it is there."""
    retry_s: float = 0.5
    retry_s_max: float = 60.0


TIMES = SshTimes()
SSH = ("ssh",)


def check_destination(destination: str) -> str:
    """Return what ssh may take for a destination.

    Raises:
        TellwireError: `bad_request`.
    """
    if not destination or destination.startswith("-") or any(sign.isspace() for sign in destination):
        raise TellwireError(
            "bad_request",
            f"{destination!r} is no destination for ssh.",
            "Use a host, user@host, or a name from ~/.ssh/config.",
        )
    return destination


def remote_command(program: str, words: Sequence[str]) -> str:
    """The command for the shell of the other machine: find tellwire, and run it with these arguments."""
    rest = shlex.join(words)
    if program:
        return f"exec {shlex.quote(program)} {rest}"
    tried = " ".join(f'"{place}"' for place in PLACES)
    script = (
        f'p=$(command -v tellwire 2>/dev/null) && exec "$p" {rest}; '
        f'for p in {tried}; do [ -x "$p" ] && exec "$p" {rest}; done; '
        f'echo "tellwire was not found" >&2; exit {NOT_FOUND}'
    )
    return f"exec sh -c {shlex.quote(script)}"


class _Line:
    """What both ends do with a connection: frames out, with a bound."""

    name = "ssh"

    def __init__(self, here: str, there: str) -> None:
        self._here, self._there = tag_of(here), tag_of(there)

    def _frame(self, blob: bytes) -> bytes:
        return format_frame(self._there, self._here, blob)

    def forget(self, last: int) -> None:
        """Nothing is kept."""


class SshCarrier(_Line):
    """Calls the other machine."""

    def __init__(
        self,
        destination: str,
        *,
        here: str,
        there: str,
        program: str = "",
        ssh: Sequence[str] = SSH,
        times: SshTimes = TIMES,
    ) -> None:
        super().__init__(here, there)
        words = remote_command(program, ["machine", "wire"])
        self._command = [*ssh, *OPTIONS, "--", check_destination(destination), words]
        self._times = times
        self._writer: asyncio.StreamWriter | None = None
        self._was_up = False
        """In the present try to connect."""

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Send one blob; False if there is no connection, or too much waits."""
        del last
        writer = self._writer
        if writer is None or writer.is_closing() or len(blob) > BLOB_BYTES_MAX:
            return False
        if writer.transport.get_write_buffer_size() > PENDING_BYTES_MAX:
            return False
        writer.write(self._frame(blob))
        return True

    async def run(self, receive: Callable[[bytes], None], up: Callable[[bool, str], None]) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            self._was_up = False
            try:
                why = await self._serve(receive, up)
            except FrameError:
                why = "The other machine does not take this connection; pair it again."
            except OSError as error:
                why = str(error)
            up(False, why)
            failures = 0 if self._was_up else failures + 1
            pause_s = min(self._times.retry_s * 2**failures, self._times.retry_s_max)
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))

    async def _serve(self, receive: Callable[[bytes], None], up: Callable[[bool, str], None]) -> str:
        """Run ssh until it ends; why it has."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        said = bytearray()
        listening = owned(_keep_last(process.stderr, said))
        try:
            why = await self._talk(process.stdin, process.stdout, receive, up)
            with suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await listening
            return _explain(bytes(said), why)
        finally:
            self._writer = None
            listening.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            process.stdin.close()
            await process.wait()

    async def _talk(
        self,
        writer: asyncio.StreamWriter,
        reader: asyncio.StreamReader,
        receive: Callable[[bytes], None],
        up: Callable[[bool, str], None],
    ) -> str:
        decoder = FrameDecoder()
        try:
            async with asyncio.timeout(self._times.begin_s):
                rest = await _after_mark(reader)
                writer.write(self._frame(b""))
                frames = decoder.feed(rest)
                while not frames:
                    data = await reader.read(READ_BYTES)
                    if not data:
                        return "The other machine has closed the connection."
                    frames = decoder.feed(data)
        except TimeoutError:
            return f"Nothing came within {self._times.begin_s:g} s."
        while True:
            for frame in frames:
                if frame.sender == NOBODY:
                    return frame.blob.decode("utf-8", "replace")
                if self._writer is None:
                    self._writer = writer
                    self._was_up = True
                    up(True, "")
                if frame.blob:
                    receive(frame.blob)
            data = await reader.read(READ_BYTES)
            if not data:
                return "The other machine has closed the connection."
            frames = decoder.feed(data)


async def _after_mark(reader: asyncio.StreamReader) -> bytes:
    """What comes behind the mark; what a shell prints before it is dropped.

    Raises:
        OSError: there is no mark.
    """
    seen = b""
    while MARK not in seen:
        data = await reader.read(READ_BYTES)
        if not data or len(seen) > GREETING_BYTES_MAX:
            raise OSError("tellwire did not answer on the other machine.")
        seen += data
    return seen.partition(MARK)[2]


async def _keep_last(reader: asyncio.StreamReader, said: bytearray) -> None:
    while data := await reader.read(READ_BYTES):
        said += data
        del said[:-SAID_BYTES_MAX]


def _explain(said: bytes, why: str) -> str:
    """The last words of ssh itself, if there are any."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else why


# -- being called ---------------------------------------------------------------------------------------


class Link(Protocol):
    """One connection that the broker's door has."""

    def write(self, data: bytes) -> bool:
        """Send bytes; False if it is closed or too much waits."""
        ...

    def close(self) -> None: ...


class IncomingSsh(_Line):
    """Waits to be called by the other machine; a later call takes the place of an earlier one."""

    def __init__(self, *, here: str, there: str) -> None:
        super().__init__(here, there)
        self._link: Link | None = None
        self._receive: Callable[[bytes], None] | None = None
        self._up: Callable[[bool, str], None] | None = None

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Send one blob; False if nobody has called, or too much waits."""
        del last
        return self._link is not None and len(blob) <= BLOB_BYTES_MAX and self._link.write(self._frame(blob))

    async def run(self, receive: Callable[[bytes], None], up: Callable[[bool, str], None]) -> None:
        """Take calls until cancelled."""
        self._receive, self._up = receive, up
        up(False, "It calls this machine by ssh, and has not called.")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._receive = self._up = None
            if self._link is not None:
                self._link.close()
                self._link = None

    def attach(self, link: Link) -> bool:
        """The other machine calls, or so it says: blobs prove it. False if nobody takes calls."""
        if self._up is None:
            return False
        former, self._link = self._link, link
        if former is not None:
            former.close()
        link.write(self._frame(b""))
        self._up(True, "")
        return True

    def take(self, blob: bytes) -> None:
        """A blob has come."""
        if self._receive is not None:
            self._receive(blob)

    def detach(self, link: Link) -> None:
        """A connection is over."""
        if self._link is link:
            self._link = None
            if self._up is not None:
                self._up(False, "The other machine has closed the connection.")
