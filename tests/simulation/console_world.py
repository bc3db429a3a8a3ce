"""A console beside a mesh where anything happens: random operations, a feed that stalls, brokers that die."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tellwire.core.context import (
    Caller,
    EndSession,
    ExpireDue,
    ForgetAbsent,
    MarkAlive,
    MarkSilent,
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReportTurn,
    ReserveChild,
)
from tellwire.core.limits import Limits
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import parse_broker_frame
from tellwire.protocol.ids import format_id, parse_message_id
from tellwire.protocol.operations.agents import MuteAgent, RegisterAgent, UnregisterAgent, UpdateAgent
from tellwire.protocol.operations.base import Reply
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.feed import Overview, OverviewPage, ReportActivity, WatchFeed, Watching
from tellwire.protocol.operations.links import AddMember, CloseLink, LeaveLink, OpenLink, ResumeLink
from tellwire.protocol.operations.listeners import Listen, Unlisten
from tellwire.protocol.operations.messages import ConfirmMessages, SendMessage, TakeMessages
from tellwire.protocol.operations.needs import AnswerMessage
from tellwire.protocol.operations.peers import MeshPolicy, RegisterPeer, RemovePeer
from tellwire.protocol.operations.scopes import ClaimScope, ReleaseScope, ScopeRule
from tellwire.protocol.operations.topics import Subscribe, Unsubscribe
from tellwire.store.memory_journal import MemoryJournal
from tellwire.views.agents import agent_rows
from tellwire.views.attention import attention
from tellwire.views.model import GAP, Frame, Model, fold, snapshot
from tests.simulation.broker import Crash, Life, Port, Tap, Time

NAMES = ("ann", "bob", "cat", "dan", "eve")
LIMITS = Limits(
    window_messages_max=4,
    mailbox_messages_max=12,
    link_turns_max=3,
    forget_after_s=3_000.0,
    ttl_s=200.0,
    operator_share_max=4,
)
OPERATOR = Caller(kind="operator", console="tui")


class ConsolePort(Port):
    """The connection of a console: everything it is sent, in order."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self.caller = OPERATOR
        self.frames: list[Frame | Reply | TellwireError] = []

    def answer(self, n: int, reply: Reply) -> None:
        self._check_durable()
        self.frames.append(reply)

    def refuse(self, n: int, error: TellwireError) -> None:
        self.frames.append(error)

    def offer(self, frame: bytes) -> None:
        self._check_durable()
        assert self.writable, "sent to a connection that takes nothing"
        for line in frame.splitlines():
            told = parse_broker_frame(line)
            found = told.feed or told.rows or told.pulse
            assert found is not None
            self.frames.append(found)


class Console:
    """What `tellwire.watch` does: an overview, then the feed behind it; a new one after a gap."""

    def __init__(self) -> None:
        self.model = Model()
        self.port: ConsolePort | None = None
        self.gaps = self.resets = self.resumed = 0
        self.chars = 5

    def connect(self, life: Life) -> None:
        self.port = ConsolePort(life)
        if not self.model.seq:
            self.look(life)
            return
        reply = self.watch(life)
        self.resets += reply.reset
        self.resumed += not reply.reset
        if reply.reset:
            self.look(life)

    def look(self, life: Life) -> None:
        """Take a new overview and watch from there."""
        for page in overview(life, self.ask):
            fold(self.model, page)
        assert not self.watch(life).reset

    def watch(self, life: Life) -> Watching:
        asked = WatchFeed(after=self.model.seq, live=True, chars=self.chars)
        reply = self.ask(life, asked)
        assert isinstance(reply, Watching), reply
        return reply

    def ask(self, life: Life, operation: Any) -> object:
        """A read; frames of the feed that come before its answer are kept."""
        assert self.port is not None
        before = len(self.port.frames)
        life.engine.answer_now(self.port, 1, operation)
        answers = self.port.frames[before:]
        del self.port.frames[before:]
        return answers[0]

    def take(self, life: Life) -> None:
        """Fold all that came."""
        while self.port is not None and self.port.frames:
            frame = self.port.frames.pop(0)
            if getattr(frame, "type", "") == GAP:
                self.gaps += 1
                self.port.frames.clear()
                self.look(life)
                life.run()
            else:
                fold(self.model, frame)  # pyright: ignore[reportArgumentType]  # replies were taken out


def overview(life: Life, ask: Callable[[Life, Any], object]) -> list[OverviewPage]:
    """All pages of one."""
    pages: list[OverviewPage] = []
    after = ""
    while True:
        page = ask(life, Overview(after=after, limit=3))
        assert isinstance(page, OverviewPage), page
        pages.append(page)
        if not page.next:
            return pages
        after = page.next


class World:
    """Programs, a broker that dies, and one console."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = Time()
        self.tap = Tap(MemoryJournal())
        self.dead: set[str] = set()
        self.ports: dict[str, Port] = {}
        self.number = 0
        self.crashes = 0
        self.console = Console()
        self.life = Life(self.tap, self.time, LIMITS, dead=self.dead)
        self.console.connect(self.life)

    def step(self) -> None:
        """One thing happens; perhaps the broker dies of it."""
        act = self.random.choice(ACTS)
        fate = self.random.choice(["before", "after"]) if self.random.random() < 0.04 else ""
        fates = iter([fate])
        self.tap.fate = lambda: next(fates, "")
        try:
            act(self)
            self.life.run()
        except Crash:
            self.crash()
        self.tap.fate = lambda: ""

    def crash(self) -> None:
        """The process is gone; another one begins, and the console comes back where it was."""
        self.crashes += 1
        self.tap.fate = lambda: ""
        self.ports.clear()
        self.console.take(self.life) if self.console.port and not self.random.random() < 0.5 else None
        self.life = Life(self.tap, self.time, LIMITS, dead=self.dead)
        self.console.connect(self.life)
        self.life.run()

    def stall(self) -> None:
        """The console does not read for a while, or reads again."""
        port = self.console.port
        assert port is not None
        port.writable = not port.writable and self.random.random() < 0.25
        if port.writable:
            self.life.engine.wake()
            self.life.run()

    # -- what agents do -------------------------------------------------------------------------------

    def ask(self, operation: Any, name: str | None = None, caller: Caller | None = None) -> object:
        """Ask as an agent that is connected, or as somebody else."""
        port = self.ports.get(name or "")
        if port is None:
            port = Port(self.life)
            port.caller = caller or Caller(kind="script")
        self.number += 1
        self.life.engine.submit(port, self.number, operation)
        self.life.run()
        return next((said for n, said in port.heard if n == self.number), None)

    def someone(self) -> str | None:
        """An agent that is connected."""
        return self.random.choice(sorted(self.ports)) if self.ports else None

    def any_agent(self) -> Agent:
        agents = list(self.life.state.agents.values())
        return self.random.choice(agents)

    def a_name(self) -> str:
        return self.random.choice([*NAMES, self.any_agent().name])

    def check(self) -> None:
        """The picture equals the state."""
        console, life = self.console, self.life
        assert console.port is not None
        if not console.port.writable:
            return
        console.take(life)
        assert console.model.seq == life.state.seq
        fresh = snapshot(*overview(life, console.ask))
        for name, table in fresh.tables().items():
            assert console.model.tables()[name] == table, name
        for agent in (agent for agent, row in fresh.agents.items() if row.online):
            assert doing(console.model, agent) == doing(fresh, agent)
        self.check_needs(fresh)
        self.check_receipts()

    def check_needs(self, fresh: Model) -> None:
        """What needs the person, and the rows of agents, are the same however they were heard of."""
        now = self.time.wall
        known, true = attention(self.console.model, now), attention(fresh, now)
        kinds = {"failed", "expired", "denied", "refused", "overdue"}
        assert [need for need in known if need.kind not in kinds] == [
            need for need in true if need.kind not in kinds
        ]
        assert {need.key for need in known} >= {need.key for need in true}
        assert agent_rows(self.console.model, now) == agent_rows(fresh, now)

    def check_receipts(self) -> None:
        state = self.life.state
        for message in self.console.model.messages.values():
            seq = parse_message_id(message.id)
            finals = self.tap.settled(seq)
            for agent_id, told in message.states.items():
                agent = state.agents.get(agent_id)
                if agent is not None and seq in agent.pending:
                    true = "pending"
                elif agent is not None and seq in agent.leased:
                    true = "delivered"
                else:
                    true = finals[agent_id].state if agent_id in finals else told
                assert told == true, (message.id, agent_id)


def doing(model: Model, agent: str) -> tuple[str, str]:
    """What an agent does, by a picture."""
    pulse = model.pulses.get(agent)
    return ("", "") if pulse is None else (pulse.activity, pulse.wants)


# -- what can happen ----------------------------------------------------------------------------------


def register(world: World) -> None:
    name = world.random.choice(NAMES)
    kind = world.random.choice(["script", "codex"])
    port = Port(world.life)
    world.number += 1
    fields: dict[str, Any] = {"pulls": world.random.random() < 0.5}
    operation = RegisterAgent(name=name, session=f"s-{name}{world.random.randint(0, 1)}", kind=kind, **fields)
    world.life.engine.submit(port, world.number, operation)
    world.life.run()
    if port.caller.is_own_client:
        world.ports[port.caller.agent] = port


def leave(world: World) -> None:
    if (name := world.someone()) is not None:
        world.ask(UnregisterAgent(forget=world.random.random() < 0.3), name)
        del world.ports[name]


def lose(world: World) -> None:
    if (name := world.someone()) is not None:
        port = world.ports.pop(name)
        port.writable = False
        agent = world.life.state.agents.get(name)
        if agent is not None:
            world.life.engine.submit(port, 0, EndSession(name, agent.session))


def rename(world: World) -> None:
    agent = world.any_agent()
    world.ask(UpdateAgent(agent=agent.name, name=world.random.choice(NAMES)), caller=OPERATOR)


def mute(world: World) -> None:
    for_s = world.random.choice([None, 60.0])
    off = world.random.random() < 0.3
    world.ask(MuteAgent(name=world.any_agent().name, for_s=for_s, off=off), caller=OPERATOR)


def send(world: World) -> None:
    links = [f"link:{link}" for link in world.life.state.links]
    to: Any = world.random.choice(
        [world.a_name(), "operator", "operator", "broadcast", "#t", [world.a_name(), world.a_name()], *links]
    )
    choices = ["yes", "no"] if to == "operator" and world.random.random() < 0.5 else None
    ttl_s = world.random.choice([None, 5.0])
    count = world.random.choice([1, 1, 1, 3, 9])
    for number in range(count):
        operation = SendMessage(to=to, body=f"b{number}", choices=choices, ttl_s=ttl_s)
        if (name := world.someone()) is not None:
            world.ask(operation, name)
        else:
            world.ask(operation, caller=OPERATOR)


def read(world: World) -> None:
    if (name := world.someone()) is not None:
        agent = world.life.state.agents.get(name)
        leased = [] if agent is None else [format_id("m", seq) for seq in agent.leased]
        world.ask(TakeMessages(call=f"c{world.number}"), name)
        world.ask(ConfirmMessages(ids=leased[: world.random.randint(0, 3)]), name)


def answer(world: World) -> None:
    state = world.life.state
    operator = state.find("operator")
    open_ids = [*state.questions(), *(operator.pending if operator is not None else ())]
    if open_ids:
        message = format_id("m", world.random.choice(open_ids))
        if world.random.random() < 0.5:
            world.ask(AnswerMessage(id=message, body="yes"), caller=OPERATOR)
        else:
            world.ask(ConfirmMessages(ids=[message]), caller=OPERATOR)


def wait(world: World) -> None:
    world.time.pass_by(world.random.choice([1.0, 30.0, 2_000.0]))
    world.life.engine.submit_own(world.random.choice([ExpireDue(), ForgetAbsent()]))


def presence(world: World) -> None:
    kind = world.random.choice([MarkSilent, MarkAlive])
    world.life.engine.submit_own(kind(world.any_agent().id))


def topics(world: World) -> None:
    if (name := world.someone()) is not None:
        kind = world.random.choice([Subscribe, Subscribe, Unsubscribe])
        world.ask(kind(topic=world.random.choice(["#t", "#u"])), name)


def links(world: World) -> None:
    known = list(world.life.state.links)
    name = world.someone()
    if not known or world.random.random() < 0.4:
        world.ask(OpenLink(members=[world.a_name(), world.a_name()]), name)
        return
    link = world.random.choice(known)
    operation = world.random.choice(
        [
            AddMember(link=link, name=world.a_name()),
            LeaveLink(link=link),
            CloseLink(link=link),
            ResumeLink(link=link),
        ]
    )
    world.ask(operation, name, OPERATOR)


def turns(world: World) -> None:
    agent = world.any_agent()
    outcome: Any = world.random.choice(["ended", "errored", "interrupted", "waiting"])
    turn = f"t{world.number}"
    world.number += 1
    human = world.random.random() < 0.2
    report = ReportTurn(agent.id, agent.session, turn, outcome, text=f"said {turn}", human=human)
    world.life.engine.submit_own(report)


def listening(world: World) -> None:
    if (name := world.someone()) is not None:
        world.ask(world.random.choice([Listen, Unlisten])(agent=world.a_name()), name)


def peers(world: World) -> None:
    kind = world.random.choice([RegisterPeer, RemovePeer])
    if (name := world.someone()) is not None:
        world.ask(kind(name=world.a_name()), name)
    world.ask(MeshPolicy(policy=world.random.choice(["open", "peers"]), group="/project"), caller=OPERATOR)


def claims(world: World) -> None:
    if (name := world.someone()) is not None:
        rule = ScopeRule(f"/project/{world.random.choice('abc')}")
        world.ask(world.random.choice([ClaimScope(rules=[rule]), ReleaseScope()]), name)


def children(world: World) -> None:
    state = world.life.state
    if not state.children or world.random.random() < 0.4:
        name = world.someone()
        if name is not None:
            spawn = SpawnAgent(
                name=world.random.choice(NAMES), client="command", task="x", command=["x"], headless=True
            )
            world.ask(ReserveChild(spawn), name)
        return
    child = world.random.choice(list(state.children))
    process = f"{world.number}.1"
    commands: list[Any] = [
        NoteChildStarted(child, process, "s", place="tmux"),
        NoteChildUp(child),
        NoteChildFailed(child, "no"),
        NoteChildEnd(child, "exited", result="done"),
    ]
    world.life.engine.submit_own(world.random.choice(commands))


def activity(world: World) -> None:
    if (name := world.someone()) is not None:
        word: Any = world.random.choice(["busy", "idle", "waiting", ""])
        world.ask(ReportActivity(activity=word, wants="rm" if word == "waiting" else ""), name)


ACTS: list[Callable[[World], None]] = [
    *[register, send, read] * 4,
    *[leave, lose, answer, links, turns, topics, World.stall] * 2,
    *[rename, mute, wait, presence, listening, peers, claims, children, children, activity, World.crash],
]
