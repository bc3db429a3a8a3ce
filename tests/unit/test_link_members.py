"""Links on the kernel: who comes and goes, who has no say, bad input, and repeats."""

from __future__ import annotations

import pytest

from tellwire.core.limits import Limits
from tellwire.protocol.events.links import LinkClosed
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from tellwire.protocol.operations.messages import SendMessage
from tests.unit.linking import Conversation
from tests.unit.mesh import OPERATOR, SCRIPT, refused


@pytest.fixture
def talk() -> Conversation:
    return Conversation("ann", "bob", "cat", "dan")


# -- members ------------------------------------------------------------------------------------------


@pytest.mark.requirement("SC-2", stage="links")
def test_members_come_and_go(talk: Conversation) -> None:
    link = talk.direct("ann", "bob").link
    record = talk.run(AddMember(link=link, name="cat", role="critic"), talk.caller("bob"))
    assert (record.direct, len(record.members)) == (False, 3)
    assert any(f"You are in link:{link} with ann, bob" in text for text in talk.notices("cat"))
    talk.turn("cat", "hi from cat")
    assert ("cat", "hi from cat") in talk.read("ann")
    talk.run(LeaveLink(link=link), talk.caller("ann"))
    assert talk.link(link).status == "active"
    talk.run(AddMember(link=link, name="ann"), OPERATOR)
    assert [(each.name, each.number) for each in talk.link(link).members.values()] == [
        ("ann", 1),
        ("bob", 2),
        ("cat", 3),
    ]
    talk.run(LeaveLink(link=link, name="bob"), OPERATOR)
    talk.run(LeaveLink(link=link), talk.caller("cat"))
    assert (talk.link(link).status, talk.link(link).reason) == ("closed", "cat left")
    assert talk.direct("ann", "bob").made == "created"


# -- bad input ----------------------------------------------------------------------------------------


def test_bad_members_get_coded_answers(talk: Conversation) -> None:
    talk.leave("dan")
    for members, code in (
        (["ann"], "bad_request"),
        ([], "bad_request"),
        (["nobody"], "unknown_agent"),
        (["dan"], "agent_gone"),
        (["bob"] * 100, "limit_exceeded"),
        (["b b"], "unknown_agent"),
    ):
        with refused(code):
            talk.open("ann", *members)
    with refused("bad_request"):
        talk.open("ann", "bob", roles={"cat": "critic"})
    with refused("limit_exceeded"):
        talk.open("ann", "bob", roles={"bob": "x" * 100})
    with refused("bad_request"):
        talk.run(OpenLink(members=["ann"]), OPERATOR)
    assert talk.direct("ann", "ann").status == "refused"
    assert talk.direct("ann", "nobody").status == "denied"
    with refused("agent_gone"):
        talk.direct("ann", "dan")
    with refused("bad_request"):
        talk.send("ann", ["bob", "cat"], direct=True)
    assert not talk.state.links


def test_more_members_or_links_than_the_bound_are_refused() -> None:
    names = [f"n{number}" for number in range(5)]
    talk = Conversation(*names, limits=Limits(link_members_max=4, links_max=1))
    with refused("limit_exceeded"):
        talk.open("n0", "n1", "n2", "n3", "n4")
    link = talk.open("n0", "n1", "n2", "n3").id
    with refused("limit_exceeded"):
        talk.run(AddMember(link=link, name="n4"), talk.caller("n0"))
    with refused("limit_exceeded"):
        talk.direct("n0", "n1")


def test_who_is_not_in_a_link_has_no_say_in_it(talk: Conversation) -> None:
    link = talk.open("ann", "bob", "cat").id
    for operation in (
        CloseLink(link=link),
        ResumeLink(link=link),
        AddMember(link=link, name="dan"),
        SendMessage(to=f"link:{link}", body="let me in"),
        LeaveLink(link=link),
        LinkHistory(link=link),
    ):
        with refused("forbidden"):
            talk.run(operation, talk.caller("dan"))
    with refused("forbidden"):
        talk.run(LeaveLink(link=link, name="bob"), talk.caller("ann"))
    with refused("forbidden"):
        talk.run(ListLinks(agent="bob"), talk.caller("ann"))
    assert len(talk.link(link).here()) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("link:l999", "unknown_link"),
        ("l999", "unknown_link"),
        ("link:l4@desk", "unknown_link"),
        ("link:", "address_invalid"),
        ("link:x4", "address_invalid"),
        ("link:l4/", "address_invalid"),
        ("bob", "address_invalid"),
        ("l" * 300, "address_invalid"),
        ("link:l4\n", "address_invalid"),
    ],
)
def test_what_is_no_link_is_refused(talk: Conversation, text: str, code: str) -> None:
    with refused(code):
        talk.run(CloseLink(link=text), talk.caller("ann"))
    if text.startswith("link:"):
        with refused(code):
            talk.send("ann", text)


def test_a_link_is_found_by_its_id_its_address_and_a_place_in_it(talk: Conversation) -> None:
    link = talk.open("ann", "bob", "cat").id
    for text in (link, f"link:{link}", f"link:{link}/12"):
        assert talk.run(ListLinks(link=text), SCRIPT).links[0].id == link
    assert talk.send("ann", f"link:{link}/7", "x").link == link


# -- repeats ------------------------------------------------------------------------------------------


def test_a_repeated_send_on_a_link_is_carried_out_once(talk: Conversation) -> None:
    key = talk.key("one")
    first = talk.send("ann", "bob", "once", direct=True, key=key)
    again = talk.send("ann", "bob", "once", direct=True, key=key)
    assert (again.id, again.link) == (first.id, first.link)
    assert "repeat" in again.note
    assert talk.read("bob") == [("ann", "once")]
    said = talk.key("two")
    address = f"link:{first.link}"
    second = talk.send("ann", address, "more", key=said)
    assert talk.send("ann", address, "more", key=said).id == second.id
    for to, body in ((address, "other"), ("bob", "more"), ("link:l999", "more")):
        with refused("conflict"):
            talk.send("ann", to, body, key=said)
    talk.run(CloseLink(link=first.link), talk.caller("bob"))
    assert talk.send("ann", address, "more", key=said).id == second.id, "it did happen"
    assert len(talk.of_type(LinkClosed)) == 1


def test_a_reply_on_a_link_is_evidence_like_any_other(talk: Conversation) -> None:
    asked = talk.direct("ann", "bob", "?")
    talk.send("bob", f"link:{asked.link}", "!", re=asked.id)
    assert talk.states(asked.id) == {"bob": "answered"}
