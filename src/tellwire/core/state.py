"""Everything that the broker knows in memory. Only `apply_*` functions change it; a snapshot is its whole.

What is `pending` or `delivered` lives here. A receipt in a final state does not: the store's journal and
the table derived from it tell about the past.
"""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from tellwire.core.limits import Limits
from tellwire.protocol.addresses import ID, OPERATOR
from tellwire.protocol.machines import BoxKey
from tellwire.protocol.operations.scopes import ScopeRule
from tellwire.protocol.parcels import ZERO

SNAPSHOT_VERSION = 1


class Receipt(msgspec.Struct, gc=False):
    """One message that one recipient has not read yet."""

    sender: str
    size: int
    deadline: float
    """While pending, when it expires on the awake clock; while leased, the seconds it has left."""
    lease: int = 0
    """The sequence of the hand-over, or 0 while pending."""
    seen_by: str = ""
    """A session that ended without evidence and may have shown the message."""
    weak: bool = False
    """It does not start a turn."""
    quotes: bool = False
    """Nobody sent it, but the words are an agent's, and are framed as such."""
    hops: int = 0
    """How many turns in a row, each begun by a message of the one before, led to it."""
    since: float = 0.0
    """When it began to wait, or was handed over, by the wall clock; 0 in what an earlier version wrote."""
    origin: int = 0
    """Of a message from another machine: its number there."""
    there: str = ""
    """Of a message to another machine: empty in our outbox, then `received`, `delivered` or `withdrawn`."""


class Request(msgspec.Struct, gc=False):
    """What a request key was answered with."""

    digest: str
    seq: int
    status: str


class Question(msgspec.Struct, frozen=True):
    """A message that offers the operator words to choose from, and that has no answer yet."""

    sender: str
    until: float
    """On the awake clock: then it is too late for an answer."""


class Heard(msgspec.Struct, gc=False):
    """Where a message in an inbox was said, and after how many turns."""

    link: str
    hops: int


class Member(msgspec.Struct, kw_only=True):
    """One agent's place in a link; kept when it has left."""

    name: str
    number: int
    role: str = ""
    share: str = "all"
    joined_at: float = 0.0
    left_at: float = 0.0
    """0 while it is in."""
    spoke: bool = False
    """It has spoken since it last heard anything there: what it adds costs no further turn."""
    turn: str = ""
    """Its last turn whose words crossed."""
    words: str = ""
    """The digest of those words."""


class Link(msgspec.Struct, kw_only=True):
    """A conversation that agents share, with all who are or were in it."""

    id: str
    members: dict[str, Member]
    """By agent id, in the order of their numbers."""
    direct: bool = False
    status: str = "active"
    reason: str = ""
    opener: str = ""
    opened_at: float = 0.0
    closed_at: float = 0.0
    said: int = 0
    """The number of the last thing said."""
    turns: int = 0
    """Turns used since a person's last word."""
    bare: str = ""
    """Who said the last thing, if that was nothing but an acknowledgement."""
    paused_at: float = 0.0

    def here(self) -> list[str]:
        """The ids of the current members."""
        return [agent for agent, member in self.members.items() if not member.left_at]


class Agent(msgspec.Struct, kw_only=True):
    """An agent: its session, its inbox, and whom it is connected with."""

    id: str
    name: str
    kind: str
    session: str
    group: str = ""
    process: str = ""
    """The process of its session, as `pid.start`."""
    owner: str = ""
    """The process that *is* the agent, if any: all beneath it speaks as this agent only."""
    folder: str = ""
    """Where its client works, and its terminal pane; what the broker found out, see `core/agents/seats`."""
    pane: str = ""
    conversations: list[str] = []
    """The client's own ids of the sessions that bore this name, the current one last."""
    provisional: bool = False
    """It was made for a session of which it is not known yet which one it is."""
    capabilities: list[str] = []
    metadata: dict[str, Any] = {}
    online: bool = True
    offline_reason: str = ""
    connected_at: float = 0.0
    gone_at: float = 0.0
    gone_awake: float = 0.0
    """The same on the awake clock; 0 in what an earlier version wrote."""
    topics: dict[str, None] = {}
    pending: dict[int, Receipt] = {}
    leased: dict[int, Receipt] = {}
    pending_bytes: int = 0
    leased_bytes: int = 0
    earliest: float = inf
    """No pending message expires before this; it may be too early, never too late."""
    calls: dict[str, int] = {}
    """Of a session that fetches its mail: the lease that each call got, by the call's id."""
    requests: dict[str, Request] = {}
    request_floor_us: int = -1
    """Keys born at or before this are no longer remembered."""
    muted: bool = False
    muted_until: float = 0.0
    """When the muting ends; 0 if it has no end of its own."""
    turns: list[str] = []
    """The last turns that were reported, by the client's words for them."""
    handed: int = 0
    """Messages handed over since its last turn ended."""
    noticed: int = 0
    """How many of them were notices of the broker's own."""
    hops: int = 0
    """The same for the current turn; below 0 if new work started it."""
    checkpoint: int = 0
    """The turn that ends as this one counts down to 0 is a checkpoint, and is not reported; 0 if none is."""
    links: dict[str, None] = {}
    """The links it is in."""
    heard: dict[int, Heard] = {}
    """What it got on links and has not dealt with in a turn that ended, by message."""
    listeners: dict[str, None] = {}
    """The ids of agents that want to hear how its turns end."""
    listens: dict[str, None] = {}
    """The ids of agents whose turns it wants to hear of."""
    due: float = 0.0
    """Since when its listeners wait for the end of a turn, on the awake clock; below 0: notified."""
    machine: str = ""
    """The id of the machine it lives on, if that is another one; its name is then `label:name`."""
    there: str = ""
    """Its id on that machine."""

    def is_muted(self, now: float) -> bool:
        """Whether it must not be woken now."""
        return self.muted and (not self.muted_until or now < self.muted_until)

    def has_room(self, size: int, limits: Limits, *, more: int = 0) -> bool:
        """Whether a message of `size` fits into the inbox, with `more` others on their way into it."""
        messages_max = limits.operator_messages_max if self.name == OPERATOR else limits.mailbox_messages_max
        return (
            len(self.pending) + len(self.leased) + more < messages_max
            and self.pending_bytes + self.leased_bytes + size <= limits.mailbox_bytes_max
        )

    def has_reserve(self, size: int, limits: Limits, *, more: int = 0) -> bool:
        """The same for notices that nothing else reports: other mail cannot fill the whole inbox."""
        messages_max = limits.operator_messages_max if self.name == OPERATOR else limits.mailbox_messages_max
        bytes_max = limits.mailbox_bytes_max + limits.reserve_bytes_max
        return (
            len(self.pending) + len(self.leased) + more < messages_max + limits.reserve_messages_max
            and self.pending_bytes + self.leased_bytes + size <= bytes_max
        )


class Claim(msgspec.Struct, frozen=True):
    """One rule that an agent holds, until a time on the awake clock; 0 for as long as it is there."""

    rule: ScopeRule
    until: float = 0.0


class Child(msgspec.Struct, kw_only=True):
    """An agent that another one started, from its reservation to its end."""

    parent: str
    """Empty once those who started it are gone."""
    status: str = "reserved"
    """`reserved`, `started` (its process runs), `running` (it is up) or `stopping`."""
    task: str = ""
    """Until it is delivered."""
    command: list[str] = []
    cwd: str = ""
    scoped: bool = False
    listen: bool = False
    headless: bool = False
    process: str = ""
    place: str = ""
    since: float = 0.0
    """On the awake clock, of its last step."""
    key: str = ""
    again: bool = False
    """The agent was known before it became this child."""
    result: int = 0
    """The newest message that told its parent what it said."""
    held_by: str = ""
    """What of its client's own holds it to its scope: `sandbox`, `rules`, or nothing."""
    asked: bool = False
    """It is there for one question: its first final words are the answer, and then it ends."""
    unheard: bool = False
    """Its parent had no room for what it said last, and has to learn where to find it."""


class EndedChild(msgspec.Struct, frozen=True):
    """What is remembered about a child that has ended."""

    parent: str
    how: str
    at: float
    result: int = 0
    """The message that told its parent what it said last."""


class OutItem(msgspec.Struct, gc=False, array_like=True):
    """One thing to be said to another machine; bodies stay in the store."""

    kind: str
    seq: int
    """The event that it comes from; of a message, the message."""
    tag: bytes = b""
    size: int = 0
    agents: list[str] = []
    """The recipients, or of receipts the one recipient, by their ids here."""
    word: str = ""
    """Of receipts their state, of a refusal its code."""
    seqs: list[int] = []
    """The messages that it is about: of receipts and refusals by their numbers on the other machine."""
    note: str = ""
    """Of receipts the evidence, of a refusal its text."""
    repeat: bool = False
    """It was offered before, in another incarnation of the lane."""


class Machine(msgspec.Struct, kw_only=True):
    """Another machine: who it is, and the durable half of both lanes (see `federation.exchange`)."""

    id: str
    label: str
    former: list[str] = []
    """Labels it had, newest last; they go on working."""
    sign_key: bytes = b""
    boxes: list[BoxKey] = []
    trust: str = "own"
    shares: list[str] = []
    """Projects that a `team` machine may see."""
    status: str = "paired"
    """`paired` or `removed`; what was removed is remembered for ever."""
    by: str = ""
    """The machine that introduced it; empty if a person did."""
    carriers: list[str] = []
    speaks: int = 1
    knows: list[str] = []
    version: str = ""
    body_bytes_max: int = 64 * 1024
    paired_at: float = 0.0
    removed_at: float = 0.0
    online: bool = False
    heard_at: float = 0.0
    """When it last came online or went; the newest word is volatile."""
    agents: dict[str, str] = {}
    """Its agents: from their ids there to their ids here."""
    roster: int = 0
    """The number of its roster that we hold."""
    told: int = 0
    """The number of our roster that was last put on the lane, and of the item."""
    told_item: int = 0
    inc: int = 1
    follows: bool = False
    """This incarnation was begun because the other machine began one."""
    sent: int = 0
    """The number of the newest item of our lane to it."""
    acked: int = 0
    acked_mark: bytes = ZERO
    out: dict[int, OutItem] = {}
    """What it has not acknowledged, by number."""
    out_bytes: int = 0
    peer_inc: int = 0
    taken: int = 0
    """The number of the newest item of its lane to us."""
    taken_mark: bytes = ZERO

    @property
    def is_paired(self) -> bool:
        return self.status == "paired"


class State(msgspec.Struct, kw_only=True):
    """The whole state, as of event `seq`."""

    version: int = SNAPSHOT_VERSION
    seq: int = 0
    now: float = 0.0
    """Engine time: the wall clock, in seconds; it goes back only if that is set back by a lot."""
    awake: float = 0.0
    """Seconds this broker has been running and not suspended, over all its lives: the clock of TTLs."""
    epoch: int = 0
    """The sequence at which this broker's life began; leases below it are from an earlier one."""
    agents: dict[str, Agent] = {}
    names: dict[str, str] = {}
    """From a lower-case name to an agent id."""
    former: dict[str, str] = {}
    """From a lower-case name that an agent had before to its id; a bearer of the name goes before."""
    topics: dict[str, dict[str, None]] = {}
    """From a topic to the ids of its subscribers, in the order they joined."""
    peers: dict[str, dict[str, None]] = {}
    """From an agent's id to those of its peers; always in both directions."""
    policies: dict[str, str] = {}
    """From a group to its policy, where that is not `open`."""
    claims: dict[str, list[Claim]] = {}
    """From an agent's id to what it has claimed or was given."""
    children: dict[str, Child] = {}
    """By their own ids."""
    ended: dict[str, EndedChild] = {}
    """The last children that ended, by their own ids, oldest first."""
    children_of: dict[str, dict[str, None]] = msgspec.field(default_factory=dict, name="offspring")
    """From an agent's id to those of its descendants, as far as it was notified of them."""

    asked: dict[int, Question] | msgspec.UnsetType = msgspec.UNSET
    """What the operator was asked and has not answered, read or not, by message; unset if nobody did."""
    links: dict[str, Link] = {}
    """By id; also the last of those that are closed."""
    closed: dict[str, None] = {}
    """The ids of closed links that are kept, oldest first."""
    listened: dict[str, None] = {}
    """The ids of agents that somebody listens to."""
    disowned: dict[str, None] = {}
    """Processes that were an agent's own, oldest first: what runs below them is not a person."""

    machines: dict[str, Machine] = {}
    """Other machines, by id; also those that were removed."""
    labels: dict[str, str] = {}
    """From a lower-case label, former ones too, to the id of a paired machine."""
    here: str = ""
    """The id of this machine, and its label; empty until the first one is paired."""
    here_label: str = ""

    def find(self, name: str) -> Agent | None:
        """The agent that has this name now."""
        return self.agents.get(self.names.get(name.lower(), ""))

    def reach(self, address: str) -> Agent | None:
        """The agent that a message to `address` is for: by its name, a former name, or an id as `id:a2`."""
        if address.startswith(ID):
            return self.agents.get(address[len(ID) :])
        lower = address.lower()
        found = self.agents.get(self.names.get(lower) or self.former.get(lower) or "")
        return self._reach_elsewhere(lower) if found is None and ":" in lower else found

    def _reach_elsewhere(self, address: str) -> Agent | None:
        """The agent behind a former label of its machine, or behind our own."""
        label, _, name = address.partition(":")
        if label == self.here_label.lower():
            return self.find(name)
        machine = self.machines.get(self.labels.get(label, ""))
        return None if machine is None else self.find(f"{machine.label}:{name}")

    def waiting(self) -> int:
        """Messages not yet read by their recipients."""
        return sum(len(agent.pending) + len(agent.leased) for agent in self.agents.values())

    def oldest_open(self) -> int:
        """The sequence of the oldest message that is not read or answered; beyond the newest if none is."""
        firsts = [min(box) for agent in self.agents.values() for box in (agent.pending, agent.leased) if box]
        return min([*firsts, *self.questions()], default=self.seq + 1)

    def questions(self) -> dict[int, Question]:
        """What the operator may still answer, by message."""
        if isinstance(self.asked, msgspec.UnsetType):
            return {}
        return {seq: question for seq, question in self.asked.items() if question.until > self.awake}


def format_snapshot(state: State) -> bytes:
    return msgspec.msgpack.encode(state)


def parse_snapshot(data: bytes) -> State:
    """Decode a state.

    Raises:
        msgspec.DecodeError: not a snapshot, or of a shape this version does not know.
    """
    state = msgspec.msgpack.decode(data, type=State)
    if state.version != SNAPSHOT_VERSION:
        raise msgspec.ValidationError(f"snapshot of version {state.version}")
    for agent in state.agents.values():
        _share_names(state, agent)
    return state


def _share_names(state: State, agent: Agent) -> None:
    """Decoding made a fresh copy of each sender id: 100,000 receipts should share their agents' own."""
    agents = state.agents
    for box in (agent.pending, agent.leased):
        for receipt in box.values():
            sender = agents.get(receipt.sender)
            if sender is not None:
                receipt.sender = sender.id
