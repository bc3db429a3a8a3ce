"""The kernel with a store of lists around it: what a rule is tried on, without engine, disk or clock.

Every command run here also proves that deciding changed nothing, and is kept as the journal would keep it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pytest

from tellwire.core.context import (
    Caller,
    Context,
    EndSession,
    NoteEvidence,
    ReturnLease,
)
from tellwire.core.kernel import Command, apply, apply_batch, decide
from tellwire.core.limits import Limits
from tellwire.core.record.final_receipts import FinalReceipt, final_receipts, settle
from tellwire.core.record.stored import Entry, FinalState, Header, StoredMessage
from tellwire.core.state import Agent, State, format_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AnyEvent, Event, MessageQueued, format_batch, parse_batch
from tellwire.protocol.ids import format_id, parse_message_id
from tellwire.protocol.operations.agents import Done, RegisterAgent, Registered, UnregisterAgent
from tellwire.protocol.operations.messages import (
    Claimed,
    ClaimMessages,
    ConfirmMessages,
    MessageRecord,
    MessageStatus,
    SendMessage,
    Sent,
    TakeMessages,
    Taken,
)

OPERATOR = Caller(kind="operator")
SCRIPT = Caller(kind="script")

E = TypeVar("E", bound=Event)


class Batch(NamedTuple):
    """One commit, as a journal holds it."""

    data: bytes
    seq: int
    now: float
    awake: float


class Mesh:
    """A state, its history, and a hand-turned clock."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.state = State()
        self.limits = limits or Limits()
        self.now = 1_000_000.0
        self.awake = 1_000.0
        self.batches: list[Batch] = []
        self.events: list[tuple[int, AnyEvent]] = []
        self.stored: dict[int, StoredMessage] = {}
        self.finals: list[FinalReceipt] = []
        self.claims: dict[str, set[int]] = {}
        self.alive: set[str] = set()
        """Processes that run."""

    # -- running --------------------------------------------------------------------------------------

    def run(self, command: Command, caller: Caller = SCRIPT, *, group: str = "/project") -> Any:
        """Decide, prove that deciding changed nothing, apply, keep."""
        state = self.state
        state.now, state.awake = self.now, self.awake
        before = format_snapshot(state)
        try:
            decision = decide(state, command, self.context(caller, group))
        finally:
            assert format_snapshot(state) == before, f"deciding {command} changed the state"
        texts = list(decision.texts)
        for event in decision.events:
            apply(state, event)
            self.events.append((state.seq, event))
            if isinstance(event, MessageQueued):
                self.stored[state.seq] = StoredMessage.of(state.seq, self.now, event, texts.pop(0))
        assert not texts, "more bodies than messages"
        if decision.events:
            self.batches.append(Batch(format_batch(decision.events), state.seq, self.now, self.awake))
            self.finals += final_receipts(decision.events, self.now)
        return decision.reply

    def context(self, caller: Caller, group: str = "/project") -> Context:
        """What the engine would tell a decision."""
        return Context(
            caller=caller,
            now=self.now,
            awake=self.awake,
            limits=self.limits,
            group=group,
            header=self._header,
            settled=self._settled,
            records=self._records,
            entries=self._entries,
            alive=self.alive.__contains__,
            last_seen=lambda _agent: self.now - 1.0,
            claimed=lambda agent: sorted(self.claims.get(agent, ())),
        )

    def _entries(self, after: int, before: int, limit: int) -> list[Entry]:
        found = [
            Entry(batch.seq - len(events) + 1 + place, batch.now, event)
            for batch in self.batches
            for events in [parse_batch(batch.data)]
            for place, event in enumerate(events)
        ]
        asked = [entry for entry in found if entry.seq > after and (not before or entry.seq < before)]
        return asked[:limit] if after else asked[-limit:]

    def pass_time(self, seconds: float) -> None:
        """Let awake time and wall time go by together."""
        self.now += seconds
        self.awake += seconds

    def replayed(self) -> State:
        """The state that the journal alone gives, with the clock of this moment."""
        state = State()
        for batch in self.batches:
            apply_batch(state, parse_batch(batch.data), seq=batch.seq, now=batch.now, awake=batch.awake)
        state.now, state.awake = self.state.now, self.state.awake
        return state

    # -- who ------------------------------------------------------------------------------------------

    def agent(self, name: str) -> Agent:
        """The agent of that name."""
        found = self.state.find(name)
        assert found is not None, f"nobody is called {name}"
        return found

    def caller(self, name: str, *, is_own_client: bool = True) -> Caller:
        """The caller that speaks as `name`."""
        return Caller(kind="agent", agent=self.agent(name).id, is_own_client=is_own_client)

    def register(
        self, name: str, *, session: str = "", kind: str = "script", group: str = "/project", **fields: Any
    ) -> Registered:
        """Join as a new connection would."""
        operation = RegisterAgent(name=name, session=session or f"s-{name}", kind=kind, **fields)
        reply: Registered = self.run(operation, group=group)
        self.claims.pop(reply.id, None)
        return reply

    def leave(self, name: str) -> None:
        """End the session in good order."""
        self.run(UnregisterAgent(), self.caller(name))
        self.claims.pop(self.agent(name).id, None)

    def forget(self, name: str) -> None:
        """Leave for good, with name and mailbox."""
        self.run(UnregisterAgent(forget=True), self.caller(name))

    def lose(self, name: str) -> None:
        """Break the connection."""
        agent = self.agent(name)
        self.run(EndSession(agent.id, agent.session))
        self.claims.pop(agent.id, None)

    # -- mail -----------------------------------------------------------------------------------------

    def send(self, sender: str, to: str | list[str], body: Any = "hi", **fields: Any) -> Sent:
        """Send as `sender`."""
        return self.run(SendMessage(to=to, body=body, **fields), self.caller(sender))

    def key(self, word: str, *, age_s: float = 0.0) -> str:
        """A request key born `age_s` ago."""
        return f"{int((self.awake - age_s) * 1_000_000):x}-{word}"

    def claim(self, name: str, *ids: str) -> list[str]:
        """Claim as the agent's own client; remembers it as the delivery does."""
        granted: Claimed = self.run(ClaimMessages(ids=list(ids)), self.caller(name))
        seqs = map(parse_message_id, granted.ids)
        self.claims.setdefault(self.agent(name).id, set()).update(seqs)
        return granted.ids

    def confirm(self, name: str, *ids: str) -> int:
        """Confirm as the agent's own client."""
        reply = self.run(ConfirmMessages(ids=list(ids)), self.caller(name))
        self.claims.get(self.agent(name).id, set()).difference_update(map(parse_message_id, ids))
        return reply.count

    def take(self, name: str, call: str = "", **fields: Any) -> Taken:
        """Fetch as the agent's own client."""
        return self.run(TakeMessages(call=call, **fields), self.caller(name))

    def note(self, name: str, *calls: str, session: str | None = None, evidence: str = "next_call") -> None:
        """There is evidence for what these calls of a session fetched; left out, of the current one."""
        agent = self.agent(name)
        word = agent.session if session is None else session
        self.run(NoteEvidence(agent.id, word, list(calls), evidence))

    def give_back(self, name: str, call: str, session: str | None = None) -> None:
        """A call of a session was cancelled; left out, of the current one."""
        agent = self.agent(name)
        reply = self.run(ReturnLease(agent.id, agent.session if session is None else session, call))
        assert reply == Done(), "a cancellation is never refused"

    def states(self, message: str, caller: Caller = OPERATOR) -> dict[str, str]:
        """The state of each receipt, by name."""
        reply = self.run(MessageStatus(id=message), caller)
        return {recipient.name: recipient.state for recipient in reply.recipients}

    def evidence(self, message: str) -> dict[str, str]:
        """What shows it, by name."""
        reply = self.run(MessageStatus(id=message), OPERATOR)
        return {recipient.name: recipient.evidence for recipient in reply.recipients}

    def pending(self, name: str) -> list[str]:
        """Ids that wait for hand-over, oldest first."""
        return [format_id("m", seq) for seq in self.agent(name).pending]

    def leased(self, name: str) -> list[str]:
        """Ids handed over and not settled, oldest first."""
        return [format_id("m", seq) for seq in self.agent(name).leased]

    def bodies(self, name: str) -> list[str]:
        """The texts of all that is open for an agent, oldest first."""
        agent = self.agent(name)
        return [self.stored[seq].body for seq in sorted([*agent.pending, *agent.leased])]

    def of_type(self, kind: type[E]) -> list[E]:
        """All facts of one type so far."""
        return [event for _, event in self.events if isinstance(event, kind)]

    # -- what a decision may look up ------------------------------------------------------------------

    def _header(self, seq: int) -> Header | None:
        message = self.stored.get(seq)
        return None if message is None else message.header()

    def _settled(self, seq: int) -> dict[str, FinalState]:
        return settle({}, self.finals, seq)

    def _records(self, seqs: list[int]) -> list[MessageRecord]:
        return [self.stored[seq].record() for seq in seqs if seq in self.stored]


@contextmanager
def refused(code: str) -> Generator[pytest.ExceptionInfo[TellwireError]]:
    """The block must be refused with `code`."""
    with pytest.raises(TellwireError) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
