"""Parents and children on the bare kernel: what a launcher would tell of processes, told by hand."""

from __future__ import annotations

from typing import Any, Literal

from tellwire.core.children.scopes import WriteVerdict, judge_write
from tellwire.core.context import NoteChildEnd, NoteChildStarted, NoteChildUp, ReportTurn, SweepChildren
from tellwire.core.state import Child
from tellwire.protocol.operations.agents import RegisterAgent, Registered
from tellwire.protocol.operations.children import ChildRecord, SpawnAgent
from tellwire.protocol.operations.scopes import Access, Claims, ClaimScope, ScopeRule
from tests.unit.mesh import Mesh


def write(*paths: str) -> list[ScopeRule]:
    return [ScopeRule(path) for path in paths]


def rule(path: str, access: Access = "write", *, recursive: bool = True) -> ScopeRule:
    return ScopeRule(path, access, recursive)


class Family(Mesh):
    """A mesh whose agents have children."""

    def child(self, name: str) -> Child:
        return self.state.children[self.agent(name).id]

    def spawn(
        self, parent: str, name: str, *paths: str, scope: list[ScopeRule] | None = None, **fields: Any
    ) -> ChildRecord:
        """Reserve a child; without paths it has no scope of its own."""
        rules = scope if scope is not None else (write(*paths) if paths else None)
        words: dict[str, Any] = {"client": "codex", "task": f"task of {name}", **fields}
        return self.run(SpawnAgent(name=name, scope=rules, **words), self.caller(parent))

    def start(self, name: str) -> str:
        """Its process runs."""
        process = f"{name}.1"
        self.alive.add(process)
        self.run(NoteChildStarted(self.agent(name).id, process, f"token-{name}", f"window {name}"))
        return process

    def connect(self, name: str, *, kind: str = "codex", session: str = "") -> Registered:
        """Its client says its first word, from beneath its process."""
        caller = self.beneath(name)
        operation = RegisterAgent(name="any", session=session or f"s-{name}", kind=kind, owns_process=True)
        return self.run(operation, caller)

    def beneath(self, name: str) -> Any:
        agent = self.agent(name)
        caller = self.caller(name, is_own_client=False)
        return type(caller)(kind="agent", agent=agent.id, ancestor=agent.id, process="9.9")

    def up(self, name: str) -> None:
        self.run(NoteChildUp(self.agent(name).id))

    def bear(self, parent: str, name: str, *paths: str, **fields: Any) -> ChildRecord:
        """The whole way until it is up."""
        record = self.spawn(parent, name, *paths, **fields)
        self.start(name)
        self.connect(name)
        self.up(name)
        return record

    def end(
        self, name: str, how: Literal["asked", "exited", "killed"] = "exited", *, result: str = ""
    ) -> None:
        agent = self.agent(name)
        self.alive.discard(self.state.children[agent.id].process if agent.id in self.state.children else "")
        self.run(NoteChildEnd(agent.id, how, result))

    def kill(self, name: str) -> None:
        """Its process dies, and nobody has told it yet."""
        self.alive.discard(self.child(name).process)

    def sweep(self, *, begun: bool = False) -> None:
        """Look until nothing is left to be found; a new broker looks first what was left to it."""
        for _ in range(50):
            before = self.state.seq
            self.run(SweepChildren(begun=begun))
            if self.state.seq == before and not begun:
                return
            begun = begun and self.state.seq != before
        raise AssertionError("the sweep finds something for ever")

    def turn(self, name: str, turn: str, text: str = "", *, outcome: Any = "ended", **facts: bool) -> None:
        agent = self.agent(name)
        self.run(ReportTurn(agent.id, agent.session, turn, outcome, text, **facts))

    def claim(self, name: str, *paths: str, rules: list[ScopeRule] | None = None, **fields: Any) -> Claims:  # pyright: ignore[reportIncompatibleMethodOverride]  # of paths, not of messages
        return self.run(ClaimScope(rules=rules or write(*paths), **fields), self.caller(name))

    def judge(self, name: str, path: str) -> WriteVerdict:
        return judge_write(self.state, self.agent(name).id, path)

    def writers(self, path: str) -> list[str]:
        """Who may write there, of all."""
        return [name for name in sorted(self.names()) if self.judge(name, path).allowed]

    def names(self) -> list[str]:
        return [agent.name for agent in self.state.agents.values()]

    def stored_text(self, event: Any) -> str:
        """The body of a message event."""
        return next(self.stored[seq].body for seq, other in self.events if other is event)
