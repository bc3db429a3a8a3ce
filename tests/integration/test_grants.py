"""When a client shows what it was offered without asking: against a broker that says what we want."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import palaver
from palaver.settings import load_settings
from tests.integration.world import WITHIN_S, Home, Join, until

FAR = 1e12


class Script:
    """Plays the broker of one client, on the socket where that looks for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writer: asyncio.StreamWriter | None = None
        self.joined = 0
        self.served: set[asyncio.StreamWriter] = set()
        self.claims: list[list[str]] = []
        """The ids of each claim; all are granted."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self._writer = writer
        self.served.add(writer)
        await reader.readline()
        self._say(palaver=1, version="0", awake=1.0, heartbeat_s=30.0, clock=self._clock())
        while line := await reader.readline():
            call = json.loads(line)
            if call["n"]:
                self._say(n=call["n"], ok=self._answer(call["do"]))
        writer.close()
        await writer.wait_closed()
        self.served.discard(writer)

    def _answer(self, operation: dict[str, Any]) -> dict[str, Any]:
        word = operation["op"]
        if word == "claim_messages":
            self.claims.append(operation["ids"])
            return {"ids": operation["ids"]}
        if word == "register_agent":
            self.joined += 1
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


async def ids_of(agent: palaver.Agent, limit: int | None = None) -> list[str]:
    """What the application is shown next."""
    return [message.id for message in await agent.messages(wait_s=WITHIN_S, limit=limit)]


@pytest.mark.requirement("REC-3")
async def test_what_is_granted_is_shown_at_once_and_what_is_not_is_claimed_first(home: Home) -> None:
    async with scripted(home.path) as script, palaver.connect("worker", home=home.path) as worker:
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
    async with scripted(home.path) as script, palaver.connect("worker", home=home.path) as worker:
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

    async with scripted(home.path, clock) as script, palaver.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        assert await ids_of(worker) == ["m1"]
        assert script.claims == [["m1"]]


@pytest.mark.requirement("REC-3")
async def test_under_another_name_what_was_granted_is_claimed(home: Home) -> None:
    async with scripted(home.path) as script, palaver.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        await until(lambda: offered(worker))
        await worker.update(capabilities=["parsing"])
        assert await ids_of(worker) == ["m1"]
        assert script.claims == [["m1"]]


@pytest.mark.requirement("REC-3")
async def test_a_grant_ends_with_its_connection(home: Home) -> None:
    async with scripted(home.path) as script, palaver.connect("worker", home=home.path) as worker:
        script.offer("m1", until_s=FAR)
        await until(lambda: offered(worker))
        script.hang_up()
        await until(lambda: script.joined == 2 and not offered(worker))
        assert await worker.messages() == []
        script.offer("m1", until_s=FAR)
        assert await ids_of(worker) == ["m1"]


@pytest.mark.requirement("REC-3")
async def test_what_is_offered_again_while_it_is_being_confirmed_is_not_shown_again(home: Home) -> None:
    async with scripted(home.path) as script, palaver.connect("worker", home=home.path) as worker:
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


def offered(agent: palaver.Agent) -> dict[str, Any]:
    """What has come and was not shown yet; only the client knows."""
    return agent._offered  # pyright: ignore[reportPrivateUsage]
