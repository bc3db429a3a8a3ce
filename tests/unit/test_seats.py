"""Which name a session of a client bears (FIRST-4)."""

from __future__ import annotations

import itertools

import pytest

from tellwire.core.agents.seats import UNKNOWN_PANE
from tellwire.core.context import Caller, PlaceSession, Seat
from tellwire.protocol.operations.agents import RegisterAgent, Registered
from tests.unit.mesh import Mesh

pytestmark = pytest.mark.requirement("FIRST-4", stage="contact")

FOLDER = "/home/u/shop"
ONE, TWO, THREE = (f"tmux %{number} 7.1" for number in (1, 2, 3))
NUMBERS = itertools.count(1)


def make_mesh() -> Mesh:
    """A mesh with a tmux server and somebody who writes."""
    mesh = Mesh()
    mesh.alive.add("7.1")
    mesh.register("alice")
    return mesh


def start(
    mesh: Mesh, pane: str, conversation: str = "", *, kind: str = "claude-code", **seat: object
) -> Caller:
    """A client that joins; the caller that it is from now on."""
    number = next(NUMBERS)
    process = f"{1000 + number}.1"
    mesh.alive.add(process)
    place = Seat(**{"folder": FOLDER, "pane": pane, "conversation": conversation, **seat})  # type: ignore[arg-type]
    caller = Caller(kind="script", process=process, owner=process, seat=place)
    operation = RegisterAgent(
        name="shop-claude", kind=kind, session=f"i{number}", owns_process=True, pulls=True
    )
    return caller.speaking_as(mesh.run(operation, caller).id, is_own_client=True)


def bind(mesh: Mesh, caller: Caller, conversation: str, pane: str = "") -> tuple[Caller, str]:
    """A hook tells which conversation it is: who it is then, and what it hears."""
    reply: Registered = mesh.run(PlaceSession(conversation, "shop-claude", pane), caller)
    return caller.speaking_as(reply.id, is_own_client=True), reply.note


def name(mesh: Mesh, caller: Caller) -> str:
    """The name it bears."""
    return mesh.state.agents[caller.agent].name


def stop(mesh: Mesh, caller: Caller) -> None:
    """The client ends."""
    mesh.alive.discard(caller.process)
    mesh.lose(name(mesh, caller))


def test_names_stay_with_their_panes_whatever_the_order_of_opening() -> None:
    mesh = make_mesh()
    first, second = start(mesh, ONE, "c1"), start(mesh, TWO, "c2")
    assert (name(mesh, first), name(mesh, second)) == ("shop-claude", "shop-claude-2")
    stop(mesh, first)
    stop(mesh, second)
    message = mesh.send("alice", "shop-claude-2").id
    second, first = start(mesh, TWO, "c3"), start(mesh, ONE, "c4")
    assert (name(mesh, first), name(mesh, second)) == ("shop-claude", "shop-claude-2")
    assert mesh.pending("shop-claude-2") == [message]


def test_a_fresh_session_in_another_pane_or_folder_or_of_another_client_gets_a_new_name() -> None:
    mesh = make_mesh()
    stop(mesh, start(mesh, ONE, "c1"))
    assert name(mesh, start(mesh, TWO, "c2")) == "shop-claude-2"
    assert name(mesh, start(mesh, ONE, "c3", folder="/home/u/other/shop")) == "shop-claude-3"
    assert name(mesh, start(mesh, ONE, "c4", kind="codex")) == "shop-claude-4"
    assert name(mesh, start(mesh, ONE, "c5", beneath=True)) == "shop-claude-5"
    assert name(mesh, start(mesh, ONE, "c6")) == "shop-claude"


def test_a_resumed_session_has_its_own_name_and_mail_again_in_any_pane() -> None:
    mesh = make_mesh()
    first = start(mesh, ONE, "c1")
    stop(mesh, first)
    message = mesh.send("alice", "shop-claude").id
    again = start(mesh, TWO, "c1")
    assert again.agent == first.agent
    assert mesh.pending("shop-claude") == [message]
    assert name(mesh, start(mesh, ONE, "c2")) == "shop-claude-2", "it was resumed elsewhere"


def test_a_session_whose_name_is_in_use_gets_another_is_told_and_none_of_the_mail() -> None:
    mesh = make_mesh()
    stop(mesh, start(mesh, ONE, "c1"))
    mesh.send("alice", "shop-claude")
    heir = start(mesh, ONE, "c2")
    former = start(mesh, TWO, "c1")
    assert (name(mesh, heir), name(mesh, former)) == ("shop-claude", "shop-claude-2")
    assert mesh.pending("shop-claude-2") == []
    stop(mesh, heir)
    stop(mesh, former)
    assert name(mesh, start(mesh, THREE, "c1")) == "shop-claude-2", "that is its name now"


def test_a_session_that_a_hook_tells_later_leaves_what_it_took_as_it_was() -> None:
    mesh = make_mesh()
    first, second = start(mesh, ONE, "c1"), start(mesh, TWO, "c2")
    stop(mesh, first)
    stop(mesh, second)
    message = mesh.send("alice", "shop-claude-2").id
    late = start(mesh, TWO)
    assert name(mesh, late) == "shop-claude-2"
    late, note = bind(mesh, late, "c1")
    assert (name(mesh, late), note) == ("shop-claude", "You are 'shop-claude'.")
    other = mesh.agent("shop-claude-2")
    assert (other.online, list(other.conversations), mesh.pending("shop-claude-2")) == (
        False,
        ["c2"],
        [message],
    )
    assert name(mesh, start(mesh, THREE, "c2")) == "shop-claude-2"


def test_a_session_that_a_hook_tells_later_may_have_lost_its_name_and_hears_so() -> None:
    mesh = make_mesh()
    stop(mesh, start(mesh, ONE, "c1"))
    heir = start(mesh, ONE, "c2")
    stop(mesh, start(mesh, TWO, "c3"))
    mesh.send("alice", "shop-claude-2")
    late, note = bind(mesh, start(mesh, TWO), "c1")
    assert name(mesh, late) == "shop-claude-3"
    assert note == "Another session has taken over 'shop-claude' and its mail; you are 'shop-claude-3'."
    assert name(mesh, heir) == "shop-claude"
    assert mesh.pending("shop-claude-3") == []


def test_a_conversation_that_is_open_twice_has_two_names_and_neither_changes() -> None:
    mesh = make_mesh()
    first, second = start(mesh, ONE, "c1"), start(mesh, TWO)
    second, note = bind(mesh, second, "c1")
    assert "you are 'shop-claude-2'" in note
    for _ in range(2):
        first, _note = bind(mesh, first, "c1")
        second, note = bind(mesh, second, "c1")
        assert (name(mesh, first), name(mesh, second), note) == ("shop-claude", "shop-claude-2", "")
    stop(mesh, first)
    assert name(mesh, bind(mesh, second, "c1")[0]) == "shop-claude-2"
    assert name(mesh, start(mesh, THREE, "c1")) == "shop-claude"


def test_a_new_conversation_of_the_same_client_keeps_name_and_mail() -> None:
    mesh = make_mesh()
    first = start(mesh, ONE, "c1")
    message = mesh.send("alice", "shop-claude").id
    cleared, note = bind(mesh, first, "c2")
    assert (cleared.agent, note, mesh.pending("shop-claude")) == (first.agent, "", [message])


def test_after_a_reboot_names_go_by_folder_and_client_in_the_order_of_starting() -> None:
    mesh = make_mesh()
    for caller in [start(mesh, pane, f"c{pane}") for pane in (ONE, TWO, THREE)]:
        stop(mesh, caller)
    mesh.alive = {"8.5"}
    names = [name(mesh, start(mesh, f"tmux %{number} 8.5", f"d{number}")) for number in (5, 1, 2, 3)]
    assert names == ["shop-claude", "shop-claude-2", "shop-claude-3", "shop-claude-4"]


def test_a_session_that_is_silent_or_comes_back_after_a_restart_keeps_its_name() -> None:
    mesh = make_mesh()
    first = start(mesh, ONE, "c1")
    mesh.state.agents[first.agent].online = False
    for reason in ("silent", "restart"):
        mesh.state.agents[first.agent].offline_reason = reason
        assert name(mesh, start(mesh, ONE, f"c-{reason}")) != "shop-claude"


def test_a_session_whose_pane_is_not_known_yet_takes_nothing_until_it_is() -> None:
    mesh = make_mesh()
    stop(mesh, start(mesh, ONE, "c1", kind="codex"))
    message = mesh.send("alice", "shop-claude").id
    late = start(mesh, UNKNOWN_PANE, kind="codex")
    assert name(mesh, late) == "shop-claude-2"
    late, _ = bind(mesh, late, "c2", ONE)
    assert (name(mesh, late), mesh.pending("shop-claude")) == ("shop-claude", [message])
    assert mesh.state.find("shop-claude-2") is None


def test_mail_for_a_name_that_a_session_bore_for_a_moment_reaches_that_session() -> None:
    mesh = make_mesh()
    stop(mesh, start(mesh, ONE, "c1", kind="codex"))
    late = start(mesh, UNKNOWN_PANE, kind="codex")
    message = mesh.send("alice", "shop-claude-2").id
    late, _ = bind(mesh, late, "c2", ONE)
    assert (name(mesh, late), mesh.pending("shop-claude-2")) == ("shop-claude-2", [message])


def test_a_client_that_was_told_its_name_bears_it() -> None:
    mesh = make_mesh()
    first = start(mesh, ONE, "c1")
    stop(mesh, first)
    named = start(mesh, TWO, named=True)
    assert named.agent == first.agent
    assert bind(mesh, named, "c9")[0].agent == first.agent
