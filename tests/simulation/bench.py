"""One broker with a few connections of its own, and a disk that can be filled."""

from __future__ import annotations

from typing import Any

from tellwire.broker.ports import Journal
from tellwire.core.context import EndSession
from tellwire.core.limits import Limits
from tellwire.core.state import Agent
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import RegisterAgent, Registered
from tellwire.protocol.operations.messages import Offer
from tests.simulation.broker import Life, Port, Tap, Time


class Bench:
    """Asks, turns the loop, and tells what came back."""

    def __init__(self, journal: Journal, limits: Limits | None = None) -> None:
        self.tap = Tap(journal)
        self.time = Time()
        self.limits = limits
        self.life = Life(self.tap, self.time, limits)
        self.number = 0

    def full(self, code: str = "storage_full") -> None:
        self.tap.fate = lambda: code

    def works(self) -> None:
        self.tap.fate = lambda: ""

    def restart(self) -> None:
        """The process was killed, and another one begins."""
        self.life = Life(self.tap, self.time, self.limits)

    def submit(self, port: Port, operation: AnyOperation) -> int:
        self.number += 1
        self.life.engine.submit(port, self.number, operation)
        return self.number

    def call(self, port: Port, operation: AnyOperation) -> Any:
        """Ask, turn the loop, and give what came back."""
        n = self.submit(port, operation)
        self.life.run()
        return dict(port.heard)[n]

    def join(self, name: str, session: str = "", *, process: str = "", pulls: bool = False) -> Port:
        port = Port(self.life, process=process)
        reply = self.call(port, RegisterAgent(name=name, session=session or f"s-{name}", pulls=pulls))
        assert isinstance(reply, Registered)
        return port

    def end(self, port: Port, name: str) -> None:
        """The connection breaks."""
        port.writable = False
        self.life.engine.submit(port, 0, EndSession(port.caller.agent, f"s-{name}"))

    def agent(self, name: str) -> Agent:
        found = self.life.state.find(name)
        assert found is not None
        return found


def told(port: Port) -> list[int]:
    """How much mail was announced on a connection, each time."""
    return [said.waiting for _, said in port.heard if isinstance(said, Offer) and not said.messages]


def offers(port: Port) -> list[str]:
    """The bodies offered on a connection, in order."""
    return [record.body for _, said in port.heard if isinstance(said, Offer) for record in said.messages]


def repeats(port: Port) -> list[bool]:
    """For each message offered, whether it is marked as a possible repeat."""
    return [record.repeat for _, said in port.heard if isinstance(said, Offer) for record in said.messages]
