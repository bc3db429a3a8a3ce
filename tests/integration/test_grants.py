"""When a client shows what it was offered without asking: against a broker that says what we want."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tellwire.settings import load_settings
from tests.integration.program import StartProgram
from tests.integration.world import WITHIN_S, Home, Join, until
from tests.surfaces.cli_world import run_at_terminal

FAR = 1e12


class Script:
    """Plays the broker of one client, on the socket where that looks for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writer: asyncio.StreamWriter | None = None
        self.connections = 0
        self.served: set[asyncio.StreamWriter] = set()
        self.claims: list[list[str]] = []
        """The ids of each claim; all are granted."""
        self.calls: list[dict[str, Any]] = []
        self.admits, self.grants = asyncio.Event(), asyncio.Event()
        """Cleared: greetings, or claims, wait for their answer."""
        self.admits.set()
        self.grants.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self._writer = writer
        self.served.add(writer)
        self.connections += 1
        await reader.readline()
        await self.admits.wait()
        self._say(tellwire=1, version="0", awake=1.0, heartbeat_s=30.0, clock=self._clock())
        while line := await reader.readline():
            call = json.loads(line)
            self.calls.append(call["do"])
            if call["do"]["op"] == "claim_messages" and not self.grants.is_set():
                await self.grants.wait()
                self._say(n=call["n"], error={"code": "internal", "message": "As the test wants it."})
            elif call["n"]:
                self._say(n=call["n"], ok=self._answer(call["do"]))
        writer.close()
        await writer.wait_closed()
        self.served.discard(writer)

    def _answer(self, operation: dict[str, Any]) -> dict[str, Any]:
        word = operation["op"]
        if word == "claim_messages":
            self.claims.append(operation["ids"])
            return {"ids": operation["ids"]}
        named = {"id": "a1", "name": "worker", "kind": "script", "status": "online"}
        return {"confirm_messages": {"count": 1}, "unregister_agent": {}}.get(word, named)

    def _say(self, **frame: Any) -> None:
        assert self._writer is not None
        self._writer.write(json.dumps(frame).encode() + b"\n")

    def offer(self, *ids: str, until_s: float) -> None:
        """Offer messages that bear these ids, granted until then."""
        messages = [{"id": each, "from": "alice", "to": "worker", "body": each, "at": 1.0} for each in ids]
        self._say(offer={"messages": messages, "until": until_s})

    def hang_up(self) -> None:
        """Close the connection."""
        assert self._writer is not None
        self._writer.close()


@asynccontextmanager
async def scripted(home: Path, clock: Callable[[], float] = time.monotonic) -> AsyncGenerator[Script]:
    """A scripted broker in place of the real one."""
    script = Script(clock)
    server = await asyncio.start_unix_server(script.serve, load_settings(home=home).socket)
    async with server:
        yield script
        await until(lambda: not script.served)


async def ids_of(agent: tellwire.Agent, limit: int | None = None) -> list[str]:
    """What the application is shown next."""
    return [message.id for message in await agent.messages(wait_s=WITHIN_S, limit=limit)]


@pytest.mark.requirement("REC-3")
async def test_what_is_granted_is_shown_at_once_and_what_is_not_is_claimed_first(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", "m2", until_s=FAR)
        assert await ids_of(worker) == ["m1", "m2"]
        assert script.claims == []
        script.offer("m3", until_s=time.monotonic() - 0.001)
        assert await ids_of(worker) == ["m3"]
        script.offer("m4", until_s=0.0)
        assert await ids_of(worker) == ["m4"]
        assert script.claims == [["m3"], ["m4"]]


@pytest.mark.requirement("REC-3")
async def test_a_grant_that_is_over_is_not_renewed_by_a_later_one(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=0.0)
        script.offer("m2", until_s=FAR)
        await until(lambda: len(offered(worker)) == 2)
        assert await ids_of(worker) == ["m1", "m2"]
        assert script.claims == [["m1", "m2"]]
        script.offer("m3", until_s=FAR)
        assert await ids_of(worker) == ["m3"], "nothing older waits beside it"
        assert script.claims == [["m1", "m2"]]


@pytest.mark.requirement("REC-3")
@pytest.mark.parametrize("apart_s", [-100.0, 100.0, None])
async def test_where_the_clocks_differ_or_none_is_told_everything_is_claimed(
    home: Home, apart_s: float | None
) -> None:
    def clock() -> float:
        return 0.0 if apart_s is None else time.monotonic() + apart_s

    async with scripted(home.path, clock) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        assert await ids_of(worker) == ["m1"]
        assert script.claims == [["m1"]]


@pytest.mark.requirement("REC-3")
async def test_under_another_name_what_was_granted_is_claimed(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        await until(lambda: offered(worker))
        await worker.update(capabilities=["parsing"])
        assert await ids_of(worker) == ["m1"]
        assert script.claims == [["m1"]]


@pytest.mark.requirement("REC-3")
async def test_a_grant_ends_with_its_connection(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        await until(lambda: offered(worker))
        script.admits.clear()
        script.hang_up()
        await until(lambda: script.connections == 2)
        asking = asyncio.create_task(ids_of(worker))
        await until(lambda: not offered(worker))
        script.admits.set()
        assert await asking == ["m1"]
        assert script.claims == [["m1"]]


@pytest.mark.requirement("REC-3")
async def test_what_comes_during_a_claim_that_fails_is_claimed_with_it(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.grants.clear()
        script.offer("m1", until_s=0.0)
        asking = asyncio.create_task(ids_of(worker))
        await until(lambda: script.calls[-1]["op"] == "claim_messages")
        script.offer("m2", until_s=FAR)
        await until(lambda: offered(worker))
        script.grants.set()
        with pytest.raises(tellwire.TellwireError):
            await asking
        assert await ids_of(worker) == ["m1", "m2"]
        assert script.claims == [["m1", "m2"]]


@pytest.mark.parametrize("tells", [True, False])
async def test_a_broker_that_tells_no_clock_is_asked_for_no_grants_and_told_nothing_of_them(
    home: Home, tells: bool
) -> None:
    clock = time.monotonic if tells else lambda: 0.0
    async with scripted(home.path, clock) as script:
        with suppress(ZeroDivisionError):  # who leaves in good order confirms what was shown
            async with tellwire.connect("worker", home=home.path) as worker:
                script.offer("m1", until_s=FAR)
                assert await ids_of(worker) == ["m1"]
                raise ZeroDivisionError
        words = {call["op"]: call for call in script.calls}
        assert words["register_agent"].get("grants", False) is tells
        assert words["unregister_agent"].get("shown") == (["m1"] if tells else None)


@pytest.mark.requirement("REC-3")
async def test_what_is_offered_again_while_it_is_being_confirmed_is_not_shown_again(home: Home) -> None:
    async with scripted(home.path) as script, tellwire.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        assert await ids_of(worker) == ["m1"]
        script.offer("m1", "m2", until_s=FAR)
        await until(lambda: offered(worker))
        await worker.confirm(["m1"])
        assert await ids_of(worker) == ["m2"]


@pytest.mark.requirement("REC-3")
async def test_a_message_reaches_the_application_without_asking_a_broker_that_stands_still(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    await alice.send("bob", "hello")
    await until(lambda: offered(bob))
    home.signal(signal.SIGSTOP)
    try:
        assert [message.body for message in await bob.messages(wait_s=WITHIN_S)] == ["hello"]
    finally:
        home.signal(signal.SIGCONT)


@pytest.mark.requirement("REC-3")
async def test_a_session_that_has_left_shows_nothing_more(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("worker", home=home.path) as worker:
        await alice.send("worker", "once")
        await until(lambda: offered(worker))
    with pytest.raises(tellwire.TellwireError):
        await worker.messages()
    again = await join("worker")
    assert [message.repeat for message in await again.messages(wait_s=WITHIN_S)] == [False]


@pytest.mark.requirement("REC-2", "REC-3")
async def test_what_is_being_claimed_while_the_agent_leaves_may_have_been_shown(
    home: Home, join: Join
) -> None:
    alice = await join("alice")
    async with tellwire.connect("worker", home=home.path) as worker:
        await alice.send("worker", "once")
        await until(lambda: offered(worker))
        await worker.update(capabilities=["parsing"])  # the grant is over
        asking = asyncio.create_task(worker.messages(wait_s=WITHIN_S))
        await asyncio.sleep(0)  # it has asked, and no answer can be here yet
        assert not offered(worker)
    assert [message.body for message in await asking] == ["once"]
    again = await join("worker")
    assert [message.repeat for message in await again.messages(wait_s=WITHIN_S)] == [True]


@pytest.mark.requirement("REC-2", "REC-3")
@pytest.mark.parametrize("breaks", ["connection", "broker"])
async def test_the_mark_of_a_repeat_outlives_a_break_before_the_message_is_shown(
    home: Home, join: Join, program: StartProgram, breaks: str
) -> None:
    alice, first = await join("alice"), await program("worker")
    await alice.send("worker", "once")
    assert [message["body"] for message in await first.call("messages", WITHIN_S)] == ["once"]
    await first.kill()
    await until(lambda: is_away(alice, "worker"))
    second = await join("worker")
    await until(lambda: offered(second))
    client = second._membership.client  # pyright: ignore[reportPrivateUsage]  # the line is to break where nobody may
    line = client._connection  # pyright: ignore[reportPrivateUsage]
    assert line is not None
    if breaks == "broker":
        home.signal(signal.SIGKILL)
    else:
        line.close()
    await until(lambda: client._connection is not line and offered(second))  # pyright: ignore[reportPrivateUsage]
    assert [message.repeat for message in await second.messages(wait_s=WITHIN_S)] == [True]


@pytest.mark.requirement("REC-2", "REC-3")
@pytest.mark.parametrize("how", [(), ("--forget",)], ids=["leave", "forget"])
async def test_an_agent_that_is_made_to_leave_is_told_and_shows_nothing_more(
    home: Home, join: Join, how: tuple[str, ...]
) -> None:
    alice = await join("alice")
    async with tellwire.connect("worker", home=home.path) as worker:
        sent = await alice.send("worker", "once")
        await until(lambda: offered(worker))
        line = worker._membership.client._connection  # pyright: ignore[reportPrivateUsage]
        done = await asyncio.to_thread(run_at_terminal, home, "unregister", "worker", *how)
        assert done.code == 0, done.out
        await until(lambda: line is not None and not line.alive)
        with pytest.raises(tellwire.TellwireError) as told:
            await worker.messages(wait_s=WITHIN_S)
        assert (told.value.code, told.value.message) == (
            "forbidden",
            "This agent was removed by the operator.",
        )
    again = await join("worker")
    if how:
        (notice,) = await alice.messages(wait_s=WITHIN_S)
        (receipt,) = (await alice.status(sent.id)).recipients
        assert notice.body.startswith(f"Handed over to worker, but not confirmed: {sent.id}")
        assert (receipt.state, receipt.evidence) == ("expired", "maybe read")
    else:
        assert [message.repeat for message in await again.messages(wait_s=WITHIN_S)] == [True]


@pytest.mark.requirement("REC-2", "REC-3")
async def test_what_a_frozen_agent_shows_after_it_was_made_to_leave_is_marked_for_the_next(
    home: Home, join: Join, program: StartProgram
) -> None:
    alice, frozen = await join("alice"), await program("worker")
    sent = await alice.send("worker", "once")
    await until(lambda: is_delivered(alice, sent.id))
    frozen.freeze()
    try:
        done = await asyncio.to_thread(run_at_terminal, home, "unregister", "worker")
        assert done.code == 0, done.out
        second = await join("worker")
        assert [message.repeat for message in await second.messages(wait_s=WITHIN_S)] == [True]
    finally:
        frozen.thaw()
    shown = await frozen.call("messages", 0)  # a refusal if it has read its socket first
    assert isinstance(shown, dict) or len(shown) <= 1


async def is_delivered(agent: tellwire.Agent, message: str) -> bool:
    """Whether a message is on its way into its recipient's hands."""
    return (await agent.status(message)).recipients[0].state == "delivered"


async def is_away(agent: tellwire.Agent, name: str) -> bool:
    """Whether an agent is offline."""
    return (await agent.peer(name)).status == "offline"


async def test_an_agent_that_joins_again_waits_as_long_as_it_is_told(home: Home) -> None:
    worker = tellwire.connect("worker", home=home.path)
    async with worker:
        waiting = asyncio.create_task(worker.messages(wait_s=0.2))
        await asyncio.sleep(0)
        waiting.cancel()
    async with worker, asyncio.timeout(WITHIN_S):
        assert await worker.messages(wait_s=0.3) == []


async def test_a_short_wait_ends_in_time_beside_a_long_one(home: Home, join: Join) -> None:
    worker = await join("worker")
    long = asyncio.create_task(worker.messages(wait_s=3_600.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(WITHIN_S):
        assert await worker.messages(wait_s=0.05) == []
    long.cancel()


@pytest.mark.requirement("SEC-3")
async def test_a_call_too_long_for_a_frame_is_refused_and_the_connection_goes_on(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    with pytest.raises(tellwire.TellwireError) as refusal:
        await alice.send("bob", "x" * (1 << 20))
    assert refusal.value.code == "frame_too_large"
    assert (await alice.send("bob", "short")).status == "received"
    assert [message.body for message in await bob.messages(wait_s=WITHIN_S)] == ["short"]


def offered(agent: tellwire.Agent) -> dict[str, Any]:
    """What has come and was not shown yet; only the client knows."""
    return agent._inbox.offered  # pyright: ignore[reportPrivateUsage]
