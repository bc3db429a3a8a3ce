"""What the broker offered: not seen yet by the application, or seen and not confirmed.

Messages are pushed to the client and wait here until the application asks. An offer says until when nobody
else can get its messages; before that they are shown at once. Later, and after anything that may have given
them to another session, they have to be claimed first, by a round trip. So a message that went to another
session meanwhile is never shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from tellwire.protocol.addresses import LINK
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.messages import ClaimMessages, ConfirmMessages, MessageRecord, Offer
from tellwire.sdk.broker_client import BrokerClient

SHOWN_TOLD_MAX = 1_000
"""When more were shown, the agent does not list them on leaving: all that was offered counts as shown."""
IDS_MAX = 1_000
"""Message ids in one call."""


class LocalInbox:
    """The messages that this process has, and the tasks that wait for one."""

    def __init__(self) -> None:
        self._until = 0.0
        """All that is offered is granted until then, on the monotonic clock."""
        self._grants = False
        self._leaving = False
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

    def enter(self) -> None:
        """The agent joins, perhaps for the second time."""
        self._leaving = False

    def begin(self, *, grants: bool) -> None:
        """A connection begins: what waits is offered again on it."""
        self.offered.clear()
        self._until = 0.0
        self._grants = grants and not self._leaving

    def void_grants(self) -> None:
        """From now on another session may have got what is here."""
        self._until = 0.0

    def leave(self) -> None:
        """The agent is about to say what it has shown: nothing more is shown without a claim."""
        self._leaving = True
        self._grants = False
        self.void_grants()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def told(self) -> list[str] | None:
        """What was shown, or may be at any moment; None if that is too much to list."""
        named = self._claiming.union(self.shown)
        return None if len(named) > SHOWN_TOLD_MAX else list(named)

    # -- messages -------------------------------------------------------------------------------------

    def put(self, offer: Offer) -> None:
        """Keep the messages of an offer; one without messages only says how many wait."""
        self.waiting = offer.waiting
        if offer.messages:
            until = offer.until if self._grants else 0.0
            self._until = min(self._until, until) if self.offered else until
            for record in offer.messages:
                self.offered[record.id] = record
        self.wake()

    async def messages(
        self, client: BrokerClient, wait_s: float, limit: int | None = None
    ) -> list[MessageRecord]:
        """Show what has come, oldest first; wait up to `wait_s` if nothing has.

        Raises:
            TellwireError: the connection is over for good.
        """
        deadline = client.loop.time() + wait_s
        while True:
            shown = await self._show_next(client, limit) if self.offered else []
            if shown:
                return shown
            if not await self._wait(client, deadline):
                await asyncio.sleep(0)  # a caller that asks in a loop must not block the event loop
                return []

    async def reply_to(self, client: BrokerClient, message_id: str, wait_s: float) -> MessageRecord | None:
        """Wait for the reply to a message and show only that one; other mail stays as it is.

        Raises:
            TellwireError: `limit_exceeded`: so much unread mail waits that a reply cannot be seen behind it.
        """
        record = await self.next_of(client, lambda each: each.re == message_id, wait_s)
        if record is None and self.waiting:
            raise self.too_many(f"{message_id} was sent, but ")
        return record

    async def next_of(
        self, client: BrokerClient, wants: Callable[[MessageRecord], bool], wait_s: float
    ) -> MessageRecord | None:
        """Wait for a message of some kind and show only that one; other mail stays as it is.

        None after `wait_s`, or if so much other mail waits that such a one cannot be seen behind it.
        """
        deadline = client.loop.time() + wait_s
        while True:
            record = next(filter(wants, self.offered.values()), None)
            if record is not None:
                del self.offered[record.id]
                if (await client.call(ClaimMessages(ids=[record.id]))).ids:
                    self.shown[record.id] = record.sender
                    return record
                continue
            if self.waiting or not await self._wait(client, deadline):
                return None

    def too_many(self, before: str = "") -> TellwireError:
        """What to say when mail that is looked for cannot be seen behind other mail."""
        count = len(self.offered) + self.waiting
        words = f"{before}{count} unread messages come before any reply."
        return TellwireError("limit_exceeded", words, "Read them first, with `tellwire inbox`.")

    async def confirm_shown(self, client: BrokerClient, deadline_s: float) -> None:
        """Confirm everything that was shown."""
        shown = list(self.shown)
        for start in range(0, len(shown), IDS_MAX):
            ids = shown[start : start + IDS_MAX]
            await client.call(ConfirmMessages(ids=ids), deadline_s=deadline_s)
            self.settle(ids)

    async def _show_next(self, client: BrokerClient, limit: int | None) -> list[MessageRecord]:
        """Take messages out, claim them unless they are granted, and return those not shown before."""
        taken, granted = self._take(limit)
        if granted:
            return self._show(taken, taken)
        try:
            claimed = await client.call(ClaimMessages(ids=list(taken)))
        except BaseException:
            self._put_back(taken)
            raise
        self.waiting = claimed.waiting
        return self._show(claimed.ids, taken)

    def _take(self, limit: int | None) -> tuple[dict[str, MessageRecord], bool]:
        """Take messages out, oldest first; and whether they may be shown without a claim."""
        if limit is None or limit >= len(self.offered):
            taken, self.offered = self.offered, {}
        else:
            taken = {key: self.offered.pop(key) for key in list(self.offered)[:limit]}
        granted = monotonic() < self._until
        if not granted:
            self._claiming.update(taken)
        return taken, granted

    def _put_back(self, taken: dict[str, MessageRecord]) -> None:
        """Keep messages whose claim failed for the next attempt, in front of the others."""
        self._claiming.difference_update(taken)
        self.offered = {**taken, **self.offered}
        self.void_grants()

    def _show(self, granted: Iterable[str], taken: dict[str, MessageRecord]) -> list[MessageRecord]:
        """Note as shown, and return, what is granted and was not shown before."""
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
        """Forget messages that are confirmed; a broker that restarted may have offered them again."""
        for key in ids:
            self.offered.pop(key, None)
            self.shown.pop(key, None)

    # -- waiting --------------------------------------------------------------------------------------

    async def _wait(self, client: BrokerClient, deadline: float) -> bool:
        """Wait for the next offer, or for the end of the connection; False if neither came in time.

        Raises:
            TellwireError: the connection is over for good.
        """
        if client.failure is not None:
            raise client.failure
        loop = client.loop
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
        """Wake every task that waits, so that it checks the inbox again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """Wake all waiting tasks by then at the latest; each checks by itself whether its time is over."""
        if self._alarm is not None:
            if self._alarm.when() <= deadline:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()
