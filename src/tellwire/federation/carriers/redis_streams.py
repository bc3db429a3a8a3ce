"""Redis or Valkey as a carrier: one stream for each direction of a pair of machines. Only it uses redis-py.

A stream is written and trimmed by its sender and read by its receiver, which blocks in one `XREAD` and keeps
its place in memory. Whatever is in a stream was not acknowledged when it was put there, so both sides begin
anew with each connection: the sender empties its stream and is asked to send again, the receiver reads from
the beginning. So the server may be restarted empty, fail over, or forget what it likes. A stream never holds
more than `STREAM_BYTES_MAX`.

    tellwire:1:{TO}:FROM       the ids of the two machines; the field `p` of an entry is a blob
    tellwire:1:pair:HASH       where an invite is answered; it is gone after twenty minutes
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import AuthenticationError, MovedError, RedisError

from tellwire.protocol.errors import TellwireError
from tellwire.system.tasks import owned

SCHEMES = ("redis", "rediss", "unix")
PREFIX = "tellwire:1"
BLOB_BYTES_MAX = 256 * 1024
STREAM_BYTES_MAX = 1_280 * 1024
"""Of what one direction has in its stream: more than the exchange ever has on the way."""
PENDING_BYTES_MAX = 1 << 20
"""Of what was not written yet: beyond it nothing is taken."""
UNNUMBERED_MAX = 16
"""Entries that hold nothing numbered (acknowledgements, beats) and stay until they are read, surely."""
READ_COUNT = 512
SEEN_MAX = 2_048
PAIR_EXPIRES_S = 1_200
COMMANDS = "+xadd +xread +xtrim +expire +ping +auth +hello +select"
"""All that tellwire asks of a Redis."""


class RedisTimes(NamedTuple):
    """How long the carrier waits; only tests have others."""

    block_s: float = 20.0
    answer_s: float = 10.0
    connect_s: float = 10.0
    retry_s: float = 0.2
    retry_s_max: float = 30.0


TIMES = RedisTimes()


class _Entry(NamedTuple):
    id: bytes
    last: int
    size: int


def check_url(url: str) -> str:
    """Return the address of a Redis that can be a carrier.

    Raises:
        TellwireError: `bad_request`, with what is wrong with it.
    """
    scheme = url.partition("://")[0].lower()
    advice = "Use `redis://USER:PASSWORD@HOST:6379/0`, or `rediss://` for TLS."
    if "sentinel" in scheme or "cluster" in scheme:
        raise TellwireError(
            "bad_request", f"Redis {scheme.rpartition('+')[2].title()} is not supported as a carrier.", advice
        )
    if scheme not in SCHEMES or "://" not in url:
        raise TellwireError("bad_request", f"{hide_password(url)!r} is not the address of a Redis.", advice)
    try:
        parse_url(url)
        told = urlsplit(url)
    except ValueError as error:
        raise TellwireError(
            "bad_request", f"{hide_password(url)!r} is no valid address: {error}.", advice
        ) from None
    if scheme != "unix" and not told.hostname:
        raise TellwireError("bad_request", f"{hide_password(url)!r} names no host.", advice)
    return url


def hide_password(url: str) -> str:
    """The address as people may see it, and as the journal has it."""
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
        user = f"{parts.username}@" if parts.username else ""
        return urlunsplit(parts._replace(netloc=user + parts.netloc.rpartition("@")[2]))
    except ValueError:
        return url.partition("://")[0] + "://…"


def acl_line(machine: str, label: str) -> str:
    """The command with which the owner of a Redis lets one machine in, with the least rights."""
    return (
        f"ACL SETUSER tellwire-{label} on >PASSWORD resetchannels -@all {COMMANDS} "
        f"%W~{PREFIX}:{{*}}:{machine} %R~{PREFIX}:{{{machine}}}:* %RW~{PREFIX}:pair:*"
    )


def stream_name(to: str, sender: str) -> str:
    """The stream of one direction."""
    return f"{PREFIX}:{{{to}}}:{sender}"


def explain(error: BaseException) -> str:
    """Why a Redis cannot be used, for people."""
    if isinstance(error, AuthenticationError):
        return f"Redis refuses the user or the password: {error}"
    if isinstance(error, MovedError) or str(error).startswith(("MOVED", "CLUSTERDOWN", "CROSSSLOT")):
        return "This Redis is part of a cluster, which is not supported as a carrier."
    if isinstance(error, TimeoutError) and not str(error):
        return "Redis does not answer."
    if not isinstance(error, RedisError | OSError):
        return "The connection to Redis is closed."
    return str(error) or type(error).__name__


def _connection(url: str, times: RedisTimes, *, waits_s: float) -> AbstractConnection:
    options = cast("dict[str, Any]", dict(parse_url(url)))
    kind = cast("type[AbstractConnection]", options.pop("connection_class", Connection))
    if not url.startswith("unix"):
        options["socket_keepalive"] = True
    return kind(
        **options,
        protocol=2,
        driver_info=None,  # CLIENT SETINFO fails under a tight ACL, and before Redis 7.2
        socket_timeout=waits_s,
        socket_connect_timeout=times.connect_s,
    )


@asynccontextmanager
async def _connected(url: str, times: RedisTimes, *, waits_s: float) -> AsyncGenerator[AbstractConnection]:
    """A connection that is dropped at the end, whatever was being read."""
    connection = _connection(url, times, waits_s=waits_s)
    try:
        await connection.connect()
        yield connection
    finally:
        await connection.disconnect(nowait=True)


async def _ask(connection: AbstractConnection, *words: str | bytes | int) -> Any:
    await connection.send_packed_command(connection.pack_command(*words), check_health=False)
    return cast("Any", await connection.read_response())


class RedisCarrier:
    """Carries blobs to and from one other machine."""

    name = "redis"

    def __init__(self, url: str, *, here: str, there: str, times: RedisTimes = TIMES) -> None:
        self._url = check_url(url)
        self._out = stream_name(there, here)
        self._in = stream_name(here, there)
        self._times = times
        self._is_up = False
        self._was_up = False
        """In the present try to connect."""
        self._pending: list[tuple[bytes, int]] = []
        self._pending_bytes = 0
        self._wake = asyncio.Event()
        self._asked: deque[tuple[int, int]] = deque()
        """Of commands without an answer: `last` and size of an entry, or -1 and 0."""
        self._asking = asyncio.Event()
        self._entries: deque[_Entry] = deque()
        """What is in our stream, oldest first."""
        self._bytes = 0
        self._last = 0
        self._forgotten = 0

    def send(self, blob: bytes, last: int = 0) -> bool:
        """Send one blob; False if there is no connection, or too much waits."""
        if not self._is_up or len(blob) > BLOB_BYTES_MAX or self._pending_bytes > PENDING_BYTES_MAX:
            return False
        self._pending.append((blob, last))
        self._pending_bytes += len(blob)
        self._wake.set()
        return True

    def forget(self, last: int) -> None:
        """What was sent with at most this `last` has arrived: it is trimmed."""
        if last > self._forgotten:
            self._forgotten = last
            if self._is_up:
                self._wake.set()

    async def run(self, receive: Callable[[bytes], None], up: Callable[[bool, str], None]) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            self._was_up = False
            try:
                await self._serve(receive, up)
                why = "The connection to Redis is closed."
            except Exception as error:  # redis-py fails in many ways when its connection goes
                why = explain(error)
            up(False, why)
            failures = 0 if self._was_up else failures + 1
            pause_s = min(self._times.retry_s * 2**failures, self._times.retry_s_max)
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))

    async def _serve(self, receive: Callable[[bytes], None], up: Callable[[bool, str], None]) -> None:
        times = self._times
        waits_s = times.block_s + 5.0  # below the time that a read blocks, every idle one would fail
        async with (
            _connected(self._url, times, waits_s=times.answer_s) as writer,
            _connected(self._url, times, waits_s=waits_s) as reader,
        ):
            await _ask(writer, "XTRIM", self._out, "MAXLEN", 0)
            self._begin()
            works = (self._read(reader, receive), self._write(writer), self._confirm(writer))
            tasks = [owned(work) for work in works]
            for task in tasks:
                task.add_done_callback(_look_at)
            try:
                self._is_up = self._was_up = True
                up(True, "")
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._end()
                for task in tasks:
                    task.cancel()
        # Only now: redis-py may swallow a cancellation, but no call of it outlives its connection.
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [each for each in ended if isinstance(each, Exception)]
        if errors:
            raise errors[0]

    def _begin(self) -> None:
        self._pending.clear()
        self._asked.clear()
        self._entries.clear()
        self._pending_bytes = self._bytes = self._last = self._forgotten = 0
        self._wake.clear()
        self._asking.clear()

    def _end(self) -> None:
        self._is_up = False
        self._wake.set()
        self._asking.set()

    # -- out ------------------------------------------------------------------------------------------

    async def _write(self, connection: AbstractConnection) -> None:
        """Write what has come up since the last write, in one go."""
        while self._is_up:
            await self._wake.wait()
            self._wake.clear()
            commands: list[tuple[str | bytes | int, ...]] = []
            before = self._trim()
            if before:
                commands.append(("XTRIM", self._out, "MINID", before))
                self._asked.append((-1, 0))
            for blob, last in self._pending:
                commands.append(("XADD", self._out, "*", "p", blob))
                self._last = max(self._last, last)
                self._asked.append((self._last if last else 0, len(blob)))
            self._pending.clear()
            self._pending_bytes = 0
            if commands:
                self._asking.set()
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)

    async def _confirm(self, connection: AbstractConnection) -> None:
        """Take the answers to what was written: the ids of entries."""
        while self._is_up:
            await self._asking.wait()
            while self._asked:
                answer = cast("bytes", await connection.read_response())
                last, size = self._asked.popleft()
                if last >= 0:
                    self._entries.append(_Entry(answer, last, size))
                    self._bytes += size
                    if self._bytes > STREAM_BYTES_MAX:
                        self._wake.set()
            self._asking.clear()

    def _trim(self) -> bytes:
        """The id before which our stream is of no use any more; empty to trim nothing."""
        arrived = [at for at, each in enumerate(self._entries) if 0 < each.last <= self._forgotten]
        count = arrived[-1] + 1 if arrived else 0  # what was sent before it has arrived as well
        unnumbered = sum(1 for each in self._entries if not each.last)
        gone = b""
        while self._entries:
            entry = self._entries[0]
            many = not entry.last and unnumbered > UNNUMBERED_MAX
            if count <= 0 and not many and self._bytes <= STREAM_BYTES_MAX:
                break
            self._entries.popleft()
            self._bytes -= entry.size
            unnumbered -= not entry.last
            count -= 1
            gone = entry.id
        if not gone:
            return b""
        time_ms, _, number = gone.partition(b"-")
        return b"%b-%d" % (time_ms, int(number) + 1)

    # -- in -------------------------------------------------------------------------------------------

    async def _read(self, connection: AbstractConnection, receive: Callable[[bytes], None]) -> None:
        """Block until something comes; begin anew after a silence, as a stream may have been deleted."""
        block_ms = int(self._times.block_s * 1_000)
        cursor: bytes | str = "0-0"
        seen: deque[bytes] = deque(maxlen=SEEN_MAX)
        while self._is_up:
            words = ("XREAD", "COUNT", READ_COUNT, "BLOCK", block_ms, "STREAMS", self._in, cursor)
            answer = await _ask(connection, *words)
            if not answer:
                cursor = await self._look_again(connection, cursor, seen, receive)
                continue
            entries = cast("list[tuple[bytes, list[bytes] | None]]", answer[0][1])
            _deliver(entries, seen, receive)
            cursor = entries[-1][0]

    async def _look_again(
        self,
        connection: AbstractConnection,
        cursor: bytes | str,
        seen: deque[bytes],
        receive: Callable[[bytes], None],
    ) -> bytes | str:
        """Find entries that a deleted stream, or a clock that was set back, has put before our place."""
        answer = await _ask(connection, "XREAD", "COUNT", READ_COUNT, "STREAMS", self._in, "0-0")
        if not answer:
            return "0-0"
        entries = cast("list[tuple[bytes, list[bytes] | None]]", answer[0][1])
        fresh = [entry for entry in entries if entry[0] not in seen]
        if not fresh:
            return cursor
        _deliver(fresh, seen, receive)
        return entries[-1][0]


def _look_at(task: asyncio.Task[None]) -> None:
    """Have asyncio not complain of a failure that nobody waits for, after the carrier was cancelled."""
    if not task.cancelled():
        task.exception()


def _deliver(
    entries: Sequence[tuple[bytes, list[bytes] | None]],
    seen: deque[bytes],
    receive: Callable[[bytes], None],
) -> None:
    for entry, fields in entries:
        seen.append(entry)
        if fields and len(fields) == 2 and fields[0] == b"p" and len(fields[1]) <= BLOB_BYTES_MAX:
            receive(fields[1])


# -- pairing -------------------------------------------------------------------------------------------


class PairStream:
    """The stream on which an invite is answered; everybody who knows its name may write to it."""

    def __init__(self, connection: AbstractConnection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._cursor: bytes | str = "0-0"

    async def post(self, sealed: bytes) -> None:
        """Put a message on it.

        Raises:
            TellwireError: `carrier_unreachable`.
        """
        with _told():
            await _ask(self._connection, "XADD", self._name, "*", "p", sealed)
            await _ask(self._connection, "EXPIRE", self._name, PAIR_EXPIRES_S)

    async def read(self, within_s: float) -> list[bytes]:
        """The messages that have come since; none if nothing comes in that time.

        Raises:
            TellwireError: `carrier_unreachable`.
        """
        block_ms = max(1, int(within_s * 1_000))
        with _told():
            words = ("XREAD", "COUNT", 64, "BLOCK", block_ms, "STREAMS", self._name, self._cursor)
            answer = await _ask(self._connection, *words)
        if not answer:
            return []
        entries = cast("list[tuple[bytes, list[bytes] | None]]", answer[0][1])
        self._cursor = entries[-1][0]
        return [fields[1] for _, fields in entries if fields and len(fields) == 2]

    async def clear(self) -> None:
        """Empty it: nobody needs it any more."""
        with _told():
            await _ask(self._connection, "XTRIM", self._name, "MAXLEN", 0)


class _told:  # noqa: N801 - used like a function
    """Turns what redis-py raises into an error for people."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RedisError | OSError | TimeoutError):
            raise TellwireError("carrier_unreachable", explain(error)) from error


@asynccontextmanager
async def open_pair_stream(url: str, name: str, *, waits_s: float) -> AsyncGenerator[PairStream]:
    """The stream of an invite; a read of it waits at most so long.

    Raises:
        TellwireError: `carrier_unreachable`, or `bad_request` for an address that is none.
    """
    check_url(url)
    connection = _connection(url, TIMES, waits_s=waits_s + 5.0)
    try:
        with _told():
            await connection.connect()
        yield PairStream(connection, f"{PREFIX}:pair:{name}")
    finally:
        await connection.disconnect(nowait=True)
