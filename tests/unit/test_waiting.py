"""Why a message still waits, if longer than its path needs: the rule, and where it is told."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.clients.codex import queue as codex_queue
from tellwire.core.mail.reach import DEAF, DIALOG, NOT_WAKEABLE, PULLS, Contact
from tellwire.core.mail.waiting import (
    LARGE,
    MID_TURN,
    NEEDS_S,
    PULL,
    PUSH,
    WEAK,
    format_span,
    is_stuck,
    why_open,
    why_pending,
)
from tellwire.core.mail.waking import FAILED
from tellwire.core.state import Agent, Receipt
from tellwire.mcp.dialects.tellwire import say_status
from tellwire.protocol.operations.agents import GetAgent
from tellwire.protocol.operations.history import ReadHistory
from tellwire.protocol.operations.messages import MessageStatus
from tellwire.sessions import paths as ways
from tellwire.sessions import typing
from tellwire.sessions.doors import hook_socket as doors
from tellwire.sessions.doors import plugin_poll as plugins
from tests.unit.mesh import OPERATOR
from tests.unit.test_reach import Told, contacts

NOW = 1_000_000.0
IDLE = Contact(hooked=True, bound=True, state="idle", idle=True, since=NOW - 240, path="waiter")
BUSY = Contact(hooked=True, bound=True, state="busy", since=NOW - 240)

FIRST_2 = pytest.mark.requirement("FIRST-2", stage="contact")


def agent(**fields: Any) -> Agent:
    return Agent(id="a1", name="bob", kind="claude-code", session="i", **fields)


def receipt(*, lease: int = 0, weak: bool = False) -> Receipt:
    return Receipt("a2", 1, NOW + 60, lease=lease, weak=weak)


@FIRST_2
@pytest.mark.parametrize(
    ("contact", "waited_s", "why"),
    [
        (None, NEEDS_S[PUSH], ""),
        (None, NEEDS_S[PUSH] + 1, "its program has not taken it yet"),
        (Contact(), 0.0, PULLS),
        (Contact(hooked=True), 0.0, DEAF),
        (BUSY, NEEDS_S[MID_TURN], ""),
        (BUSY, NEEDS_S[MID_TURN] + 1, "busy in a turn for 4 min"),
        (BUSY._replace(state="waiting"), 0.0, f"{DIALOG}, for 4 min"),
        (IDLE, NEEDS_S["waiter"], ""),
        (IDLE, NEEDS_S["waiter"] + 1, "idle for 4 min, and waiter has not reached it yet"),
        (IDLE._replace(held=FAILED), 0.0, FAILED),
        (IDLE._replace(path="", shut="waiter: none"), 0.0, f"{NOT_WAKEABLE} (waiter: none)"),
        (IDLE._replace(path="", shut="waiter: none", since=NOW - 1), 0.0, ""),
    ],
)
def test_what_waits_longer_than_its_path_needs_says_why(
    contact: Contact | None, waited_s: float, why: str
) -> None:
    assert why_pending(agent(), receipt(), contact, waited_s, NOW) == why


@FIRST_2
def test_what_may_not_wake_says_so_at_once() -> None:
    muted = agent(muted=True, muted_until=NOW + 600)
    assert why_pending(muted, receipt(), IDLE, 0.0, NOW) == "muted for 10 min more"
    for_good = agent(muted=True)
    assert why_pending(for_good, receipt(), IDLE, 0.0, NOW) == "muted until unmuted"
    assert why_pending(muted, receipt(), BUSY, 0.0, NOW) == "", "a turn takes along what waits"
    assert why_pending(agent(), receipt(weak=True), IDLE, 900.0, NOW) == WEAK


@FIRST_2
def test_an_open_hand_over_says_how_long_and_is_stuck_if_the_client_is_idle() -> None:
    bob = agent(calls={"hook:1:1": 7})
    handed = receipt(lease=7)
    by_hook = IDLE._replace(lease_paths={"hook:1:1": MID_TURN})
    short, long = NEEDS_S[MID_TURN], NEEDS_S[MID_TURN] + 120
    assert why_open(bob, handed, by_hook, short, NOW) == ""
    assert "3 min ago, with no evidence yet" in why_open(bob, handed, by_hook, long, NOW)
    assert why_open(bob, handed, by_hook, long, NOW).endswith("it is idle")
    assert DIALOG in why_open(bob, handed, by_hook._replace(state="waiting", idle=False), long, NOW)
    assert "next call" in why_open(bob, handed, Contact(), long, NOW)
    assert "not confirmed" in why_open(bob, handed, None, long, NOW)
    stuck = [is_stuck(bob, handed, each, long) for each in (by_hook, BUSY, Contact(), None)]
    assert stuck == [True, False, False, False]
    assert not is_stuck(bob, handed, by_hook, short)


def test_every_path_has_a_bound() -> None:
    names = {ways.MID_TURN, ways.END_OF_TURN, ways.PULL, doors.WAITER, plugins.PLUGIN}
    assert {*names, codex_queue.QUEUE, codex_queue.SLOW, typing.NAME, PUSH} == set(NEEDS_S)
    assert (MID_TURN, PULL) == (ways.MID_TURN, ways.PULL)


def test_a_span_has_one_unit() -> None:
    assert [format_span(each) for each in (-1, 0.5, 59, 60, 7_300, 200_000)] == [
        "0 s",
        "0 s",
        "59 s",
        "1 min",
        "2 h",
        "2 d",
    ]


@FIRST_2
def test_sender_operator_and_history_are_told_the_same() -> None:
    mesh = Told()
    for name in ("alice", "bob"):
        mesh.register(name)
    contacts(mesh, bob=Contact(hooked=True))
    sent = mesh.send("alice", "bob")
    for caller in (mesh.caller("alice"), OPERATOR):
        reply = mesh.run(MessageStatus(id=sent.id), caller)
        assert [each.why for each in reply.recipients] == [DEAF]
        assert say_status(reply).text == f"{sent.id} to bob: pending: {DEAF}"
    assert mesh.run(GetAgent(name="bob"), OPERATOR).waits == DEAF
    contacts(mesh, bob=IDLE._replace(announced={sent.id}))
    assert mesh.run(GetAgent(name="bob"), OPERATOR).waits == LARGE
    mesh.leave("bob")
    mesh.pass_time(180)
    assert mesh.run(MessageStatus(id=sent.id), OPERATOR).recipients[0].why == "offline for 3 min"
    assert mesh.run(GetAgent(name="bob"), OPERATOR).waits == "offline for 3 min"
    assert mesh.run(ReadHistory(), OPERATOR).messages == [], "this store has no past to look into"
