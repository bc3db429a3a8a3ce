"""What clients report, in one form for all: hooks, turns, what a transcript proves, what was said."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

import msgspec

What: TypeAlias = Literal[
    "session_started",
    "prompt",
    "tool_wanted",
    "tool_used",
    "turn_ended",
    "errored",
    "interrupted",
    "idle",
    "waiting",
    "session_ended",
    "other",
]
"""`prompt`: a turn begins. `errored`: the model failed for good. `idle`: the client waits for a prompt, which
may be news. `waiting`: it asks its human for something."""
Outcome: TypeAlias = Literal["ended", "errored", "interrupted", "waiting"]


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook of a client reports."""

    what: What
    name: str
    """The client's own word for it."""
    session: str
    """The client's id of the session."""
    transcript: str = ""
    """Where the client writes the session down; empty if it does not report it."""
    cwd: str = ""
    turn: str = ""
    """The client's id of the turn, where it has one."""
    prompt: str = ""
    typed: bool = False
    """Of a prompt: a human gave it, as far as the client reports."""
    begins: bool = False
    """Of a prompt: the turn before it is over, even if nothing reported that."""
    final_text: str = ""
    """Of a turn that ended: the final answer, and nothing before it. Of a client that waits: what it asks."""
    ending: str = ""
    """Of a turn that ended: the client's id of that, where it tells it until somebody has heard it."""
    source: str = ""
    """How a session started, or why it ended."""
    tool_call: str = ""
    """The client's id of the tool call, or of the first of a batch."""
    subagent: bool = False
    """It happened in a sub-agent and does not concern the main conversation."""
    delegation: int = 0
    """1: a sub-agent begins whose hooks look like the main conversation's; -1: it is done."""
    takes_text: bool = False
    """Text given in the answer reaches the model."""
    continues: bool = False
    """Text given in the answer keeps the turn from ending."""


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose end was not reported, and where to look for one."""

    pid: int
    """The client's process; 0 if it is not known."""
    session: str
    transcript: str
    since: float
    """When a hook last reported it, in seconds of the wall clock."""
    began_at: float
    client_id: str = ""
    """The client's id of the turn, where it has one."""


class TurnState(msgspec.Struct, frozen=True, kw_only=True):
    """What a client's own files tell of it, for the times in which no hook does."""

    state: Literal["idle", "busy", "waiting"]
    at: float
    """Since when, in seconds of the wall clock."""
    outcome: Outcome = "interrupted"
    """Of one that is idle: how its last turn went."""
    text: str = ""
    """What that turn said in the end; of one that waits, what for."""


class Verdict(Enum):
    """What a transcript says of a text that was handed over."""

    READ = "read"
    """It is in a request that the model has answered."""
    ABSENT = "absent"
    """A request that began after the client took it up was answered without it."""
    OPEN = "open"
    """Not known yet."""


Who: TypeAlias = Literal["user", "agent", "tool", "note"]


class Said(NamedTuple):
    """One entry of a conversation, as people and agents read it."""

    at: float
    who: Who
    text: str
