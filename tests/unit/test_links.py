"""Links on the kernel: one object for a conversation, who is in it, what crosses it, how it ends."""

from __future__ import annotations

import pytest

from tellwire.core.context import EndSession, ExpireDue, ForgetAbsent, MarkSilent, StartBroker
from tellwire.core.limits import Limits
from tellwire.core.links import links
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.links import LinkOpened
from tellwire.protocol.operations.links import (
    CloseLink,
    LeaveLink,
    LinkList,
    ListLinks,
)
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR, refused


@pytest.fixture
def talk() -> Conversation:
    return Conversation("ann", "bob", "cat", "dan")


# -- one object ---------------------------------------------------------------------------------------


@pytest.mark.requirement("SC-1", stage="links")
def test_a_direct_conversation_is_one_link_with_two_members(talk: Conversation) -> None:
    sent = talk.direct("ann", "bob")
    assert (sent.made, sent.status) == ("created", "received")
    (link,) = talk.state.links.values()
    assert link.id == sent.link
    assert [member.name for member in link.members.values()] == ["ann", "bob"]
    assert list(talk.agent("ann").links) == list(talk.agent("bob").links) == [link.id]
    for sender, to in (("ann", "bob"), ("bob", "ann")):
        again = talk.direct(sender, to, "again")
        assert (again.made, again.link) == ("reused", link.id)
    assert talk.open("bob", "ann").made == "reused"
    assert len(talk.of_type(LinkOpened)) == 1


@pytest.mark.requirement("SC-2", stage="links")
def test_a_link_has_any_number_of_members_with_number_and_role(talk: Conversation) -> None:
    record = talk.open("ann", "bob", "cat", roles={"ann": "host", "CAT": "harvester"})
    assert [(each.name, each.number, each.role) for each in record.members] == [
        ("ann", 1, "host"),
        ("bob", 2, ""),
        ("cat", 3, "harvester"),
    ]
    assert not record.direct
    for name in ("ann", "bob", "cat"):
        listed: LinkList = talk.run(ListLinks(), talk.caller(name))
        assert [each.id for each in listed.links] == [record.id]
    assert talk.run(ListLinks(), talk.caller("dan")).links == []
    assert [each.id for each in talk.run(ListLinks(agent="cat"), OPERATOR).links] == [record.id]
    assert talk.state == talk.replayed()


@pytest.mark.requirement("SC-2", stage="links")
def test_members_are_told_of_a_link_and_who_is_in_it(talk: Conversation) -> None:
    record = talk.open("ann", "bob", "cat", roles={"cat": "critic"})
    for name in ("bob", "cat"):
        (text,) = talk.notices(name)
        assert f"link:{record.id} is open: ann, bob, cat (critic)." in text
    assert not talk.notices("ann")


def test_the_pair_handshake_race_makes_one_link(talk: Conversation) -> None:
    """Both ask at once: whoever is second finds the link of the first."""
    first, second = talk.direct("ann", "bob", "mine"), talk.direct("bob", "ann", "mine too")
    assert first.link == second.link
    assert [first.made, second.made] == ["created", "reused"]
    assert talk.read("bob") == [("ann", "mine")]
    assert talk.read("ann") == [("bob", "mine too")]


# -- fan-out ------------------------------------------------------------------------------------------


@pytest.mark.requirement("SC-3", "SC-4", stage="links")
def test_what_is_said_goes_to_all_others_and_never_to_the_sender(talk: Conversation) -> None:
    pair = talk.direct("ann", "bob", "for two")
    assert talk.read("bob") == [("ann", "for two")]
    three = talk.open("ann", "bob", "cat")
    talk.read_all("bob")
    talk.read_all("cat")
    sent = talk.send("ann", f"link:{three.id}", "for three")
    assert (sent.status, {each.name: each.status for each in sent.recipients}) == (
        "sent",
        {"bob": "received", "cat": "received"},
    )
    assert talk.read("bob") == talk.read("cat") == [("ann", "for three")]
    assert not talk.read("ann")
    assert pair.link != three.id
    crossings = [event for event in talk.of_type(MessageQueued) if event.link == three.id]
    assert [(event.to, len(event.recipients)) for event in crossings] == [(f"link:{three.id}/1", 2)]


@pytest.mark.requirement("SC-4", stage="links")
def test_one_failing_member_does_not_stop_the_rest() -> None:
    talk = Conversation("ann", "bob", "cat", limits=Limits(mailbox_messages_max=2))
    link = talk.open("ann", "bob", "cat").id
    talk.read_all("cat")
    talk.send("cat", "bob", "the last that fits")
    sent = talk.send("ann", f"link:{link}", "hear me")
    assert {each.name: each.status for each in sent.recipients} == {"bob": "denied", "cat": "received"}
    talk.turn("ann", "final words")
    assert talk.read("cat") == [("ann", "hear me"), ("ann", "final words")]


@pytest.mark.requirement("SC-4", "SC-8", stage="links")
def test_a_member_that_is_silent_or_away_for_a_restart_gets_its_words_later(talk: Conversation) -> None:
    link = talk.open("ann", "bob", "cat").id
    talk.read_all("bob")
    talk.read_all("cat")
    talk.run(MarkSilent(talk.agent("bob").id))
    talk.turn("ann", "while bob was silent")
    talk.run(StartBroker("0"))
    for name in ("ann", "cat", "bob"):
        talk.register(name)
    talk.turn("ann", "after the restart")
    assert link in talk.agent("bob").links
    assert talk.read("bob") == [("ann", "while bob was silent"), ("ann", "after the restart")]


@pytest.mark.requirement("SC-5", stage="links")
def test_the_final_words_of_a_turn_cross_and_nothing_else(talk: Conversation) -> None:
    talk.direct("ann", "bob", "Which port?")
    talk.read("bob")
    talk.turn("bob", "8080, as in the file.")
    (event,) = [each for each in talk.of_type(MessageQueued) if each.turn]
    assert (event.sender_name, event.said, event.turn) == ("bob", 2, "t1")
    assert talk.read("ann") == [("bob", "8080, as in the file.")]
    assert not talk.read("bob")


@pytest.mark.requirement("SC-5", stage="links")
def test_a_report_of_five_megabytes_is_cut_with_a_mark_and_a_pointer(talk: Conversation) -> None:
    talk.direct("ann", "bob")
    talk.turn("ann", "ü" * 2_500_000)
    (_, body) = talk.read("bob")[-1]
    assert len(body.encode()) <= talk.limits.body_bytes_max
    assert body.startswith("üü")
    assert body.endswith('[cut: the whole has 5000000 bytes; get_session_data("ann") shows it]')


@pytest.mark.requirement("SC-5", stage="links")
def test_w9_a_turn_without_words_does_not_bring_the_last_ones_again(talk: Conversation) -> None:
    talk.direct("ann", "bob")
    talk.turn("ann", "first answer")
    talk.turn("ann", "")
    talk.turn("ann", "  \n ")
    assert talk.read("bob") == [("ann", "hello"), ("ann", "first answer")]


@pytest.mark.requirement("SC-6", stage="links")
@pytest.mark.parametrize(
    "how",
    [{"checkpoint": True}, {"outcome": "interrupted"}, {"outcome": "errored"}, {"outcome": "waiting"}],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_what_never_crosses_costs_nothing(talk: Conversation, how: dict[str, object]) -> None:
    link = talk.direct("ann", "bob").link
    talk.read("bob")
    talk.turn("bob", "not for others", **how)  # pyright: ignore[reportArgumentType]
    talk.turn("bob", "")
    assert not talk.read("ann")
    assert talk.link(link).turns == 1, "only the opening"


@pytest.mark.requirement("SC-5", stage="links")
def test_an_answer_goes_where_it_was_asked_for(talk: Conversation) -> None:
    """Of two links, words heard on one are not told on the other."""
    talk.direct("ann", "bob", "secret?")
    shared = talk.open("bob", "cat", "dan").id
    talk.read_all("bob")
    talk.turn("bob", "secret!")
    assert talk.read("ann") == [("bob", "secret!")]
    assert not talk.read("cat")
    talk.turn("bob", "of its own accord")
    assert talk.read("ann") == talk.read("cat") == [("bob", "of its own accord")]
    talk.send("cat", f"link:{shared}", "and you?")
    talk.read_all("bob")
    talk.turn("bob", "typed by its human", human=True)
    assert talk.read("ann") == talk.read("cat") == [("bob", "typed by its human")]


@pytest.mark.requirement("SC-5", stage="links")
def test_who_shares_answers_only_keeps_its_humans_other_turns(talk: Conversation) -> None:
    link = talk.open("ann", "bob", share="link").id
    talk.turn("ann", "something else entirely", human=True)
    talk.turn("ann", "and more of it")
    assert not talk.read("bob")
    talk.send("bob", f"link:{link}", "a question")
    talk.read("ann")
    talk.turn("ann", "the answer")
    assert talk.read("bob") == [("ann", "the answer")]
    talk.turn("ann", "the question is dealt with")
    assert not talk.read("bob")


@pytest.mark.requirement("SC-5", stage="links")
def test_what_comes_in_the_middle_of_a_turn_belongs_to_the_next_one(talk: Conversation) -> None:
    """What waits was not in the context yet: it must not pass for what the turn was about."""
    link = talk.open("ann", "bob", share="link").id
    talk.send("bob", f"link:{link}", "first question")
    talk.read("ann")
    talk.send("bob", f"link:{link}", "second question")
    talk.turn("ann", "first answer")
    talk.turn("ann", "something else")
    assert talk.read("bob") == [("ann", "first answer")]
    talk.read("ann")
    talk.turn("ann", "second answer")
    assert talk.read("bob") == [("ann", "second answer")]


def test_a_listing_is_bounded() -> None:
    talk = Conversation("ann", "bob", "cat", limits=Limits(links_listed_max=2))
    ids = [talk.open("ann", "bob", "cat").id for _ in range(3)]
    listed = talk.run(ListLinks(), talk.caller("ann"))
    assert ([each.id for each in listed.links], listed.hidden) == (ids[1:], 1)


def test_closed_links_are_forgotten_in_the_end(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "CLOSED_KEPT", 5)
    ids: list[str] = []
    for _ in range(25):
        ids.append(talk.direct("ann", "bob").link)
        talk.run(CloseLink(link=ids[-1]), talk.caller("bob"))
        assert len(talk.state.links) < 10
    assert ids[-1] in talk.state.links
    with refused("unknown_link"):
        talk.run(ListLinks(link=ids[0]), OPERATOR)
    assert talk.state == talk.replayed()


# -- ending -------------------------------------------------------------------------------------------


@pytest.mark.requirement("SC-7", stage="links")
@pytest.mark.parametrize("closer", ["ann", "bob", "cat"])
def test_any_member_severs_the_link_for_all(talk: Conversation, closer: str) -> None:
    link = talk.open("ann", "bob", "cat").id
    for name in ("ann", "bob", "cat"):
        talk.read_all(name)
    closed = talk.run(CloseLink(link=link, message="That was it."), talk.caller(closer))
    assert (closed.status, closed.said) == ("closed", 1)
    others = [name for name in ("ann", "bob", "cat") if name != closer]
    for name in others:
        assert talk.read_all(name) == [
            (closer, "That was it."),
            ("tellwire", f"link:{link} is closed: {closer} closed it."),
        ]
    for name in ("ann", "bob", "cat"):
        assert not talk.agent(name).links
        talk.turn(name, f"{name} goes on alone")
        with refused("link_closed"):
            talk.send(name, f"link:{link}", "hello?")
    assert not any(talk.read_all(name) for name in ("ann", "bob", "cat"))


@pytest.mark.requirement("SC-7", stage="links")
def test_membership_stays_known_after_closing(talk: Conversation) -> None:
    link = talk.open("ann", "bob", "cat", roles={"bob": "critic"}).id
    talk.pass_time(5)
    talk.run(LeaveLink(link=link), talk.caller("cat"))
    talk.pass_time(5)
    talk.run(CloseLink(link=link), talk.caller("ann"))
    talk.state = parse_snapshot(format_snapshot(talk.replayed()))
    assert talk.run(ListLinks(), talk.caller("bob")).links == []
    (record,) = talk.run(ListLinks(all=True), talk.caller("bob")).links
    start = record.opened_at
    assert [(each.name, each.role, each.left_at - start) for each in record.members] == [
        ("ann", "", 10.0),
        ("bob", "critic", 10.0),
        ("cat", "", 5.0),
    ]
    assert (record.status, record.reason, record.closed_at - start) == ("closed", "ann closed it", 10.0)


def test_a_scoped_close_never_falls_back_to_an_unrelated_link(talk: Conversation) -> None:
    link = talk.direct("ann", "bob").link
    with refused("unknown_link"):
        talk.run(CloseLink(peer="cat"), talk.caller("ann"))
    for both in (CloseLink(), CloseLink(link=link, peer="bob")):
        with refused("bad_request"):
            talk.run(both, talk.caller("ann"))
    assert talk.link(link).status == "active"
    talk.run(CloseLink(peer="bob"), talk.caller("ann"))
    assert talk.link(link).status == "closed"
    assert talk.direct("bob", "ann").made == "created"


@pytest.mark.requirement("SC-8", stage="links")
@pytest.mark.parametrize("how", ["leave", "lose", "forget", "new session"])
def test_an_ended_session_leaves_and_nothing_is_sent_to_it(talk: Conversation, how: str) -> None:
    pair, three = talk.direct("bob", "ann").link, talk.open("ann", "bob", "cat").id
    gone = talk.agent("bob").id
    if how == "new session":
        talk.run(MarkSilent(gone))
        talk.register("bob", session="another")
    else:
        getattr(talk, how)("bob")
    assert talk.link(pair).status == "closed"
    assert talk.link(three).status == "active"
    assert talk.link(three).here() == [talk.agent("ann").id, talk.agent("cat").id]
    count = len(talk.events)
    talk.turn("ann", "is anybody there?")
    assert all(gone not in event.recipients for event in _queued(talk, count))
    assert talk.read("cat") == [("ann", "is anybody there?")]
    assert any("bob is gone" in text for text in talk.notices("ann"))
    talk.lose("cat")
    assert talk.link(three).status == "closed"
    assert not talk.agent("ann").links
    assert talk.state == talk.replayed()


@pytest.mark.requirement("SC-8", stage="links")
def test_silence_and_a_restart_are_no_ends_but_a_dead_process_is(talk: Conversation) -> None:
    link = talk.direct("ann", "bob").link
    talk.run(MarkSilent(talk.agent("bob").id))
    assert talk.link(link).status == "active"
    talk.run(StartBroker("0"))
    assert talk.link(link).status == "active"
    talk.register("ann")
    assert talk.link(link).status == "active"
    bob = talk.agent("bob")
    talk.run(EndSession(bob.id, bob.session))  # the broker saw that its process is gone
    assert talk.link(link).status == "closed"
    assert not talk.agent("ann").links


def test_a_forgotten_member_leaves_no_trace_in_others(talk: Conversation) -> None:
    link = talk.open("ann", "bob", "cat").id
    talk.lose("bob")
    talk.pass_time(talk.limits.forget_after_s + 1)
    talk.run(ExpireDue())
    talk.run(ForgetAbsent())
    assert talk.state.find("bob") is None
    assert [member.name for member in talk.link(link).members.values()] == ["ann", "bob", "cat"]
    assert talk.state == talk.replayed()


def _queued(talk: Conversation, count: int) -> list[MessageQueued]:
    return [event for _, event in talk.events[count:] if isinstance(event, MessageQueued)]
