"""Turns that agents begin in each other by messages alone: counted along the chain, and ended (WAKE-3)."""

from __future__ import annotations

import pytest

from tellwire.core.context import OfferWaiting
from tellwire.core.limits import Limits
from tellwire.core.mail.notices import CHAIN, held_back
from tellwire.protocol.operations.agents import RegisterAgent
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR

BOUND = Limits().chain_turns_max


def team(*names: str) -> Conversation:
    """Agents whose clients report their turns."""
    talk = Conversation(*names)
    for name in names:
        talk.turn(name, "Ready.", human=True)
    return talk


def is_woken(talk: Conversation, name: str) -> bool:
    return not held_back(talk.agent(name), talk.now)


def pass_round(talk: Conversation, names: list[str], most: int = 200) -> int:
    """Have each agent send to the next one and end its turn, for as long as that wakes; the turns begun."""
    talk.send(names[0], names[1])
    talk.turn(names[0], human=True)
    for number in range(most):
        name, following = names[(number + 1) % len(names)], names[(number + 2) % len(names)]
        if not is_woken(talk, name):
            return number
        talk.read_all(name)
        talk.send(name, following)
        talk.turn(name)
    return most


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize("names", [["ann", "bob"], ["ann", "bob", "cat"]])
def test_agents_that_answer_each_other_come_to_rest(names: list[str]) -> None:
    talk = team(*names)
    talk.run(RegisterAgent(name="", session="s-operator", kind="operator"), OPERATOR)
    assert pass_round(talk, names) == BOUND
    held = next(name for name in names if talk.agent(name).pending)
    assert held_back(talk.agent(held), talk.now) == CHAIN
    assert sum("turns in a row" in body for _, body in talk.read_all("operator")) == 1, "told once"
    told = [body for body in talk.bodies(held) if "turns in a row" in body]
    assert len(told) == 1
    assert talk.replayed() == talk.state


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_the_sender_is_told_and_further_mail_tells_nobody_again() -> None:
    talk = team("ann", "bob")
    pass_round(talk, ["ann", "bob"])
    held = next(name for name in ("ann", "bob") if talk.agent(name).pending)
    waiting = len(talk.agent(held).pending)
    talk.agent("ann").hops = talk.agent("bob").hops = BOUND
    sent = talk.send("bob" if held == "ann" else "ann", held)
    assert sent.status == "queued"
    assert "will not be woken" in sent.why
    assert len(talk.agent(held).pending) == waiting + 1


@pytest.mark.requirement("WAKE-3", stage="clients")
@pytest.mark.parametrize("how", ["operator", "program", "human of the other"])
def test_new_work_begins_afresh_and_brings_what_was_held(how: str) -> None:
    talk = team("ann", "bob")
    talk.run(RegisterAgent(name="", session="s-operator", kind="operator"), OPERATOR)
    talk.register("cron")
    pass_round(talk, ["ann", "bob"])
    held = next(name for name in ("ann", "bob") if talk.agent(name).pending)
    other = "bob" if held == "ann" else "ann"
    talk.send({"operator": "operator", "program": "cron", "human of the other": other}[how], held, "work")
    assert is_woken(talk, held)
    assert "work" in [body for _, body in talk.read_all(held)]
    talk.send(held, other)
    talk.turn(held)
    assert is_woken(talk, other), "its answer wakes again"
    assert talk.agent(other).pending
    (receipt,) = (each for each in talk.agent(other).pending.values() if each.sender and not each.weak)
    assert receipt.hops <= 2


def test_programs_pass_a_chain_on_and_add_nothing() -> None:
    talk = team("ann")
    talk.register("bot")
    for _ in range(100):
        talk.send("bot", "ann")
        talk.run(OfferWaiting(talk.agent("ann").id))
        talk.send("ann", "bot")
        talk.turn("ann")
        talk.confirm("ann", *talk.leased("ann"))
        talk.confirm("bot", *talk.leased("bot"))
    assert is_woken(talk, "ann") or not talk.agent("ann").pending, "it sends of its own accord"
    turns = 0
    talk.send("ann", "bot")
    talk.turn("ann", human=True)
    while turns < 200:
        talk.read_all("bot")
        talk.send("bot", "ann")
        if not is_woken(talk, "ann"):
            break
        talk.read_all("ann")
        turns += 1
        talk.send("ann", "bot")
        talk.turn("ann")
    assert turns == BOUND


def test_what_was_seen_to_be_read_after_its_turn_does_not_count_for_the_next() -> None:
    talk = team("ann", "bob")
    talk.agent("ann").hops = BOUND - 1
    talk.send("ann", "bob")
    talk.turn("ann")
    talk.run(OfferWaiting(talk.agent("bob").id))
    talk.turn("bob")
    talk.confirm("bob", *talk.leased("bob"))
    talk.send("ann", "bob", "a new chain")
    talk.turn("ann")
    talk.read_all("bob")
    assert talk.send("bob", "ann").status == "received"
    assert [each.hops for each in talk.agent("ann").pending.values()] == [2]


def test_a_turn_that_failed_is_retried_in_the_same_chain() -> None:
    talk = team("ann", "bob")
    talk.send("ann", "bob")
    talk.turn("ann")
    talk.read_all("bob")
    talk.turn("bob", outcome="errored")
    talk.send("bob", "ann")
    assert [each.hops for each in talk.agent("ann").pending.values()] == [2]
    talk.turn("bob")
    talk.send("bob", "ann")
    assert [each.hops for each in talk.agent("ann").pending.values()] == [2, 1]


def test_a_held_send_that_is_repeated_gets_the_same_answer() -> None:
    talk = team("ann", "bob")
    pass_round(talk, ["ann", "bob"])
    held = next(name for name in ("ann", "bob") if talk.agent(name).pending)
    other = "bob" if held == "ann" else "ann"
    talk.agent(other).hops = BOUND
    key = talk.key("once")
    first = talk.send(other, held, "again", key=key)
    repeat = talk.send(other, held, "again", key=key)
    assert (repeat.id, repeat.status) == (first.id, "queued")
    assert repeat.why == CHAIN
