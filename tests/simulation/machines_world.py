"""Several machines on hand-turned loops and clocks, over wires that do anything but forge.

Kernel, engine, journal, exchange and bridge are the real ones; the wires, the clients and the faults are
simulated, by seed.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tellwire.core.context import Caller, EndSession, ExpireDue
from tellwire.core.limits import Limits
from tellwire.core.state import Agent, Machine, Receipt
from tellwire.federation.carriers.memory import Faults, MemoryCarrier, MemoryWire
from tellwire.federation.ports import Receive
from tellwire.machines.bridge import Bridge, BrokerSide, Up
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued, MessagesRead, parse_batch
from tellwire.protocol.machines import BoxKey, Card
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.machines import PairMachine
from tellwire.protocol.operations.messages import ConfirmMessages, MessageRecord, Offer, SendMessage, Sent
from tellwire.store.memory_journal import MemoryJournal
from tests.simulation.broker import Crash, Life, Port, Tap, Time

OPERATOR = Caller(kind="operator", process="1.1")


class PlainSeal:
    """Closes nothing: the rules under test do not depend on it. It knows who may speak."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._known: set[str] = set()

    def learn(self, machine: str, sign_key: bytes, boxes: Sequence[BoxKey]) -> None:
        self._known.add(machine)

    def forget(self, machine: str) -> None:
        self._known.discard(machine)

    def seal(self, machine: str, plain: bytes) -> bytes:
        return f"{self._me}>{machine} ".encode() + plain

    def open(self, blob: bytes) -> tuple[str, bytes] | None:
        head, _, plain = blob.partition(b" ")
        sender, _, receiver = head.decode().partition(">")
        return (sender, plain) if receiver == self._me and sender in self._known else None


class Connector:
    """Plugs the ends of the wires in."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def connect(self, machine: Machine, receive: Receive, up: Up) -> Sequence[MemoryCarrier]:
        end = self._host.wires[machine.id].ends[self._host.id]
        self._host.plugged.append((end, receive, lambda is_up, why: up(0, is_up, why)))
        return [end]

    def disconnect(self, machine: str) -> None:
        self._host.wires[machine].ends[self._host.id].disconnect()


class Host:
    """One machine: its disk, its clocks, its broker while it runs, and the programs on it."""

    def __init__(self, label: str, random: Random) -> None:
        self.label = label
        self.card = Card(
            sign_key=label.encode().ljust(32, b"."), label=label, boxes=[BoxKey(1, label.encode().ljust(32))]
        )
        self.id = self.card.id
        self.random = random
        self.time = Time()
        self.journal = MemoryJournal()
        self.tap = Tap(self.journal)
        self.wires: dict[str, MemoryWire] = {}
        self.plugged: list[tuple[MemoryCarrier, Receive, Callable[[bool, str], None]]] = []
        self.life: Life | None = None
        self.programs: list[Program] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.asleep = False
        self.copy: MemoryJournal | None = None
        self.was_put_back = False

    # -- lives ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a broker's life."""
        self.tap = Tap(self.journal)
        self.life = Life(self.tap, self.time, Limits())
        self.timers, self.plugged = [], []
        side = BrokerSide(self.life.engine, self.tap.journal, lambda: self.time.monotonic)
        bridge = Bridge(
            side,
            self.life.engine.commits,
            Connector(self),
            seal=PlainSeal(self.id),
            random=self.random.random,
            call_at=self._call_at,
        )
        self.life.engine.facts.tell_ways(bridge.way)
        self._plug()
        for program in self.programs:
            program.connect(self.life)
        self.turn()

    def _call_at(self, at: float, call: Callable[[], None]) -> None:
        self.timers.append((at, call))

    def _plug(self) -> None:
        plugged, self.plugged = self.plugged, []
        for end, receive, up in plugged:
            end.connect(receive, up)

    def crash(self) -> None:
        """The process is gone; what was said to it is too."""
        self.life = None
        self.timers, self.plugged = [], []
        for wire in self.wires.values():
            wire.ends[self.id].disconnect()
        for program in self.programs:
            program.drop()

    def turn(self) -> None:
        """Let everything that is ready run."""
        life = self.life
        if life is None or self.asleep:
            return
        life.engine.clock.read()  # as the ticker does
        try:
            for _ in range(50):
                self._plug()
                due = [each for each in self.timers if each[0] <= self.time.monotonic]
                self.timers = [each for each in self.timers if each[0] > self.time.monotonic]
                for _, call in due:
                    call()
                life.run()
                for program in self.programs:
                    program.receive()
                if not (due or life.queue or self.plugged):
                    return
            raise AssertionError("the machine never comes to rest")
        except Crash:
            self.crash()

    def free_disk(self) -> None:
        """There is room on the disk again, and the broker finds out."""
        if self.life is not None and self.life.engine.storage.error is not None:
            self.tap.fate = lambda: ""
            self.life.engine.probe()

    def expire(self) -> None:
        if self.life is not None:
            self.life.engine.submit_own(ExpireDue())

    # -- copies ---------------------------------------------------------------------------------------

    def save_copy(self) -> None:
        """A backup of the disk."""
        saved = copy.copy(self.journal)
        saved.__dict__ = {key: copy.copy(value) for key, value in self.journal.__dict__.items()}
        self.copy = saved

    def put_back(self) -> None:
        """The backup takes the disk's place; the broker has to start anew."""
        assert self.copy is not None
        self.crash()
        self.journal = self.copy
        self.copy = None

    # -- looking --------------------------------------------------------------------------------------

    def events(self) -> list[tuple[int, Any]]:
        """Everything on disk, with its sequence."""
        found: list[tuple[int, Any]] = []
        for commit in self.journal.commits:
            batch = parse_batch(commit.data)
            found += [(commit.seq - len(batch) + 1 + place, event) for place, event in enumerate(batch)]
        return found


class Program:
    """One agent's program: it sends, reads and confirms, and knows what it did."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.life: Life | None = None
        self.port: Port | None = None
        self.number = 0
        self.seen: list[MessageRecord] = []
        """Everything that it was offered and confirmed, in order."""
        self.offered: dict[str, MessageRecord] = {}
        self.asked: dict[int, SendMessage] = {}
        self.confirming: dict[int, list[str]] = {}
        self.unconfirmed: list[str] = []
        self.sent: dict[str, list[str]] = {}
        """By body of what the broker accepted: to whom."""

    def connect(self, life: Life) -> None:
        self.life, self.port, self.offered = life, Port(life), {}
        self.number += 1
        life.engine.submit(self.port, self.number, RegisterAgent(name=self.name, session=f"s-{self.name}"))

    def hang_up(self) -> None:
        """Its connection breaks; a new one follows later."""
        if self.port is not None and self.life is not None and self.port.caller.is_own_client:
            self.port.writable = False
            self.life.engine.submit(self.port, 0, EndSession(self.port.caller.agent, f"s-{self.name}"))
        self.drop()

    def drop(self) -> None:
        self.life = self.port = None
        self.offered, self.asked, self.confirming, self.unconfirmed = {}, {}, {}, []

    @property
    def is_ready(self) -> bool:
        return self.port is not None and self.port.caller.kind == "agent"

    def send(
        self, to: str | list[str], body: str, *, ttl_s: float | None = None, re: str | None = None
    ) -> None:
        assert self.port is not None and self.life is not None  # noqa: PT018
        self.number += 1
        self.asked[self.number] = SendMessage(to=to, body=body, ttl_s=ttl_s, re=re)
        self.life.engine.submit(self.port, self.number, self.asked[self.number])

    def receive(self) -> None:
        while self.port is not None and self.port.heard:
            n, said = self.port.heard.pop(0)
            if isinstance(said, Offer):
                self.offered |= {record.id: record for record in said.messages}
            elif n in self.confirming:
                ids = self.confirming.pop(n)
                self.unconfirmed += ids if isinstance(said, TellwireError) else []
            elif isinstance(said, Sent) and n in self.asked and said.id:
                asked = self.asked.pop(n)
                self.sent[str(asked.body)] = [asked.to] if isinstance(asked.to, str) else asked.to

    def confirm(self, count: int) -> None:
        """Read the oldest of what was offered."""
        if self.life is None or self.port is None or not self.is_ready:
            return
        ids, known = list(self.offered)[:count], {record.id for record in self.seen}
        for each in ids:
            record = self.offered.pop(each)
            if each not in known:  # its word for it may have been lost with the broker
                self.seen.append(record)
        ids, self.unconfirmed = [*self.unconfirmed, *ids], []
        if ids:
            self.number += 1
            self.confirming[self.number] = ids
            self.life.engine.submit(self.port, self.number, ConfirmMessages(ids=ids))


class World:
    """Hosts, wires, and what may happen to them."""

    def __init__(self, seed: int, labels: Sequence[str] = ("desk", "laptop"), names: int = 2) -> None:
        self.random = Random(seed)
        self.clock = 0.0
        self.hosts = [Host(label, self.random) for label in labels]
        self.wires: list[MemoryWire] = []
        self.count = 0
        self.trace: Counter[str] = Counter()
        for place, one in enumerate(self.hosts):
            for other in self.hosts[place + 1 :]:
                wire = MemoryWire((one.id, other.id), lambda: self.clock, random=self.random)
                one.wires[other.id] = other.wires[one.id] = wire
                self.wires.append(wire)
        for host in self.hosts:
            host.programs = [Program(f"{host.label}-{place}", host) for place in range(names)]
            host.start()
        for one in self.hosts:
            for other in self.hosts:
                if one is not other:
                    self.pair(one, other)
        self.run(10.0)

    def pair(self, one: Host, other: Host) -> None:
        assert one.life is not None
        port = Port(one.life)
        port.caller = OPERATOR
        one.life.engine.submit(port, 1, PairMachine(card=other.card, here=one.card, carriers=["memory"]))
        one.turn()
        assert not isinstance(port.heard[0][1], Exception), port.heard

    # -- time -----------------------------------------------------------------------------------------

    def step(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        self.clock += seconds
        for host in self.hosts:
            host.time.wall += seconds
            if not host.asleep:
                host.time.monotonic += seconds
        for wire in self.wires:
            wire.deliver()
        for host in self.hosts:
            host.turn()

    def run(self, seconds: float, pace: float = 0.5) -> None:
        """Let so much time pass in small steps."""
        end = self.clock + seconds
        while self.clock < end:
            self.step(pace)
            for host in self.hosts:
                if host.life is None:
                    host.start()

    # -- what may happen ------------------------------------------------------------------------------

    def say(self, *, ttl_s: float | None = None) -> None:
        """Some program sends to one or two agents elsewhere."""
        host = self.random.choice(self.hosts)
        ready = [program for program in host.programs if program.is_ready]
        if not ready or host.asleep:
            return
        sender = self.random.choice(ready)
        others = [each for other in self.hosts if other is not host for each in other.programs]
        chosen = self.random.sample(others, self.random.choice((1, 1, 1, 2)))
        names = [f"{each.host.label}:{each.name}" for each in chosen]
        self.count += 1
        sender.send(names[0] if len(names) == 1 else names, f"{sender.name}/{self.count}", ttl_s=ttl_s)

    def mishap(self, *, put_back: bool = False) -> None:
        """Something goes wrong, or right again."""
        host, wire, draw = (
            self.random.choice(self.hosts),
            self.random.choice(self.wires),
            self.random.random(),
        )
        if draw < 0.2:
            fate = self.random.choice(("before", "after"))
            host.tap.fate = lambda: fate
            self.trace["crash"] += 1
        elif draw < 0.25:
            host.tap.fate = lambda: "storage_full"
            self.trace["disk full"] += 1
        elif draw < 0.3:
            wire.wipe()
            self.trace["wiped"] += 1
        elif draw < 0.5:
            wire.faults = Faults(
                loss=self.random.choice((0.0, 0.1, 0.5)),
                repeat=self.random.choice((0.0, 0.3)),
                replay=self.random.choice((0.0, 0.2)),
                delay_s=self.random.choice((0.0, 0.5, 5.0)),
            )
        elif draw < 0.6:
            wire.is_up = not wire.is_up
            for end in wire.ends.values():
                end.note_up()
        elif draw < 0.7:
            host.asleep = not host.asleep
            self.trace["asleep"] += 1
        elif draw < 0.8:
            host.time.wall += self.random.choice((-86_400.0, -60.0, 3_600.0, 86_400.0))
        elif draw < 0.9:
            self.random.choice(host.programs).hang_up()
        elif put_back and host.copy is None:
            host.save_copy()
        elif put_back and self.random.random() < 0.5:
            host.put_back()
            host.was_put_back = True
            self.trace["put back"] += 1

    def live(self, steps: int, *, put_back: bool = False, ttl: bool = False) -> None:
        """Talk while things happen."""
        for _ in range(steps):
            draw = self.random.random()
            if draw < 0.5:
                self.say(ttl_s=self.random.choice((None, 2.0, 30.0)) if ttl else None)
            elif draw < 0.65:
                self.mishap(put_back=put_back)
            elif draw < 0.8:
                program = self.random.choice(self.random.choice(self.hosts).programs)
                program.confirm(self.random.randrange(1, 5))
            for host in self.hosts:
                if host.life is None and self.random.random() < 0.5:
                    host.start()
                if self.random.random() < 0.3:
                    host.free_disk()
                for program in host.programs:
                    if program.port is None and host.life is not None and self.random.random() < 0.3:
                        program.connect(host.life)
                if ttl and self.random.random() < 0.1:
                    host.expire()
            self.step(self.random.choice((0.01, 0.1, 0.5, 2.0)))

    def heal(self) -> None:
        """All faults stop."""
        for host in self.hosts:
            host.asleep = False
            host.free_disk()
            host.tap.fate = lambda: ""
            if host.life is None:
                host.start()
            for program in host.programs:
                if not program.is_ready and host.life is not None:
                    program.connect(host.life)
        for wire in self.wires:
            wire.faults, wire.is_up = Faults(), True
            for end in wire.ends.values():
                end.note_up()

    def drain(self, patience_s: float = 1_500.0) -> None:
        """Until everything is acknowledged and read; never stuck."""
        self.heal()
        end = self.clock + patience_s
        while self.clock < end:
            self.step(1.0)
            for host in self.hosts:
                host.expire()
                for program in host.programs:
                    program.confirm(100)
            if self.is_settled():
                return
        left = {host.label: [(m.label, len(m.out)) for m in self.machines(host)] for host in self.hosts}
        raise AssertionError(f"it is stuck: {left}")

    def machines(self, host: Host) -> list[Machine]:
        assert host.life is not None
        return list(host.life.state.machines.values())

    def shadows(self, host: Host) -> list[Agent]:
        assert host.life is not None
        return [agent for agent in host.life.state.agents.values() if agent.machine]

    def is_settled(self) -> bool:
        return all(
            not any(machine.out for machine in self.machines(host))
            and not any(agent.pending or agent.leased for agent in self.shadows(host))
            and not any(program.offered for program in host.programs)
            for host in self.hosts
        )

    # -- what must hold -------------------------------------------------------------------------------

    def host_of(self, machine: str) -> Host:
        return next(host for host in self.hosts if host.id == machine)

    def check_once_in_order(self) -> None:
        """Each message was seen once by each recipient, in the order in which its sender sent."""
        senders = [each for one in self.hosts for each in one.programs]
        for host in self.hosts:
            for program in host.programs if not host.was_put_back else ():
                for sender in senders:
                    bodies = [str(each.body) for each in program.seen]
                    mine = [body for body in bodies if body.startswith(f"{sender.name}/")]
                    assert len(mine) == len(set(mine)), f"{program.name} saw something twice: {mine}"
                    numbers = [int(body.partition("/")[2]) for body in mine]
                    in_order = numbers == sorted(numbers) or sender.host.was_put_back
                    assert in_order, f"{program.name} saw them out of order: {mine}"

    def check_nothing_lost(self) -> None:
        """Whatever a broker accepted was seen by everybody it was for."""
        for host in self.hosts:
            for sender in host.programs:
                for body, names in sender.sent.items():
                    for name in names:
                        label, _, bare = name.partition(":")
                        there = next(each for each in self.hosts if each.label == label)
                        program = next(each for each in there.programs if each.name == bare)
                        seen = {str(each.body) for each in program.seen}
                        assert body in seen, f"{body} never reached {name}"

    def check_replay(self) -> None:
        """The state is what the journal gives, outbox and marks included."""
        for host in self.hosts:
            assert host.life is not None
            assert host.life.equals_journal(), f"{host.label} differs from its journal"

    def check_same_ends(self) -> None:
        """Both journals tell the same end of every message."""
        for host in self.hosts:
            for there in self.hosts:
                taken = {each.origin: seq for seq, each in there.events() if is_from(each, host)}
                for seq, event in host.events():
                    if isinstance(event, MessageQueued) and not event.origin:
                        self._check_end(host, there, seq, event, taken)

    def _check_end(
        self, host: Host, there: Host, seq: int, event: MessageQueued, taken: dict[int, int]
    ) -> None:
        assert host.life is not None
        for agent_id in event.recipients:
            agent = host.life.state.agents[agent_id]
            if agent.machine != there.id:
                continue
            here = host.journal.settled(seq)[agent_id].state
            if seq not in taken:
                assert here == "expired", f"{seq} never came, and is called {here}"
            else:
                end = there.journal.settled(taken[seq]).get(agent.there)
                assert here == (end.state if end is not None else "expired"), f"{seq}: {here}, {end}"

    def check_statuses(self) -> None:
        """No status claims more than the other journal shows."""
        for host in self.hosts:
            if host.life is None:
                continue
            for agent in self.shadows(host):
                there = self.host_of(agent.machine)
                taken = {event.origin: seq for seq, event in there.events() if is_from(event, host)}
                for seq, receipt in agent.leased.items():
                    check_claim(seq, receipt, taken)
            self._check_read(host)

    def _check_read(self, host: Host) -> None:
        assert host.life is not None
        agents = host.life.state.agents
        for _, event in host.events():
            if not isinstance(event, MessagesRead) or not agents[event.agent].machine:
                continue
            agent = agents[event.agent]
            there = self.host_of(agent.machine)
            reads = [each for _, each in there.events() if isinstance(each, MessagesRead)]
            seen = {(each.agent, seq) for each in reads for seq in each.seqs}
            taken = {each.origin: seq for seq, each in there.events() if is_from(each, host)}
            for seq in event.seqs:
                assert (agent.there, taken.get(seq)) in seen, f"{seq} is called read and is not"


def is_from(event: object, host: Host) -> bool:
    """Whether this is a message that came from that host."""
    return (
        isinstance(event, MessageQueued)
        and event.origin > 0
        and event.sender_name.startswith(f"{host.label}:")
    )


def check_claim(seq: int, receipt: Receipt, taken: dict[int, int]) -> None:
    if receipt.there in ("received", "delivered"):
        assert seq in taken, f"{seq} is called {receipt.there} and never came"
