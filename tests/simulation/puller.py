"""A client that fetches, as the MCP shim behaves: it sends open calls again in the same words.

It may die and come back as another process with an empty context. What an answer brought is in the context;
the next call is the evidence. A call that was cancelled is not looked at any more.
"""

from __future__ import annotations

from typing import Any

from tellwire.core.context import EndSession, NoteEvidence, ReturnLease
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import AnyOperation
from tellwire.protocol.operations.agents import Done, RegisterAgent, Registered
from tellwire.protocol.operations.messages import MessageRecord, Offer, TakeMessages, Taken
from tests.simulation.broker import Life, Port
from tests.simulation.client import Client

CALLS_MAX = 2
"""Fetches under way at once."""


class Puller(Client):
    """One agent that fetches its mail; `context` is what the model of this life has before it."""

    def __init__(self, name: str, dead: set[str]) -> None:
        super().__init__(name)
        self.dead = dead
        """Processes that are gone, for the broker to find out."""
        self.age = 0
        self.news = True
        self.answered: set[str] = set()
        """Calls whose answers have arrived."""
        self.unproved: set[str] = set()
        self.cancelled: dict[int, str] = {}
        """Cancellations that are not carried out as far as is known, and the calls they concern."""
        self.in_vain: set[str] = set()
        """Calls whose messages wait again: so it was said."""
        self.large: list[str] = []
        self.held: dict[str, str] = {}
        """What the context holds, by id."""
        self.past: list[list[str]] = []
        """The contexts of earlier lives."""
        self.again: set[str] = set()
        """What was marked as a possible repeat."""
        self.last: tuple[Life, Port] | None = None

    @property
    def word(self) -> str:
        """The session: this very process."""
        return f"s-{self.name}-{self.age}"

    # -- the connection -------------------------------------------------------------------------------

    def connect(self, life: Life) -> None:
        """Join in the same session, or after a death in a new one, once the old one is found dead."""
        agent = life.state.find(self.name)
        if agent is not None and agent.online and agent.session != self.word:
            return
        self.life, self.port, self.ready = life, Port(life, process=self.word), False
        self.number += 1
        self.open = {n: each for n, each in self.open.items() if not isinstance(each, RegisterAgent)}
        self.open[self.number] = RegisterAgent(name=self.name, session=self.word, pulls=True)
        life.engine.submit(self.port, self.number, self.open[self.number])

    def hang_up(self) -> None:
        """The connection breaks, the process lives: nobody ends the session."""
        self.drop()

    def die(self) -> None:
        """The process is gone, with its context and all that it had asked."""
        if not self.ready or self.last is None:
            return
        life, port = self.last
        port.writable = False
        self.dead.add(self.word)
        life.engine.submit(port, 0, EndSession(port.caller.agent, self.word))
        self.drop()
        self.past.append(self.context)
        self.age += 1
        self.context, self.held, self.open = [], {}, {}
        self.answered, self.unproved, self.in_vain = set(), set(), set()
        self.cancelled, self.large = {}, []

    # -- fetching -------------------------------------------------------------------------------------

    def fetches(self) -> list[int]:
        """The numbers of the fetches under way."""
        return [n for n, operation in self.open.items() if isinstance(operation, TakeMessages)]

    def claim(self) -> None:
        """Fetch, if there is news: what was announced by its id, else what there is."""
        if not self.ready or len(self.fetches()) >= CALLS_MAX:
            return
        self.large = [message for message in self.large if message not in self.held]
        word = str(self.number + 1)
        if self.large:
            self.call(TakeMessages(id=self.large.pop(0), call=word))
        elif self.news:
            self.news = False
            self.call(TakeMessages(limit=1 + self.number % 3, chars=(0, 60, 150)[self.number % 3], call=word))

    def confirm(self) -> None:
        """The next call shows that the answers before it were read."""
        if self.ready and self.unproved and self.life is not None and self.port is not None:
            calls = sorted(self.unproved)
            command = NoteEvidence(self.port.caller.agent, self.word, calls, "next_call")
            self.life.engine.submit_own(command)
            self.unproved.clear()

    def cancel(self) -> None:
        """Give up the newest fetch; its answer, if there is one already, is not looked at."""
        if self.ready and (under_way := self.fetches()):
            n = under_way[-1]
            del self.open[n]
            self.number += 1
            self.cancelled[self.number] = str(n)
            self.news = True
            self._return(self.number)

    def _return(self, n: int) -> None:
        assert self.life is not None
        assert self.port is not None
        command = ReturnLease(self.port.caller.agent, self.word, self.cancelled[n])
        self.life.engine.submit(self.port, n, command)

    # -- what comes back ------------------------------------------------------------------------------

    def receive(self) -> None:
        """Deal with everything that reached this end."""
        while self.port is not None and self.port.heard:
            n, said = self.port.heard.pop(0)
            if isinstance(said, Offer):
                assert not said.messages, "pushed to a client that fetches"
                self.news = True
            elif n in self.cancelled:
                assert isinstance(said, Done), "a return is put off, never refused"
                self.in_vain.add(self.cancelled.pop(n))
            elif (operation := self.open.pop(n, None)) is not None:
                self._settle(n, operation, said)

    def _settle(self, n: int, operation: AnyOperation, said: Any) -> None:
        if isinstance(operation, TakeMessages):
            self._take(str(n), said)
            return
        if isinstance(operation, RegisterAgent) and isinstance(said, Registered):
            self._recall()
        super()._settle(n, operation, said)

    def _recall(self) -> None:
        """The broker knows which calls hold something; the answers to all but the open ones have arrived."""
        assert self.life is not None
        assert self.port is not None
        self.last = (self.life, self.port)
        self.news = True
        agent = self.life.state.agents[self.port.caller.agent]
        under_way = {str(n) for n in self.fetches()}
        leases = {receipt.lease for receipt in agent.leased.values()}
        for word, lease in agent.calls.items():
            if lease not in leases or word in under_way or word in self.cancelled.values():
                continue
            assert word not in self.in_vain, "what was said to wait again does not"
            assert word in self.answered, "a call that nobody made holds messages"
            self.unproved.add(word)
        for n in self.cancelled:
            self._return(n)

    def _take(self, word: str, said: Taken | TellwireError) -> None:
        if isinstance(said, TellwireError):
            self.news = True
            return
        self.answered.add(word)
        self.unproved.add(word)
        self.news = self.news or bool(said.waiting and said.messages)
        self.large += [record.id for record in said.large if record.id not in self.large]
        if said.next_offset:
            return
        for record in said.messages:
            self._see(record)
        if self.life is not None and self.port is not None and self.port.caller.is_own_client:
            ids = [record.id for record in said.messages]
            self.life.engine.delivery.claim(self.life.state, self.port.caller.agent, ids)

    def _see(self, record: MessageRecord) -> None:
        assert record.id not in self.held, "a message entered a context twice"
        self.held[record.id] = record.body
        self.context.append(record.body)
        if record.repeat:
            self.again.add(record.body)
