"""Operations on agents: join, leave, describe oneself, find others."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from tellwire.protocol.operations.base import CLI, HTTP, MCP, SDK, Operation, Reply

Metadata: TypeAlias = dict[str, Any]


class PathRecord(Reply, frozen=True, kw_only=True):
    """One way for mail into an agent's model."""

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
    """`online` or `offline`."""
    activity: str = ""
    """`busy`, `idle`, `waiting` (for its human) or `errored`, where its client tells."""
    capabilities: list[str] = []
    reason: str = "open"
    """Why the asker sees it: `self`, `child`, `parent`, `peer`, `link`, or `open` (the mesh policy)."""
    offline_reason: str = ""
    """How it went: `left`, `disconnected`, `silent` or `restart`."""
    group: str = ""
    connected_at: float = 0.0
    last_heartbeat: float = 0.0
    pending: int = 0
    """Messages that wait for it."""
    metadata: Metadata = {}
    muted: bool = False
    """It is left alone: mail waits for its next turn."""
    muted_until: float = 0.0
    """When that ends; 0 if it was not said."""
    paths: list[PathRecord] = []
    """How mail gets into its model, where its client is known; the best way first."""
    terminal: str = ""
    """Where it runs: a tmux pane as `%3`, or a terminal as `pts/4`."""
    deaf: bool = False
    """It is an agent CLI of whose session no hook has been heard: nothing can bring it mail."""
    unreached: str = ""
    """Of one that is online: why nothing reaches it now; empty if something does."""
    waits: str = ""
    """Why the oldest of what waits for it is not read yet, if that is longer than its path needs."""


class AgentList(Reply, frozen=True, kw_only=True):
    """The agents asked for, by name; never the asker."""

    agents: list[AgentRecord] = []
    hidden: int = 0
    """How many more there are offline or in other groups (ask with `all`)."""


class Registered(Reply, frozen=True, kw_only=True):
    """Who the caller now is."""

    id: str
    name: str
    note: str = ""
    """Says so if the name is not the one asked for."""
    resumed: bool = False
    """The name existed: its mailbox goes on."""
    attached: bool = False
    """The caller runs beneath this agent and speaks for it; the agent's own client gets the mail."""
    waiting: int = 0
    looking: bool = False
    """The caller may read as this agent; it has not joined, and nothing is written down of it."""


class RegisterAgent(Operation[Registered], frozen=True, kw_only=True):
    """Join under a name, or come back to it. A name in use gets a suffix, and the caller is told."""

    reply = Registered
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    name: str
    """Empty: the agent whose process the caller runs beneath, or `operator` for a person at a terminal."""
    kind: str = "script"
    capabilities: list[str] | None = None
    """Left out: what was announced before."""
    metadata: Metadata | None = None
    """Left out: as before."""
    cwd: str = ""
    session: str
    """A random word of the client's; the same word resumes the same identity after a lost connection."""
    resume: str = ""
    """The id of the agent it was before the connection broke: that one or none."""
    exact: bool = False
    """This name or none: no suffix."""
    owns_process: bool = False
    """Whether this process *is* the agent: all that runs beneath it then speaks as this agent only."""
    pulls: bool = False
    """It fetches its mail with `take_messages`: nothing is pushed to it, it is only told that mail waits."""
    grants: bool = False
    """It shows what it is offered without claiming it, until the moment that the offer names. Whatever it
    is offered counts as shown, unless it says otherwise when it leaves."""
    looks: bool = False
    """Only to read as an agent that is known and away: nobody joins, and no event is written."""


class Done(Reply, frozen=True, kw_only=True):
    """The operation took effect."""

    note: str = ""


class UpdateAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """Change one's own name, kind, capabilities or metadata; what is left out stays.

    The name and mail of an agent that is away are had back in its terminal pane, or by the operator, only.
    """

    reply = AgentRecord
    agent: str | None = None
    """Another agent's name: for the operator only."""
    name: str | None = None
    kind: str | None = None
    suffix: bool = False
    """A name in use gets a suffix; otherwise it is a conflict."""
    capabilities: list[str] | None = None
    metadata: Metadata | None = None


class MuteAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """Leave an agent alone: it is not woken, and its mail waits for its next turn."""

    reply = AgentRecord
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI, HTTP})
    name: str | None = None
    """Another agent's name: for the operator only."""
    for_s: float | None = None
    """Left out: until it is taken back."""
    off: bool = False
    """Take it back."""


class UnregisterAgent(Operation[Done], frozen=True, kw_only=True):
    """Leave. The mailbox stays for a later return; with `forget` the name and its mail go too."""

    reply = Done
    name: str | None = None
    """Another agent's name: for the operator only."""
    forget: bool = False
    shown: list[str] | None = None
    """Of one's own farewell: the messages that were shown and not confirmed. Left out: any may have been."""


class Heartbeat(Operation[Done], frozen=True, kw_only=True):
    """A sign of life; any other call is one too."""

    reply = Done
    reads = True
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, MCP, HTTP})


class ListAgents(Operation[AgentList], frozen=True, kw_only=True):
    """Who is online in this project; with `all`, everyone known on this machine."""

    reply = AgentList
    reads = True
    all: bool = False
    capability: str | None = None
    """Only agents that announce this capability."""


class GetAgent(Operation[AgentRecord], frozen=True, kw_only=True):
    """All that is known of one agent."""

    reply = AgentRecord
    reads = True
    name: str
