"""Conversations on links go on for many turns, and loops end: budget, hops, words that add nothing."""

from __future__ import annotations

import pytest

from tellwire.core.limits import Limits
from tellwire.core.links.turns import is_acknowledgement
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.links import LinkPaused, LinkResumed
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.links import ResumeLink
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR, refused


def talk_on(talk: Conversation, names: tuple[str, ...], turns: int, *, start: int = 0) -> int:
    """So many turns, each reading what came and answering it; how many of them crossed."""
    crossed = 0
    for number in range(start, start + turns):
        name = names[number % len(names)]
        before = len(talk.stored)
        talk.read_all(name)
        talk.turn(name, f"word {number} of {name}")
        crossed += any(row.sender_name == name for row in list(talk.stored.values())[before:])
    return crossed


def join_operator(talk: Conversation) -> None:
    """The person at the terminal is there."""
    talk.run(RegisterAgent(name="", session="s-operator", kind="operator"), OPERATOR)


@pytest.mark.requirement("SC-11", stage="links")
def test_w8_a_conversation_goes_on_after_its_first_round_trip() -> None:
    talk = Conversation("ann", "bob")
    link = talk.direct("ann", "bob", "Shall we?").link
    heard: list[str] = []
    for number in range(12):
        name = ("bob", "ann")[number % 2]
        heard += [body for _, body in talk.read(name)]
        talk.turn(name, f"turn {number}")
    assert heard == ["Shall we?", *(f"turn {number}" for number in range(11))]
    assert talk.send("ann", f"link:{link}", "and a message in between").status == "received"
    assert talk.direct("ann", "bob", "or so").made == "reused"
    assert talk.send("ann", "bob", "and outside of it").status == "received"


@pytest.mark.requirement("SC-11", stage="links")
def test_the_budget_is_exact_told_once_and_a_pause_refuses() -> None:
    talk = Conversation("ann", "bob")
    link = talk.direct("ann", "bob").link
    assert talk_on(talk, ("bob", "ann"), 60) == 39, "forty turns, the opening among them"
    assert (talk.link(link).status, talk.link(link).reason) == ("paused", "turns")
    assert len(talk.of_type(LinkPaused)) == 1
    for sender in ("ann", "bob"):
        with refused("link_paused") as caught:
            talk.send(sender, f"link:{link}", "hello?")
        assert f'resume_link("{link}")' in caught.value.advice
        with refused("link_paused"):
            talk.direct(sender, "bob" if sender == "ann" else "ann")
    told = [row.body for row in talk.stored.values() if "is paused" in row.body]
    assert len(told) == 2
    assert "40 turns went by without a person's word" in told[0]
    resumed = talk.run(ResumeLink(link=link), talk.caller("bob"))
    assert (resumed.status, resumed.turns) == ("active", 0)
    assert talk_on(talk, ("bob", "ann"), 60, start=100) == 40
    assert talk.state == talk.replayed()


@pytest.mark.requirement("SC-11", stage="links")
def test_the_operator_is_told_too() -> None:
    talk = Conversation("ann", "bob", limits=Limits(link_turns_max=2))
    join_operator(talk)
    talk.direct("ann", "bob")
    talk.turn("ann", "one")
    talk.turn("ann", "two")
    assert any("is paused" in text for text in talk.notices("operator"))


@pytest.mark.requirement("SC-11", stage="links")
def test_a_persons_word_makes_the_budget_fresh_and_lifts_a_pause() -> None:
    talk = Conversation("ann", "bob", limits=Limits(link_turns_max=4))
    link = talk.direct("ann", "bob").link
    talk_on(talk, ("bob", "ann"), 2)
    assert talk.link(link).turns == 3
    talk.turn("ann", "my human says go on", human=True)
    assert talk.link(link).turns == 0
    assert talk_on(talk, ("bob", "ann"), 9, start=10) == 4
    assert talk.link(link).status == "paused"
    talk.turn("bob", "mine too", human=True)
    assert (talk.link(link).status, talk.link(link).turns) == ("active", 0)
    assert ("bob", "mine too") in talk.read("ann")
    assert len(talk.of_type(LinkResumed)) == 1
    assert talk_on(talk, ("ann", "bob"), 9, start=20) == 4
    join_operator(talk)
    talk.send("operator", f"link:{link}", "Go on, both of you.")
    assert (talk.link(link).status, talk.link(link).turns) == ("active", 0)
    assert ("operator", "Go on, both of you.") in talk.read("ann")
    assert talk.state == talk.replayed()


@pytest.mark.requirement("SC-6", "SC-11", stage="links")
def test_checkpoints_and_empty_turns_cost_nothing_even_in_number() -> None:
    talk = Conversation("ann", "bob", limits=Limits(link_turns_max=4))
    link = talk.direct("ann", "bob").link
    for number in range(20):
        talk.turn("bob", f"status {number}", checkpoint=True)
        talk.turn("bob", "")
    assert (talk.link(link).status, talk.link(link).turns) == ("active", 1)
    assert not talk.read("ann")


def test_messages_without_turn_reports_are_bounded_as_well() -> None:
    """Two clients that tell nothing of their turns and answer each other for ever."""
    talk = Conversation("ann", "bob", limits=Limits(link_turns_max=10))
    link = talk.direct("ann", "bob").link
    sent = 1
    with refused("link_paused"):
        for number in range(100):
            name = ("bob", "ann")[number % 2]
            talk.read(name)
            talk.send(name, f"link:{link}", "the same")
            sent += 1
    assert sent == 10


def test_several_messages_of_one_turn_and_its_final_words_cost_one() -> None:
    talk = Conversation("ann", "bob")
    link = talk.direct("ann", "bob").link
    for text in ("b", "c", "d"):
        talk.send("ann", f"link:{link}", text)
    talk.turn("ann", "e")
    assert talk.link(link).turns == 1
    talk.turn("ann", "f")
    assert talk.link(link).turns == 2
    assert [body for _, body in talk.read("bob")] == ["hello", "b", "c", "d", "e", "f"]


@pytest.mark.requirement("SC-11", stage="links")
def test_a_chain_over_several_links_ends_by_its_length() -> None:
    talk = Conversation("ann", "bob", "cat", limits=Limits(link_turns_max=1_000, link_hops_max=7))
    links = [talk.open(*pair).id for pair in (("ann", "bob"), ("bob", "cat"), ("cat", "ann"))]
    for name in ("ann", "bob", "cat"):
        talk.read_all(name)
    talk.send("ann", f"link:{links[0]}", "round and round")
    number = 0
    while not talk.of_type(LinkPaused):
        name = ("bob", "cat", "ann")[number % 3]
        talk.read_all(name)
        talk.send(name, f"link:{links[(number + 1) % 3]}", f"step {number}")  # passed on to the next
        number += 1
    assert [event.hops for event in talk.of_type(MessageQueued) if event.link] == [1, 2, 3, 4, 5, 6, 7]
    assert [event.reason for event in talk.of_type(LinkPaused)] == ["hops"]
    paused = talk.of_type(LinkPaused)[0].link
    talk.run(ResumeLink(link=paused), OPERATOR)
    assert talk.send("ann", f"link:{links[0]}", "anew").id


@pytest.mark.requirement("SC-11", stage="links")
def test_the_same_words_again_pause_instead_of_crossing() -> None:
    talk = Conversation("ann", "bob")
    link = talk.direct("ann", "bob").link
    talk.turn("bob", "I am done.")
    talk.turn("ann", "So am I.")
    talk.read("ann")
    talk.read("bob")
    talk.turn("bob", "I am done. ")
    assert (talk.link(link).status, talk.link(link).reason) == ("paused", "nothing new")
    assert not talk.read("ann")
    talk.run(ResumeLink(link=link), OPERATOR)
    talk.turn("bob", "I am done.")
    assert talk.read("ann") == [("bob", "I am done.")], "a fresh start"
    talk.turn("bob", "I am done.", human=True)
    assert talk.read("ann") == [("bob", "I am done.")], "its human asked for it"


@pytest.mark.requirement("SC-11", stage="links")
def test_two_bare_acknowledgements_in_a_row_pause() -> None:
    talk = Conversation("ann", "bob", "cat")
    link = talk.open("ann", "bob", "cat").id
    for name in ("ann", "bob", "cat"):
        talk.read_all(name)
    talk.turn("ann", "Thanks!")
    talk.turn("ann", "Great, got it.")
    talk.turn("bob", "The tests fail in parser.py.")
    talk.turn("cat", "Noted.")
    talk.send("cat", f"link:{link}", "OK")
    talk.turn("bob", "You're welcome.")
    assert talk.link(link).status == "active", "never two members one after the other"
    talk.turn("ann", "👍")
    assert (talk.link(link).status, talk.link(link).reason) == ("paused", "nothing new")
    assert ("ann", "👍") not in talk.read("bob")


@pytest.mark.parametrize(
    "text", ["OK", "ok.", "Thanks, got it!", "👍", "Sounds good — will do.", "You’re welcome"]
)
def test_a_bare_acknowledgement_is_known(text: str) -> None:
    assert is_acknowledgement(text)


@pytest.mark.parametrize(
    "text", ["No.", "Do it.", "Yes, ship it.", "OK, I shall fix the parser.", "8080", "ok " * 9, "да, хорошо"]
)
def test_an_answer_is_no_acknowledgement(text: str) -> None:
    assert not is_acknowledgement(text)
