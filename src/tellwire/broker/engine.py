"""The single writer: gathers commands, decides and applies them, commits once, then replies.

A tick begins when the loop has read all sockets that were ready. Every command that came in is decided and
applied in order; what is now deliverable to connected clients is handed over; the events of all that are
committed in one transaction; only then do replies and offers leave, one write per connection. So nobody hears
of anything that is not on disk, and a hundred clients share one sync.

If the commit cannot happen because the disk is full or read-only, or the database was removed, the tick never
was: the state is rebuilt from the journal, every call of the tick is refused with `storage_full` or
`storage_gone`, reads go on, and a probe tells when writing works again. If the commit fails in any other way
nobody can know what is on disk: the broker stops at once and the next one finds out by replaying.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from tellwire.broker.calls import OperationHandlers
from tellwire.broker.consoles import Attendance, Consoles
from tellwire.broker.delivery import Delivery, Session
from tellwire.broker.feed import Feed
from tellwire.broker.group_commit import CommandQueue, Job
from tellwire.broker.lookups import Lookups
from tellwire.broker.ports import NOBODY, Journal, Source
from tellwire.broker.refusals import Refusals
from tellwire.broker.registrations import ClientFacts, Commits
from tellwire.core.context import (
    Caller,
    Context,
    Decision,
    EndSession,
    NoteEvidence,
    NoteRefusals,
    OfferWaiting,
    PlaceSession,
    ReportTurn,
    ReturnLease,
    StartBroker,
)
from tellwire.core.kernel import DECIDERS, Command, OwnCommand, apply, apply_batch, check_caller, decide
from tellwire.core.limits import Limits
from tellwire.core.mail.reach import Contact
from tellwire.core.mail.receipts import decide_offer
from tellwire.core.record.overview import pulse_of
from tellwire.core.record.space import is_taken
from tellwire.core.record.stored import Commit, StoredMessage
from tellwire.core.state import State, parse_snapshot
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, MessageQueued, MessagesDelivered, format_batch, parse_batch
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import (
    AgentRecord,
    Done,
    RegisterAgent,
    Registered,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.base import Operation, Reply
from tellwire.protocol.operations.feed import Pulse, ReportActivity, WatchFeed
from tellwire.protocol.operations.messages import ClaimMessages, Sent
from tellwire.protocol.operations.needs import Attend
from tellwire.system.clock import Clock
from tellwire.system.processes import is_alive

log = logging.getLogger("tellwire.engine")

FOLLOWED = frozenset(
    {ClaimMessages, RegisterAgent, UpdateAgent, PlaceSession, UnregisterAgent, WatchFeed, ReportActivity}
)
"""Commands whose result changes the connection that sent them."""
NOT_NOW = ("storage_full", "storage_gone")
"""Errors after which nothing was saved, and reads go on."""
PARKED = (EndSession, NoteEvidence, NoteRefusals, ReportTurn, ReturnLease)
"""Commands that report a fact: they are kept until they can be stored."""
PARKED_MAX = 100_000


class Binding(NamedTuple):
    """A connection that became an agent's client."""

    agent: str
    source: Source
    earlier: Session | None
    """The client before it."""
    moved: tuple[str, Session] | None = None
    """The agent that the connection was until then, and its session."""


class Tick:
    """The result of one tick so far; nobody outside sees it before the commit."""

    __slots__ = ("answers", "attached", "events", "fresh", "handed", "refused")

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self.fresh: dict[int, StoredMessage] = {}
        self.answers: list[tuple[Source, int, Reply | TellwireError]] = []
        self.handed: list[MessagesDelivered] = []
        self.attached: list[Binding] = []
        self.refused: list[tuple[Caller, object, Reply | TellwireError]] = []

    def undo(self) -> None:
        """Forget everything but the messages, which are still looked up."""
        self.events, self.handed, self.attached, self.answers, self.refused = [], [], [], [], []


class Storage:
    """Whether the journal can be written now, what waits until it can, and the bytes stored per sender."""

    def __init__(
        self, journal: Journal, fatal: Callable[[TellwireError], None], stored: dict[str, int]
    ) -> None:
        self.journal = journal
        self.fatal = fatal
        """Ends the process: what is on disk is unknown."""
        self._parked: list[Job] = []
        self.stored = stored
        """Bytes of messages, by the id of their sender."""
        self.error: TellwireError | None = None
        """Why nothing can be written; None while writing works."""
        self.low: TellwireError | None = None
        """The disk is nearly full: the error with which most calls that write are refused."""

    def load(self) -> State:
        """Rebuild the state from the journal.

        Raises:
            TellwireError: the journal cannot be read.
        """
        state = load_state(self.journal)
        self.stored.clear()
        self.stored.update(self.journal.kept())
        return state

    def stop(self, error: TellwireError) -> None:
        """Stop writing: a commit failed, nothing of it was saved, and reads go on."""
        log.error("writing stopped: %s", error)
        self.error = error

    def probe(self) -> bool:
        """Check that the journal is still there and, if writing had stopped, that it works again."""
        try:
            if self.error is None:
                self.journal.check()
            else:
                self.journal.probe()
        except TellwireError as error:
            if error.code not in NOT_NOW:
                self.fatal(error)
            if self.error is None:
                self.stop(error)
            return False
        return True

    def refuses(self, job: Job, decision: Decision, state: State) -> bool:
        """Whether the events of a decision must not be written now."""
        if self.error is not None:
            return True
        source, _, command = job
        if self.low is None or source is None or not isinstance(command, Operation):
            return False
        return not is_taken(decision.events, source.caller, state.agents)

    def park(self, job: Job) -> bool:
        """Keep a command that reports a fact until it can be stored; False for any other command."""
        if not isinstance(job[2], PARKED) or len(self._parked) >= PARKED_MAX:
            return False
        self._parked.append(job)
        return True

    def unpark(self) -> list[Job]:
        """Return the commands that were kept, and keep them no longer."""
        parked, self._parked = self._parked, []
        return parked

    def note_space(self, low: TellwireError | None) -> None:
        """The disk is nearly full, and this error says so to callers; None: it has room again."""
        self.low = low

    def release(self, freed: Mapping[str, int]) -> None:
        """Messages were deleted: their senders may store more again."""
        for sender, size in freed.items():
            self.stored[sender] = max(0, self.stored.get(sender, 0) - size)


class Engine:
    """The tick: decides and applies commands, commits their events, then sends replies and offers."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        limits: Limits,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        fatal: Callable[[TellwireError], None],
        alive: Callable[[str], bool] = is_alive,
        grant_s: float = 0.0,
    ) -> None:
        self._tick = Tick()
        self.clock = clock
        self.state: State = State()
        self.delivery = Delivery(journal.messages, grant_s)
        self.consoles = Consoles(journal.messages, limits)
        self.attendance = Attendance()
        self.handlers = OperationHandlers()
        self.handlers.answer(Attend, lambda told: self.attendance.reply(told, self.clock.now))
        self.queue = CommandQueue(
            self.tick, call_soon, monotonic=clock.monotonic, exclusive=self.handlers.exclusive
        )
        self.commits = Commits()
        self.facts = ClientFacts()
        self.ending: set[str] = set()  # processes whose end will be reported; until then they count as alive
        self.refusals = Refusals()
        lookups = Lookups(
            journal,
            self.delivery,
            clock,
            state=lambda: self.state,
            tick=lambda: (self._tick.fresh, self._tick.events),
            facts=self.facts,
        )
        self.feed = Feed(
            lookups.former_name, journal, lambda agent_id: find_pulse(self.state, self._context, agent_id)
        )
        self.facts.activities.observe(self._note_activity)
        self._context = lookups.context(NOBODY, limits, lambda key: key in self.ending or alive(key))
        self.storage: Storage = Storage(journal, fatal, lookups.kept)

    def start(self, version: str) -> None:
        """Rebuild the state and record that the broker has started.

        Raises:
            TellwireError: the journal cannot be read or written.
        """
        self.state = self.storage.load()
        self.clock.resume(self.state.now, self.state.awake)
        self._set_time()
        tick = self._tick = Tick()
        self._apply_decision(tick, decide(self.state, StartBroker(version), self._context))
        self._commit(tick)
        self._tick = Tick()

    # -- coming in ------------------------------------------------------------------------------------

    def submit(self, source: Source | None, n: int, command: Command | TellwireError) -> None:
        """Put a command into the next tick."""
        self.queue.put((source, n, command))

    def answer_now(self, source: Source, n: int, operation: AnyOperation) -> None:
        """Answer an operation that only reads; between two ticks the state is what is on disk."""
        self._context.caller, self._context.now = source.caller, self.clock.now
        if (begin := self.handlers.deferred.get(type(operation))) is not None:
            begin(source, n, operation)
            return
        answer = self._answer(operation)
        if isinstance(answer, Decision):
            self._update_connection(self._tick, source, operation, answer.reply)
            if n:
                source.answer(n, answer.reply)
        else:
            self.refusals.note(source.caller, operation, answer, self.clock.now)
            source.refuse(n, answer)
        source.flush()

    def submit_own(self, command: OwnCommand) -> None:
        """Put a command of the broker's own into the next tick."""
        self.submit(None, 0, command)

    def wake(self) -> None:
        """Have a tick soon: a client can take offers again."""
        self.queue.schedule()

    @property
    def scheduled(self) -> bool:
        """Whether a tick will run soon."""
        return self.queue.scheduled

    @property
    def limits(self) -> Limits:
        return self._context.limits

    def contact_of(self, agent: str) -> Contact | None:
        """What is known of an agent's client; None if messages are pushed to it."""
        return self._context.contact(agent)

    # -- the tick -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Run all waiting commands, commit their events, then reply."""
        queue = self.queue.take()
        if queue is None:
            return  # more calls may share the commit
        tick = self._tick = Tick()
        self._set_time()
        try:
            for job in queue:
                self._run(tick, job)
            self._offer_waiting(tick)
            if tick.events:
                self._commit(tick)
        except TellwireError as error:
            self._undo(queue, tick, error)
        except Exception:
            log.exception("a tick failed; the state is rebuilt from the journal")
            self._undo(queue, tick, TellwireError("internal", "The broker failed while handling this call."))
        try:
            self._send_answers(tick)
        except Exception:
            log.exception("a committed tick could not be told; clients ask again")
        self._tick = Tick()
        if tick.refused:
            for caller, command, answer in tick.refused:
                self.refusals.note(caller, command, answer, self.clock.now)
        if self.feed.followers and self.feed.followers.publish(self.state, tick.events, tick.fresh):
            self.wake()
        if tick.events:
            if self.feed.watchers:
                self.feed.publish(self.state, tick.events, tick.fresh)
            self.commits.publish(tick.events)

    def _run(self, tick: Tick, job: Job) -> None:
        """Decide and apply one command; its answer is kept until the commit."""
        source, n, command = job
        context, kind = self._context, type(command)
        if source is None:
            context.caller = NOBODY
        else:
            context.caller = source.caller
            context.group = source.group
        if type(command) is EndSession and not self._is_end(source, command):
            return
        if source is not None and (begin := self.handlers.deferred.get(kind)) is not None:
            begin(source, n, command)
            tick.answers.append((source, 0, Done()))  # no answer yet, but the call is no longer queued
            return
        decision = self._answer(command)
        if isinstance(decision, TellwireError):
            if source is not None:
                tick.answers.append((source, n, decision))
                tick.refused.append((source.caller, command, decision))
            return
        if decision.events:
            if self.storage.refuses(job, decision, self.state):
                self._refuse_writing(tick, job)
                return
            self._apply_decision(tick, decision)
        reply = decision.reply
        if source is not None and reply is not None:
            tick.answers.append((source, n, reply))
            if type(reply) is Sent:
                if not reply.id or reply.recipients:
                    tick.refused.append((source.caller, command, reply))
            elif kind in FOLLOWED:
                self._update_connection(tick, source, command, reply)

    def _is_end(self, source: Source | None, command: EndSession) -> bool:
        """Whether a session ends with its connection: not if another one is the agent's client by now."""
        if self.delivery.client_of(command.agent) is not source:
            return False
        self.facts.activities.forget_reported(command.agent)
        return True

    def _update_connection(self, tick: Tick, source: Source, command: Any, reply: Any) -> None:
        """Apply the effects that an answered operation has on its connection."""
        if type(command) is ClaimMessages:
            if reply.ids and source.caller.is_own_client:
                self.delivery.claim(self.state, source.caller.agent, reply.ids)
        elif type(command) is RegisterAgent and reply.name == OPERATOR:
            if not reply.looking:
                self.consoles.join(source)
        elif type(command) is RegisterAgent:
            self.consoles.leave(source)
            self.facts.activities.forget_reported(reply.id)
            bind_registered(self.delivery, tick, source, command, reply)
        elif type(command) is UpdateAgent and command.agent is not None:
            bind_moved(self.delivery, tick, self.state, reply)
        elif type(command) is UpdateAgent or (type(command) is PlaceSession and type(reply) is Registered):
            bind_updated(self.delivery, tick, source, reply)
        elif type(command) is UnregisterAgent:
            gone = self.state.find(command.name or "")
            self.facts.activities.forget_reported(source.caller.agent if gone is None else gone.id)
            self.delivery.leave(source)
            if command.name is None:
                self.consoles.leave(source)
        elif type(command) is WatchFeed:
            self.feed.watch(source, command, reply, self.state)
            self.wake()  # it may be behind
        elif type(command) is ReportActivity:
            self.facts.activities.report(source.caller.agent, command.activity, command.wants)
        elif type(command) is Attend:
            self.attendance.attend(source, command)

    def _note_activity(self, agent_id: str) -> None:
        if self.feed.followers:
            self.feed.followers.note_activity(agent_id)
            self.wake()

    def note_waiting(self) -> None:
        """Have consoles told what became of agents whose mail waits."""
        if self.feed.followers:
            self.feed.followers.note_waiting(self.state)
            self.wake()

    def own_context(self) -> Context:
        """What the broker itself may know now, for its own looks at the state."""
        self._context.caller, self._context.now = NOBODY, self.clock.now
        return self._context

    def _answer(self, command: Command | TellwireError) -> Decision | TellwireError:
        """Ask the core, or the registered handler, for the answer to a command."""
        kind = type(command)
        context = self._context
        try:
            if kind in DECIDERS:
                return decide(self.state, command, context)  # pyright: ignore[reportArgumentType]  # by the table
            if isinstance(command, TellwireError):
                return command
            check_caller(command, context.caller)  # pyright: ignore[reportArgumentType]  # the rest are operations
            return Decision(self.handlers.answers[kind](command))
        except TellwireError as error:
            return error
        except Exception:
            log.exception("a decision failed: %s", type(command).__name__)
            return TellwireError("internal", "The broker failed while handling this call.")

    def _apply_decision(self, tick: Tick, decision: Decision) -> None:
        """Apply the events of a decision, and note what is to be stored and handed over."""
        state, delivery, stored = self.state, self.delivery, self.storage.stored
        text = 0
        for event in decision.events:
            apply(state, event)
            tick.events.append(event)
            if type(event) is MessageQueued:
                seq = state.seq
                tick.fresh[seq] = StoredMessage.of(seq, state.now, event, decision.texts[text])
                text += 1
                stored[event.sender] = stored.get(event.sender, 0) + event.size
            delivery.observe(state, event)

    def _offer_waiting(self, tick: Tick) -> None:
        """Lease waiting messages to connected clients that can take them, in the same commit."""
        if self.storage.error is not None or not self.delivery.dirty:
            return
        state, context = self.state, self._context
        for agent_id in self.delivery.ready():
            agent = state.agents.get(agent_id)
            if agent is None:
                continue
            events = decide_offer(state, OfferWaiting(agent_id), context).events
            for event in events:
                apply(state, event)
                tick.events.append(event)
                tick.handed.append(event)  # pyright: ignore[reportArgumentType]  # that is all an offer makes
            if not events and agent.pending and agent.online:
                self.delivery.note_waiting(agent_id)

    def _commit(self, tick: Tick) -> None:
        state = self.state
        data = format_batch(tick.events)
        commit = Commit(state.seq, state.now, state.awake, data, list(tick.fresh.values()))
        with self.queue.commit_timer:
            self.storage.journal.commit(commit)

    def _send_answers(self, tick: Tick) -> None:
        """After the commit: send answers, offers and notifications, one write for each connection."""
        touched: dict[Source, None] = {}
        for source, n, answer in tick.answers:
            if n:
                if isinstance(answer, TellwireError):
                    source.refuse(n, answer)
                else:
                    source.answer(n, answer)
            touched[source] = None
        if tick.handed:
            for source in self.delivery.offer(self.state, tick.handed, tick.fresh):
                touched[source] = None
        for source in self.delivery.notify(self.state):
            touched[source] = None
        for source in self.consoles.offer_new(self.state, tick.fresh):
            touched[source] = None
        dismiss_replaced(tick)
        self.delivery.settle(self.state)
        for source in touched:
            source.flush()

    # -- when the disk says no ------------------------------------------------------------------------

    def _undo(self, queue: list[Job], tick: Tick, error: TellwireError) -> None:
        """Undo the tick, and refuse all its calls."""
        storage = self.storage
        if error.code not in (*NOT_NOW, "internal"):
            log.critical("the journal failed: %s", error)
            storage.fatal(error)
        unbind(self.delivery, tick)
        try:
            self.state = storage.load()
        except TellwireError as unreadable:
            log.critical("the journal cannot be read back: %s", unreadable)
            storage.fatal(unreadable)
        if error.code in NOT_NOW and storage.error is None:
            storage.stop(error)
        tick.undo()
        self.delivery.forget_tick()
        for job in queue:
            # Without writing, a read or the repeat of a send that did happen still gets its true answer.
            if storage.error is not None:
                self._run(tick, job)
            else:
                self._refuse_writing(tick, job, error)

    def _refuse_writing(self, tick: Tick, job: Job, error: TellwireError | None = None) -> None:
        source, n, command = job
        if not self.storage.park(job) and source is not None:
            lacking = self.storage.error or self.storage.low
            answer = error or lacking or TellwireError("storage_full", "Nothing can be stored at the moment.")
            tick.answers.append((source, n, answer))
            tick.refused.append((source.caller, command, answer))

    def probe(self) -> bool:
        """Check the journal; if writing had stopped and works again, go on with it. True if it works."""
        if not self.storage.probe():
            return False
        if self.storage.error is not None:
            log.warning("writing works again")
            self.storage.error = None
            self.delivery.dirty.update(self.delivery.sessions)
            self.wake()
        for job in self.storage.unpark():
            self.queue.put(job)
        return True

    def _set_time(self) -> None:
        clock, state, context = self.clock, self.state, self._context
        state.now = context.now = clock.read()
        state.awake = context.awake = clock.awake


def find_pulse(state: State, context: Context, agent_id: str) -> Pulse | None:
    """What an agent is doing now; None if it was forgotten."""
    agent = state.agents.get(agent_id)
    return None if agent is None else pulse_of(agent, context)


# -- loading ------------------------------------------------------------------------------------------


def load_state(journal: Journal) -> State:
    """Rebuild the state.

    Raises:
        TellwireError: `database_corrupt`, `database_newer` or `storage_broken`.
    """
    state = State()
    for seq, data in journal.snapshots():
        try:
            state = parse_snapshot(data)
        except msgspec.DecodeError:
            continue  # of another version: the one before it, or the whole journal
        if state.seq == seq:
            break
        state = State()
    for commit in journal.replay(state.seq):
        try:
            batch = parse_batch(commit.data)
        except msgspec.DecodeError as error:
            raise TellwireError(
                "database_newer", f"The journal has an event from a newer tellwire at {commit.seq}: {error}."
            ) from error
        apply_batch(state, batch, seq=commit.seq, now=commit.at, awake=commit.awake)
    return state


# -- binding: which connection is which agent's client ------------------------------------------------


def bind_registered(
    delivery: Delivery, tick: Tick, source: Source, operation: RegisterAgent, reply: Registered
) -> None:
    """Make the connection the agent's client, or let it speak for it."""
    if reply.attached:
        source.attach(reply.id, is_own_client=False)
        return
    earlier = delivery.attach(
        reply.id, source, operation.session, pulls=operation.pulls, grants=operation.grants
    )
    source.attach(reply.id, is_own_client=True)
    tick.attached.append(Binding(reply.id, source, earlier))


def bind_moved(delivery: Delivery, tick: Tick, state: State, reply: AgentRecord) -> None:
    """The operator had an agent go on as another one: its own connection moves, not the operator's."""
    agent = state.agents.get(reply.id)
    for session in list(delivery.sessions.values()):
        if agent is not None and session.id == agent.session:
            bind_updated(delivery, tick, session.source, reply)


def bind_updated(delivery: Delivery, tick: Tick, source: Source, reply: AgentRecord | Registered) -> None:
    """An agent that goes on as another one takes its connection along."""
    before = source.caller.agent
    if not source.caller.is_own_client or reply.id == before:
        return
    session = delivery.sessions.pop(before)
    earlier = delivery.attach(reply.id, source, session.id, pulls=session.pulls, grants=session.grants)
    source.attach(reply.id, is_own_client=True)
    tick.attached.append(Binding(reply.id, source, earlier, (before, session)))


def unbind(delivery: Delivery, tick: Tick) -> None:
    """Undo a tick: every connection is attached as it was before."""
    for binding in reversed(tick.attached):
        if binding.earlier is None:
            delivery.sessions.pop(binding.agent, None)
        else:
            delivery.sessions[binding.agent] = binding.earlier
        if binding.moved is None:
            binding.source.detach()
        else:
            before, session = binding.moved
            delivery.sessions[before] = session
            binding.source.attach(before, is_own_client=True)


def dismiss_replaced(tick: Tick) -> None:
    """After the commit: dismiss clients whose name another session has taken over."""
    for binding in tick.attached:
        earlier = binding.earlier
        if earlier is not None and earlier.source is not binding.source:
            earlier.source.detach()
            earlier.source.dismiss(
                TellwireError("session_replaced", "Another session has taken over this name.")
            )
