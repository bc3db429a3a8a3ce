"""What the broker offered: not seen yet by the application, or seen and not confirmed.

An offer says until when nobody else can get its messages; before that they are shown at once. Later, and
after all that may have given them to another session, they have to be claimed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic

from tellwire.protocol.addresses import LINK
from tellwire.protocol.operations.messages import MessageRecord, Offer

SHOWN_TOLD_MAX = 1_000
"""More than this a farewell does not name: then all that was offered counts as shown."""


class Inbox:
    """The messages that came, and those who wait for one."""

    def __init__(self) -> None:
        self._until = 0.0
        """All that is offered is granted until then, on the monotonic clock."""
        self._grants = False
        self._claiming: set[str] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        """Wakes them at the earliest end of a wait, and outlives it: most waits end by an offer."""
        self.offered: dict[str, MessageRecord] = {}
        self.shown: dict[str, str] = {}
        """Shown and neither confirmed nor answered, with the sender: a broker that begins anew offers it
        again, and it is not shown twice."""
        self.waiting = 0
        """Messages that wait at the broker beyond those already here."""

    # -- connections come and go ----------------------------------------------------------------------

    def begin(self, *, grants: bool) -> None:
        """A connection begins: what waits is offered anew on it."""
        self.offered.clear()
        self._until = 0.0
        self._grants = grants

    def void_grants(self) -> None:
        """From now on what is here may be another session's as well."""
        self._until = 0.0

    def leave(self) -> None:
        """The agent is about to say what it has shown: nothing more is shown without asking."""
        self.void_grants()
        self._grants = False
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def told(self) -> list[str] | None:
        """What a farewell says was shown, or may be any moment; None if that is too much to say."""
        named = self._claiming.union(self.shown)
        return None if len(named) > SHOWN_TOLD_MAX else list(named)

    # -- messages -------------------------------------------------------------------------------------

    def put(self, offer: Offer) -> None:
        """Store an offer."""
        self.waiting = offer.waiting
        if offer.messages:  # else it only tells how many wait
            until = offer.until if self._grants else 0.0
            self._until = min(self._until, until) if self.offered else until
            for record in offer.messages:
                self.offered[record.id] = record
        self.wake()

    def take(self, limit: int | None) -> tuple[dict[str, MessageRecord], bool]:
        """Take messages out, oldest first; and whether they may be shown without asking."""
        if limit is None or limit >= len(self.offered):
            taken, self.offered = self.offered, {}
        else:
            taken = {key: self.offered.pop(key) for key in list(self.offered)[:limit]}
        granted = monotonic() < self._until
        if not granted:
            self._claiming.update(taken)
        return taken, granted

    def put_back(self, taken: dict[str, MessageRecord]) -> None:
        """Drop messages whose claim failed."""
        self._claiming.difference_update(taken)
        self.offered = {**taken, **self.offered}
        self.void_grants()

    def show(self, granted: Iterable[str], taken: dict[str, MessageRecord]) -> list[MessageRecord]:
        """Those of the messages taken that are granted and were not shown before."""
        fresh = [taken[key] for key in granted if key in taken and key not in self.shown]
        for record in fresh:
            self.shown[record.id] = record.sender
        if self._claiming:
            self._claiming.difference_update(taken)
        return fresh

    def is_answer(self, re: str, to: str | Sequence[str]) -> bool:
        """Whether a message that was sent answers the shown message `re`: then the broker has it as read."""
        names = [to] if isinstance(to, str) else to
        sender = self.shown.get(re, "").lower()
        return bool(sender) and any(name.lower() == sender or name.startswith(LINK) for name in names)

    def settle(self, ids: list[str]) -> None:
        """They are confirmed; a broker that began anew may have offered them again meanwhile."""
        for key in ids:
            self.offered.pop(key, None)
            self.shown.pop(key, None)

    # -- waiting --------------------------------------------------------------------------------------

    async def wait(self, loop: asyncio.AbstractEventLoop, deadline: float) -> bool:
        """Wait until something comes or is over; False if nothing did in time."""
        if loop.time() >= deadline:
            return False
        self._set_alarm(loop, deadline)
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    def wake(self) -> None:
        """Wake every waiter, so that it checks the inbox again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """See to it that those who wait are woken by then; each looks for itself whether its time is over."""
        if self._alarm is not None:
            if self._alarm.when() <= deadline:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()
