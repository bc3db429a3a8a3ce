"""Hooks of agent CLIs: what they tell of the turn, mail into a running turn and at its end, and evidence.

A hook of the main conversation takes along what waits, on a lease. What the client's transcript says later
makes it `read`, or gives it back. Nothing here blocks a turn: a hook that cannot be served gets no answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from palaver.broker.engine import Engine
from palaver.broker.server import Server
from palaver.core.context import FetchFor, NoteEvidence, ReturnLease
from palaver.core.framing import announce, render_batch, render_message
from palaver.core.state import Agent
from palaver.gateways.books import Book, mark_of
from palaver.gateways.desk import Desk
from palaver.integrations.hooks import HookEvent, Integration
from palaver.protocol.errors import PalaverError
from palaver.protocol.ids import format_id, parse_id
from palaver.protocol.operations.messages import Taken

log = logging.getLogger("palaver.hooks")

HEADER_CHARS = 700
"""Of what a client takes at once, for the line above the messages and the one behind."""
WATCH_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""When to look at the transcript while a hand-over is open; from then on, the last."""
LONG_BYTES = 1 << 20
SESSIONS_MAX = 10_000
SETTLE_S = 1.0
SETTLE_LOOKS = 20
"""A client that ends writes its transcript to the end within this; so often it is looked at."""
JOIN_S = 0.15
"""What comes within this goes into one wake."""


class Hooks:
    """The hooks of all clients."""

    def __init__(
        self, engine: Engine, server: Server, integrations: Mapping[str, Integration], marks: Path
    ) -> None:
        self._engine = engine
        self._server = server
        self._integrations = integrations
        self._marks = marks
        self._desk = Desk(engine)
        self._books: dict[str, Book] = {}
        self._chains: dict[tuple[str, str], tuple[list[str], HookEvent]] = {}
        """For each session of a client: the processes above a hook of it, and the last such hook."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = 0
        self.wakers: dict[str, Callable[[Book, Agent], Awaitable[bool]]] = {}
        """How an idle client of a kind is woken; False: it cannot be now."""

    # -- what a hook says -----------------------------------------------------------------------------

    async def handle(
        self, client: str, payload: Mapping[str, Any], words: list[str] | None
    ) -> dict[str, Any] | None:
        """Note what happened, and what to answer; `words` are the processes above the hook, if known."""
        integration = self._integrations.get(client)
        if integration is None:
            return None
        event = integration.parse(payload)
        if words is not None and event.session:
            self._chains.pop((client, event.session), None)
            self._chains[client, event.session] = words, event
            if len(self._chains) > SESSIONS_MAX:
                del self._chains[next(iter(self._chains))]
        agent = self._agent_of(client, event, payload)
        if agent is None or event.subagent:
            return None
        book = self._book(agent, integration)
        reader = book.reader
        book.note(event)
        if book.reader is not reader and book.is_ready and is_long(book.transcript):
            book.is_ready = False
            self.run(self._catch_up(book))
        self._engine.activities[agent.id] = book.state
        self._judge(book)
        if not event.takes_text:
            return None
        text = await self._text_for(book, event)
        if not text:
            self._unmark(book)
            return None
        if event.continues:
            book.state = self._engine.activities[agent.id] = "busy"
        return integration.answer(event, text)

    def _agent_of(self, client: str, event: HookEvent, payload: Mapping[str, Any]) -> Agent | None:
        agents = self._engine.state.agents
        bound = next((book.agent for book in self._books.values() if book.session == event.session), "")
        if bound in agents:
            return agents[bound]
        words, _ = self._chains.get((client, event.session), ([], event))
        known = agents.get(self._server.above(words))
        if known is not None:
            return known
        # After a restart of the broker the client's start hook does not come again.
        cwd = payload.get("cwd")
        kind = self._integrations[client].kind
        near = [
            agent
            for agent in agents.values()
            if agent.online and agent.kind == kind and agent.metadata.get("cwd") == cwd
        ]
        return near[0] if len(near) == 1 else None

    def _book(self, agent: Agent, integration: Integration) -> Book:
        book = self._books.get(agent.id)
        if book is None:
            book = self._books[agent.id] = Book(agent.id, integration)
            for call, lease in agent.calls.items():
                path = call.partition(":")[0]
                if not path.isdigit():  # handed over by a hook before the broker's last start
                    held = [seq for seq, receipt in agent.leased.items() if receipt.lease == lease]
                    marks = self._marks_of(agent.id, [format_id("m", seq) for seq in held])
                    book.hand_over(call, marks, queued=True)  # the transcript may have it already
            if book.open:
                self._watch(book)
        return book

    def agents(self) -> list[Agent]:
        """Everybody known."""
        return list(self._engine.state.agents.values())

    def book_of(self, agent: str) -> Book | None:
        """What is known of an agent, if its client has hooks."""
        return self._books.get(agent)

    # -- mail -----------------------------------------------------------------------------------------

    async def _text_for(self, book: Book, event: HookEvent) -> str:
        agent = self._engine.state.agents.get(book.agent)
        if agent is None or not agent.pending or (event.continues and not book.may_continue()):
            return ""
        return await self.fetch(book, "hook")

    async def fetch(self, book: Book, path: str) -> str:
        """What waits for an agent, on a lease, as text for its model; empty if there is nothing new."""
        self._calls += 1
        call = f"{path}:{self._engine.state.epoch}:{self._calls}"
        in_bytes = hasattr(book.integration, "bytes_max")
        room = getattr(book.integration, "bytes_max", book.integration.chars_max) - HEADER_CHARS
        try:
            taken: Taken = await self._desk.ask(FetchFor(book.agent, call, room, in_bytes))
        except PalaverError as error:
            log.warning("mail could not be handed over: %s", error)
            return ""
        now = self._engine.state.now
        parts = [render_message(each, now=now) for each in taken.messages]
        large = [each for each in taken.large if each.id not in book.announced]
        book.announced.update(each.id for each in large)
        parts += [announce(each, now=now, size=int(each.body)) for each in large]
        if taken.messages:
            ids = [each.id for each in taken.messages]
            book.hand_over(call, self._marks_of(book.agent, ids), queued=path != "hook")
            self._engine.delivery.claim(self._engine.state, book.agent, ids)
            self._watch(book)
        behind = taken.waiting - len(taken.large) if taken.messages else 0
        return render_batch(parts, waiting=behind) if parts else ""

    def give_back(self, book: Book) -> None:
        """What was fetched last did not reach the client."""
        agent = self._engine.state.agents.get(book.agent)
        if agent is not None and book.open:
            call, _ = book.open.popitem()
            self._engine.submit_own(ReturnLease(agent.id, agent.session, call))

    # -- evidence -------------------------------------------------------------------------------------

    def adopt(self, agent: str, call: str, ids: list[str]) -> bool:
        """Whether a reader judges what a tool's result hands out, instead of the next call."""
        book = self._books.get(agent)
        if book is None or book.reader is None:
            return False
        book.hand_over(call, self._marks_of(agent, ids))
        self._watch(book)
        return True

    def _marks_of(self, agent: str, ids: list[str]) -> list[str]:
        leased = self._engine.state.agents[agent].leased
        senders = {each: leased.get(parse_id("m", each) or 0) for each in ids}
        return [
            mark_of(each, notice=receipt is not None and not receipt.sender)
            for each, receipt in senders.items()
        ]

    def _judge(self, book: Book) -> None:
        agent = self._engine.state.agents.get(book.agent)
        if agent is None:
            book.open.clear()
            return
        for call in [each for each in book.open if each not in agent.calls]:
            del book.open[call]  # settled in another way: by a reply, or the session's end
        read, absent = book.judge()
        if read:
            self._engine.submit_own(NoteEvidence(agent.id, agent.session, read, book.evidence))
        for call in absent:
            log.info("%s did not take %s up; offered again", agent.name, call)
            self._engine.submit_own(ReturnLease(agent.id, agent.session, call))

    async def _catch_up(self, book: Book) -> None:
        """Read a long transcript for the first time, beside the loop."""
        try:
            if book.reader is not None:
                await asyncio.to_thread(book.reader.judge, [])
        finally:
            book.is_ready = True
            book.expect_open()

    async def settle(self, agent: str) -> None:
        """A session is over: what its transcript will still say decides before its leases return."""
        book = self._books.pop(agent, None)
        self._engine.activities.pop(agent, None)
        if book is None:
            return
        for _ in range(SETTLE_LOOKS):
            self._judge(book)
            if not book.open:
                return
            await asyncio.sleep(SETTLE_S / SETTLE_LOOKS)
        book.open.clear()

    def _watch(self, book: Book) -> None:
        if not book.watching:
            book.watching = True
            self.run(self._follow(book))

    async def _follow(self, book: Book) -> None:
        """Look at the transcript until nothing is open."""
        beats = list(WATCH_S)
        try:
            while book.open:
                await asyncio.sleep(beats.pop(0) if len(beats) > 1 else beats[0])
                self._judge(book)
        finally:
            book.watching = False

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- an idle client -------------------------------------------------------------------------------

    def mail(self, agent: str) -> None:
        """Mail waits for an agent: leave a mark for its hooks, and wake it if it is idle."""
        known = self._engine.state.agents.get(agent)
        book = None if known is None else self._books.get(agent) or self._find(known)
        if book is None or known is None:
            return
        self._mark(known)
        if not book.wake_waits and book.state in ("idle", ""):
            book.wake_waits = True
            self.run(self._wake(book))

    def _find(self, agent: Agent) -> Book | None:
        """The book of an agent whose client had its first hook before the agent joined."""
        for (client, _), (words, event) in reversed(self._chains.items()):
            if agent.owner and agent.owner in words and not event.subagent:
                book = self._book(agent, self._integrations[client])
                book.note(event)
                self._engine.activities[agent.id] = book.state
                return book
        return None

    async def _wake(self, book: Book) -> None:
        try:
            await asyncio.sleep(JOIN_S)
            agent = self._engine.state.agents.get(book.agent)
            waker = self.wakers.get(book.integration.kind)
            if agent is None or waker is None or not agent.pending or book.state not in ("idle", ""):
                return
            if not book.may_wake():
                log.warning("%s was woken often enough; its mail waits for its next turn", agent.name)
                return
            await waker(book, agent)
        finally:
            book.wake_waits = False

    # -- marks for the gates --------------------------------------------------------------------------

    def _mark(self, agent: Agent) -> None:
        pid = agent.owner.partition(".")[0]
        if pid.isdigit():
            try:
                self._marks.mkdir(mode=0o700, exist_ok=True)
                (self._marks / pid).touch(mode=0o600)
            except OSError as error:
                log.warning("no mark could be left: %s", error)

    def _unmark(self, book: Book) -> None:
        agent = self._engine.state.agents.get(book.agent)
        if agent is None or agent.pending or book.open:
            return
        pid = agent.owner.partition(".")[0]
        if pid.isdigit():
            (self._marks / pid).unlink(missing_ok=True)


def is_long(path: str) -> bool:
    """Whether reading a transcript would be felt."""
    try:
        return os.path.getsize(path) > LONG_BYTES
    except OSError:
        return False
