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
    """Where the text comes from: the client's transcript, its terminal, or nowhere."""
    text: str = ""
    cut: bool = False
    """There is more before it: use a larger `tail`, or `since`."""
    last_at: float = 0.0
    """When the last entry was written, in seconds since 1970."""
    note: str = ""


class GetSessionData(Operation[SessionData], frozen=True, kw_only=True):
    """The end of an agent's session: its prompts, its answers and its tool calls."""

    reply = SessionData
    reads = True
    runs = "deferred"
    agent: str
    since: float = 0.0
    """Only entries from this time on, in seconds since 1970."""
    tail: int = 2_000
    """At most this many characters, from the end."""
