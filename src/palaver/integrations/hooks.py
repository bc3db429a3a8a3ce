"""A client's hooks in our own words: what happened, what can be answered, and what its transcript proves.

One module for each client implements `Integration`. Undocumented formats stay behind it, with samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

What: TypeAlias = Literal[
    "session_started",
    "prompt",
    "tool_wanted",
    "tool_used",
    "turn_ended",
    "interrupted",
    "waiting",
    "session_ended",
    "other",
]
"""`prompt`: a turn begins. `waiting`: the client asks its human for something."""


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of one client."""

    what: What
    name: str
    """The client's own word for it."""
    session: str
    """The client's id of the session."""
    transcript: str = ""
    """Where the client writes the session down; empty if it does not tell."""
    cwd: str = ""
    turn: str = ""
    """The client's id of the turn, where it has one."""
    prompt: str = ""
    final_text: str = ""
    """Of a turn that ended: the final answer, and nothing before it."""
    source: str = ""
    """How a session started, or why it ended."""
    tool_call: str = ""
    """The client's id of the tool call, or of the first of a batch."""
    subagent: bool = False
    """It happened in a sub-agent: not a word of it concerns the main conversation."""
    takes_text: bool = False
    """Text given in the answer reaches the model."""
    continues: bool = False
    """Text given in the answer keeps the turn from ending."""


class Verdict(Enum):
    """What a transcript says of a text that was handed over."""

    READ = "read"
    """It is in a request that the model has answered."""
    ABSENT = "absent"
    """A request that began after the client took it up was answered without it."""
    OPEN = "open"
    """Not known yet."""


class Reader(Protocol):
    """Follows one session's transcript; cheap to ask again and again, whatever the file's size."""

    def judge(self, marks: Sequence[str]) -> dict[str, Verdict]:
        """What is known now of the texts that contain these marks, such as `id=m4f2k from=backend`.

        A file that is missing, cut, damaged or of an unknown version gives OPEN, never an exception.
        """
        ...


class Integration(Protocol):
    """One agent CLI."""

    kind: str
    """As agents of it are listed: `claude-code`."""
    chars_max: int
    """So much text a hook can give at once and whole."""
    evidence: str
    """The word for what its reader finds: `request` or `transcript`."""

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload; an unknown event is `other`.

        Raises:
            ValueError: it makes no sense.
        """
        ...

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text` at this event (one that `takes_text`)."""
        ...

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        ...

    def reader(self, event: HookEvent) -> Reader:
        """A reader of the session that this event belongs to."""
        ...
