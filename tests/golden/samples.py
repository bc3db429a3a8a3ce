"""The fixed facts whose stored shapes must load for ever, and how their files are made.

`TELLWIRE_GOLDEN=write pytest tests/golden` writes the files of today's versions. Do that for a new shape, or
while its version is not released yet; a released file is never written again: raise the version instead.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tellwire.core.context import OfferWaiting, StartBroker
from tellwire.core.record.stored import Commit
from tellwire.core.state import SNAPSHOT_VERSION, State, format_snapshot
from tellwire.protocol.events import (
    AgentForgotten,
    AgentMuted,
    AgentOffline,
    AgentOnline,
    AgentRegistered,
    AgentUpdated,
    AnyEvent,
    BrokerStarted,
    CallRefused,
    MessageAnswered,
    MessageQueued,
    MessagesDelivered,
    MessagesExpired,
    MessagesRead,
    MessagesReturned,
    SessionPlaced,
    SessionStarted,
    TopicJoined,
    TopicLeft,
    format_batch,
)
from tellwire.protocol.events.children import (
    ChildConfirmed,
    ChildEnded,
    ChildFailed,
    ChildReported,
    ChildReserved,
    ChildStarted,
    ChildStopAsked,
    ChildUnheard,
    PeersJoined,
    PeersParted,
    PolicySet,
    ScopeClaimed,
    ScopeReleased,
    ScopeSubDelegated,
)
from tellwire.protocol.events.links import (
    AgentOverdue,
    CheckpointMarked,
    LinkClosed,
    LinkJoined,
    LinkLeft,
    LinkOpened,
    LinkPaused,
    LinkResumed,
    ListenerAdded,
    ListenerRemoved,
    NewMember,
    TurnEnded,
)
from tellwire.protocol.events.machines import (
    IncarnationBegun,
    ItemRefused,
    MachineNamed,
    MachineOffline,
    MachineOnline,
    MachinePaired,
    MachineRemoved,
    MachineUpdated,
    MessagesRefused,
    MessagesWithdrawn,
    ParcelsAcked,
    ParcelsRefused,
    ParcelTaken,
    ReceiptGiven,
    ReceiptsTaken,
    RemoteAgentTold,
    RosterTaken,
    RosterTold,
)
from tellwire.protocol.machines import BoxKey, Card
from tellwire.protocol.operations.agents import UpdateAgent
from tellwire.protocol.operations.scopes import ScopeRule
from tellwire.protocol.operations.topics import Subscribe
from tellwire.protocol.parcels import RemoteAgent
from tellwire.store.database import APPLICATION_ID, SCHEMA_VERSION
from tellwire.store.sqlite_journal import SqliteJournal
from tests.unit.mesh import Mesh

FOLDER = Path(__file__).parent
EVENTS_FOLDER = FOLDER / "events"
SNAPSHOT = FOLDER / f"snapshot.{SNAPSHOT_VERSION}.msgpack"
SCHEMA = FOLDER / f"schema.{SCHEMA_VERSION}.sql"

CARD = Card(
    sign_key=b"s" * 32,
    label="desk",
    boxes=[BoxKey(7, b"b" * 32)],
    speaks=(1, 2),
    knows=["message"],
    version="0.2.0",
    body_bytes_max=1_000,
)
MACHINE = "kchgdr38qs9qgj9qh"
BOB = RemoteAgent("a3", "bob", "codex", "shop", ["review"], online=True, offline_reason="left")

SAMPLES: tuple[AnyEvent, ...] = (
    BrokerStarted("0.1.0"),
    AgentRegistered(
        name="alice",
        kind="codex",
        session="word",
        group="/project",
        capabilities=["rust", "review"],
        metadata={"model": "m", "cwd": "/project", "n": [1, None, 2.5, {"a": True}]},
        process="7.123",
        owner="6.122",
    ),
    SessionStarted(
        agent="a1",
        session="word",
        group="/project",
        capabilities=["rust"],
        metadata={"model": "m"},
        process="7.123",
        owner="6.122",
        seen=[4, 1025],
        keeps=True,
        was="a2",
    ),
    AgentUpdated("a1", "bob", [], {"x": 1}, "codex"),
    AgentOnline("a1"),
    AgentOffline("a1", "disconnected", [3]),
    AgentMuted("a1", True, 1_003_600.5),
    SessionPlaced("a1", "/home/u/shop", "tmux %3 812.7730", "0198-aa", provisional=True),
    AgentForgotten("a1"),
    MessageQueued(
        sender="a1",
        sender_name="alice",
        to="bob,carol",
        recipients=["a2", "a3"],
        size=12,
        digest="0123456789abcdef0123456789abcdef",
        ttl_s=3600.5,
        kind="response",
        re="m4f2k",
        mode="challenge",
        json=True,
        context='{"file":"a.py"}',
        key="f4240-word1",
        several=True,
        link="l7",
        said=3,
        hops=2,
        turn="turn 7",
        weak=True,
        origin=77,
        repeat=True,
    ),
    MessagesDelivered("a2", [5, 6], "17"),
    MessagesReturned("a2", [5, 6]),
    MessagesRead("a2", [5, 6], "confirm"),
    MessageAnswered("a2", 5),
    MessagesExpired("a2", [7, 8], [8]),
    TopicJoined("a2", "build"),
    TopicLeft("a2", "build"),
    TurnEnded("a2", "turn 7", "ended", 12, "0123456789abcdef0123456789abcdef", True, True, True),
    LinkOpened([NewMember("a1", "alice", 1, "host", "link"), NewMember("a2", "bob", 2)], True, "a1"),
    LinkJoined("l7", NewMember("a3", "carol", 3, "harvester", "link"), "a1"),
    LinkLeft("l7", "a3", "is gone"),
    LinkPaused("l7", "turns"),
    LinkResumed("l7", "a1"),
    LinkClosed("l7", "a1", "alice closed it"),
    ListenerAdded("a2", "a1", True),
    ListenerRemoved("a2", "a1"),
    AgentOverdue("a2"),
    CheckpointMarked("a2", True),
    CallRefused("a2", "send_message", "mailbox_full", 3, 1_000_000.5),
    PeersJoined("a1", "a2"),
    PeersParted("a1", "a2"),
    PolicySet("/project", "peers"),
    ScopeClaimed("a1", [ScopeRule("/project/src", "write", False), ScopeRule("/project", "read")], 1_400.5),
    ScopeReleased("a1", [ScopeRule("/project/src")], "expired"),
    ScopeSubDelegated("a1", "a2", "a3", [ScopeRule("/project/src/a")]),
    ChildReserved(
        agent="a3",
        parent="a2",
        task="Fix the parser.",
        command=["agent", "--fast"],
        cwd="/project",
        scoped=True,
        rules=[ScopeRule("/project/src/a")],
        listen=True,
        headless=True,
        key="f4240-word2",
        again=True,
        asked=True,
    ),
    ChildStarted("a3", "8.124", "word", "tellwire:3", "sandbox"),
    ChildConfirmed("a3"),
    ChildFailed("a3", "It ended before it was up.", "no such file"),
    ChildReported("a3", 17),
    ChildUnheard("a3", "t4"),
    ChildStopAsked("a3", "a2"),
    ChildEnded("a3", "asked"),
    MachineNamed(MACHINE, "laptop"),
    MachinePaired(MACHINE, "desk", CARD, "team", ["ssh desk"], "klst6gu8t36t80343"),
    MachineUpdated(MACHINE, "workbench", CARD, ["redis redis://host"], "own", ["shop"]),
    MachineRemoved(MACHINE, "klst6gu8t36t80343"),
    MachineOnline(MACHINE),
    MachineOffline(MACHINE, 1_000_000.5),
    RemoteAgentTold(MACHINE, BOB),
    RosterTaken(MACHINE, 4),
    RosterTold([MACHINE]),
    ParcelTaken(MACHINE, 2, 9, b"12345678"),
    ParcelsAcked(MACHINE, 2, 9),
    IncarnationBegun(MACHINE, 3, follows=True),
    ItemRefused(MACHINE, 77, "a2", "mailbox_full", "The mailbox is full."),
    MessagesWithdrawn("a2", [5, 6]),
    ReceiptGiven(MACHINE, "a2", 77, "read", "confirm"),
    ReceiptsTaken("a2", [5, 6], "delivered"),
    MessagesRefused("a2", [5, 6], "unknown_agent", "There is no such agent any more."),
    ParcelsRefused("not sealed by a paired machine", 3, 1_000_000.5),
)


def sample_file(event: AnyEvent) -> Path:
    """Where the sample of an event's type and version stands."""
    word = str(type(event).__struct_config__.tag).partition(".")[0]
    return EVENTS_FOLDER / f"{word}.{type(event).version}.json"


def begun() -> Mesh:
    """A fixed history with mail in every state."""
    mesh = Mesh()
    mesh.run(StartBroker("0.1.0"))
    mesh.register("alice", kind="codex", capabilities=["rust"], metadata={"cwd": "/project"})
    mesh.register("Bob", group="/elsewhere")
    mesh.run(Subscribe(topic="#build"), mesh.caller("bob"))
    read = mesh.send("alice", "bob", "read", key=mesh.key("one")).id
    mesh.send("alice", "#build", {"n": [1, "ä"]}, mode="agree", context=["c"], ttl_s=5.0)
    mesh.run(OfferWaiting(mesh.agent("bob").id))
    mesh.claim("bob", read)
    mesh.confirm("bob", read)
    mesh.register("caro", pulls=True, owns_process=True)
    mesh.run(UpdateAgent(name="carol"), mesh.caller("caro"))
    mesh.send("alice", "carol", "fetched")
    mesh.take("carol", "4")
    return mesh


def go_on(mesh: Mesh) -> None:
    """What comes behind the snapshot."""
    mesh.pass_time(10.0)
    mesh.send("bob", "alice", "waits", re="m5")
    mesh.lose("bob")
    mesh.send("alice", "bob", "for later")


def finished() -> State:
    """The state at the end of that history; from then on its snapshot stands for it."""
    mesh = begun()
    go_on(mesh)
    return mesh.replayed()


def commits_of(mesh: Mesh, after: int) -> list[Commit]:
    """The mesh's history behind `after`, as a store gets it."""
    commits: list[Commit] = []
    for batch in mesh.batches:
        if batch.seq > after:
            low = commits[-1].seq if commits else after
            rows = [mesh.stored[seq] for seq in sorted(mesh.stored) if low < seq <= batch.seq]
            commits.append(Commit(batch.seq, batch.now, batch.awake, batch.data, rows))
    return commits


def write_samples() -> None:
    """Make the files of today's versions."""
    EVENTS_FOLDER.mkdir(exist_ok=True)
    for event in SAMPLES:
        sample_file(event).write_bytes(format_batch([event]) + b"\n")
    SNAPSHOT.write_bytes(format_snapshot(finished()))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tellwire.db"
        journal = SqliteJournal(path)
        mesh = begun()
        for commit in commits_of(mesh, 0):
            journal.commit(commit)
        seq = mesh.state.seq
        journal.save_snapshot(seq, format_snapshot(mesh.replayed()))
        journal.derive(9)
        go_on(mesh)
        for commit in commits_of(mesh, seq):
            journal.commit(commit)
        journal.close()
        SCHEMA.write_text(dump(path), encoding="utf-8")


def dump(path: Path) -> str:
    """A database as text, with the two numbers that mark it as ours; virtual tables stay empty."""
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("pragma user_version").fetchone()
        tables = db.execute(
            "select name, sql from sqlite_master where type = 'table' order by name"
        ).fetchall()
        virtual = [name for name, sql in tables if sql.lower().startswith("create virtual")]
        lines = [f"pragma application_id={APPLICATION_ID};", f"pragma user_version={version};", "begin;"]
        for name, sql in tables:
            if any(name.startswith(f"{each}_") for each in virtual):
                continue  # made by the virtual table itself
            lines.append(f"{sql};")
            lines += [] if name in virtual else rows_of(db, name)
    return "\n".join([*lines, "commit;"]) + "\n"


def rows_of(db: sqlite3.Connection, table: str) -> list[str]:
    """The insertions that fill a table."""
    columns = [f'quote("{row[0]}")' for row in db.execute("select name from pragma_table_info(?)", (table,))]
    values_of = " || ',' || ".join(columns)
    rows = db.execute(f'select {values_of} from "{table}"')
    return [f'insert into "{table}" values ({values});' for (values,) in rows]


def build(sql: Path, target: Path) -> None:
    """A database again, from its text."""
    with closing(sqlite3.connect(target)) as db:
        db.executescript(sql.read_text(encoding="utf-8"))
