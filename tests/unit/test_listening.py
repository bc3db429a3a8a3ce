"""Whether somebody still waits for an answer."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tellwire.sessions.listening import listener, on_our_clock


@pytest.mark.requirement("REC-2", stage="clients")
async def test_a_closed_end_is_seen_before_the_loop_hears_of_it() -> None:
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    listens = listener(transport)
    assert listens()
    theirs.sendall(b"more")
    assert listens()
    theirs.close()
    assert not listens()
    transport.close()
    assert not listener(transport)()


async def test_a_deadline_that_has_passed_counts_though_the_end_is_open() -> None:
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    assert listener(transport, time.monotonic() + 60)()
    assert not listener(transport, time.monotonic() - 1)()
    transport.close()
    theirs.close()


@pytest.mark.parametrize("told", [None, "soon", -5, 0, [], True, float("nan")])
def test_a_deadline_without_sense_is_none(told: object) -> None:
    assert on_our_clock(told) == 0.0 or told is True


def test_a_deadline_of_the_wall_clock_is_told_on_ours() -> None:
    assert abs(on_our_clock((time.time() + 5) * 1_000) - time.monotonic() - 5) < 1
