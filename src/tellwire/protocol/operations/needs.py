"""Operations for the person who runs all this: what waits for them, and answering it."""

from __future__ import annotations

from typing import ClassVar

from tellwire.protocol.operations.base import CLI, OPERATOR, SCRIPT, SDK, Operation, Reply
from tellwire.protocol.operations.messages import Json, Sent


class Need(Reply, frozen=True, kw_only=True):
    """One message that the operator has not read, or a question that it has not answered."""

    id: str
    who: str
    """The sender's name; `tellwire` for the broker's own notices."""
    body: Json
    at: float
    choices: list[str] = []
    """The answers to choose from; empty if any will do."""
    unread: bool = False
    answerable: bool = False
    """Whether there is anybody to hear an answer."""


class Needs(Reply, frozen=True, kw_only=True):
    """What waits for the operator, the oldest first."""

    needs: list[Need] = []
    more: int = 0
    """How many wait behind these."""
    full: list[str] = []
    """Agents that have as many open messages here as one may have: what else they send is refused."""


class ListNeeds(Operation[Needs], frozen=True, kw_only=True):
    """What waits for the operator: unread messages, and questions without an answer. Nothing becomes read."""

    reply = Needs
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    limit: int = 50


class Counts(Reply, frozen=True, kw_only=True):
    """How much waits for the operator, and how many agents do what; the operator itself is not counted."""

    needs: int = 0
    """Messages that are not read, and questions that are not answered."""
    oldest_at: float = 0.0
    """When the oldest of them was sent; 0 if there is none."""
    waiting: int = 0
    """Agents whose client waits for its human."""
    errored: int = 0
    """Agents whose last turn failed."""
    busy: int = 0
    idle: int = 0
    online: int = 0
    """All that are online, also those that do not tell what they are doing."""


class Glance(Operation[Counts], frozen=True, kw_only=True):
    """In numbers: what waits for the operator, and what the agents that are online are doing."""

    reply = Counts
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR, SCRIPT})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})


class AnswerMessage(Operation[Sent], frozen=True, kw_only=True):
    """Answer a message to the operator, with one of its choices if it offers any; for the operator only."""

    reply = Sent
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK, CLI})
    repeats = True
    id: str
    body: str
    key: str = ""
    """As in `send_message`: a repeat with the same key is harmless."""


class Notice(Reply, frozen=True, kw_only=True):
    """To a console that is to get the person's attention, once; it answers with `attend(heard=id)`."""

    id: int
    text: str
    """Harmless, on one line, at most 120 characters."""
    kind: str = ""
    """What it is about: `question`, `message`, `waiting`, `errored`, or `digest` after quiet hours."""
    who: str = ""
    """The agent's name."""
    message: str = ""
    """The message, if it is one."""
    more: int = 0
    """So many others need the person besides."""


class Attending(Reply, frozen=True, kw_only=True):
    """What the broker knows of the person."""

    looking: bool = False
    """The person looks at one of the consoles: nobody is notified."""
    quiet_until: float = 0.0
    """Until then nobody is notified either; 0 if that was not asked for."""


class Attend(Operation[Attending], frozen=True, kw_only=True):
    """Tell whether the person is looking at this console, and whether it can notify them.

    It counts for this connection, until it says otherwise or is closed. A need of the person makes at most
    one notice: none while they look at a console, else by one that can notify, else by `notify_command`.
    """

    reply = Attending
    reads = True
    callers: ClassVar[frozenset[str]] = frozenset({OPERATOR})
    surfaces: ClassVar[frozenset[str]] = frozenset({SDK})
    focused: bool = False
    """The person looks at it."""
    notifies: bool = False
    """It can get the person's attention, by a bell or a notification: it is sent `notice` frames."""
    heard: int = 0
    """The notice that it has just shown; without it the next console is asked within a second."""
    quiet_s: float | None = None
    """Notify nobody for so long; 0 to end that."""
