"""Why a message has not been read: the gate, what happens next, and what happened so far."""

from __future__ import annotations

import inspect
import re

import pytest

from tellwire.core.context import OfferWaiting
from tellwire.core.mail import waking
from tellwire.core.mail.reach import Contact
from tellwire.core.mail.waiting import HELD
from tellwire.core.record.explain import NEXT
from tellwire.protocol.operations.agents import MuteAgent
from tellwire.protocol.operations.explain import Explained, ExplainMessage, Explanation, GetMessage
from tellwire.protocol.operations.messages import ConfirmMessages, SendMessage
from tests.unit.mesh import OPERATOR, SCRIPT, refused
from tests.unit.test_reach import Told, contacts

HUM_4 = pytest.mark.requirement("HUM-4", stage="console")
NOW = 1_000_000.0
BOUND = Contact(hooked=True, bound=True, state="idle", idle=True, since=NOW - 240, path="waiter")
BUSY = BOUND._replace(state="busy", idle=False, path="")


def explain(mesh: Told, message: str) -> Explained:
    (told,) = mesh.run(ExplainMessage(id=message), OPERATOR).recipients
    return told


def pending(contact: Contact | None) -> Told:
    """A message of alice's in bob's inbox, and bob's client."""
    mesh = Told()
    for name in ("alice", "bob"):
        mesh.register(name)
    if contact is not None:
        contacts(mesh, bob=contact)
    return mesh


@HUM_4
@pytest.mark.parametrize(
    ("contact", "gate", "next_words"),
    [
        (None, "program", "reads its connection"),
        (Contact(), "fetch", "next fetches its mail"),
        (Contact(hooked=True), "deaf", "tellwire doctor"),
        (BUSY, "busy", "during this turn"),
        (BUSY._replace(state="waiting"), "dialog", "Answer the dialog in the terminal of bob"),
        (BOUND, "waking", "is woken now"),
        (BOUND._replace(path="", shut="waiter: none"), "unwakeable", "type something in its terminal"),
        (BOUND._replace(held=f"{waking.FAILED}; next try in 60 s", again_s=60.0), "failed", "in 1 min"),
        (BOUND._replace(held=waking.LEFT), "left", "not woken any more"),
        (BOUND._replace(held=f"{waking.OFTEN}; next try in 30 s", again_s=30.0), "often", "in 30 s"),
        (BOUND._replace(held=f"{waking.STOPPED}; next try in 3 s", again_s=3.0), "stopped", "in 3 s"),
        (BOUND._replace(held=waking.ENDED), "ended", "begins a session"),
    ],
)
def test_what_waits_names_its_gate_and_what_happens_next(
    contact: Contact | None, gate: str, next_words: str
) -> None:
    mesh = pending(contact)
    sent = mesh.send("alice", "bob")
    told = explain(mesh, sent.id)
    assert (told.name, told.state, told.gate) == ("bob", "pending", gate)
    assert told.why
    assert next_words in told.next
    assert "It expires in 1 h" in told.next
    assert told.expires_at == mesh.now + mesh.limits.ttl_s
    again_s = 0.0 if contact is None else contact.again_s
    assert told.next_at == (mesh.now + again_s if again_s else 0.0)


@HUM_4
def test_a_muted_an_absent_and_a_large_one() -> None:
    mesh = pending(BOUND)
    sent = mesh.send("alice", "bob")
    mesh.run(MuteAgent(name="bob", for_s=600.0), OPERATOR)
    told = explain(mesh, sent.id)
    assert (told.gate, told.next_at) == ("muted", mesh.now + 600.0)
    assert "mute bob --off" in told.next
    mesh.run(MuteAgent(name="bob", off=True), OPERATOR)
    contacts(mesh, bob=BOUND._replace(announced={sent.id}))
    assert explain(mesh, sent.id).gate == "large"
    mesh.leave("bob")
    told = explain(mesh, sent.id)
    assert (told.gate, "comes back" in told.next) == ("offline", True)
    assert [step.what for step in told.steps] == ["stored", "muted", "unmuted", "offline"]


@HUM_4
def test_what_is_handed_over_waits_for_evidence_and_then_for_nothing() -> None:
    mesh = pending(None)
    sent = mesh.send("alice", "bob")
    mesh.pass_time(5)
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    mesh.pass_time(60)
    later = mesh.send("alice", "bob", "second")
    told = explain(mesh, sent.id)
    assert (told.state, told.gate, told.expires_at) == ("delivered", "unconfirmed", 0.0)
    assert [(step.what, step.at - told.steps[0].at) for step in told.steps] == [
        ("stored", 0.0),
        ("delivered", 5.0),
    ]
    contacts(mesh, bob=BOUND)
    assert explain(mesh, sent.id).gate == "evidence"
    assert explain(mesh, later.id).gate == "behind"
    contacts(mesh, bob=Contact())
    assert explain(mesh, sent.id).gate == "fetched"
    mesh.claim("bob")
    mesh.run(ConfirmMessages(ids=[sent.id]), mesh.caller("bob"))
    told = explain(mesh, sent.id)
    assert (told.state, told.gate, told.why) == ("read", "", "")
    assert "it was read" in told.next
    assert [step.what for step in told.steps] == ["stored", "delivered", "read"]
    assert told.steps[-1].note == told.evidence != ""


@HUM_4
def test_each_recipient_is_explained_and_an_agent_sees_only_its_own() -> None:
    mesh = pending(None)
    mesh.register("carol")
    mesh.leave("carol")
    sent = mesh.send("alice", ["bob", "carol"], "to both")
    for caller in (OPERATOR, SCRIPT, mesh.caller("alice"), mesh.caller("bob")):
        told: Explanation = mesh.run(ExplainMessage(id=sent.id), caller)
        assert [(each.name, each.gate) for each in told.recipients] == [
            ("bob", "program"),
            ("carol", "offline"),
        ]
        assert (told.sender, told.text) == ("alice", "to both")
    mesh.register("dave")
    for operation in (ExplainMessage(id=sent.id), GetMessage(id=sent.id), ExplainMessage(id="x1")):
        with refused("unknown_message"):
            mesh.run(operation, mesh.caller("dave"))


@HUM_4
def test_every_gate_has_its_next_step() -> None:
    """The words that the operation's documentation names are those that can come."""
    documented = inspect.getsource(Explained).split("in one word:")[1].split("Empty")[0]
    assert set(re.findall(r"`(\w+)`", documented)) == set(NEXT) - {"held"}
    assert set(HELD) <= set(NEXT)


def test_a_message_knows_the_first_of_its_thread() -> None:
    mesh = pending(None)
    first = mesh.send("alice", "bob")
    second = mesh.run(SendMessage(to="alice", body="re", re=first.id), mesh.caller("bob"))
    third = mesh.run(SendMessage(to="bob", body="re re", re=second.id), mesh.caller("alice"))
    found = mesh.run(GetMessage(id=third.id), OPERATOR)
    assert (found.root, found.message.body, found.message.re) == (first.id, "re re", second.id)
    assert [each.name for each in found.message.recipients] == ["bob"]
    assert mesh.run(GetMessage(id=first.id), OPERATOR).root == first.id
