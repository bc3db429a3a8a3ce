"""The SDK: joining, finding others, sending, and what a receipt tells."""

import asyncio

import pytest

import tellwire
from tests.integration.world import Home, Join, take


@pytest.mark.requirement("NET-1", "F2-2")
async def test_peers_lists_who_is_online_without_the_caller_and_all_on_request(
    home: Home, join: Join
) -> None:
    alice = await join("alice")
    await join("bob", capabilities=["parse", "lint"], metadata={"model": "m-1", "cwd": "/src"})
    async with tellwire.connect("gone", home=home.path):
        pass
    (bob,) = await alice.peers()
    assert (bob.name, bob.kind, bob.status, bob.reason) == ("bob", "script", "online", "open")
    assert (bob.capabilities, bob.metadata) == (["parse", "lint"], {"model": "m-1", "cwd": "/src"})
    assert bob.id
    assert 0 < bob.connected_at <= bob.last_heartbeat + 1.0
    everybody = {peer.name: peer.status for peer in await alice.peers(all=True)}
    assert everybody == {"bob": "online", "gone": "offline"}
    assert [peer.name for peer in await alice.peers(capability="lint")] == ["bob"]
    assert await alice.peers(capability="paint") == []
    assert (await alice.peer("alice")).reason == "self"


@pytest.mark.requirement("NET-1")
async def test_another_project_is_seen_by_asking_for_all_and_can_be_written_to(
    home: Home, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = home.path / "project"
    for folder in (".git", "a", "b"):
        (project / folder).mkdir(parents=True)
    monkeypatch.chdir(project / "a")
    alice = await join("alice")
    monkeypatch.chdir(project / "b")
    near = await join("near")
    monkeypatch.chdir(home.path)
    far = await join("far")
    assert [peer.name for peer in await alice.peers()] == ["near"]
    assert [peer.name for peer in await alice.peers(all=True)] == ["far", "near"]
    assert (await alice.peer("near")).group == str(project)
    assert (await alice.send("far", "hello")).status == "received"
    assert [each.name for each in (await alice.send("broadcast", "near only")).recipients] == ["near"]
    assert [message.body for message in await far.messages(wait_s=5)] == ["hello"]
    assert [message.body for message in await near.messages(wait_s=5)] == ["near only"]


@pytest.mark.requirement("NET-3")
async def test_a_send_to_one_tells_its_id_and_status_at_once(home: Home, join: Join) -> None:
    alice, _bob = await join("alice"), await join("bob")
    async with tellwire.connect("gone", home=home.path):
        pass
    received, queued = await alice.send("bob", "hi"), await alice.send("gone", "hi")
    assert (received.status, queued.status) == ("received", "queued")
    assert received.id.startswith("m")
    assert len(received.id) <= 8
    denied = await alice.send("bobb", "hi")
    assert (denied.status, denied.id, denied.suggestions) == ("denied", "", ["bob"])
    assert "bob" in denied.note
    refused = await alice.send("alice", "hi")
    assert (refused.status, refused.id) == ("refused", "")


@pytest.mark.requirement("NET-4")
async def test_a_list_and_a_broadcast_tell_who_was_reached_and_never_the_sender(
    home: Home, join: Join
) -> None:
    alice, bob, carol = await join("alice"), await join("bob"), await join("carol")
    async with tellwire.connect("gone", home=home.path):
        pass
    listed = await alice.send(["bob", "gone", "alice", "nobody", "bob"], "to several")
    assert listed.status == "sent"
    assert {each.name: each.status for each in listed.recipients} == {
        "bob": "received",
        "gone": "queued",
        "alice": "refused",
        "nobody": "denied",
    }
    spread = await alice.send("broadcast", "to all")
    assert {each.name: each.status for each in spread.recipients} == {"bob": "received", "carol": "received"}
    assert [message.body for message in await take(bob, 2)] == ["to several", "to all"]
    assert [message.body for message in await carol.messages(wait_s=5)] == ["to all"]
    assert await alice.messages() == []
    assert await alice.status(listed.id) == {"bob": "delivered", "gone": "pending"}
    async with tellwire.connect("gone", home=home.path) as gone:
        assert [message.body for message in await gone.messages(wait_s=5)] == ["to several"]


@pytest.mark.requirement("NET-4", "SEC-3")
async def test_a_large_broadcast_needs_a_confirmation(
    home: Home, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLWIRE_BROADCAST_UNCONFIRMED_MAX", "2")
    alice = await join("alice")
    others = [await join(f"other-{number}") for number in range(3)]
    with pytest.raises(tellwire.TellwireError) as refused:
        await alice.send("broadcast", "hear me")
    assert refused.value.code == "confirmation_needed"
    assert all([await other.messages() == [] for other in others])
    assert len((await alice.send("broadcast", "hear me", confirm=True)).recipients) == 3


@pytest.mark.requirement("F2-6")
async def test_a_topic_reaches_its_subscribers_and_nobody_else(home: Home, join: Join) -> None:
    alice, bob, carol = await join("alice"), await join("bob"), await join("carol")
    assert await bob.subscribe("#build") == ["#build"]
    assert await bob.subscribe("docs") == ["#build", "#docs"]
    assert await alice.subscribe("#Build") == ["#build"]
    published = await alice.send("#build", "red")
    assert (published.status, [each.name for each in published.recipients]) == ("sent", ["bob"])
    (message,) = await bob.messages(wait_s=5)
    assert (message.to, message.body, message.sender) == ("#build", "red", "alice")
    assert await bob.unsubscribe("#build") == ["#docs"]
    nobody = await alice.send("#build", "green")
    assert (nobody.status, nobody.recipients, nobody.id) == ("sent", [], "")
    assert await carol.messages() == []


@pytest.mark.requirement("NET-2", "F2-3", "NET-5")
async def test_a_message_has_all_its_parts(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    body = {"question": "why", "parts": [1, 2.5, None, True, "ünïcode \u2028 \U0001f600"]}
    first = await alice.send("bob", body, mode="challenge", kind="request", context={"file": "a.py"})
    (message,) = await bob.messages(wait_s=5)
    assert (message.id, message.sender, message.to, message.re) == (first.id, "alice", "bob", None)
    assert (message.body, message.mode, message.kind, message.context) == (
        body,
        "challenge",
        "request",
        {"file": "a.py"},
    )
    assert message.sent_at > 1_700_000_000
    assert message.repeat is False
    await bob.send("alice", "because", re=first.id)
    (answer,) = await alice.messages(wait_s=5)
    assert (answer.re, answer.kind, answer.mode, answer.context) == (first.id, "response", None, None)
    unknown = await bob.send("alice", "see there", re="mzzzz")
    assert (unknown.status, "mzzzz" in unknown.note) == ("received", True)
    assert [message.re for message in await alice.messages(wait_s=5)] == ["mzzzz"]


@pytest.mark.requirement("REC-1", "REC-2", "NET-8")
async def test_a_receipt_goes_from_pending_to_answered_with_its_evidence(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        pass
    sent = await alice.send("bob", "step by step")
    assert await alice.status(sent.id) == {"bob": "pending"}
    bob = await join("bob")
    (message,) = await bob.messages(wait_s=5)
    assert await alice.status(sent.id) == {"bob": "delivered"}
    assert await bob.confirm([message]) == 1
    assert await bob.confirm([message.id]) == 0
    read = await alice.status(sent.id)
    assert (read, read.recipients[0].evidence) == ({"bob": "read"}, "confirm")
    assert read.recipients[0].at >= message.sent_at
    await bob.send("alice", "done", re=sent.id)
    assert await alice.status(sent.id) == {"bob": "answered"}
    assert await bob.status(sent.id) == {"bob": "answered"}
    again = await alice.send("bob", "and now?")
    await bob.messages(wait_s=5)
    await bob.send("alice", "a reply is evidence, too", re=again.id)
    answered = await alice.status(again.id)
    assert (answered, answered.recipients[0].evidence) == ({"bob": "answered"}, "reply")


@pytest.mark.requirement("REC-1", "SEC-1")
async def test_the_status_of_a_message_is_not_for_strangers(home: Home, join: Join) -> None:
    alice, _bob, carol = await join("alice"), await join("bob"), await join("carol")
    sent = await alice.send("bob", "between us")
    with pytest.raises(tellwire.TellwireError) as refused:
        await carol.status(sent.id)
    assert refused.value.code == "unknown_message"


@pytest.mark.requirement("NET-3")
async def test_a_send_that_timed_out_can_be_repeated_and_happens_once(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    key = alice.new_key()
    home.signal(home.STOP)
    try:
        first = await alice.send("bob", "only once", key=key, deadline_s=0.5)
    finally:
        home.signal(home.GO_ON)
    assert (first.status, first.id, key in first.note) == ("timeout", "", True)
    second = await alice.send("bob", "only once", key=key)
    third = await alice.send("bob", "only once", key=key)
    assert second.status == third.status == "received"
    assert second.id == third.id
    with pytest.raises(tellwire.TellwireError) as refused:
        await alice.send("bob", "another text", key=key)
    assert refused.value.code == "conflict"
    got = await bob.messages(wait_s=5)
    assert [(message.id, message.body) for message in got] == [(second.id, "only once")]
    assert await bob.messages(wait_s=0.2) == []


@pytest.mark.requirement("NET-9")
async def test_sends_under_way_when_the_broker_dies_arrive_once_and_in_order(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    identity = (alice.name, alice.id)
    sends = [asyncio.ensure_future(alice.send("bob", number)) for number in range(100)]
    await sends[0]
    home.signal(home.KILL)
    receipts = await asyncio.gather(*sends)
    assert len({receipt.id for receipt in receipts}) == 100
    got = await take(bob, 100)
    assert [message.body for message in got] == list(range(100))
    assert await bob.confirm(got) == 100
    assert (alice.name, alice.id) == identity


@pytest.mark.requirement("F2-2")
async def test_an_agent_can_change_its_profile(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    record = await bob.update(name="robert", capabilities=["x"], metadata={"model": "m"})
    assert (record.name, bob.name) == ("robert", "robert")
    (seen,) = await alice.peers()
    assert (seen.name, seen.capabilities, seen.metadata) == ("robert", ["x"], {"model": "m"})
    with pytest.raises(tellwire.TellwireError) as refused:
        await bob.update(name="alice")
    assert refused.value.code == "conflict"
    assert (await alice.send("robert", "hello")).status == "received"
    assert (await alice.send("bob", "hello")).status == "received", "what it said as bob can be answered"
    home.signal(home.KILL)
    await bob.peers()
    assert bob.name == "robert"


async def test_a_second_live_connection_of_a_name_is_told_its_suffix(
    home: Home, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await join("alice"), await join("alice")
    assert (first.name, second.name, first.note) == ("alice", "alice-2", "")
    assert "alice" in second.note
    assert "alice-2" in second.note
    assert second.note in caplog.text
