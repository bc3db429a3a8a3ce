"""A scripted model on loopback for any number of agents: it says what a test wants, and keeps what it heard.

Each agent has a base URL of its own. Requests that offer no tools (titles, summaries, quotas, counting of
tokens) get a short answer and use up no step; neither does an agent without steps get an error: it is done.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from tests.end_to_end.http import Asked, read_request, write_events, write_json
from tests.end_to_end.script import Reply, Request, Step, Turn, ready, say
from tests.end_to_end.wires import anthropic, chat, gemini, responses

HOLD_S = 180.0
WITHIN_S = 90.0
LINE_BYTES_MAX = 1 << 20
DONE = say("done")
SIDE = say("ok")
PLACE = re.compile(r"/s/([\w-]+)(/.*)")
GEMINI = re.compile(r".*/models/([^/:]+):(generateContent|streamGenerateContent)")


class Wire(NamedTuple):
    """One vendor's format."""

    api: str
    read: Callable[[dict[str, Any]], tuple[list[str], list[Turn]]]
    whole: Callable[[Reply, str], dict[str, Any]]
    stream: Callable[[Reply, str], Iterator[str]]


ANTHROPIC = Wire("anthropic", anthropic.read, anthropic.whole, anthropic.stream)
RESPONSES = Wire("responses", responses.read, responses.whole, responses.stream)
CHAT = Wire("chat", chat.read, chat.whole, chat.stream)
GENERATE = Wire("gemini", gemini.read, gemini.whole, gemini.stream)

BY_ENDING = {"/messages": ANTHROPIC, "/responses": RESPONSES, "/chat/completions": CHAT}
COUNTING = {"/count_tokens": {"input_tokens": 10}, ":countTokens": {"totalTokens": 10}}


class Script:
    """One agent's steps, and the requests so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.requests: list[Request] = []
        self.unlisted = "{}"

    def next(self, request: Request) -> Step:
        """The step for a request; it is used up."""
        if not request.main:
            return SIDE
        text = request.text
        for index, step in enumerate(self.steps):
            if step.when in text:
                return self.steps.pop(index)
        return DONE


class Model:
    """The models of all agents of a test."""

    def __init__(self) -> None:
        self._scripts: defaultdict[str, Script] = defaultdict(Script)
        self._news = asyncio.Condition()
        self._port = 0
        self.strange: list[str] = []
        """What was asked beside models' answers."""
        self.faults: list[AssertionError] = []
        """Steps that did not fit the request they were to answer."""

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncGenerator[Model]:
        """A model that listens until the end."""
        model = cls()
        async with asyncio.TaskGroup() as group:

            def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                tasks.append(group.create_task(model._serve(reader, writer)))

            tasks: list[asyncio.Task[None]] = []
            server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=LINE_BYTES_MAX)
            model._port = server.sockets[0].getsockname()[1]
            try:
                yield model
            finally:
                server.close()
                for task in tasks:
                    task.cancel()
                await server.wait_closed()
        assert not model.faults, model.faults

    # -- for tests

    def url(self, agent: str) -> str:
        """The base URL of an agent's model, without a version."""
        return f"http://127.0.0.1:{self._port}/s/{agent}"

    def play(self, agent: str, *steps: Step, unlisted: str = "{}") -> None:
        """Answer the agent's next main requests by these; `unlisted` makes names of tools not offered."""
        script = self._scripts[agent]
        script.steps += steps
        script.unlisted = unlisted

    def requests(self, agent: str) -> list[Request]:
        """The agent's main requests so far."""
        return [each for each in self._scripts[agent].requests if each.main]

    def drop(self, agent: str) -> None:
        """Forget the steps that were not played."""
        self._scripts[agent].steps.clear()

    def left(self, agent: str) -> list[Step]:
        """Steps that were not played."""
        return list(self._scripts[agent].steps)

    async def request(
        self, agent: str, containing: str = "", *, index: int = 0, within_s: float = WITHIN_S
    ) -> Request:
        """Wait for a main request with a text in it, by default the first one."""

        def found() -> list[Request]:
            return [each for each in self.requests(agent) if containing in each.text][index:]

        try:
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(lambda: bool(found() or self.faults))
        except TimeoutError:
            seen = [len(each.turns) for each in self.requests(agent)]
            raise AssertionError(
                f"no request of {agent} with {containing!r} within {within_s} s; requests had {seen} turns"
            ) from None
        assert not self.faults, self.faults
        return found()[0]

    # -- for clients

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(EOFError, OSError):
                await self._answer(await read_request(reader), writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        place = PLACE.fullmatch(asked.path)
        agent, path = place.groups() if place else ("", asked.path)
        for ending, count in COUNTING.items():
            if path.endswith(ending):
                return await write_json(writer, count)
        wire = next((each for ending, each in BY_ENDING.items() if path.endswith(ending)), None)
        model, streams = asked.body.get("model", "model"), bool(asked.body.get("stream"))
        if match := GEMINI.fullmatch(path):
            wire, model, streams = GENERATE, match[1], match[2] != "generateContent"
        if wire is None or asked.method != "POST":
            self.strange.append(f"{asked.method} {asked.path}")
            return await write_json(writer, {"models": [], "data": []}, 404)
        tools, turns = wire.read(asked.body)
        request = Request(agent, wire.api, tuple(tools), tuple(turns), asked.body)
        step = await self._take(request)
        if step.hold is not None:
            async with asyncio.timeout(HOLD_S):
                await step.hold.wait()
        if step.status:
            fault = {"type": "api_error", "message": step.text or "scripted"}
            return await write_json(writer, {"type": "error", "error": fault}, step.status)
        try:
            reply = ready(step, request, self._scripts[agent].unlisted)
        except AssertionError as fault:
            self.faults.append(fault)
            return await write_json(writer, {"error": {"message": str(fault)}}, 400)
        if streams:
            return await write_events(writer, wire.stream(reply, model))
        return await write_json(writer, wire.whole(reply, model))

    async def _take(self, request: Request) -> Step:
        script = self._scripts[request.agent]
        async with self._news:
            step = script.next(request)
            script.requests.append(request)
            self._news.notify_all()
        return step
