"""A client as the SDK behaves: it keeps its session, sends open calls again, claims before it shows."""

from __future__ import annotations

from typing import Any

from tellwire.core.context import EndSession
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import RegisterAgent, Registered
from tellwire.protocol.operations.messages import (
    Claimed,
    ClaimMessages,
    Confirmed,
    ConfirmMessages,
    MessageRecord,
    Offer,
    SendMessage,
    Sent,
)
from tests.simulation.broker import Life, Port


class Client:
    """One agent's program; it outlives brokers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port: Port | None = None
        self.life: Life | None = None
        self.ready = False
        self.number: int = 0
        self.open: dict[int, AnyOperation] = {}
        self.taken: dict[int, dict[str, MessageRecord]] = {}
        self.offered: dict[str, MessageRecord] = {}
        self.shown: set[str] = set()
        self.unconfirmed: list[str] = []
        self.context: list[str] = []
        """The bodies that the application saw, in order: what must hold each message once."""
        self.acked: dict[str, Sent] = {}
        self.refused: dict[str, str] = {}

    # -- the connection -------------------------------------------------------------------------------

    def connect(self, life: Life) -> None:
        """Join anew in the same session; open calls follow once that is answered."""
        self.life, self.port, self.ready = life, Port(life), False
        self.offered.clear()
        self.number += 1
        self.open = {n: each for n, each in self.open.items() if not isinstance(each, RegisterAgent)}
        self.open[self.number] = RegisterAgent(name=self.name, session=f"s-{self.name}")
        life.engine.submit(self.port, self.number, self.open[self.number])

    def hang_up(self) -> None:
        """The socket breaks; the server tells the engine as it always does."""
        if self.port is not None and self.life is not None and self.port.caller.is_own_client:
            self.port.writable = False
            command = EndSession(self.port.caller.agent, f"s-{self.name}")
            self.life.engine.submit(self.port, 0, command)
        self.drop()

    def drop(self) -> None:
        """The other end is gone."""
        self.port, self.life, self.ready = None, None, False

    # -- calls ----------------------------------------------------------------------------------------

    def call(self, operation: AnyOperation) -> int:
        """Ask; if there is no connection now, as soon as there is one."""
        self.number += 1
        self.open[self.number] = operation
        if self.ready:
            self._submit(self.number)
        return self.number

    def _submit(self, n: int) -> None:
        assert self.port is not None
        assert self.life is not None
        operation = self.open[n]
        if operation.reads and not self.life.engine.queue.crowded:
            self.life.engine.answer_now(self.port, n, operation)
        else:
            self.life.engine.submit(self.port, n, operation)

    def send(self, to: str | list[str], *, birth_s: float) -> None:
        """Send the next numbered message."""
        body = f"{self.name}:{self.number + 1}"
        key = f"{int(birth_s * 1_000_000):x}-{self.name}{self.number + 1}"
        self.call(SendMessage(to=to, body=body, key=key))

    def claim(self) -> None:
        """Take over what was offered, one round trip at a time."""
        if self.offered and not self.taken:
            taken, self.offered = self.offered, {}
            self.taken[self.number + 1] = taken
            self.call(ClaimMessages(ids=list(taken)))

    def confirm(self) -> None:
        """Say that all that was shown was read."""
        if self.unconfirmed:
            self.call(ConfirmMessages(ids=self.unconfirmed))
            self.unconfirmed = []

    # -- what comes back ------------------------------------------------------------------------------

    def receive(self) -> None:
        """Deal with everything that reached this end."""
        while self.port is not None and self.port.heard:
            n, said = self.port.heard.pop(0)
            if isinstance(said, Offer):
                self.offered |= {record.id: record for record in said.messages}
            elif (operation := self.open.pop(n, None)) is not None:
                self._settle(n, operation, said)

    def _settle(self, n: int, operation: AnyOperation, said: Any) -> None:
        if isinstance(operation, RegisterAgent):
            if not isinstance(said, Registered):
                self.drop()
                return
            assert said.name == self.name, "the same session got another name"
            self.ready = True
            for each in sorted(self.open):
                self._submit(each)
        elif isinstance(operation, SendMessage):
            if isinstance(said, TellwireError):
                self.refused[operation.body] = said.code
            else:
                assert isinstance(said, Sent)
                self.acked[operation.body] = said
        elif isinstance(operation, ClaimMessages):
            self._show(self.taken.pop(n), said)
        elif isinstance(operation, ConfirmMessages):
            if isinstance(said, Confirmed):
                self.shown.difference_update(operation.ids)
            else:
                self.unconfirmed = [*operation.ids, *self.unconfirmed]

    def _show(self, taken: dict[str, MessageRecord], said: Any) -> None:
        if not isinstance(said, Claimed):
            self.offered = {**taken, **self.offered}
            return
        for each in said.ids:
            if each in taken and each not in self.shown:
                assert not taken[each].repeat, "what this very session was shown is not marked as a repeat"
                self.context.append(taken[each].body)
                self.unconfirmed.append(each)
                self.shown.add(each)
