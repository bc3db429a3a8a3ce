"""Runs blocking work in a thread, off the event loop, for a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], *, within_s: float) -> T:
    """Run blocking work in a thread, and wait for it no longer than `within_s`.

    Not in the loop's own threads: the loop waits for those when it ends.

    Raises:
        TimeoutError: the work goes on, but nobody waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(worked: Future[T]) -> None:
        if done.done():
            return
        error = worked.exception()
        if error is None:
            done.set_result(worked.result())
        else:
            done.set_exception(error)

    def run() -> None:
        worked: Future[T] = Future()
        try:
            worked.set_result(work())
        except BaseException as error:  # raised where it is waited for
            worked.set_exception(error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, worked)

    threading.Thread(target=run, daemon=True).start()
    async with asyncio.timeout(within_s):
        return await done
