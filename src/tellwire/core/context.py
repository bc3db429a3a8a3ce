"""What a decision may know besides the state: who asks, when, and what the store holds.

The engine fills it; nothing here is looked up by the rules themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tellwire.core.limits import Limits
from tellwire.core.mail.reach import Contact
from tellwire.core.record.stored import Entry, FinalState, Header, Query, StoredPage, Talks
from tellwire.protocol.events import AnyEvent, CallRefused
from tellwire.protocol.events.machines import ParcelsRefused
from tellwire.protocol.operations.agents import PathRecord
from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.messages import MessageRecord
from tellwire.protocol.parcels import AnyItem, Unknown


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client's session is, as the broker found out."""

    folder: str
    pane: str = ""
    """`tmux %3 PID.START` or `tty pts/4 PID.START`; empty if it has no terminal, `?` if not known yet."""
    conversation: str = ""
    """The client's own id of the session; empty while it is not known."""
    beneath: bool = False
    """It runs beneath an agent: it takes over no name."""
    named: bool = False
    """Its name was chosen for it, and does not depend on its place."""
    chosen: bool = False
    """Its own model chose that name, not the person who configured the client."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as the broker found out; never what the caller says."""

    kind: str
    """`agent`, `operator` or `script`."""
    agent: str = ""
    """The id of the agent it speaks as."""
    is_own_client: bool = False
    """It is that agent's own client: the connection that gets its mail."""
    ancestor: str = ""
    """The id of the agent whose process it runs beneath; it can speak as no other."""
    process: str = ""
    """The calling process, as `pid.start`."""
    owner: str = ""
    """The process that is the agent, if that is another one: a shim's client."""
    seat: Seat | None = None
    """Of a shim: where its client is."""
    console: str = "program"
    """Of a person: which of our programs it says it is, such as `cli`; the evidence of what it shows."""
    adrift: bool = False
    """It may have begun beneath an agent and been left to itself: it takes over nobody's name."""

    def speaking_as(self, agent: str, *, is_own_client: bool) -> Caller:
        """The same process, speaking as an agent."""
        return msgspec.structs.replace(self, kind="agent", agent=agent, is_own_client=is_own_client)


class Context(msgspec.Struct, kw_only=True):
    """Everything a decision may know besides the state; the lookups are made only if it asks."""

    caller: Caller
    now: float
    awake: float
    limits: Limits
    group: str = ""
    header: Callable[[int], Header | None] = lambda _seq: None
    """Looks a message up in this tick, then in the store."""
    settled: Callable[[int], dict[str, FinalState]] = lambda _seq: {}
    """Final receipts of a message, by recipient id."""
    records: Callable[[list[int]], list[MessageRecord]] = lambda _seqs: []
    """Whole messages with their bodies, in the order asked for."""
    find: Callable[[Query], StoredPage] = lambda _query: StoredPage()
    """Messages of the past, newest first."""
    receipts: Callable[[list[int]], dict[int, dict[str, FinalState]]] = lambda _seqs: {}
    """Final receipts of several messages, by recipient id."""
    talks: Callable[[int, int], Talks] = lambda _before, _limit: Talks([])
    """Conversations below a message, by their last words, newest first."""
    entries: Callable[[int, int, int], list[Entry]] = lambda _after, _before, _limit: []
    """Events in order: the first behind `after` if it is set, else the last ones before `before`."""
    head: Callable[[], str] = lambda: ""
    """The hash of the newest commit, in hex."""
    former_name: Callable[[str], str] = lambda agent: agent
    """The name that an agent which is forgotten by now had."""
    alive: Callable[[str], bool] = lambda _process: False
    """Whether a process, as `pid.start`, still runs."""
    last_seen: Callable[[str], float] = lambda _agent: 0.0
    activity: Callable[[str], str] = lambda _agent: ""
    """What an agent is doing, as far as its client reports."""
    doing: Callable[[str], Doing] = lambda _agent: Doing()
    """The same, with since when, and what it waits for."""
    title: Callable[[str], str] = lambda _agent: ""
    """How its human began an agent's session, as far as its client reports."""
    prompted: Callable[[str], bool] = lambda _agent: False
    """Whether an agent is in a turn that its human began."""
    paths: Callable[[str], list[PathRecord]] = lambda _agent: []
    """How mail gets into an agent's model, where its client is known."""
    contact: Callable[[str], Contact | None] = lambda _agent: None
    """What is known now of the client of an agent that fetches its mail; None if mail is pushed to it."""
    kept: Mapping[str, int] = {}
    """Bytes of messages that are stored, by the id of their sender."""
    way: Callable[[str], Way] = lambda _machine: Way()
    """What is known now of the way to another machine."""
    claimed: Callable[[str], list[int]] = lambda _agent: []
    """What an agent's current session has claimed and not confirmed."""


class Doing(NamedTuple):
    """What an agent is doing, as far as its client or program reports; never stored."""

    activity: str = ""
    """`busy`, `idle`, `waiting`, `errored`, or empty if unknown."""
    since: float = 0.0
    """By the wall clock."""
    wants: str = ""
    """If it waits for its human: what for."""


class Way(NamedTuple):
    """What is known now of the way to another machine; never stored."""

    carrier: str = ""
    """The one in use; empty if none is connected."""
    problem: str = ""
    """If none is: why, in the carrier's own words."""
    heard_at: float = 0.0
    """By the wall clock; 0 if it was not heard in this life of the broker."""
    round_trip_s: float = 0.0


class Decision(msgspec.Struct, frozen=True):
    """The result of a command: its reply, and the events that make it true."""

    reply: Any = None
    events: list[AnyEvent] = []
    texts: list[str] = []
    """The bodies of the `MessageQueued` among the events, in order."""


class OfferWaiting(msgspec.Struct, frozen=True):
    """Command: hand waiting messages to an agent's connected client."""

    agent: str


class ExpireDue(msgspec.Struct, frozen=True):
    """Command: let what waited too long expire, and notify the senders."""


class FetchFor(msgspec.Struct, frozen=True):
    """Command: lease what waits for an agent to a hook of its client."""

    agent: str
    call: str
    room: int
    in_bytes: bool = False
    """Count bytes of UTF-8 instead of characters."""


class NoteEvidence(msgspec.Struct, frozen=True):
    """Command: what an agent's session fetched by these calls has entered its context."""

    agent: str
    session: str
    calls: list[str]
    evidence: str


class ReturnLease(msgspec.Struct, frozen=True):
    """Command: what was fetched by a call did not enter the context; it waits again."""

    agent: str
    session: str
    call: str


class PlaceSession(msgspec.Struct, frozen=True):
    """Command: the calling session turned out to be this conversation of its client, in this pane."""

    conversation: str
    name: str
    """The name to bear, as far as it is free, if it is nobody's session again."""
    pane: str = ""
    """Empty: as known."""


class EndSession(msgspec.Struct, frozen=True):
    """Command: an agent's connection is gone."""

    agent: str
    session: str


TurnOutcome: TypeAlias = Literal["ended", "errored", "interrupted", "waiting"]
"""How a turn ended; `waiting` is for a person's answer, and the turn goes on."""


class ReportTurn(msgspec.Struct, frozen=True):
    """Command: a turn of an agent's session is over, or waits for a person.

    A repeat, an unknown agent or another session changes nothing, and is no error.
    """

    agent: str
    session: str
    turn: str
    """The client's own word for the turn; one report counts for each, and one `waiting` before it."""
    outcome: TurnOutcome
    text: str = ""
    """What the agent finally said: all of its last answer, and nothing before it."""
    human: bool = False
    """A person's word started the turn."""
    checkpoint: bool = False
    """It answers a checkpoint, and is nobody else's business."""
    is_last: bool = False
    """It broke off because the session ended."""


class ReserveChild(msgspec.Struct, frozen=True):
    """Command: what a call for a child begins with, on the caller's behalf."""

    spawn: SpawnAgent


class ReserveAsk(msgspec.Struct, frozen=True):
    """Command: what a question to a fresh agent begins with, on the caller's behalf; a repeat is answered."""

    ask: AskAgent


class NoteChildStarted(msgspec.Struct, frozen=True):
    """Command: the process of a reserved child runs."""

    agent: str
    process: str
    session: str
    place: str = ""
    held_by: str = ""
    """Its client's own `sandbox` or `rules`, if they hold it to its scope."""


class NoteChildUp(msgspec.Struct, frozen=True):
    """Command: a started child is up, and can be given its task."""

    agent: str


class NoteChildFailed(msgspec.Struct, frozen=True):
    """Command: a child did not come up, or could not be started at all."""

    agent: str
    reason: str
    output: str = ""


Ending: TypeAlias = Literal["asked", "exited", "killed"]
"""How a child's process came to its end."""


class NoteChildEnd(msgspec.Struct, frozen=True):
    """Command: the process of a child has ended."""

    agent: str
    how: Ending
    result: str = ""
    """What it said last, if no turn told it."""
    code: int | None = None
    """Its exit code, if that is known; of one that was asked something."""


class SweepChildren(msgspec.Struct, frozen=True):
    """Command: look whose children died or never came up, and whose claims are over."""

    begun: bool = False
    """A broker's life begins, before it serves anybody: nobody is at work on what is only reserved."""


class MarkSilent(msgspec.Struct, frozen=True):
    """Command: an agent gave no sign of life for too long."""

    agent: str


class MarkAlive(msgspec.Struct, frozen=True):
    """Command: a silent agent gave a sign of life."""

    agent: str


class ForgetAbsent(msgspec.Struct, frozen=True):
    """Command: drop agents that have been away for very long and have no mail."""


class TellOverdue(msgspec.Struct, frozen=True):
    """Command: notify the listeners of agents that were silent for too long."""


class NoteRefusals(msgspec.Struct, frozen=True):
    """Command: put on record what was refused."""

    refusals: list[CallRefused]


class TellOperator(msgspec.Struct, frozen=True):
    """Command: send the person who runs all this a notice about the storage."""

    text: str


class StartBroker(msgspec.Struct, frozen=True):
    """Command: record that a broker has started."""

    version: str


class TakeItems(msgspec.Struct, frozen=True):
    """Command: the next items of another machine's lane; if they are not the next, nothing happens."""

    machine: str
    inc: int
    first: int
    base: bytes
    """The mark of the lane before them."""
    items: list[AnyItem | Unknown]
    follows: bool = False
    """Their incarnation was begun because ours was."""


class NoteAcked(msgspec.Struct, frozen=True):
    """Command: another machine has our items up to this number on its disk."""

    machine: str
    inc: int
    number: int


class BeginIncarnation(msgspec.Struct, frozen=True):
    """Command: there is proof that one of two stores was put back to an older copy."""

    machine: str
    inc: int


class NoteMachine(msgspec.Struct, frozen=True):
    """Command: another machine was heard again, or was silent for long."""

    machine: str
    online: bool
    heard_at: float = 0.0


class TellRoster(msgspec.Struct, frozen=True):
    """Command: tell these machines who is here."""

    machines: list[str]


class NameMachine(msgspec.Struct, frozen=True):
    """Command: this machine has another identity; the others have to be paired again."""

    id: str


class NoteParcels(msgspec.Struct, frozen=True):
    """Command: put on record what no paired machine can have sealed."""

    refused: list[ParcelsRefused]
