"""Background tasks: every one has an owner that keeps it until it ends, and none fails unseen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

log = logging.getLogger("tellwire.tasks")

T = TypeVar("T")


class Tasks:
    """The background tasks of one owner; true while any of them runs."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()  # the loop itself keeps no task alive

    def __len__(self) -> int:
        return len(self._running)

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine in the background; a failure is logged, whether or not anybody awaits it."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self, within_s: float | None = None) -> None:
        """Wait for the tasks that run now; those that are not done in that time go on."""
        if self._running:
            await asyncio.wait(self._running, timeout=within_s)

    def cancel(self) -> None:
        """Cancel all tasks; `drain` waits until they have ended."""
        for task in self._running:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a background task failed: %r", task.get_coro(), exc_info=error)


def owned(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run a coroutine whose owner waits for its end itself, and looks how it ended."""
    return asyncio.get_running_loop().create_task(work)


@contextmanager
def alongside(work: Coroutine[Any, Any, T]) -> Generator[asyncio.Task[T]]:
    """Run a coroutine while a block runs; it is cancelled at the end of the block."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
    finally:
        task.cancel()
