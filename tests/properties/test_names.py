"""Sessions of a client that open, end, are resumed and begin anew in any order, in panes of one folder.

FIRST-4: live sessions never share a name nor change it, and mail for one enters no other.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.context import Caller, PlaceSession, Seat
from tellwire.protocol.operations.agents import RegisterAgent, Registered
from tests.unit.mesh import Mesh

FOLDER = "/home/u/shop"
KIND = "claude-code"
PANES = ("tmux %1 7.1", "tmux %2 7.1", "tty pts/3 9.1")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "resume", "end", "clear", "send", "read", "reboot", "restart"]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=40,
)


class Live(NamedTuple):
    """One running client."""

    instance: str
    conversation: str
    pane: str
    agent: str
    name: str


class Office:
    """A person with some panes; what the kernel is told, and what must come of it."""

    def __init__(self) -> None:
        self.mesh = Mesh()
        self.mesh.register("alice")
        self.panes = list(PANES)
        self.mesh.alive |= {"7.1", "9.1"}
        self.live: dict[str, Live] = {}
        """By pane."""
        self.conversations: list[str] = []
        self.heirs: dict[str, set[str]] = {}
        """By conversation, those that took its name over after it ended."""
        self.sent: dict[str, str] = {}
        """By message, the conversation that bore the name then."""
        self.bore: dict[str, str] = {}
        """By agent, the conversation that bears or bore it last."""
        self.numbers = itertools.count(1)

    def open(self, pane: str, conversation: str, *, late: bool) -> None:
        """Start a client; `late`: only its first hook tells which conversation it is in."""
        number = next(self.numbers)
        process, instance = f"{1000 + number}.1", f"i{number}"
        self.mesh.alive.add(process)
        seat = Seat(folder=FOLDER, pane=pane, conversation="" if late else conversation)
        caller = Caller(kind="script", process=process, owner=process, seat=seat)
        joined: Registered = self.mesh.run(
            RegisterAgent(name="shop-claude", kind=KIND, session=instance, owns_process=True, pulls=True),
            caller,
        )
        if late:
            command = PlaceSession(conversation, "shop-claude")
            joined = self.mesh.run(command, caller.speaking_as(joined.id, is_own_client=True))
        self._note(Live(instance, conversation, pane, joined.id, joined.name))

    def _note(self, live: Live) -> None:
        before = self.bore.get(live.agent)
        if before not in (None, live.conversation):
            assert before not in {each.conversation for each in self.live.values()}, "a live session's name"
            self.heirs.setdefault(before, set()).add(live.conversation)
        self.bore[live.agent] = live.conversation
        self.live[live.pane] = live

    def clear(self, pane: str, conversation: str) -> None:
        """The client begins a new conversation."""
        live = self.live[pane]
        caller = Caller(
            kind="agent",
            agent=live.agent,
            is_own_client=True,
            seat=Seat(folder=FOLDER, pane=pane, conversation=""),
        )
        placed: Registered = self.mesh.run(PlaceSession(conversation, "shop-claude"), caller)
        assert placed.id == live.agent, "its name goes along"
        del self.live[pane]
        self._note(live._replace(conversation=conversation))

    def end(self, pane: str) -> None:
        """The client is closed."""
        live = self.live.pop(pane)
        self.mesh.alive.discard(self.mesh.state.agents[live.agent].process)
        self.mesh.lose(live.name)

    def reboot(self) -> None:
        """All processes are gone, and the panes are others."""
        for pane in list(self.live):
            self.end(pane)
        number = next(self.numbers)
        server, leader = f"7.{number}", f"9.{number}"
        self.mesh.alive = {server, leader}
        self.panes = [f"tmux %1 {server}", f"tmux %2 {server}", f"tty pts/3 {leader}"]

    def read(self, live: Live) -> None:
        """The model is given what waits."""
        for message in self.mesh.take(live.name).messages:
            meant = self.sent[message.id]
            ok = {meant} | self._all_heirs(meant)
            assert live.conversation in ok, f"{message.id} was for {meant}, and entered {live.conversation}"
            others = {each.conversation for each in self.live.values()} - {live.conversation}
            assert meant not in others, "the other is live"

    def _all_heirs(self, conversation: str) -> set[str]:
        found: set[str] = set()
        wanted = [conversation]
        while wanted:
            new = self.heirs.get(wanted.pop(), set()) - found
            found |= new
            wanted += new
        return found

    def check(self) -> None:
        """What is true at any time."""
        names = [each.name for each in self.live.values()]
        assert len(set(names)) == len(names), "two live sessions share a name"
        for each in self.live.values():
            agent = self.mesh.state.agents[each.agent]
            assert (agent.name, agent.online, agent.session) == (each.name, True, each.instance)


@pytest.mark.requirement("FIRST-4", stage="contact")
@given(STEPS)
def test_live_sessions_share_no_name_and_mail_enters_no_other(steps: list[tuple[str, int, bool]]) -> None:
    office = Office()
    for what, number, late in steps:
        pane = office.panes[number % len(office.panes)]
        live = office.live.get(pane)
        match what:
            case "open" if live is None:
                office.conversations.append(f"c{len(office.conversations)}")
                office.open(pane, office.conversations[-1], late=late)
            case "resume" if live is None and office.conversations:
                conversation = office.conversations[number % len(office.conversations)]
                if conversation not in {each.conversation for each in office.live.values()}:
                    office.open(pane, conversation, late=late)
            case "clear" if live is not None:
                office.conversations.append(f"c{len(office.conversations)}")
                office.clear(pane, office.conversations[-1])
            case "end" if live is not None:
                office.end(pane)
            case "send" if live is not None:
                office.sent[office.mesh.send("alice", live.name).id] = live.conversation
            case "read" if live is not None:
                office.read(live)
            case "reboot" if number == 0:
                office.reboot()
            case _:
                pass
        office.check()
    assert office.mesh.replayed() == office.mesh.state
