"""One process with several sessions, as Codex's app-server is: whose hook it is, and if anybody sees it."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tellwire import Agent
from tellwire.clients.codex import threads as module
from tellwire.clients.codex.app_server import AppServer, AppServerError
from tellwire.clients.codex.threads import CodexThreads
from tellwire.clients.events import HookEvent
from tellwire.clients.ports import PROBE, SessionPort
from tellwire.clients.ports import QUEUE_NAME as NAME
from tests.integration.hook_client import CODEX, PATIENT, Client, activity, read, restart, state_of
from tests.integration.world import Home, Join, until

NUMBERS = itertools.count(1)
ASKED_S = module.HOOK_S
HOOK_S = 2.5
"""A hook that nobody can make sense of has to be through by then."""


def thread_id(at: float | None = None) -> str:
    """An id as Codex makes one: of version 7, with the time in it."""
    digits = f"{int((time.time() if at is None else at) * 1_000):012x}7{next(NUMBERS):03x}8{0:015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Server:
    """The stand-in, as a test talks to it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def begin(self, name: str) -> str:
        """A session of a new terminal, which joins under a name; its thread."""
        thread = thread_id()
        await self.client.do("begin", thread=thread, name=name)
        return thread

    async def start(self, thread: str, name: str, asker: Agent) -> None:
        """A session's first hook, until it is known whose it is: a busy machine takes its time for that."""

        async def known() -> bool:
            await self.client.hook("SessionStart", session_id=thread, source="startup")
            return await activity(asker, name) == "idle"

        await until(known, what=f"{name} known")

    async def close(self, thread: str) -> None:
        """Close a session's terminal."""
        await self.client.do("close", thread=thread)

    async def prompt(self, thread: str, text: str = "Work.", **fields: Any) -> str:
        """A human types; what the hooks add."""
        return text_of(await self.client.hook("UserPromptSubmit", session_id=thread, prompt=text, **fields))

    async def use_tool(self, thread: str, marks: str = "") -> str:
        """A tool call ends; what the hooks add."""
        return text_of(await self.client.hook("PostToolUse", marks, session_id=thread, tool_name="x"))

    async def stop(self, thread: str) -> None:
        """A turn ends, and mail does not keep it going."""
        await self.client.hook("Stop", session_id=thread, last_assistant_message="Done.")


def text_of(answer: dict[str, Any]) -> str:
    """What a hook says to the model."""
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


@asynccontextmanager
async def open_server(
    home: Home, folder: Path, manner: str = "good", *, patient: bool = True
) -> AsyncGenerator[Server]:
    """An app-server without sessions; it ends with the block.

    One hook that gives up has the other sessions' hooks wait for nothing: they have the same process above.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.app_server", CODEX, "app-server", manner),
        env={**home.environment(), "CODEX_HOME": str(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    client = Client(process, folder / "rollout.jsonl")
    await client.do("be_patient" if patient else "who")
    try:
        yield Server(client)
    finally:
        await client.end()


@pytest.fixture
def running(home: Home) -> Home:
    """A home with a broker."""
    home.up(PATIENT)
    return home


@pytest.fixture
def codex_home(home: Home) -> Path:
    """The server's folder: its path is short enough for a socket."""
    folder = home.path / "codex"
    folder.mkdir()
    return folder


async def status(asker: Agent, name: str) -> str:
    """How an agent is listed."""
    return next(peer.status for peer in await asker.peers(all=True) if peer.name == name)


async def offline(asker: Agent, name: str) -> bool:
    """Whether it is listed as gone."""
    return await status(asker, name) == "offline"


@pytest.mark.requirement("WAKE-1", stage="clients")
@pytest.mark.parametrize("manner", ["good", "talkative"])
async def test_sessions_of_one_process_in_one_folder_get_their_own_mail(
    running: Home, codex_home: Path, join: Join, manner: str
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, manner) as server:
        threads = {name: await server.begin(name) for name in ("one", "two", "three")}
        for name in reversed(threads):  # all were there before the first of them was asked anything
            await server.start(threads[name], name, alice)
            await server.prompt(threads[name])  # an idle session would be woken: its hooks would have no mail
            await alice.send(name, f"This is for {name}.")
        for name, thread in threads.items():
            got = await server.use_tool(thread)
            assert [each for each in threads if f"This is for {each}." in got] == [name]


async def test_mail_enters_a_turn_though_another_session_of_the_process_has_none(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    marks = str(running.path / "marks")
    async with open_server(running, codex_home) as server:
        one, two = await server.begin("one"), await server.begin("two")
        for thread, name in ((one, "one"), (two, "two")):
            await server.start(thread, name, alice)
            await server.prompt(thread)
        await alice.send("one", "Is it done?")
        await server.use_tool(two)
        await server.stop(two)
        assert "Is it done?" in await server.use_tool(one, marks)


@pytest.mark.requirement("REC-1", stage="clients")
async def test_a_session_whose_terminal_is_closed_is_offline_and_its_mail_waits(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one, two = await server.begin("one"), await server.begin("two")
        await server.start(two, "two", alice)
        await server.start(one, "one", alice)
        await server.close(one)
        await until(lambda: offline(alice, "one"), what="one offline")
        assert await status(alice, "two") == "online"
        sent = await alice.send("one", "Is it done?")
        assert (sent.status, await state_of(alice, sent.id)) == ("queued", ("pending", ""))
        assert "Is it done?" not in await server.prompt(two)
        assert "Is it done?" in await server.prompt(one)  # another terminal shows it now
        assert await status(alice, "one") == "online"
        await server.stop(one)
        await until(lambda: activity(alice, "one"), what="one idle")
        assert await status(alice, "one") == "online"


@pytest.mark.requirement("REC-1", "WAKE-1", stage="clients")
@pytest.mark.parametrize("last", ["Stop", "SessionEnd"])
@pytest.mark.parametrize("broker", ["the same", "another"])
async def test_a_session_that_is_resumed_is_woken_for_its_mail_before_its_first_prompt(
    running: Home, codex_home: Path, join: Join, last: str, broker: str
) -> None:
    alice = await join("alice")
    shop = codex_home / "shop"
    shop.mkdir()
    async with open_server(running, codex_home) as server:
        one = thread_id()
        await server.client.do("begin", thread=one, name="", cwd=str(shop))
        await server.start(one, "shop-codex", alice)
        await server.prompt(one)
        server.client.ask("user", "Work.")
        server.client.answer("Done.")
        await server.close(one)
        await server.client.hook(last, session_id=one)
        await until(lambda: offline(alice, "shop-codex"), what="shop-codex offline")
        sent = await alice.send("shop-codex", "Is it done?")
        assert (sent.status, await state_of(alice, sent.id)) == ("queued", ("pending", ""))
        if broker == "another":
            running.signal(Home.KILL)
        await server.client.do("begin", thread=one, name="", cwd=str(shop))
        (item,) = await queued(server, one)
        assert "Is it done?" in item["input"][0]["text"]
        await take_up(server, one)
        await until(lambda: read(alice, sent.id), what="it was read")
        assert [peer.name for peer in await alice.peers(all=True)] == ["shop-codex"]


async def test_a_turn_that_runs_when_its_terminal_is_closed_ends_first(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one, two = await server.begin("one"), await server.begin("two")
        await server.start(one, "one", alice)
        await server.prompt(one)
        for thread in (one, two):
            await server.close(thread)
        await until(lambda: offline(alice, "two"), what="two offline")  # they were looked at together
        assert await status(alice, "one") == "online"
        await server.stop(one)
        await until(lambda: offline(alice, "one"), what="one offline")


async def test_what_was_closed_is_gone_for_the_next_broker_too(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one, two = await server.begin("one"), await server.begin("two")
        running.signal(Home.KILL)
        await server.close(one)
        await until(lambda: offline(alice, "one"), what="one offline")
        await server.start(two, "two", alice)
        await server.prompt(two)
        sent = await alice.send("two", "Is it done?")
        assert "Is it done?" in await server.use_tool(two)
        assert (await state_of(alice, sent.id))[0] == "delivered"


# -- waking by the daemon's queue ---------------------------------------------------------------------


async def queued(server: Server, thread: str) -> list[dict[str, Any]]:
    """Wait until something lies in a session's queue; all that does."""
    return await until(lambda: server.client.do("queued", thread=thread), what="a text in the queue")


async def take_up(server: Server, thread: str) -> str:
    """Codex takes a text out of its queue, and the model answers; its name."""
    taken = await server.client.do("take", thread=thread)
    text, name = taken["input"][0]["text"], taken["clientUserMessageId"]
    await server.prompt(thread, text)
    server.client.ask("user", text)
    content = [{"type": "text", "text": text}]
    item = {"type": "UserMessage", "client_id": name, "content": content}
    server.client.write("event_msg", type="item_completed", item=item)
    server.client.answer("Done.")
    return name


@pytest.mark.requirement("WAKE-1", "REC-1", stage="clients")
async def test_idle_sessions_of_one_process_have_their_mail_in_their_own_queues(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        threads = {name: await server.begin(name) for name in ("one", "two")}
        sent: dict[str, str] = {}
        for name, thread in threads.items():
            await server.start(thread, name, alice)
            sent[name] = (await alice.send(name, f"This is for {name}.")).id
        for name, thread in threads.items():
            (item,) = await queued(server, thread)
            text = item["input"][0]["text"]
            assert [each for each in threads if f"This is for {each}." in text] == [name]
            assert await state_of(alice, sent[name]) == ("delivered", "")
            # Whoever quotes the message before it is taken up proves nothing.
            server.client.ask("user", text)
            server.client.answer("What is that?")
            await take_up(server, thread)
            await until(lambda name=name: read(alice, sent[name]), what=f"{name} has read it")


@pytest.mark.requirement("WAKE-1", stage="clients")
async def test_after_an_interrupt_what_is_queued_is_started_by_its_own_id(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        await server.prompt(one)
        await server.client.hook("Interrupt", session_id=one)
        sent = await alice.send("one", "Is it done?")
        (item,) = await queued(server, one)
        await until(lambda: server.client.do("started"), what="its start")
        assert item["id"] in await server.client.do("started")
        await take_up(server, one)
        await until(lambda: read(alice, sent.id), what="it was read")


@pytest.mark.requirement("REC-1", stage="clients")
async def test_a_text_whose_answer_was_lost_is_found_in_the_queue_and_not_given_again(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, "curt") as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        sent = await alice.send("one", "Is it done?")
        (item,) = await queued(server, one)
        await until(lambda: server.client.do("started"), what="it was looked for")
        assert await queued(server, one) == [item]
        await take_up(server, one)
        await until(lambda: read(alice, sent.id), what="it was read")


@pytest.mark.requirement("REC-1", stage="clients")
async def test_a_text_that_the_daemon_lost_is_given_again(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, "forgetful") as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        sent = await alice.send("one", "Is it done?")
        (item,) = await queued(server, one)
        assert "Is it done?" in item["input"][0]["text"]
        await take_up(server, one)
        await until(lambda: read(alice, sent.id), what="it was read")


@pytest.mark.requirement("REC-1", stage="clients")
async def test_the_next_broker_knows_a_text_in_the_queue_by_its_name(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        sent = await alice.send("one", "Is it done?")
        (item,) = await queued(server, one)
        await restart(running, alice, "one")
        await take_up(server, one)
        await until(lambda: read(alice, sent.id), what="it was read")
        assert item["clientUserMessageId"].startswith(NAME)
        assert await server.client.do("queued", thread=one) == []


@pytest.mark.requirement("FIRST-4", stage="contact")
async def test_a_session_that_was_left_for_one_without_a_shim_gets_no_more_mail(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        await until(lambda: server.client.do("looked"), what="its terminal known")
        await server.client.do("clear", thread=one, anew=thread_id(), parent=one)
        first = await alice.send("one", "Is it done?")
        await queued(server, one)  # a sub-agent's thread changes nothing
        await take_up(server, one)
        await until(lambda: read(alice, first.id), what="it was read")
        await server.stop(one)
        await server.client.do("clear", thread=one, anew=thread_id())
        second = await alice.send("one", "And now?")
        await until(lambda: offline(alice, "one"), what="the session that was left is over")
        assert await server.client.do("queued", thread=one) == []
        assert await state_of(alice, second.id) == ("pending", "")


async def test_a_daemon_that_takes_no_texts_leaves_them_to_its_command(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, "old") as server:
        one = await server.begin("one")
        await server.start(one, "one", alice)
        await alice.send("one", "Is it done?")
        log = running.path / "broker.log"

        def tried() -> bool:
            # What stands in for the program here does not know the command either, so it is tried again.
            return log.read_text("utf-8").count("codex queue failed") > 1

        await until(tried, what="the command")
        assert log.read_text("utf-8").count("does not take a text") == 1


@pytest.mark.parametrize("manner", ["silent", "garbage", "nonsense", "long", "shut", "refusing", "odd"])
async def test_without_a_word_of_the_server_no_mail_enters_a_wrong_session(
    running: Home, codex_home: Path, join: Join, manner: str
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, manner, patient=False) as server:
        threads = [await server.begin(name) for name in ("one", "two")]
        await alice.send("one", "Is it done?")
        for thread in threads:
            began = time.monotonic()
            assert not await server.prompt(thread)
            assert time.monotonic() - began < HOOK_S
        assert await status(alice, "one") == "online"


async def test_a_server_that_does_not_answer_costs_its_hooks_little(
    running: Home, codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = cast("SessionPort", object())  # whose a thread is, is no business of it
    async with open_server(running, codex_home, "mute") as server:
        threads, words = CodexThreads(port), [f"{server.client.pid}.1"]
        event = HookEvent(what="tool_used", name="PostToolUse", session=thread_id())

        async def hook_s() -> float:
            began = time.monotonic()
            await threads.expect(event, words)
            return time.monotonic() - began

        assert ASKED_S / 2 < await hook_s() < 3 * ASKED_S, "it waits for what it has asked"
        assert sum([await hook_s() for _ in range(20)]) < ASKED_S, "nobody else does"
        assert await server.client.do("asked") == 1
        monkeypatch.setattr(module, "PROBE_S", 0.01)
        monkeypatch.setattr(module, "SILENT_S", (0.3, 60.0))
        threads = CodexThreads(port)

        async def asked() -> int:
            await hook_s()
            return await server.client.do("asked")

        assert [await asked() for _ in range(5)] == [2] * 5, "it is left alone"

        async def again() -> bool:
            return await asked() == 3

        await until(again, what="asked again")
        event = HookEvent(what="session_started", name="SessionStart", session=thread_id())
        began = time.monotonic()
        while time.monotonic() - began < 0.6:
            assert await asked() == 3, "and for longer, whichever of its sessions it is"


async def test_a_shim_that_is_older_than_a_session_does_not_serve_it(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home, "refusing") as server:
        thread = await server.begin("one")
        await alice.send("one", "Is it done?")
        assert not await server.prompt(thread_id(time.time() + 5.0)), "the shim was there before"
        assert "Is it done?" in await server.prompt(thread)


@pytest.mark.parametrize("manner", ["silent", "garbage", "nonsense", "long", "shut", "refusing"])
async def test_a_question_to_a_server_that_misbehaves_fails_in_time(
    running: Home, codex_home: Path, manner: str
) -> None:
    async with open_server(running, codex_home, manner) as server:
        with pytest.raises(AppServerError):
            async with AppServer.open(server.client.pid) as opened:
                await opened.call("thread/loaded/list", within_s=0.5)


@pytest.mark.requirement("REC-1", stage="clients")
async def test_a_call_that_tellwire_has_the_server_make_is_no_evidence(
    running: Home, codex_home: Path, join: Join
) -> None:
    alice = await join("alice")
    async with open_server(running, codex_home) as server:
        one = await server.begin("one")
        sent = await alice.send("one", "Is it done?")

        async def call(tool: str, **meta: Any) -> None:
            params = {"name": tool, "arguments": {}, "_meta": {"threadId": one, **meta}}
            await server.client.do("rpc", method="tools/call", params=params)

        await call("get_messages")
        for _ in range(2):
            await call("no_such_tool", **{PROBE: True})
        assert await state_of(alice, sent.id) == ("delivered", "")
        await call("list_peers")
        assert await state_of(alice, sent.id) == ("read", "next_call")


async def test_nobody_else_is_taken_for_the_server(running: Home, codex_home: Path) -> None:
    async with open_server(running, codex_home) as server:
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "input()"),
            env={**running.environment(), "CODEX_HOME": str(codex_home)},
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            async with AppServer.open(server.client.pid) as opened:
                assert (await opened.call("thread/loaded/list"))["data"] == ["title-thread"]
            with pytest.raises(AppServerError, match="another process"):
                async with AppServer.open(other.pid):
                    pass
        finally:
            other.kill()
            await other.wait()
