"""The blocking wrapper: the same calls for programs without an event loop."""

import gc
import inspect
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import tellwire
from tellwire.protocol.operations.agents import AgentRecord, GetAgent
from tellwire.protocol.operations.links import LinkRecord
from tellwire.sdk import blocking, calls
from tellwire.sdk.agent import Agent
from tellwire.sdk.blocking import BlockingAgent
from tests.integration.world import Home


@pytest.mark.requirement("NET-2", "REC-1")
def test_the_blocking_calls_do_what_the_others_do(home: Home) -> None:
    with (
        tellwire.connect_sync("alice", home=home.path) as alice,
        tellwire.connect_sync("bob", home=home.path, capabilities=["x"], metadata={"m": 1}) as bob,
    ):
        assert (alice.name, bob.name, alice.note) == ("alice", "bob", "")
        (peer,) = alice.peers(capability="x")
        assert (peer.name, peer.metadata) == ("bob", {"m": 1})
        assert bob.subscribe("#news") == ["#news"]
        sent = alice.send("bob", {"n": 1}, mode="agree")
        assert alice.send("#news", "extra").status == "sent"
        assert bob.unsubscribe("#news") == []
        assert [message.body for message in bob.peek()] == [{"n": 1}, "extra"]
        first = bob.messages(wait_s=5, limit=1)
        assert [(message.body, message.mode) for message in first] == [({"n": 1}, "agree")]
        assert bob.confirm(first) == 1
        assert alice.status(sent.id) == {"bob": "read"}


@pytest.mark.requirement("REC-2")
def test_iterating_confirms_the_message_before(home: Home) -> None:
    with (
        tellwire.connect_sync("alice", home=home.path) as alice,
        tellwire.connect_sync("bob", home=home.path) as bob,
    ):
        ids = [alice.send("bob", number).id for number in range(3)]
        for message in bob:
            assert alice.status(message.id) == {"bob": "delivered"}
            if message.body == 2:
                break
        assert [alice.status(each)["bob"] for each in ids] == ["read", "read", "delivered"]


def test_errors_are_raised_where_they_happen(home: Home) -> None:
    with tellwire.connect_sync("alice", home=home.path) as alice:
        with pytest.raises(tellwire.TellwireError) as refused:
            alice.status("m0")
        assert refused.value.code == "unknown_message"
        with tellwire.connect_sync("alice", home=home.path) as second:
            assert second.name == "alice-2"
            assert "alice-2" in second.note
    with pytest.raises(tellwire.TellwireError) as refused, tellwire.connect_sync("bad name", home=home.path):
        pass
    assert refused.value.code == "name_invalid"


def test_a_handle_that_is_not_entered_says_so_and_holds_nothing(home: Home) -> None:
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(RuntimeError):
            tellwire.connect_sync("alice", home=home.path).peers()
        gc.collect()
    assert [str(leak.message) for leak in leaks] == []
    assert not home.starters()


def test_no_thread_is_left_behind(home: Home) -> None:
    before = threading.active_count()
    for _ in range(3):
        with tellwire.connect_sync("alice", home=home.path) as alice:
            alice.peers()
    with pytest.raises(tellwire.TellwireError), tellwire.connect_sync("bad name", home=home.path):
        pass
    assert threading.active_count() == before


@pytest.mark.requirement("NET-9")
def test_blocking_calls_go_on_through_a_kill(home: Home) -> None:
    with (
        tellwire.connect_sync("alice", home=home.path) as alice,
        tellwire.connect_sync("bob", home=home.path) as bob,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(bob.messages, 20.0)
        home.signal(home.KILL)
        alice.send("bob", "after the kill")
        assert [message.body for message in waiting.result(timeout=60)] == ["after the kill"]


def test_every_call_of_the_agent_has_its_blocking_twin() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    missing = public(Agent) - public(BlockingAgent)
    assert not missing, f"only async: {sorted(missing)}"
    for kind in (calls.Past, calls.Links, calls.Turns, calls.Pairs, calls.Scopes, calls.Children):
        assert public(kind) == public(getattr(blocking, f"Blocking{kind.__name__}"))


def test_calls_about_a_subject_and_any_operation_block_too(home: Home) -> None:
    with (
        tellwire.connect_sync("alice", home=home.path) as alice,
        tellwire.connect_sync("bob", home=home.path) as bob,
    ):
        link: LinkRecord = alice.links.open(["bob"], roles={"bob": "reviewer"})
        assert [each.id for each in bob.links.all()] == [link.id]
        assert [peer.name for peer in alice.pairs.add("bob")] == ["bob"]
        assert alice.turns.listen("bob") == ["bob"]
        assert alice.children.all() == []
        assert [rule.path for rule in alice.scopes.claim([str(home.path)])] == [os.path.realpath(home.path)]
        found: AgentRecord = alice.call(GetAgent(name="bob"))
        assert found.id == bob.id
        assert alice.new_key() != alice.new_key()


def test_a_blocking_call_keeps_the_signature_and_the_words_of_its_original() -> None:
    assert inspect.signature(BlockingAgent.send) == inspect.signature(Agent.send)
    assert BlockingAgent.send.__doc__ == Agent.send.__doc__
