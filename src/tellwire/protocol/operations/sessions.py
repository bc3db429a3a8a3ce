"""Operations on an agent's session: look at what was said in it."""

from __future__ import annotations

from typing import Literal

from tellwire.protocol.operations.base import Operation, Reply


class SessionData(Reply, frozen=True, kw_only=True):
    """The end of an agent's session, as Markdown."""

    agent: str
    kind: str
    status: Literal["online", "offline"]
    activity: str = ""
    source: Literal["transcript", "terminal", "none"] = "none"
    """Where the text comes from: the client's own record, the terminal it runs in, or nowhere."""
    text: str = ""
    cut: bool = False
    """There is more before it: ask with a larger `tail`, or `since`."""
    last_at: float = 0.0
    """When the last entry was written, in seconds since 1970."""
    note: str = ""


class GetSessionData(Operation[SessionData], frozen=True, kw_only=True):
    """What an agent's session has come to: what it was told, what it said, which tools it called."""

    reply = SessionData
    reads = True
    agent: str
    since: float = 0.0
    """Only what was said from this time on, in seconds since 1970."""
    tail: int = 2_000
    """At most so many characters, from the end."""
