"""Hooks of agent CLIs: what they tell of the turn, mail into a running turn and at its end, and evidence.

A hook of the main conversation takes along what waits, on a lease. What the client's transcript says later
makes it `read`, or gives it back. Nothing here blocks a turn: a hook that cannot be served gets no answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tellwire.broker.calls import Desk
from tellwire.broker.labels import Labels
from tellwire.broker.ports import SessionMesh
from tellwire.clients.client import Client
from tellwire.clients.events import HookEvent
from tellwire.clients.ports import NAMED, Fetched, Shim, Waker, name_of
from tellwire.clients.reader import is_long
from tellwire.core.agents.register import ENDED
from tellwire.core.agents.seats import is_seated
from tellwire.core.context import EndSession, FetchFor, NoteEvidence, ReportTurn, ReturnLease
from tellwire.core.mail.framing import announce, remind, render_batch, render_message
from tellwire.core.mail.glimpse import glimpse
from tellwire.core.mail.reach import Contact
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.agents import PathRecord
from tellwire.protocol.operations.messages import MessageRecord, Taken
from tellwire.sessions.client_session import WAKING, Book, EvidenceTimes, mark_of
from tellwire.sessions.gate_files import Marks
from tellwire.sessions.listening import Listens, always
from tellwire.sessions.owners import SESSIONS_MAX, Recognition
from tellwire.sessions.paths import END_OF_TURN, MID_TURN, NO_HOLD, PULL, list_ways, tell_contact
from tellwire.sessions.placing import Placing
from tellwire.sessions.remembered import Bindings
from tellwire.sessions.starts import Starts
from tellwire.sessions.turn_probe import Pulses, PulseTimes
from tellwire.sessions.turns import RETRY_LINE, Ending
from tellwire.sessions.waking import Wakers, Waking
from tellwire.system.bounded import BoundedDict
from tellwire.system.panes import WAKE_LINE
from tellwire.system.processes import holder_of
from tellwire.system.tasks import Tasks
from tellwire.system.terminals import pane_of

log = logging.getLogger("tellwire.hooks")

HEADER_CHARS = 700
"""Of what a client takes at once, for the line above the messages and the one behind."""
SETTLE_LOOKS = 20
"""How often the transcript of a client that ends is looked at."""
FAULT_CHARS_MAX = 200
OWN_DIALECT = "tellwire"
COMPACT = "compact"
CUTS = frozenset({COMPACT, "clear"})
"""Why a session starts whose context was cut."""


class HookTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long clients are waited for, and how often their files are looked at."""

    watch_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0)
    """When to look at the transcript while a hand-over is open; from then on, the last."""
    settle_s: float = 1.0
    """A client that ends writes its transcript to the end within this."""
    evidence: EvidenceTimes = EvidenceTimes()
    pulses: PulseTimes = PulseTimes()


def _uncut(book: Book) -> str:
    """The transcript by which to tell how much was said, for a client that does not tell of cuts."""
    return "" if book.client.tells_cuts else book.transcript


class Hooks:
    """The hooks of all clients."""

    def __init__(
        self,
        mesh: SessionMesh,
        clients: Mapping[str, Client],
        marks: Path,
        *,
        wakers: Wakers,
        owner_above: Callable[[list[str]], str],
        checkpoint_prompt: str = "",
        times: HookTimes | None = None,
    ) -> None:
        self._mesh = mesh
        self._times = times = times or HookTimes()
        self._facts = mesh.facts
        self._clients = clients
        self._wakers = wakers
        self._checkpoint_prompt = checkpoint_prompt
        """A turn that it asks for is a checkpoint's."""
        self._marks = Marks(marks)
        self._bindings = Bindings(marks.with_name("bindings"))
        self._starts = Starts(marks.with_name("starts"))
        self._desk = Desk(mesh)
        self._placing = Placing(mesh, mesh.delivery)
        self.labels = Labels(marks.with_name("labels"))
        self._books: dict[str, Book] = {}
        self.recognition = Recognition(mesh, clients, self, owner_above=owner_above)
        self.places: BoundedDict[str, tuple[str, str]] = BoundedDict(SESSIONS_MAX)
        """For each agent its client's kind, and where that writes the session down, also if it left."""
        self.faults: dict[str, tuple[int, float, str]] = {}
        """For each client, payloads that made no sense: how many, and when and why the last did not."""
        self._tasks = Tasks()
        self._calls = 0
        self._turns = 0
        self._waking = Waking(mesh, wakers)
        self._pulses = Pulses(self._known, self._tell, times.pulses)
        mesh.facts.add_view(self)

    # -- what a hook says -----------------------------------------------------------------------------

    async def handle(
        self,
        client: str,
        payload: Mapping[str, Any],
        words: list[str] | None,
        listens: Listens = always,
    ) -> dict[str, Any] | None:
        """Note what happened, and what to answer.

        `words` are the processes above the hook, if known; `listens` tells whether it still waits.
        """
        record = self._clients.get(client)
        if record is None:
            return None
        event = record.hooks.parse(payload)
        missed = self.recognition.missed(client, event)
        self.recognition.note(client, event, words or None)  # none: the hook was gone before we looked
        agent = await self.recognition.find(client, event, self._bound())
        if agent is None or event.subagent:
            return None
        if event.what != "session_ended":
            agent = await self.place(agent, event.session)
        book = self._book(agent, record)
        reader = book.reader
        endings = await self._pulses.end_before(book, event, agent)
        if missed is not None and not book.heard:
            endings += book.note(missed)
        if event.source in CUTS and not (event.source == COMPACT and book.client.cut_mark):
            self.labels.forget(agent.id)
        endings += book.note(event)
        self.places.renew(book.agent, (book.client.kind, book.transcript))
        if book.reader is not reader:
            self._read_ahead(book)
        self._judge(book)
        fetched = Fetched()
        if book.takes(event):
            try:
                fetched = await self._text_for(book, event, listens)
            except asyncio.CancelledError:  # the hook has given up: what it told is true all the same
                self._tell(book, endings + book.close(event))
                raise
        if fetched.text and event.continues:
            book.keep_going()
        elif not fetched.text:
            endings += book.close(event)
        self._tell(book, endings)
        if agent.pending and not fetched.text:
            self.mail(agent.id)  # it took nothing along, and the client may be idle
        return self._answer(book, event, fetched, listens)

    def _answer(
        self, book: Book, event: HookEvent, fetched: Fetched, listens: Listens
    ) -> dict[str, Any] | None:
        """What a hook says: mail and a note for the model, and a line for the human."""
        is_heard = book.takes(event) and listens() and (fetched.text or not event.continues)
        note = self._placing.take_note(book.agent) if is_heard else ""
        text = "\n\n".join(filter(None, (note, fetched.text)))
        answer = book.client.hooks.answer(event, text) if text else {}
        line = book.glimpse_at(event) or fetched.line
        return (book.client.hooks.show(answer, line) if line else answer) or None

    async def place(self, agent: Agent, conversation: str, pane: str = "") -> Agent:
        """The agent that a session of a client is; what it was by mistake before is over."""
        now = await self._placing.place(agent, conversation, pane)
        if now.id != agent.id:
            await self.settle(agent.id)
        return now

    def meet(self, client: str, payload: Mapping[str, Any], words: list[str], since: float) -> None:
        """A process says which session is its own: a start that no broker heard, or a waiter.

        No turn begins or ends by that, and no mail goes. What was heard of the agent `since` then is newer.

        Raises:
            ValueError: it makes no sense.
        """
        record = self._clients.get(client)
        event = None if record is None else record.hooks.parse(payload)
        if record is None or event is None or event.subagent:
            return
        began = event if event.what in ("session_started", "prompt") else quiet(event)
        self.recognition.meet(client, began, words)
        agent = self.recognition.agent_of(client, event, self._bound())
        if agent is None:
            return
        known = self._books.get(agent.id)
        is_news = known is None or (known.session != event.session and known.heard_at < since)
        if is_news and not is_seated(agent, event.session):
            self.run(self._bind(agent, event, record))
        else:
            self._hear_of(agent, event if is_news else None, record)

    async def _bind(self, agent: Agent, event: HookEvent, record: Client) -> None:
        """An agent's session is known: have it bear its name before it is given anything."""
        self._hear_of(await self.place(agent, event.session), event, record)

    def _hear_of(self, agent: Agent, event: HookEvent | None, record: Client) -> None:
        book = self._book(agent, record)
        if event is not None:
            self._tell(book, book.note(quiet(event)))
        if agent.pending:
            self.mail(agent.id)

    def take_starts(self) -> None:
        """Hear of the sessions that started while no broker answered."""
        for start in self._starts.take():
            try:
                self.meet(start.client, start.payload, start.words, start.at)
            except ValueError as error:
                self.fault(start.client, error)

    def fault(self, client: str, error: Exception) -> None:
        """A hook brought what nobody understands."""
        count, _, _ = self.faults.get(client, (0, 0.0, ""))
        if count or len(self.faults) < len(self._clients) + 1:
            self.faults[client] = count + 1, time.time(), str(error)[:FAULT_CHARS_MAX]

    def _tell(self, book: Book, endings: list[Ending]) -> None:
        """What an agent does has changed: say so to whom it concerns."""
        agent = self._mesh.state.agents.get(book.agent)
        if agent is None or self._books.get(book.agent) is not book:
            return
        for ending in endings:
            self._report(book, agent, ending)
        self._facts.activities[agent.id] = book.state
        self._note_prompted(book)
        self._bindings.save(agent, book)
        if agent.pending or book.open or book.delegations:
            self._marks.leave(agent)
        else:
            self._marks.take(agent)
        if self._pulses.is_wanted:
            self.run(self._pulses.run())
        if endings and self.has_reason(agent):
            self.mail(agent.id)  # nothing took it along

    def _note_prompted(self, book: Book) -> None:
        turn = book.turns.current
        if turn is not None and turn.human:
            self._facts.prompted.add(book.agent)
        else:
            self._facts.prompted.discard(book.agent)

    def _report(self, book: Book, agent: Agent, ending: Ending) -> None:
        turn = ending.turn
        self._mesh.submit_own(
            ReportTurn(
                agent.id,
                agent.session,
                ending.id,
                ending.outcome,
                ending.text,
                human=turn.human,
                checkpoint=book.is_checkpoint(turn, self._checkpoint_prompt),
            )
        )

    def _bound(self) -> dict[str, str]:
        return {name: book.session for name, book in self._books.items() if book.session}

    def _book(self, agent: Agent, record: Client) -> Book:
        book = self._books.get(agent.id)
        if book is None:
            book = Book(agent.id, record, self._name_turn, wake_line=WAKE_LINE, times=self._times.evidence)
            self._books[agent.id] = book
            self._recall(agent, book)
        return book

    def _name_turn(self) -> str:
        self._turns += 1
        return f"{self._mesh.state.epoch}.{self._turns}"

    def _recall(self, agent: Agent, book: Book) -> None:
        """Go on with what an earlier broker knew of this session, and with what it handed over."""
        binding = self._bindings.load(agent)
        if binding is not None and binding.kind == book.client.kind:
            book.restore(binding.session, binding.transcript)
            book.changed_at, book.has_ended = binding.changed_at, binding.has_ended
            book.state, book.heard_at, book.worked = binding.state, binding.heard_at, binding.worked
            book.rested_at, book.interrupted_at = binding.rested_at, binding.interrupted_at
            book.was_interrupted = binding.interrupted_at > 0.0
            book.turns.current = binding.turn
            book.failures, book.failed_at = binding.failures, binding.failed_at
        for call, lease in agent.calls.items():
            path = call.partition(":")[0]
            if not path.isdigit() and call not in book.open:
                held = [seq for seq, receipt in agent.leased.items() if receipt.lease == lease]
                marks = self._sought(agent, call, [format_id("m", seq) for seq in held])
                if binding is None or binding.kind != book.client.kind:
                    book.hand_over(call, marks)
                    continue
                book.hand_over(
                    call,
                    marks,
                    way=binding.ways.get(call, ""),
                    at=binding.handed.get(call, 0.0),
                    left=binding.left.get(call),
                    due=call in binding.due,
                )
        self._read_ahead(book)
        if book.open:
            self._watch(book)

    def recall(self) -> None:
        """After a start of the broker: go on with all sessions that an earlier one knew."""
        known: set[str] = set()
        for agent in self.agents():
            binding = None if agent.offline_reason in ENDED else self._bindings.load(agent)
            record = None if binding is None else self._clients.get(binding.kind)
            if record is not None:
                known.add(agent.id)
                book = self._book(agent, record)
                self._tell(book, [])
                if book.failures:
                    self.mail(agent.id)
        self._bindings.prune(known)

    def _known(self) -> Iterator[tuple[Book, Agent]]:
        agents = self._mesh.state.agents
        for name, book in list(self._books.items()):
            agent = agents.get(name)
            if agent is not None and (agent.online or agent.offline_reason not in ENDED):
                yield book, agent

    def agents(self) -> list[Agent]:
        """Everybody known."""
        return list(self._mesh.state.agents.values())

    def book_of(self, agent: str) -> Book | None:
        """What is known of an agent, if its client has hooks."""
        return self._books.get(agent)

    def paths_of(self, agent: str) -> list[PathRecord]:
        """How mail gets into an agent's model: the ways of its client, each with whether it works now."""
        known = self._mesh.state.agents.get(agent)
        session = self._mesh.delivery.sessions.get(agent)
        if known is None or (session is not None and not session.pulls):
            return []  # what is pushed to needs no way
        source = None if session is None else session.source
        book = self._known_book(known)
        hold = NO_HOLD if book is None else self._waking.hold(book)
        return list_ways(known, book, self._wakers_of(known, source) or [], source, hold)

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of the client of an agent that fetches its mail."""
        known = self._mesh.state.agents.get(agent)
        session = self._mesh.delivery.sessions.get(agent)
        if known is None or session is None:
            return None
        source = session.source
        book = self._known_book(known)
        leave = NO_HOLD if book is None else self._waking.leave(book, known)
        return tell_contact(known, book, self._wakers_of(known, source), source, leave)

    def _wakers_of(self, agent: Agent, source: object) -> list[Waker] | None:
        """The session to wake for an agent; None if it only fetches its mail, as in other dialects."""
        foreign = getattr(source, "dialect", OWN_DIALECT) != OWN_DIALECT
        return None if foreign else self._wakers.of(agent.kind)

    def _known_book(self, agent: Agent) -> Book | None:
        """An agent's book; also if its first hook came before it joined."""
        book = self._books.get(agent.id)
        if book is None and agent.online and self._wakers.of(agent.kind) is not None:
            book = self._find(agent)
        return book

    # -- mail -----------------------------------------------------------------------------------------

    async def _text_for(self, book: Book, event: HookEvent, listens: Listens) -> Fetched:
        agent = self._mesh.state.agents.get(book.agent)
        if agent is None or not agent.pending or not listens():
            return Fetched()
        if event.continues and not self._waking.may_continue(book, agent):
            return Fetched()
        if event.continues:
            for ending in book.part(event):
                self._report(book, agent, ending)  # before it hears anything new
        way = END_OF_TURN if event.continues else MID_TURN
        fetched = await self.fetch(book, "hook", way, prompt=event.prompt)
        if fetched.call and not listens():
            self.give_back(book, fetched.call)
            return Fetched()
        return fetched

    async def fetch(self, book: Book, path: str, way: str, *, prompt: str = "") -> Fetched:
        """What waits for an agent, on a lease, as text for its model; empty if there is nothing new.

        What stands in the `prompt` that the text goes along with is not said again.
        """
        self._calls += 1
        call = f"{path}:{self._mesh.state.epoch}:{self._calls}"
        in_bytes = book.client.hooks.room.bytes > 0
        room = (book.client.hooks.room.bytes or book.client.hooks.room.chars) - HEADER_CHARS
        try:
            taken: Taken = await self._desk.ask(FetchFor(book.agent, call, room, in_bytes))
        except TellwireError as error:
            log.warning("mail could not be handed over: %s", error)
            return Fetched()
        except asyncio.CancelledError:
            self._return(book.agent, call)  # behind the lease, which nobody waits for any more
            raise
        now, agent = self._mesh.state.now, self._mesh.state.agents[book.agent]
        label, told = self.labels.word(agent), self.labels.knows(agent, _uncut(book), book.client.cut_mark)
        fresh = _told_again(taken.messages, self._standing(book, taken.messages, prompt))
        parts = [render_message(each, now=now, label=label) for each in fresh]
        large = [each for each in taken.large if each.id not in book.announced]
        book.announced.update(each.id for each in large)
        parts += [announce(each, now=now, size=int(each.body)) for each in large]
        if taken.messages:
            # A text under a name of its own is sought by that, whatever stands there already.
            stands = not parts and path != NAMED
            self._hand_over(book, call, way, [each.id for each in taken.messages], due=stands)
            if not parts and path in WAKING:
                return Fetched(remind([each.id for each in taken.messages]), call, glimpse(taken.messages))
        behind = taken.waiting - len(taken.large) if taken.messages else 0
        text = render_batch(parts, waiting=behind, told=told, label=label) if parts else ""
        if taken.messages:
            self.labels.count(agent, len(text), _uncut(book), ruled=not told)
        return Fetched(text, call, glimpse(taken.messages, large=large))

    def _hand_over(self, book: Book, call: str, way: str, ids: list[str], *, due: bool) -> None:
        agent = self._mesh.state.agents[book.agent]
        book.hand_over(call, self._sought(agent, call, ids), way=way, due=due)
        self._mesh.delivery.claim(self._mesh.state, book.agent, ids)
        self._bindings.save(agent, book)
        self._watch(book)

    def _standing(
        self, book: Book, messages: list[MessageRecord], prompt: str
    ) -> dict[str, Literal["stands", "may return"]]:
        """Which messages the context has already, or may have again when the session is resumed."""
        leased = self._mesh.state.agents[book.agent].leased
        found: dict[str, Literal["stands", "may return"]] = {}
        for each, mark in zip(messages, self._marks_of(book.agent, [m.id for m in messages]), strict=True):
            receipt = leased.get(parse_id("m", each.id) or 0)
            reader = book.reader if book.is_ready else None
            was_seen = receipt is not None and bool(receipt.seen_by)
            if _is_framed(mark, prompt) or (reader is not None and was_seen and reader.stands(mark)):
                found[each.id] = "stands"
            elif reader is not None and reader.may_return(mark):
                found[each.id] = "may return"
        return found

    async def fetch_to_wake(self, book: Book, path: str, way: str) -> Fetched:
        """The text that begins a turn: what waits, or that the last woken turn failed; empty for neither."""
        fetched = await self.fetch(book, path, way)
        return Fetched(RETRY_LINE, fetched.call) if not fetched.text and book.failures else fetched

    def give_back(self, book: Book, call: str) -> None:
        """What was fetched by a call did not reach the client."""
        if book.open.pop(call, None) is not None:
            self._return(book.agent, call)

    def _return(self, name: str, call: str) -> None:
        agent = self._mesh.state.agents.get(name)
        if agent is not None:
            self._mesh.submit_own(ReturnLease(agent.id, agent.session, call))

    # -- evidence -------------------------------------------------------------------------------------

    def brings(self, agent: str) -> bool:
        """Whether hooks take mail along in the turn that an agent is in."""
        book = self._books.get(agent)
        return book is not None and book.heard > 0 and book.state == "busy"

    def adopt(self, agent: str, call: str, ids: list[str]) -> bool:
        """Whether a reader judges what a tool's result hands out, instead of the next call."""
        book = self._books.get(agent)
        if book is None or book.reader is None:
            return False
        book.hand_over(call, self._marks_of(agent, ids), way=PULL)
        self._watch(book)
        return True

    def _sought(self, agent: Agent, call: str, ids: list[str]) -> list[str]:
        """What a transcript is searched for: the hand-over's own name if it has one, else messages' marks."""
        name = name_of(agent, call)
        return [name] if name else self._marks_of(agent.id, ids)

    def seek_marks(self, book: Book, call: str) -> None:
        """A client does not keep the name of a hand-over: its messages' marks have to do."""
        agent = self._mesh.state.agents.get(book.agent)
        lease = None if agent is None else agent.calls.get(call)
        if agent is not None and lease is not None and call in book.open:
            held = [seq for seq, receipt in agent.leased.items() if receipt.lease == lease]
            given = book.open[call]
            book.hand_over(
                call,
                self._marks_of(agent.id, [format_id("m", seq) for seq in held]),
                way=given.way,
                at=given.at,
            )

    def _marks_of(self, agent: str, ids: list[str]) -> list[str]:
        leased = self._mesh.state.agents[agent].leased
        senders = {each: leased.get(parse_id("m", each) or 0) for each in ids}
        return [
            mark_of(each, notice=receipt is not None and not (receipt.sender or receipt.quotes))
            for each, receipt in senders.items()
        ]

    def _judge(self, book: Book) -> None:
        agent = self._mesh.state.agents.get(book.agent)
        if agent is None:
            book.open.clear()
            return
        book.drop_settled(agent.calls)
        read, absent = book.judge()
        if read:
            self._mesh.submit_own(NoteEvidence(agent.id, agent.session, read, book.evidence))
        for call in absent:
            log.info("%s did not take %s up; offered again", agent.name, call)
            self._mesh.submit_own(ReturnLease(agent.id, agent.session, call))

    def _read_ahead(self, book: Book) -> None:
        if book.is_ready and any(is_long(transcript) for _, transcript in book.places):
            book.is_ready = False
            self.run(self._catch_up(book))

    async def _catch_up(self, book: Book) -> None:
        """Read a long transcript for the first time, in a thread."""
        try:
            for reader in book.readers:
                await asyncio.to_thread(reader.judge, [])
        finally:
            book.is_ready = True
            book.expect_open()

    async def settle(self, agent: str) -> None:
        """A session is over: what its transcript will still say decides before its leases return."""
        book = self._books.pop(agent, None)
        self._facts.activities.pop(agent, None)
        self._facts.prompted.discard(agent)
        if book is None:
            return
        book.is_over = True
        book.news.set()
        self._end_turn(book)
        for _ in range(SETTLE_LOOKS):
            self._judge(book)
            if not book.open:
                return
            await asyncio.sleep(self._times.settle_s / SETTLE_LOOKS)
        book.open.clear()

    def _end_turn(self, book: Book) -> None:
        """A session that is over has no turn under way."""
        agent = self._mesh.state.agents.get(book.agent)
        for ending in book.turns.end_session():
            if agent is not None:
                self._report(book, agent, ending)
        self._bindings.forget(book.agent)

    def _watch(self, book: Book) -> None:
        if not book.watching:
            book.watching = True
            self.run(self._follow(book))

    async def _follow(self, book: Book) -> None:
        """Look at the transcript until nothing is open."""
        beats = list(self._times.watch_s)
        try:
            while book.open:
                await asyncio.sleep(beats.pop(0) if len(beats) > 1 else beats[0])
                self._judge(book)
                if len(beats) == 1 and (queue := self._wakers.queue_of(book.client.kind)) is not None:
                    await queue.look_after(book)
        finally:
            book.watching = False

    # -- for the clients' own sessions (`clients.ports.SessionPort`) ----------------------------------

    def activity(self, agent: str) -> str:
        """What an agent is doing, as far as its client tells."""
        return self._facts.activity(agent)

    def pane_of_socket(self, inode: str) -> str:
        """The pane of the process that holds a socket."""
        return pane_of(holder_of(inode))

    def end_session(self, shim: Shim, agent: Agent) -> None:
        """Nobody sees a session any more: it is over for the others."""
        self._mesh.submit(shim.source, 0, EndSession(agent.id, agent.session))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background."""
        self._tasks.run(work)

    # -- an idle client -------------------------------------------------------------------------------

    def has_reason(self, agent: Agent) -> bool:
        """Whether there is a reason to wake an agent: mail waits, or its last woken turn failed."""
        book = self._books.get(agent.id)
        return bool(agent.pending) or (book is not None and book.failures > 0)

    def mail(self, agent: str) -> None:
        """Mail waits for an agent: leave a mark for its hooks, and wake it if it is idle."""
        known = self._mesh.state.agents.get(agent)
        book = None if known is None else self._books.get(agent) or self._find(known)
        if book is None or known is None:
            return
        self._marks.leave(known)
        book.news.set()
        if not book.wake_waits and book.is_wakeable:
            book.wake_waits = True
            self.run(self._waking.wake(book))

    def go_on(self) -> None:
        """We answer: no client need spare its hooks the wait any longer."""
        self._marks.go_on()

    def joined(self, agent: str) -> None:
        """An agent is there: its client's first hook may have come before it, or have been noted only."""
        known = self._mesh.state.agents.get(agent)
        if known is not None and agent not in self._books:
            self._find(known)

    def _find(self, agent: Agent) -> Book | None:
        """The book of an agent whose client had its first hook before the agent joined, or a broker ago."""
        if agent.owner and agent.kind in self._clients:
            self.take_starts()
            if agent.id in self._books:
                return self._books[agent.id]
        last = self.recognition.last_of(agent, self._bound())
        if last is not None and agent.conversations and not is_seated(agent, last[1].session):
            client, event = last
            if event.what == "session_started":  # the conversations are of those that bore the name before
                self.run(self._bind(agent, event, self._clients[client]))
                return None
            last = None  # its human has left that one
        if last is not None:
            client, event = last
            book = self._book(agent, self._clients[client])
            self._tell(book, book.note(event))
            return book
        binding = self._bindings.load(agent)
        record = None if binding is None else self._clients.get(binding.kind)
        return None if record is None else self._book(agent, record)


def quiet(event: HookEvent) -> HookEvent:
    """What an event of the past leaves behind: the client is idle, or nobody knows what it does."""
    what = "session_started" if event.what in ("session_started", "turn_ended") else "other"
    return msgspec.structs.replace(event, what=what)


def _told_again(messages: list[MessageRecord], standing: Mapping[str, str]) -> list[MessageRecord]:
    """What is to be said: nothing if all of it stands in the context; else all, with the repeats marked."""
    if all(standing.get(each.id) == "stands" for each in messages):
        return []
    mark = msgspec.structs.replace
    return [mark(each, repeat=True) if each.id in standing else each for each in messages]


def _is_framed(mark: str, prompt: str) -> bool:
    """Whether a prompt brings the message itself; peers and humans may name its id."""
    return any(opener + mark in prompt for opener in ("<", "[", "&lt;"))
