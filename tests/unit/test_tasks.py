"""Background tasks and their owner."""

import asyncio
import gc
import logging

import pytest

from tellwire.system.tasks import Tasks, alongside


async def test_a_task_is_kept_until_it_ends_and_gives_its_result() -> None:
    tasks, go, done = Tasks(), asyncio.Event(), asyncio.Event()

    async def work() -> int:
        await go.wait()
        done.set()
        return 7

    tasks.run(work())
    other = tasks.run(work())
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 2
    go.set()
    await tasks.drain(within_s=60)
    assert done.is_set()
    assert await other == 7
    assert not tasks


async def test_what_fails_is_logged_with_its_reason_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks, go = Tasks(), asyncio.Event()

    async def fail() -> None:
        raise ValueError("no such thing")

    async def work() -> bool:
        return await go.wait()

    failed, other = tasks.run(fail()), tasks.run(work())
    await asyncio.wait({failed})
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "fail" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no such thing"
    assert len(tasks) == 1
    go.set()
    assert await other


async def test_draining_has_an_end_and_what_is_under_way_goes_on() -> None:
    tasks, go = Tasks(), asyncio.Event()
    task = tasks.run(go.wait())
    await tasks.drain(within_s=0.01)
    assert not task.done()
    go.set()
    await tasks.drain(within_s=60)
    assert task.done()
    await tasks.drain(within_s=60)


async def test_what_is_cancelled_cleans_up_and_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    tasks, cleaned = Tasks(), list[int]()

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(number)

    for number in range(3):
        tasks.run(work(number))
    await asyncio.sleep(0)
    tasks.cancel()
    await tasks.drain()
    assert sorted(cleaned) == [0, 1, 2]
    assert not tasks
    assert not caplog.records, "whoever is cancelled has not failed"


async def test_what_runs_alongside_a_block_ends_with_it() -> None:
    with alongside(asyncio.Event().wait()) as endless, alongside(asyncio.sleep(0, 5)) as short:
        assert await short == 5
        assert not endless.done()
    with pytest.raises(asyncio.CancelledError):
        await endless
    with pytest.raises(ValueError, match="mine"), alongside(asyncio.Event().wait()) as endless:
        raise ValueError("mine")
    await asyncio.wait({endless})
    assert endless.cancelled()
