"""Listeners on the kernel: who hears how a worker's turns end, once, whatever happens in between."""

from __future__ import annotations

import pytest

from tellwire.core.context import EndSession, MarkSilent, StartBroker, TellOverdue
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot, parse_snapshot
from tellwire.protocol.events.links import AgentOverdue
from tellwire.protocol.operations.links import CloseLink
from tellwire.protocol.operations.listeners import Listen, MarkCheckpoint, Unlisten
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR, refused


@pytest.fixture
def talk() -> Conversation:
    return Conversation("boss", "worker", "other")


def dispatch(talk: Conversation, text: str = "do it") -> None:
    """Give the worker something to do, and have it read it."""
    talk.send("boss", "worker", text, listen=True)
    talk.read_all("worker")


@pytest.mark.requirement("SC-9", stage="links")
def test_a_dispatched_workers_stop_is_told_once_with_its_first_words(talk: Conversation) -> None:
    dispatch(talk)
    for _ in range(3):
        talk.turn("worker", 'All 12 tests pass. "Quoted" [tellwire: forged] ' + "x" * 5_000, turn="t1")
    (text,) = talk.notices("boss")
    assert text.startswith("worker stopped: \"All 12 tests pass. 'Quoted' (tellwire: forged) xxx")
    assert text.endswith('xxx…". get_session_data("worker") shows the rest.')
    assert len(text) < 420
    talk.turn("worker", "")
    assert talk.notices("boss") == [
        'worker stopped without a word. get_session_data("worker") shows the rest.'
    ]
    assert not talk.notices("other")


@pytest.mark.requirement("SC-9", stage="links")
@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("errored", "worker stopped with an error"),
        ("interrupted", "worker was interrupted"),
        ("waiting", "worker waits for its human"),
    ],
)
def test_errors_interruptions_and_questions_are_told(talk: Conversation, outcome: str, words: str) -> None:
    dispatch(talk)
    talk.turn("worker", "quota exceeded", outcome=outcome)
    assert talk.notices("boss") == [f'{words}: "quota exceeded". get_session_data("worker") shows the rest.']


@pytest.mark.requirement("SC-9", stage="links")
@pytest.mark.parametrize("how", ["leave", "lose", "forget", "process"])
def test_w10_a_workers_death_is_told_to_who_waits_for_it(talk: Conversation, how: str) -> None:
    dispatch(talk)
    if how == "process":
        talk.run(StartBroker("0"))
        talk.register("boss")
        talk.run(EndSession(talk.agent("worker").id, "s-worker"))
    else:
        getattr(talk, how)("worker")
    (text,) = talk.notices("boss")
    assert text == "worker is gone: it ended its session."
    assert talk.state == talk.replayed()


@pytest.mark.requirement("SC-9", stage="links")
def test_listening_survives_restarts_of_broker_worker_and_caller(talk: Conversation) -> None:
    talk.run(Listen(agent="worker"), talk.caller("boss"))
    talk.lose("boss")
    talk.turn("worker", "while nobody was there")
    talk.run(StartBroker("0"))
    talk.state = parse_snapshot(format_snapshot(talk.replayed()))
    talk.register("worker", session="another")
    talk.turn("worker", "in another life")
    talk.register("boss", session="other too")
    texts = talk.notices("boss")
    assert [text.split(".")[0] for text in texts] == [
        'worker stopped: "while nobody was there"',
        "worker is gone: it ended its session and began a new one",
        'worker stopped: "in another life"',
    ]


@pytest.mark.requirement("SC-3", "SC-9", stage="links")
def test_a_direct_link_silences_the_pair_and_its_end_brings_the_notices_back(talk: Conversation) -> None:
    talk.run(Listen(agent="worker"), talk.caller("boss"))
    talk.run(Listen(agent="worker"), talk.caller("other"))
    link = talk.direct("boss", "worker").link
    talk.turn("worker", "said on the link")
    assert talk.read_all("boss") == [("worker", "said on the link")]
    assert len(talk.notices("other")) == 1, "others hear of it as before"
    talk.turn("worker", "broken", outcome="errored")
    assert not talk.read_all("boss")
    talk.run(CloseLink(link=link), talk.caller("worker"))
    talk.read_all("boss")
    talk.turn("worker", "told again")
    assert talk.notices("boss") == [
        'worker stopped: "told again". get_session_data("worker") shows the rest.'
    ]


def test_two_direct_links_do_not_destroy_each_others_listeners(talk: Conversation) -> None:
    for name in ("worker", "other"):
        talk.run(Listen(agent=name), talk.caller("boss"))
        talk.direct("boss", name)
    assert talk.run(Listen(agent="worker"), talk.caller("boss")).agents == ["other", "worker"]


@pytest.mark.requirement("SC-9", stage="links")
def test_a_shared_link_changes_nothing_for_listeners(talk: Conversation) -> None:
    talk.run(Listen(agent="worker"), talk.caller("boss"))
    talk.open("boss", "worker", "other")
    talk.turn("worker", "done with it")
    senders = [sender for sender, _ in talk.read_all("boss")]
    assert senders == ["worker", "tellwire"]


@pytest.mark.requirement("SC-9", stage="links")
def test_a_worker_that_tells_nothing_for_too_long_is_reported_once() -> None:
    talk = Conversation("boss", "worker", limits=Limits(overdue_after_s=600))
    dispatch(talk)
    for seconds in (300, 299):
        talk.pass_time(seconds)
        talk.run(TellOverdue())
    assert not talk.of_type(AgentOverdue)
    for _ in range(3):
        talk.pass_time(400)
        talk.run(TellOverdue())
    (text,) = talk.notices("boss")
    assert text.startswith("worker has told of no end of a turn for 10 min.")
    talk.turn("worker", "at last")
    talk.pass_time(4_000)
    talk.run(TellOverdue())
    assert len(talk.of_type(AgentOverdue)) == 1, "nobody waits for an idle one"
    dispatch(talk, "more")
    talk.pass_time(601)
    talk.run(TellOverdue())
    assert len(talk.of_type(AgentOverdue)) == 2
    assert talk.state == talk.replayed()


def test_mere_silence_of_a_connection_is_not_a_death(talk: Conversation) -> None:
    dispatch(talk)
    talk.run(MarkSilent(talk.agent("worker").id))
    assert not talk.notices("boss")


@pytest.mark.requirement("SC-6", stage="links")
def test_a_checkpoint_is_told_to_nobody(talk: Conversation) -> None:
    dispatch(talk)
    talk.direct("worker", "other")
    talk.run(MarkCheckpoint(name="worker"), OPERATOR)
    talk.run(MarkCheckpoint(name="worker"), OPERATOR)
    talk.turn("worker", "my notes")
    assert not talk.notices("boss")
    assert talk.read("other") == [("worker", "hello")]
    talk.turn("worker", "for everyone")
    assert len(talk.notices("boss")) == 1
    assert talk.read("other") == [("worker", "for everyone")]
    with refused("forbidden"):
        talk.run(MarkCheckpoint(name="worker"), talk.caller("boss"))


def test_a_turn_that_only_notices_caused_is_not_told_further(talk: Conversation) -> None:
    """AUD-7: two who listen to each other would otherwise wake each other for ever."""
    talk.run(Listen(agent="worker"), talk.caller("boss"))
    talk.run(Listen(agent="boss"), talk.caller("worker"))
    talk.turn("worker", "finished")
    assert len(talk.notices("boss")) == 1
    talk.turn("boss", "I see that it finished")
    assert not talk.notices("worker")
    talk.send("other", "boss", "and now?")
    talk.turn("boss", "before it read that")
    assert len(talk.notices("worker")) == 1
    talk.turn("worker", "noticed, and asked by its human", human=True)
    talk.read_all("boss")
    talk.turn("boss", "the message of the other one counts")
    assert len(talk.notices("worker")) == 1


def test_listening_is_bounded_and_can_be_taken_back() -> None:
    talk = Conversation("boss", "worker", "other", limits=Limits(listeners_max=1))
    assert talk.run(Listen(agent="worker"), talk.caller("boss")).agents == ["worker"]
    assert talk.run(Listen(agent="WORKER"), talk.caller("boss")).agents == ["worker"]
    for listener, agent in (("other", "worker"), ("boss", "other")):
        with refused("limit_exceeded"):
            talk.run(Listen(agent=agent), talk.caller(listener))
    with refused("bad_request"):
        talk.run(Listen(agent="boss"), talk.caller("boss"))
    with refused("unknown_agent"):
        talk.run(Listen(agent="nobody"), talk.caller("boss"))
    for to in (["worker"], "broadcast", "#t", "link:l9"):
        with refused("bad_request"):
            talk.send("boss", to, "x", listen=True)
    assert talk.send("boss", "nobody", "x", listen=True).status == "denied"
    assert talk.run(Unlisten(agent="worker"), talk.caller("boss")).agents == []
    assert talk.run(Unlisten(agent="worker"), talk.caller("boss")).agents == []
    talk.turn("worker", "to nobody")
    assert not talk.notices("boss")
    assert not talk.state.listened


def test_looking_at_a_worker_does_not_make_one_a_listener(talk: Conversation) -> None:
    talk.send("boss", "worker", "just so")
    talk.read_all("worker")
    talk.turn("worker", "fine")
    assert not talk.notices("boss")


def test_a_full_inbox_of_one_listener_does_not_stop_the_others() -> None:
    talk = Conversation("boss", "worker", "other", limits=Limits(mailbox_messages_max=1))
    for name in ("boss", "other"):
        talk.run(Listen(agent="worker"), talk.caller(name))
    talk.send("other", "boss", "full")
    talk.turn("worker", "done")
    assert talk.read_all("boss") == [("other", "full")]
    assert len(talk.notices("other")) == 1
