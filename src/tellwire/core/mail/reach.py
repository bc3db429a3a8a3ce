"""Whether mail reaches an agent now, and if not, why: rules over what is known of its client."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

PULLS = "read when it next asks"
DEAF = "no hook of its session has run, so mail cannot be delivered to it: it has to fetch it"
DIALOG = "a dialog in its terminal is waiting for its human"
NOT_WAKEABLE = "it is idle and cannot be woken"
SETTLE_S = 10.0
"""A client that has just fallen idle, or was just woken, opens its paths again within this."""


class Contact(NamedTuple):
    """What `sessions` and `mcp` know now of the client of an agent that fetches its mail; never stored."""

    hooked: bool = False
    """It is an agent CLI that our hooks run in; otherwise it fetches its mail itself."""
    bound: bool = False
    """A hook of this very session has been heard."""
    holds: bool = False
    """A call of it waits for mail."""
    state: str = ""
    """`busy`, `idle`, `waiting` (for its human), `errored`, or empty if nobody knows."""
    idle: bool = False
    """A wake could begin a turn."""
    since: float = 0.0
    """Since when it does what it does, in seconds of the wall clock."""
    woken_at: float = 0.0
    """When it was last woken."""
    held: str = ""
    """Why it may not be woken now though a path is open; empty if it may."""
    again_s: float = 0.0
    """If it may not: in how many seconds that is tried again; 0 if not before something new happens."""
    shut: str = ""
    """If it is idle: why no path can wake it. Empty if one can."""
    path: str = ""
    """If it is idle: the path that can."""
    lease_paths: Mapping[str, str] = {}
    """By which path each open hand-over went, by its call."""
    announced: Set[str] = frozenset()
    """Large messages that were announced to it."""
    doubt: str = ""
    """Why its client may not work with tellwire, by its version; empty if nothing is known against it."""

    @property
    def is_deaf(self) -> bool:
        """Whether it is an agent CLI of whose session nothing has been heard."""
        return self.hooked and not self.bound and not self.holds

    def is_settling(self, now: float) -> bool:
        """Whether a turn has just ended, or is about to begin: its paths open by themselves."""
        return 0.0 <= now - max(self.since, self.woken_at) < SETTLE_S


class Reach(NamedTuple):
    """Whether a message to an agent gets into its context without further action of anybody."""

    reached: bool
    why: str = ""
    """If not, the reason; else what a sender should know."""


REACHED = Reach(reached=True)


def reach(contact: Contact | None, now: float) -> Reach:
    """Whether an online agent is reached now; without a contact, mail is pushed to its client."""
    if contact is None or contact.holds:
        return REACHED
    if not contact.hooked:
        return Reach(reached=True, why=PULLS)
    if not contact.bound:
        return Reach(reached=False, why=DEAF)
    if contact.state == "waiting":
        return Reach(reached=True, why=DIALOG)
    if not contact.idle or contact.is_settling(now):
        return REACHED
    if contact.shut:
        return Reach(reached=False, why=not_wakeable(contact))
    return Reach(reached=True, why=contact.held)


def not_wakeable(contact: Contact) -> str:
    """Why an idle agent gets no mail before its next turn."""
    return f"{NOT_WAKEABLE} ({contact.shut})"
