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
    typed: bool = False
    """Of a prompt: a human gave it, as far as the client tells."""
    begins: bool = False
    """Of a prompt: the turn before it is over, even if nothing told so."""
    final_text: str = ""
    """Of a turn that ended: the final answer, and nothing before it. Of a client that waits: what it asks."""
    ending: str = ""
    """Of a turn that ended: the client's id of that, where it tells it until somebody has heard it."""
    source: str = ""
    """How a session started, or why it ended."""
    tool_call: str = ""
    """The client's id of the tool call, or of the first of a batch."""
    subagent: bool = False
    """It happened in a sub-agent: not a word of it concerns the main conversation."""
    delegation: int = 0
    """1: a sub-agent begins whose hooks look like the main conversation's; -1: it is done."""
    takes_text: bool = False
    """Text given in the answer reaches the model."""
    continues: bool = False
    """Text given in the answer keeps the turn from ending."""


class Turning(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of which no end was told, and where to look for one."""

    pid: int
    """The client's process; 0 if it is not known."""
    session: str
    transcript: str
    since: float
    """When a hook last told of it, in seconds of the wall clock."""
    began_at: float
    word: str = ""
    """The client's id of the turn, where it has one."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
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


class Reader(Protocol):
    """Follows one session's transcript; cheap to ask again and again, whatever the file's size.

    A verdict belongs to one hand-over: `expect` begins a new one, whatever became of an earlier one.
    """

    evidence: str
    """The word for what its verdicts rest on."""

    def expect(self, mark: str, at: float | None = None, *, deferred: bool = False) -> None:
        """A text with this mark is handed over, now or `at`; a deferred one waits in the client's queue."""
        ...

    def doubt(self, mark: str) -> None:
        """A deferred text should have been taken up by now; unless it was, requests without it count."""
        ...

    def lacks(self, mark: str, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """The client rests, and shows nothing of the hand-over, nor ever will.

        `left`: its human has gone on to another conversation. `unbegun`: the text was to begin a turn, and
        no hook has told of one. `stopped`: its human interrupted the last turn.
        """
        ...

    def stands(self, mark: str) -> bool:
        """A text with this mark is in the conversation already, and will be in its next request."""
        ...

    def may_return(self, mark: str) -> bool:
        """The client dropped a text with this mark, but brings it back when the session is resumed."""
        ...

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

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """The same answer, with a line for the human's screen, where the client has a place for one."""
        ...

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        ...

    def reader(self, event: HookEvent) -> Reader:
        """A reader of the session that this event belongs to."""
        ...

    def pulse(self, turn: Turning) -> Pulse | None:
        """What the client's own files tell; None if they tell nothing that we understand."""
        ...
