"""Starting the broker when none runs: once, however many programs want it at the same moment."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from tellwire.protocol.errors import ERRORS, TellwireError

START_S = 20.0
LOCK_POLL_S = 0.01

T = TypeVar("T")


class BrokerLaunch(NamedTuple):
    """How a broker is started: `command` exits with 0 once it listens."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    lock: Path


async def connect_or_start(connect: Callable[[], Awaitable[T]], launch: BrokerLaunch | None) -> T:
    """Connect; if nobody listens, start a broker and connect to it.

    Raises:
        TellwireError: `unreachable`, or `not_started` with what the broker said.
    """
    try:
        return await connect()
    except OSError as error:
        if launch is None:
            raise TellwireError("unreachable", "No broker is running.") from error
    lock = await _take_start_lock(launch.lock)
    deadline = asyncio.get_running_loop().time() + START_S
    try:
        while True:
            try:
                return await connect()  # somebody else may have started it while we waited
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise TellwireError("unreachable", f"The broker is not listening: {error}.") from error
            if not await _start(launch):
                await asyncio.sleep(LOCK_POLL_S)  # one is just coming up, or going down
    finally:
        os.close(lock)


async def _take_start_lock(path: Path) -> int:
    """Wait until no other program is starting a broker; the lock ends with the descriptor, or the process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TellwireError(
            "unreachable", f"No broker is running, and {path} cannot be created: {error}."
        ) from error
    try:
        async with asyncio.timeout(START_S):
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(LOCK_POLL_S)
                else:
                    return fd
    except BaseException as error:
        os.close(fd)
        if isinstance(error, TimeoutError):
            raise TellwireError(
                "unreachable", "Another program has been trying to start the broker for too long."
            ) from None
        raise


async def _start(launch: BrokerLaunch) -> bool:
    """Start a broker and wait until it listens; False if one holds the lock already."""
    code, said = await _run(launch)
    if code == ERRORS["already_running"].exit:
        return False
    if code != 0:
        text = said.decode(errors="replace").strip().splitlines()
        raise TellwireError(
            "not_started", f"The broker did not start: {text[-1] if text else 'no reason given'}"
        )
    return True


async def _run(launch: BrokerLaunch) -> tuple[int, bytes]:
    """Run the program that starts a broker, to its end even if nobody waits for it any more.

    In a thread, which outlives a caller that is cancelled and its loop: others may count on this start, and a
    process must be waited for.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[int, bytes]] = loop.create_future()

    def settle(ended: subprocess.CompletedProcess[bytes] | Exception) -> None:
        if done.done():
            return
        if isinstance(ended, subprocess.CompletedProcess):
            done.set_result((ended.returncode, ended.stderr))
        else:
            done.set_exception(_not_started(ended))

    def run() -> None:
        try:
            ended: subprocess.CompletedProcess[bytes] | Exception = subprocess.run(
                launch.command,
                env=dict(launch.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                timeout=START_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            ended = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(settle, ended)

    threading.Thread(target=run, name="tellwire-start", daemon=True).start()
    return await done


def _not_started(error: Exception) -> TellwireError:
    late = isinstance(error, subprocess.TimeoutExpired)
    why = f"within {START_S:.0f} s" if late else f"at all: {error}"
    return TellwireError("not_started", f"The broker did not start {why}.")
