"""What time brings, and what it does not: silence, expiry, gaps, jumping clocks, sessions that stay away."""

from __future__ import annotations

import os
import time

import pytest

from tellwire.broker.server import Server
from tellwire.broker.ticker import Ticker
from tellwire.core.limits import Limits
from tellwire.protocol.frames import parse_welcome
from tellwire.protocol.operations.messages import ClaimMessages, SendMessage
from tellwire.store.memory_journal import MemoryJournal
from tellwire.system.processes import read_process
from tests.simulation.bench import Bench, offers, repeats
from tests.simulation.broker import Port

OFFLINE_AFTER_S = 90.0
BEAT_S = 4.0
"""Long, but no gap."""


class Clockwork(Bench):
    """A bench whose ticker beats when the test says so."""

    def __init__(self, ttl_s: float = 60.0) -> None:
        super().__init__(MemoryJournal(), Limits(ttl_s=ttl_s))
        self.ticker, self.server = self._begin()

    def _begin(self) -> tuple[Ticker, Server]:
        server = Server(
            self.life.engine, Limits(), version="x", heartbeat_s=30.0, greeting_s=10.0, connections_max=10
        )
        ticker = Ticker(self.life.engine, server, beat_s=BEAT_S, offline_after_s=OFFLINE_AFTER_S)
        return ticker, server

    def restart(self) -> None:
        super().restart()
        self.ticker, self.server = self._begin()

    def beat(self) -> None:
        self.ticker.beat()
        self.life.run()

    def live(self, seconds: float) -> None:
        """Let time go by with regular beats."""
        for _ in range(int(seconds / BEAT_S) + 1):
            self.time.pass_by(BEAT_S)
            self.beat()


def fall_silent(port: Port) -> None:
    port.last_seen = time.monotonic() - OFFLINE_AFTER_S - 1


def show_life(port: Port) -> None:
    port.last_seen = time.monotonic()


@pytest.mark.requirement("F2-4")
def test_silence_makes_an_agent_offline_and_a_sign_of_life_brings_it_back_with_its_mail() -> None:
    bench = Clockwork()
    alice, bob = bench.join("alice"), bench.join("bob")
    for port in (alice, bob):
        show_life(port)
    fall_silent(bob)
    bench.beat()
    assert (bench.agent("alice").online, bench.agent("bob").offline_reason) == (True, "silent")
    assert bench.call(alice, SendMessage(to="bob", body="later")).status == "queued"
    assert offers(bob) == []
    show_life(bob)
    bench.beat()
    assert bench.agent("bob").online
    assert offers(bob) == ["later"]


@pytest.mark.requirement("F2-4", "REC-2")
def test_what_a_frozen_client_holds_stays_its_own() -> None:
    bench = Clockwork()
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.call(alice, SendMessage(to="bob", body="held"))
    fall_silent(bob)
    bench.live(600.0)
    show_life(bob)
    bench.beat()
    assert offers(bob) == ["held"], "offered once; time alone offers nothing again"
    assert len(bench.agent("bob").leased) == 1


@pytest.mark.requirement("F2-5")
def test_what_waits_too_long_expires_and_the_sender_hears_of_it() -> None:
    bench = Clockwork(ttl_s=60.0)
    alice, bob = bench.join("alice"), bench.join("bob")
    show_life(alice)
    bench.end(bob, "bob")
    bench.life.run()
    bench.call(alice, SendMessage(to="bob", body="late"))
    bench.live(40.0)
    assert len(bench.agent("bob").pending) == 1
    show_life(alice)
    bench.live(30.0)
    assert not bench.agent("bob").pending
    assert len(offers(alice)) == 1
    assert "Not delivered to bob" in offers(alice)[0]


@pytest.mark.requirement("F2-5")
@pytest.mark.parametrize(("wall", "monotonic"), [(8e4, 8e4), (8e4, 0.1), (-8e4, 0.1), (3e7, 1.0)])
def test_after_a_gap_nothing_times_out_until_all_could_come_back(wall: float, monotonic: float) -> None:
    bench = Clockwork(ttl_s=30.0)
    alice, bob, carol = (bench.join(name) for name in ("alice", "bob", "carol"))
    bench.end(bob, "bob")
    bench.life.run()
    bench.call(alice, SendMessage(to="bob", body="waits", ttl_s=3.0))
    bench.time.wall += wall
    bench.time.monotonic += monotonic
    fall_silent(carol)
    bench.beat()
    assert bench.agent("carol").online, "a suspended machine silences nobody"
    bench.live(80.0)
    assert len(bench.agent("bob").pending) == 1
    bench.live(20.0)
    assert not bench.agent("bob").pending
    assert not bench.agent("carol").online


@pytest.mark.requirement("F2-5")
@pytest.mark.parametrize("jump", [-1e5, 1e5])
def test_a_client_that_stays_connected_can_send_after_the_clock_jumped(jump: float) -> None:
    bench = Clockwork()
    alice = bench.join("alice")
    bench.join("bob")
    greeted_at, awake = bench.time.monotonic, parse_welcome(bench.server.welcome()).awake
    bench.time.wall += jump
    bench.time.pass_by(2.0)
    bench.beat()
    birth_us = int((awake + bench.time.monotonic - greeted_at) * 1_000_000)
    assert bench.call(alice, SendMessage(to="bob", body="hi", key=f"{birth_us:x}-k")).status == "received"


@pytest.mark.requirement("REC-2", "NET-6")
def test_a_session_whose_process_died_with_the_broker_is_over_at_once() -> None:
    bench = Clockwork()
    alice, bob = bench.join("alice"), bench.join("bob", process="999999999.1")
    for body in ("one", "two"):
        message = bench.call(alice, SendMessage(to="bob", body=body)).id
        bench.call(bob, ClaimMessages(ids=[message]))
    bench.restart()
    bench.time.pass_by(1.0)
    bench.beat()
    assert bench.agent("bob").offline_reason == "disconnected"
    again = bench.join("bob", "another")
    assert (offers(again), repeats(again)) == (["one", "two"], [True, True])


@pytest.mark.requirement("REC-2")
def test_a_session_whose_process_lives_may_come_back_after_a_restart_for_a_while() -> None:
    myself = read_process(os.getpid())
    assert myself is not None
    bench = Clockwork(ttl_s=1e6)
    alice, _bob = bench.join("alice"), bench.join("bob", process=myself.key)
    bench.call(alice, SendMessage(to="bob", body="held"))
    bench.restart()
    bench.live(OFFLINE_AFTER_S - 2 * BEAT_S)
    assert (bench.agent("bob").offline_reason, len(bench.agent("bob").leased)) == ("restart", 1)
    again = bench.join("bob", process=myself.key)
    assert (offers(again), repeats(again)) == (["held"], [False])


def test_a_session_that_stays_away_after_a_restart_is_over_in_the_end() -> None:
    myself = read_process(os.getpid())
    assert myself is not None
    bench = Clockwork(ttl_s=1e6)
    alice, _bob = bench.join("alice"), bench.join("bob", process=myself.key)
    bench.call(alice, SendMessage(to="bob", body="held"))
    bench.restart()
    bench.live(OFFLINE_AFTER_S + BEAT_S)
    assert (bench.agent("bob").offline_reason, len(bench.agent("bob").leased)) == ("disconnected", 0)


def test_while_nothing_can_be_stored_time_brings_nothing_and_then_all_of_it() -> None:
    bench = Clockwork(ttl_s=20.0)
    alice, bob = bench.join("alice"), bench.join("bob")
    bench.end(bob, "bob")
    bench.life.run()
    bench.call(alice, SendMessage(to="bob", body="late"))
    bench.full()
    bench.call(alice, SendMessage(to="bob", body="lost"))
    bench.live(60.0)
    assert len(bench.agent("bob").pending) == 1
    bench.works()
    bench.live(4.0)
    assert not bench.agent("bob").pending
    assert bench.life.equals_journal()
