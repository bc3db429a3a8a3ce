"""Follows the sessions of agent CLIs by their hooks: what happens in a turn, and when mail can go along.

A hook of the main conversation takes along what waits, on a lease (`fetcher`). What the client's transcript
says later makes it `read`, or returns it (`evidence`). Nothing here blocks a turn: a hook that cannot be
served gets no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tellwire.broker.labels import Labels
from tellwire.broker.ports import SessionMesh
from tellwire.clients.client import Client
from tellwire.clients.events import HookEvent
from tellwire.clients.ports import FetchedText, McpSession
from tellwire.core.agents.register import ENDED
from tellwire.core.agents.seats import is_seated
from tellwire.core.context import EndSession, ReportTurn
from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession, EvidenceTimes
from tellwire.sessions.evidence import EvidenceWatcher, WatchTimes
from tellwire.sessions.fetcher import MailFetcher
from tellwire.sessions.gate_files import GateFiles
from tellwire.sessions.listening import Listens, always
from tellwire.sessions.owners import SESSIONS_MAX, HookOwners, Placement
from tellwire.sessions.paths import END_OF_TURN, MID_TURN, PathView
from tellwire.sessions.remembered import RememberedSessions
from tellwire.sessions.starts import Starts
from tellwire.sessions.turn_probe import ProbeTimes, TurnProbe
from tellwire.sessions.turns import Ending
from tellwire.sessions.waking import Wakers, Waking
from tellwire.system.bounded import BoundedDict
from tellwire.system.panes import WAKE_LINE
from tellwire.system.processes import holder_of
from tellwire.system.tasks import Tasks
from tellwire.system.terminals import pane_of

FAULT_CHARS_MAX = 200
COMPACT = "compact"
CUTS = frozenset({COMPACT, "clear"})
"""Why a session starts whose context was cut."""


class HookTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for clients, and how often to poll their files."""

    watch: WatchTimes = WatchTimes()
    evidence: EvidenceTimes = EvidenceTimes()
    probe: ProbeTimes = ProbeTimes()


class HookFaults:
    """Invalid hook payloads, by client: how many, and when and why the last one was."""

    def __init__(self, clients_max: int) -> None:
        self._clients_max = clients_max
        self.by_client: dict[str, tuple[int, float, str]] = {}

    def note(self, client: str, error: Exception) -> None:
        """Count a payload that cannot be parsed."""
        count, _, _ = self.by_client.get(client, (0, 0.0, ""))
        if count or len(self.by_client) < self._clients_max:
            self.by_client[client] = count + 1, time.time(), str(error)[:FAULT_CHARS_MAX]


class KnownSessions:
    """The sessions of all agents whose client has hooks; a new one goes on where the last broker stopped."""

    def __init__(
        self,
        mesh: SessionMesh,
        remembered: RememberedSessions,
        fetcher: MailFetcher,
        evidence: EvidenceWatcher,
        times: EvidenceTimes,
    ) -> None:
        self._mesh = mesh
        self.remembered = remembered
        self._fetcher = fetcher
        self._evidence = evidence
        self._times = times
        self._sessions: dict[str, ClientSession] = {}
        self._turns = 0
        self.transcripts: BoundedDict[str, tuple[str, str]] = BoundedDict(SESSIONS_MAX)
        """For each agent its client's kind, and its transcript; also of agents that have left."""

    def of(self, agent: str) -> ClientSession | None:
        """An agent's session, if a hook of it was heard."""
        return self._sessions.get(agent)

    def open(self, agent: Agent, record: Client) -> ClientSession:
        """An agent's session; created when the first hook of it is heard."""
        session = self._sessions.get(agent.id)
        if session is None:
            session = ClientSession(agent.id, record, self._name_turn, wake_line=WAKE_LINE, times=self._times)
            self._sessions[agent.id] = session
            before = self.remembered.load(agent, record.kind)
            if before is not None:
                before.restore(session)
            self._fetcher.recall(agent, session)
            self._evidence.read_ahead(session)
            if session.open:
                self._evidence.watch(session)
        return session

    def pop(self, agent: str) -> ClientSession | None:
        """Forget an agent's session, which is over."""
        return self._sessions.pop(agent, None)

    def bound(self) -> dict[str, str]:
        """For each agent the conversation that it is in."""
        return {
            name: session.conversation for name, session in self._sessions.items() if session.conversation
        }

    def has_agent_of(self, process: str) -> bool:
        """Whether a session of an agent of this process is known."""
        agents = self._mesh.state.agents
        return any(name in agents and agents[name].owner == process for name in self._sessions)

    def live(self) -> Iterator[tuple[ClientSession, Agent]]:
        """All sessions that are not over."""
        agents = self._mesh.state.agents
        for name, session in list(self._sessions.items()):
            agent = agents.get(name)
            if agent is not None and (agent.online or agent.offline_reason not in ENDED):
                yield session, agent

    def _name_turn(self) -> str:
        self._turns += 1
        return f"{self._mesh.state.epoch}.{self._turns}"


class SessionTracker:
    """Follows the sessions of all clients."""

    def __init__(
        self,
        mesh: SessionMesh,
        clients: Mapping[str, Client],
        gates: Path,
        *,
        wakers: Wakers,
        owner_above: Callable[[list[str]], str],
        checkpoint_prompt: str = "",
        times: HookTimes | None = None,
    ) -> None:
        times = times or HookTimes()
        self._mesh = mesh
        self._clients = clients
        self._checkpoint_prompt = checkpoint_prompt
        """A turn that it asks for is a checkpoint's."""
        self._gates = GateFiles(gates)
        self._starts = Starts(gates.with_name("starts"))
        self._placement = Placement(mesh, mesh.delivery)
        self._tasks = Tasks()
        self._waking = Waking(mesh, wakers)
        self._evidence = EvidenceWatcher(mesh, wakers, self._tasks, times.watch)
        remembered = RememberedSessions(gates.with_name("bindings"))
        labels = Labels(gates.with_name("labels"))
        self.fetcher = MailFetcher(mesh, labels, remembered, self._evidence)
        self.sessions = KnownSessions(mesh, remembered, self.fetcher, self._evidence, times.evidence)
        self.faults = HookFaults(len(clients) + 1)
        self.access = SessionAccess(mesh, self)
        self.owners = HookOwners(mesh, clients, self.access, owner_above=owner_above)
        self._probe = TurnProbe(self.sessions.live, self._session_changed, times.probe)
        mesh.facts.add_view(
            PathView(mesh, wakers, self._waking, session_of=self.sessions.of, find=self._find)
        )

    # -- what a hook says -----------------------------------------------------------------------------

    async def handle(
        self,
        client: str,
        payload: Mapping[str, Any],
        processes: list[str] | None,
        listens: Listens = always,
    ) -> dict[str, Any] | None:
        """Note what happened, and return the answer for the hook.

        `processes` are those above the hook, if known; `listens` tells whether it still waits.
        """
        record = self._clients.get(client)
        if record is None:
            return None
        event = record.hooks.parse(payload)
        missed = self.owners.missed(client, event)
        self.owners.note(client, event, processes or None)  # none: the hook was gone before we looked
        agent = await self.owners.find(client, event, self.sessions.bound())
        if agent is None or event.subagent:
            return None
        if event.what != "session_ended":
            agent = await self.place(agent, event.session)
        session = self.sessions.open(agent, record)
        endings = await self._probe.end_before(session, event, agent)
        if missed is not None and not session.heard:
            endings += self._note(session, missed)
        if event.source in CUTS and not (event.source == COMPACT and record.cut_mark):
            self.labels.forget(agent.id)
        endings += self._note(session, event)
        self._evidence.judge(session)
        fetched = FetchedText()
        if session.takes(event):
            try:
                fetched = await self._fetch_for(session, event, listens)
            except asyncio.CancelledError:  # the hook has given up, but what it reported is still true
                self._session_changed(session, endings + session.close(event))
                raise
        if fetched.text and event.continues:
            session.keep_going()
        elif not fetched.text:
            endings += session.close(event)
        self._session_changed(session, endings)
        if agent.pending and not fetched.text:
            self.mail(agent.id)  # it took nothing along, and the client may be idle
        return self._answer(session, event, fetched, listens)

    def _note(self, session: ClientSession, event: HookEvent) -> list[Ending]:
        reader = session.leases.reader
        endings = session.note(event)
        self.sessions.transcripts.renew(session.agent, (session.client.kind, session.transcript))
        if session.leases.reader is not reader:
            self._evidence.read_ahead(session)
        return endings

    async def _fetch_for(self, session: ClientSession, event: HookEvent, listens: Listens) -> FetchedText:
        """Mail for the model that a hook takes along, if it may and if the hook still waits for it."""
        agent = self._mesh.state.agents.get(session.agent)
        if agent is None or not agent.pending or not listens():
            return FetchedText()
        if event.continues and not self._waking.may_continue(session, agent):
            return FetchedText()
        if event.continues:
            for ending in session.turns.part(event.final_text):
                self._report(session, agent, ending)  # before it hears anything new
        path = END_OF_TURN if event.continues else MID_TURN
        fetched = await self.fetcher.fetch(session, "hook", path, prompt=event.prompt)
        if fetched.call and not listens():
            self.fetcher.give_back(session, fetched.call)
            return FetchedText()
        return fetched

    def _answer(
        self, session: ClientSession, event: HookEvent, fetched: FetchedText, listens: Listens
    ) -> dict[str, Any] | None:
        """What a hook says: mail and a note for the model, and a line for the human."""
        is_heard = session.takes(event) and listens() and (fetched.text or not event.continues)
        note = self._placement.take_note(session.agent) if is_heard else ""
        text = "\n\n".join(filter(None, (note, fetched.text)))
        answer = session.client.hooks.answer(event, text) if text else {}
        line = session.glimpse_at(event) or fetched.line
        return (session.client.hooks.show(answer, line) if line else answer) or None

    async def place(self, agent: Agent, conversation: str, pane: str = "") -> Agent:
        """The agent that a session of a client is; what it was by mistake before is over."""
        now = await self._placement.place(agent, conversation, pane)
        if now.id != agent.id:
            await self.settle(agent.id)
        return now

    def meet(self, client: str, payload: Mapping[str, Any], processes: list[str], since: float) -> None:
        """A process says which session is its own: a start that no broker heard, or a waiter.

        No turn begins or ends by that, and no mail goes. What was heard of the agent `since` then is newer.

        Raises:
            ValueError: the payload makes no sense.
        """
        record = self._clients.get(client)
        event = None if record is None else record.hooks.parse(payload)
        if record is None or event is None or event.subagent:
            return
        began = event if event.what in ("session_started", "prompt") else quiet(event)
        self.owners.meet(client, began, processes)
        agent = self.owners.agent_of(client, event, self.sessions.bound())
        if agent is None:
            return
        known = self.sessions.of(agent.id)
        is_news = known is None or (known.conversation != event.session and known.heard_at < since)
        if is_news and not is_seated(agent, event.session):
            self.run(self._bind(agent, event, record))
        else:
            self._note_past_event(agent, event if is_news else None, record)

    async def _bind(self, agent: Agent, event: HookEvent, record: Client) -> None:
        """An agent's conversation is known: correct its name before it is given anything."""
        self._note_past_event(await self.place(agent, event.session), event, record)

    def _note_past_event(self, agent: Agent, event: HookEvent | None, record: Client) -> None:
        session = self.sessions.open(agent, record)
        if event is not None:
            self._session_changed(session, session.note(quiet(event)))
        if agent.pending:
            self.mail(agent.id)

    def read_starts(self) -> None:
        """Read the notes of sessions that started while no broker answered."""
        for start in self._starts.take():
            try:
                self.meet(start.client, start.payload, start.processes, start.at)
            except ValueError as error:
                self.faults.note(start.client, error)

    # -- what becomes of it ---------------------------------------------------------------------------

    def _session_changed(self, session: ClientSession, endings: list[Ending]) -> None:
        """A session has changed: report its turns, remember it, and open or shut the gate of its hooks."""
        agent = self._mesh.state.agents.get(session.agent)
        if agent is None or self.sessions.of(session.agent) is not session:
            return
        for ending in endings:
            self._report(session, agent, ending)
        facts, turn = self._mesh.facts, session.turns.current
        wants = session.turns.wants if session.state == "waiting" else ""
        facts.activities.note(agent.id, session.state, wants)
        if turn is not None and turn.human:
            facts.prompted.add(agent.id)
        else:
            facts.prompted.discard(agent.id)
        self.sessions.remembered.save(agent, session)
        if agent.pending or session.open or session.delegations:
            self._gates.open(agent)
        else:
            self._gates.shut(agent)
        if self._probe.is_wanted:
            self.run(self._probe.run())
        if endings and self.has_reason(agent):
            self.mail(agent.id)  # nothing took it along

    def _report(self, session: ClientSession, agent: Agent, ending: Ending, *, is_last: bool = False) -> None:
        turn = ending.turn
        self._mesh.submit_own(
            ReportTurn(
                agent.id,
                agent.session,
                ending.id,
                ending.outcome,
                ending.text,
                human=turn.human,
                checkpoint=session.is_checkpoint(turn, self._checkpoint_prompt),
                is_last=is_last,
            )
        )

    def recall(self) -> None:
        """After a start of the broker: go on with all sessions that an earlier one knew."""
        known: set[str] = set()
        for agent in self.access.agents():
            before = None if agent.offline_reason in ENDED else self.sessions.remembered.load(agent)
            record = None if before is None else self._clients.get(before.kind)
            if record is not None:
                known.add(agent.id)
                session = self.sessions.open(agent, record)
                self._session_changed(session, [])
                if session.wakes.failures:
                    self.mail(agent.id)
        self.sessions.remembered.prune(known)

    async def settle(self, agent: str) -> None:
        """A session is over: what its transcript will still say decides before its leases return."""
        session = self.sessions.pop(agent)
        self._mesh.facts.activities.pop(agent, None)
        self._mesh.facts.prompted.discard(agent)
        if session is None:
            return
        session.wakes.is_over = True
        session.wakes.news.set()
        known = self._mesh.state.agents.get(agent)
        for ending in session.turns.end_session():
            if known is not None:
                self._report(session, known, ending, is_last=True)
        self.sessions.remembered.forget(agent)
        await self._evidence.settle(session)

    # -- for MCP sessions (`mcp.session.EvidenceJudge`) -----------------------------------------------

    @property
    def labels(self) -> Labels:
        """The secret labels that end peers' messages in each session."""
        return self.fetcher.labels

    def brings(self, agent: str) -> bool:
        """Whether hooks take mail along in the turn that an agent is in."""
        session = self.sessions.of(agent)
        return session is not None and session.heard > 0 and session.state == "busy"

    def adopt(self, agent: str, call: str, ids: list[str]) -> bool:
        """Whether a transcript will show what a tool's result hands out, so that no later call has to."""
        return self.fetcher.adopt(self.sessions.of(agent), call, ids)

    # -- an idle client -------------------------------------------------------------------------------

    def has_reason(self, agent: Agent) -> bool:
        """Whether there is a reason to wake an agent: mail waits, or its last woken turn failed."""
        session = self.sessions.of(agent.id)
        return bool(agent.pending) or (session is not None and session.wakes.failures > 0)

    def mail(self, agent: str) -> None:
        """Mail waits for an agent: open the gate of its hooks, and wake it if it is idle."""
        known = self._mesh.state.agents.get(agent)
        session = None if known is None else self.sessions.of(agent) or self._find(known)
        if session is None or known is None:
            return
        self._gates.open(known)
        session.wakes.news.set()
        if not session.wakes.is_waiting and session.is_wakeable:
            session.wakes.is_waiting = True
            self.run(self._waking.wake(session))

    def wake_agents_of(self, process: str) -> None:
        """A client's process can take mail now: wake its agents for what waits."""
        for agent in self.access.agents():
            if agent.owner == process and self.has_reason(agent):
                self.mail(agent.id)

    def go_on(self) -> None:
        """The broker answers: no hook has to skip it any longer."""
        self._gates.go_on()

    def joined(self, agent: str) -> None:
        """An agent is there: its client's first hook may have come before it, or have been noted only."""
        known = self._mesh.state.agents.get(agent)
        if known is not None and self.sessions.of(agent) is None:
            self._find(known)

    def _find(self, agent: Agent) -> ClientSession | None:
        """The session of an agent whose first hook came before the agent joined, or before this broker."""
        if agent.owner and agent.kind in self._clients:
            self.read_starts()
            if (session := self.sessions.of(agent.id)) is not None:
                return session
        last = self.owners.last_of(agent, self.sessions.bound())
        if last is not None and agent.conversations and not is_seated(agent, last[1].session):
            client, event = last
            if event.what == "session_started":  # the conversations are of those that bore the name before
                self.run(self._bind(agent, event, self._clients[client]))
                return None
            last = None  # its human has left that one
        if last is not None:
            client, event = last
            session = self.sessions.open(agent, self._clients[client])
            self._session_changed(session, session.note(event))
            return session
        before = self.sessions.remembered.load(agent)
        record = None if before is None else self._clients.get(before.kind)
        return None if record is None else self.sessions.open(agent, record)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background."""
        self._tasks.run(work)


class SessionAccess:
    """What wakers and threads of a client may ask (`clients.ports.SessionPort`)."""

    def __init__(self, mesh: SessionMesh, tracker: SessionTracker) -> None:
        self._mesh = mesh
        self.run = tracker.run
        self.joined = tracker.joined
        self.mail = tracker.mail
        self.place = tracker.place
        self.meet = tracker.meet
        self.settle = tracker.settle
        self.has_reason = tracker.has_reason
        self.session_of = tracker.sessions.of
        self.fetch_to_wake = tracker.fetcher.fetch_to_wake
        self.give_back = tracker.fetcher.give_back
        self.seek_marks = tracker.fetcher.seek_marks

    def agents(self) -> list[Agent]:
        """All agents."""
        return list(self._mesh.state.agents.values())

    def activity(self, agent: str) -> str:
        """What an agent is doing, as far as its client reports."""
        return self._mesh.facts.activity(agent)

    def pane_of_socket(self, inode: str) -> str:
        """The pane of the process that holds a socket."""
        return pane_of(holder_of(inode))

    def end_session(self, shim: McpSession, agent: Agent) -> None:
        """The terminal of a session is gone: end the session."""
        self._mesh.submit(shim.source, 0, EndSession(agent.id, agent.session))


def quiet(event: HookEvent) -> HookEvent:
    """What an event of the past leaves behind: the client is idle, or nobody knows what it does."""
    what = "session_started" if event.what in ("session_started", "turn_ended") else "other"
    return msgspec.structs.replace(event, what=what)
