"""Operations on agents: join, leave, describe oneself, find others."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from tellwire.protocol.operations.base import CLI, MCP, SDK, Operation, Reply

Metadata: TypeAlias = dict[str, Any]


class PathRecord(Reply, frozen=True, kw_only=True):
    """One path by which mail reaches an agent's model."""

    name: str
    works: bool
    """Whether it is bound to this very session, and would work now."""
    note: str = ""
    """If not, why; else what there is to say."""
    last_at: float | None = None
    """When it last did, by evidence."""
    wakes: bool = False
    """It reaches an idle agent too."""
    unproved: bool = False
    """It does not count as working because nothing has shown yet that it is this session's."""


class AgentRecord(Reply, frozen=True, kw_only=True):
    """One agent as others see it."""

    id: str
    name: str
    kind: str
    status: str
    """`online`, `offline`, or `unreachable` if its machine is not heard."""
    activity: str = ""
    """`busy`, `idle`, `waiting` (for its human) or `errored`, if its client reports it."""
    capabilities: list[str] = []
    reason: str = "open"
    """Why the caller sees it: `self`, `child`, `parent`, `peer`, `link`, or `open` (the mesh policy)."""
    offline_reason: str = ""
    """Why it is offline: `left`, `disconnected`, `silent` or `restart`."""
    group: str = ""
    connected_at: float = 0.0
    last_heartbeat: float = 0.0
    pending: int = 0
    """Messages waiting for it."""
    metadata: Metadata = {}
    muted: bool = False
    """It is not woken: its mail waits for its next turn."""
    muted_until: float = 0.0
    """When the muting ends; 0 if no end was set."""
    paths: list[PathRecord] = []
    """The paths by which mail reaches its model, if its client is known; the best one first."""
    terminal: str = ""
    """Where it runs: a tmux pane such as `%3`, or a terminal such as `pts/4`."""
    title: str = ""
    """To persons and scripts: how its human began this session, if its client tells."""
    deaf: bool = False
    """It is an agent CLI none of whose hooks has run in this session, so mail cannot be delivered to it."""
    unreached: str = ""
    """If it is online but cannot be reached now: why; otherwise empty."""
    waits: str = ""
    """Why its oldest waiting message has not been read yet, if it has waited longer than is normal."""
    doubt: str = ""
    """If the version of its client is not known to work: which, and why; otherwise empty."""
    machine: str = ""
    """The label of the machine it is on, if that is another one; `last_heartbeat` is then that machine's."""


class AgentList(Reply, frozen=True, kw_only=True):
    """The agents asked for, by name; never the asker."""

    agents: list[AgentRecord] = []
    hidden: int = 0
    """How many more are offline or in other groups (see `all`)."""


class Registered(Reply, frozen=True, kw_only=True):
    """Who the caller now is."""

    id: str
    name: str
    note: str = ""
    """Says so if the name differs from the requested one."""
    resumed: bool = False
    """The name already existed; its mailbox is kept."""
    attached: bool = False
    """The caller was started by this agent and acts as it; the agent's own client gets the mail."""
    waiting: int = 0
    looking: bool = False
    """The caller may read as this agent; it has not joined, and no event was written."""


class RegisterAgent(Operation[Registered], frozen=True, kw_only=True):
    """Join under a name, or return to it. If the name is in use it gets a suffix, and the reply says so."""

    reply = Registered
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str
    """Empty: the agent that started the calling process, or `operator` for a person at a terminal."""
    kind: str = "script"
    capabilities: list[str] | None = None
    """Left out: unchanged."""
    metadata: Metadata | None = None
    """Left out: unchanged."""
    cwd: str = ""
    session: str
    """A random word chosen by the client; the same word resumes the same identity after a lost connection."""
    resume: str = ""
    """The id of the agent it was before the connection broke; no other agent will do."""
    exact: bool = False
    """Fail rather than add a suffix to the name."""
    owns_process: bool = False
    """Whether this process *is* the agent: every process below it can then act only as this agent."""
    pulls: bool = False
    """It fetches its mail with `take_messages`.

    Nothing is pushed to it; it only learns that mail is waiting.
    """
    grants: bool = False
    """It shows offered messages without claiming them, until the time given in the offer.

    What it was offered counts as shown, unless it says otherwise when it leaves.
    """
    looks: bool = False
    """Only read as a registered agent that is offline: it does not join, and no event is written."""


class Done(Reply, frozen=True, kw_only=True):
    """The operation took effect."""

    note: str = ""


class UpdateAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """Change an agent's own name, kind, capabilities or metadata; what is left out stays as it is.

    The name and mail of an agent that is offline can be taken over only from its own terminal pane, or by the
    operator.
    """

    reply = AgentRecord
    agent: str | None = None
    """Another agent's name; operator only."""
    name: str | None = None
    kind: str | None = None
    suffix: bool = False
    """Add a suffix if the name is in use; otherwise that is a conflict."""
    capabilities: list[str] | None = None
    metadata: Metadata | None = None


class MuteAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """Mute an agent: it is not woken, and its mail waits for its next turn."""

    reply = AgentRecord
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str | None = None
    """Another agent's name; operator only."""
    for_s: float | None = None
    """Left out: until unmuted."""
    off: bool = False
    """Unmute it."""


class UnregisterAgent(Operation[Done], frozen=True, kw_only=True):
    """Leave. The mailbox is kept for a later return; with `forget` the name and its mail are deleted."""

    reply = Done
    name: str | None = None
    """Another agent's name; operator only."""
    forget: bool = False
    shown: list[str] | None = None
    """When an agent itself leaves: the messages that were shown but not confirmed.

    Left out: any may have been shown.
    """


class Heartbeat(Operation[Done], frozen=True, kw_only=True):
    """Tell the broker that the agent is alive; any other call does so too."""

    reply = Done
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, MCP})


class ListAgents(Operation[AgentList], frozen=True, kw_only=True):
    """List the agents that are online in this project, on all machines; with `all`, every agent."""

    reply = AgentList
    reads = True
    all: bool = False
    capability: str | None = None
    """Only agents with this capability."""


class GetAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """Everything that is known about one agent."""

    reply = AgentRecord
    reads = True
    name: str
