"""Watching the mesh with the SDK: what a console holds is the state, also through a real `kill -9`."""

from __future__ import annotations

import asyncio
import signal

import pytest

import tellwire
from tellwire.protocol.operations.feed import FeedEvent, Overview, OverviewPage, Pulse
from tellwire.sdk.watching import Watch
from tellwire.views.model import Model, fold, snapshot
from tests.integration.world import WITHIN_S, Home, Join


async def fold_until(feed: Watch, model: Model, seq: int) -> list[FeedEvent]:
    """Take changes over until the picture has come that far; the events among them."""
    events: list[FeedEvent] = []
    async with asyncio.timeout(WITHIN_S):
        async for change in feed:
            fold(model, change)
            if isinstance(change, FeedEvent):
                events.append(change)
            if model.seq >= seq and not feed.waiting:
                return events
    raise AssertionError


async def state_of(feed: Watch) -> Model:
    pages: list[OverviewPage] = [await feed.client.call(Overview())]
    assert not pages[0].next
    return snapshot(*pages)


@pytest.mark.requirement("HUM-3", stage="console")
@pytest.mark.parametrize("run", range(3))
async def test_the_picture_survives_a_kill_of_the_broker(home: Home, join: Join, run: int) -> None:
    alice, bob = await join("alice"), await join("bob")
    model = Model()
    async with tellwire.watch(home=home.path) as feed:
        await fold_until(feed, model, 1)
        seen: list[FeedEvent] = []
        for number in range(3 + run):
            await alice.send("bob", f"before {number}")
        await alice.send("operator", "May I?", choices=["yes", "no"])
        seen += await fold_until(feed, model, (await state_of(feed)).seq)
        home.signal(signal.SIGKILL)
        for number in range(3):
            await alice.send("bob", f"after {number}")
        await bob.confirm(await bob.messages(wait_s=10))
        last = await state_of(feed)
        seen += await fold_until(feed, model, last.seq)
        assert model.tables() == last.tables()
        seqs = [event.seq for event in seen]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), "an event is lost or doubled"
        assert "broker_started" in [event.type for event in seen]


async def test_a_watcher_hears_what_a_program_says_it_does(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.watch(home=home.path) as feed:
        await alice.report_activity("waiting", wants="the key to the shed")
        async with asyncio.timeout(WITHIN_S):
            async for change in feed:
                if isinstance(change, Pulse):
                    assert (change.activity, change.wants) == ("waiting", "the key to the shed")
                    break
    (record,) = [each for each in await (await join("bob")).peers() if each.name == "alice"]
    assert record.activity == "waiting"


async def test_filters_choose_events_and_ids_are_whole(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    async with tellwire.watch(home=home.path, types=["messages_read"], agents=["bob"]) as feed:
        for number in range(120):
            await alice.send("bob", f"{number}" + "x" * 300)
        messages: list[str] = []
        while len(messages) < 120:
            messages += [message.id for message in await bob.messages(wait_s=5)]
        await bob.confirm(messages)
        await alice.send("operator", "other")
        found: list[FeedEvent] = []
        async with asyncio.timeout(WITHIN_S):
            async for change in feed:
                if isinstance(change, FeedEvent):
                    found.append(change)
                if sum(len(event.ids) for event in found) >= 120:
                    break
    assert {event.type for event in found} == {"messages_read"}
    assert sorted(each for event in found for each in event.ids) == sorted(messages)


async def test_wrong_filters_are_refused_with_the_nearest(home: Home, join: Join) -> None:
    await join("alice")
    for fields, words in (({"types": ["messages_raed"]}, "messages_read"), ({"agents": ["alcie"]}, "alice")):
        with pytest.raises(tellwire.TellwireError) as refused:
            async with tellwire.watch(home=home.path, **fields):  # pyright: ignore[reportArgumentType]
                pass
        assert words in refused.value.advice
