"""Whether mail reaches an agent now: the rule, and what a sender is told."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.context import Caller, Context
from tellwire.core.mail.reach import DEAF, DIALOG, NOT_WAKEABLE, PULLS, SETTLE_S, Contact, reach
from tellwire.core.mail.waking import FAILED
from tellwire.protocol.operations.agents import GetAgent
from tellwire.protocol.operations.messages import SendMessage, Sent
from tests.unit.mesh import SCRIPT, Mesh

NOW = 1_000_000.0
BOUND = Contact(hooked=True, bound=True, state="idle", idle=True, since=NOW - 60)

FIRST_2 = pytest.mark.requirement("FIRST-2", stage="contact")


@FIRST_2
@pytest.mark.parametrize(
    ("contact", "reached", "why"),
    [
        (None, True, ""),
        (Contact(), True, PULLS),
        (Contact(holds=True), True, ""),
        (Contact(hooked=True), False, DEAF),
        (Contact(hooked=True, holds=True), True, ""),
        (BOUND, True, ""),
        (BOUND._replace(shut="waiter: none"), False, f"{NOT_WAKEABLE} (waiter: none)"),
        (BOUND._replace(shut="waiter: none", since=NOW - SETTLE_S / 2), True, ""),
        (BOUND._replace(shut="waiter: none", woken_at=NOW - 1), True, ""),
        (BOUND._replace(shut="waiter: none", since=NOW + 60), False, f"{NOT_WAKEABLE} (waiter: none)"),
        (BOUND._replace(held=FAILED), True, FAILED),
        (BOUND._replace(state="busy", idle=False, shut=""), True, ""),
        (BOUND._replace(state="waiting", idle=False), True, DIALOG),
    ],
)
def test_an_agent_is_reached_by_a_bound_session_that_can_take_mail_now(
    contact: Contact | None, *, reached: bool, why: str
) -> None:
    assert reach(contact, NOW) == (reached, why)


class Told(Mesh):
    """A mesh whose agents' clients are as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.contacts: dict[str, Contact] = {}

    def context(self, caller: Caller, group: str = "/project") -> Context:
        """With what the gateways would tell."""
        context = super().context(caller, group)
        context.contact = self.contacts.get
        return context


@pytest.fixture
def mesh() -> Told:
    mesh = Told()
    for name in ("alice", "bob", "carol"):
        mesh.register(name)
    return mesh


def contacts(mesh: Told, **known: Contact) -> None:
    mesh.contacts = {mesh.agent(name).id: contact for name, contact in known.items()}


@FIRST_2
def test_a_send_to_a_deaf_session_is_queued_with_the_reason(mesh: Told) -> None:
    contacts(mesh, bob=Contact(hooked=True), carol=Contact())
    sent = mesh.send("alice", "bob")
    assert (sent.status, sent.why, sent.note) == ("queued", DEAF, "")
    pulled = mesh.send("alice", "carol")
    assert (pulled.status, pulled.why, pulled.note) == ("received", "", PULLS)
    several = mesh.send("alice", ["bob", "carol"])
    assert [(each.name, each.status, each.note) for each in several.recipients] == [
        ("bob", "queued", DEAF),
        ("carol", "received", PULLS),
    ]


@FIRST_2
def test_a_direct_link_and_a_repeat_say_the_same(mesh: Told) -> None:
    contacts(mesh, bob=Contact(hooked=True))
    direct: Sent = mesh.run(SendMessage(to="bob", body="x", direct=True), mesh.caller("alice"))
    assert (direct.status, direct.why) == ("queued", DEAF)
    key = mesh.key("word")
    first = mesh.run(SendMessage(to="bob", body="y", key=key), mesh.caller("alice"))
    again = mesh.run(SendMessage(to="bob", body="y", key=key), mesh.caller("alice"))
    assert (again.id, again.status, again.why) == (first.id, "queued", DEAF)
    contacts(mesh)
    assert mesh.run(SendMessage(to="bob", body="y", key=key), mesh.caller("alice")).status == "received"


@FIRST_2
def test_a_listing_tells_who_is_deaf_and_why_nothing_reaches_it(mesh: Told) -> None:
    contacts(mesh, bob=Contact(hooked=True), carol=Contact(hooked=True, holds=True))
    bob: Any = mesh.run(GetAgent(name="bob"), SCRIPT)
    carol: Any = mesh.run(GetAgent(name="carol"), SCRIPT)
    alice: Any = mesh.run(GetAgent(name="alice"), SCRIPT)
    assert [(each.deaf, each.unreached) for each in (bob, carol, alice)] == [
        (True, DEAF),
        (False, ""),
        (False, ""),
    ]
