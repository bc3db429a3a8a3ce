"""Crashes around the commit, full disks and broken lines, by seed: nothing acked is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tellwire.broker.ports import Journal
from tellwire.core.limits import Limits
from tellwire.core.state import format_snapshot
from tellwire.protocol.events import MessageQueued, parse_batch
from tellwire.store.memory_journal import MemoryJournal
from tellwire.store.sqlite_journal import SqliteJournal
from tests.simulation.broker import Crash, Life, Tap, Time
from tests.simulation.client import Client
from tests.simulation.puller import Puller

NAMES: tuple[str, ...] = ("ann", "bob", "cat", "dan")
LIMITS = Limits(window_messages_max=4)
ROUNDS_MAX = 300


class World:
    """Two clients that are pushed to, two that fetch, and one broker life after another on one journal."""

    def __init__(self, seed: int, journal: Callable[[], Journal]) -> None:
        self.chance = random.Random(seed)
        self.journal = journal
        self.time = Time()
        self.tap = Tap(journal())
        self.troubled = False
        self.full = False
        self.tap.fate = self.fate
        self.dead: set[str] = set()
        self.pullers = [Puller(name, self.dead) for name in NAMES[2:]]
        self.clients = [*(Client(name) for name in NAMES[:2]), *self.pullers]
        self.life = Life(self.tap, self.time, LIMITS, dead=self.dead)
        self.happened: Counter[str] = Counter()
        for client in self.clients:
            client.connect(self.life)
        self.go_on()
        self.troubled = True

    def fate(self) -> str:
        """What the next commit meets."""
        if not self.troubled:
            return ""
        if self.full:
            return "storage_full"
        fate = self.chance.choices(["", "before", "after"], [10, 1, 1])[0]
        self.happened[fate] += 1
        return fate

    def turn(self) -> None:
        """Let the broker work; if it crashes, a new one begins where the disk is."""
        try:
            self.life.run()
        except Crash:
            self.restart()

    def restart(self) -> None:
        for client in self.clients:
            client.receive()  # what was flushed before the crash has arrived
            client.drop()
        self.tap.close()
        self.tap = Tap(self.journal())
        self.life = Life(self.tap, self.time, LIMITS, dead=self.dead)
        self.tap.fate = self.fate
        assert [agent.name for agent in self.life.state.agents.values() if agent.online] == ["operator"]

    def step(self) -> None:
        """Something happens."""
        chance = self.chance
        client = chance.choice(self.clients)
        self.full = self.full and chance.random() < 0.7
        match chance.choices(range(9), [8, 5, 4, 1, 1, 1, 1, 2, 0.5])[0]:
            case 0:
                for _ in range(chance.randrange(1, 4)):
                    to = chance.choice([*(set(NAMES) - {client.name}), "broadcast", list(NAMES)])
                    client.send(to, birth_s=self.life.engine.clock.awake + 0.001)
            case 1:
                client.claim()
            case 2:
                client.confirm()
            case 3:
                client.hang_up()
            case 4:
                self.full = True
                self.happened["full"] += 1
            case 5:
                self.snapshot()
            case 6:
                self.life.engine.probe()
            case 7:
                self.fetch_in_vain(chance.choice(self.pullers))
            case _:
                chance.choice(self.pullers).die()
        self.go_on()

    def fetch_in_vain(self, client: Puller) -> None:
        """A fetch is cancelled before its answer is there, or before it is looked at."""
        client.claim()
        if self.chance.random() < 0.5:
            self.turn()
        client.cancel()

    def snapshot(self) -> None:
        if self.life.engine.storage.error is None and not self.life.queue:
            self.tap.save_snapshot(self.life.state.seq, format_snapshot(self.life.state))
            self.tap.derive(3)

    def go_on(self) -> None:
        for client in self.clients:
            if client.port is None and self.chance.random() < 0.7:
                client.connect(self.life)
        self.turn()
        for client in self.clients:
            client.receive()

    def heal(self) -> None:
        """No more trouble: everything must come to its end."""
        self.troubled = self.full = False
        for _ in range(ROUNDS_MAX):
            self.life.engine.probe()
            for client in self.clients:
                client.claim()
                client.confirm()
            self.go_on()
            if (
                all(client.ready and not client.open for client in self.clients)
                and not self.life.state.waiting()
            ):
                return
        raise AssertionError(f"mail is stuck: {self.life.state.waiting()}")


def messages_of(tap: Tap) -> list[tuple[int, MessageQueued]]:
    """All messages ever committed, with their sequences."""
    found: list[tuple[int, MessageQueued]] = []
    for commit in tap.replay(0):
        batch = parse_batch(commit.data)
        first = commit.seq - len(batch) + 1
        found += [
            (first + place, event) for place, event in enumerate(batch) if isinstance(event, MessageQueued)
        ]
    return found


def contexts_of(client: Client) -> list[list[str]]:
    """What the client's application saw, in each of its lives."""
    return [*client.past, client.context] if isinstance(client, Puller) else [client.context]


def check(world: World) -> None:
    """What was promised, of everything that happened."""
    committed = messages_of(world.tap)
    keys = [event.key for _, event in committed]
    assert len(keys) == len(set(keys)), "one send became two messages"
    names = {agent.id: agent.name for agent in world.life.state.agents.values()}
    due: dict[str, list[str]] = {name: [] for name in NAMES}
    for seq, event in committed:
        (message,) = world.tap.messages([seq])
        for recipient in event.recipients:
            due[names[recipient]].append(message.body)
    # A broadcast that reached nobody is no message; sent again after a crash it may reach somebody, later.
    direct = {world.tap.messages([seq])[0].body for seq, event in committed if event.to != "broadcast"}
    stored = {body for bodies in due.values() for body in bodies}
    for client in world.clients:
        for seen in contexts_of(client):
            assert len(seen) == len(set(seen)), "a message entered a context twice"
            for sender in NAMES:
                numbers = [
                    int(body.partition(":")[2])
                    for body in seen
                    if body in direct and body.startswith(f"{sender}:")
                ]
                assert numbers == sorted(numbers), "a pair's messages came out of order"
        all_seen = [body for seen in contexts_of(client) for body in seen]
        assert sorted(set(all_seen)) == sorted(due[client.name]), "what was stored and what was seen differ"
        doubled = {body for body, count in Counter(all_seen).items() if count > 1}
        assert doubled <= (client.again if isinstance(client, Puller) else set()), "a repeat is not marked"
        for body, sent in client.acked.items():
            assert body in stored or not sent.id, "a message that was acknowledged is lost"
        assert not stored & set(client.refused), "a send was refused and carried out"
    assert world.life.equals_journal()


def simulate(seed: int, journal: Callable[[], Journal], steps: int) -> World:
    world = World(seed, journal)
    for _ in range(steps):
        world.step()
    world.heal()
    check(world)
    return world


@pytest.mark.requirement("REC-2", "REC-3", stage="mcp")
@pytest.mark.requirement("AUD-6", "NET-6", "REC-3", "NET-3")
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_no_crash_at_a_commit_loses_doubles_or_reorders_in_memory(first: int) -> None:
    happened: Counter[str] = Counter()
    acked = seen = 0
    for seed in range(first, first + 25):
        memory = MemoryJournal()
        world = simulate(seed, lambda memory=memory: memory, 60)
        happened += world.happened
        happened["died"] += len(world.dead)
        happened["in vain"] += sum(len(client.in_vain) for client in world.pullers)
        acked += sum(len(client.acked) for client in world.clients)
        seen += sum(len(client.context) for client in world.pullers)
    assert min(happened[word] for word in ("before", "after", "full", "died", "in vain")) > 5, happened
    assert min(acked, seen) > 500


@pytest.mark.requirement("REC-2", "REC-3", stage="mcp")
@pytest.mark.requirement("AUD-6", "NET-6", "REC-3", "NET-3")
@pytest.mark.parametrize("seed", range(1000, 1025))
def test_no_crash_at_a_commit_loses_doubles_or_reorders_on_disk(seed: int, tmp_path: Path) -> None:
    world = simulate(seed, lambda: SqliteJournal(tmp_path / "tellwire.db"), 60)
    world.tap.close()
