"""What is known of an agent through its client's hooks: its session, its turn, and open hand-overs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from palaver.integrations.hooks import HookEvent, Integration, Reader, Verdict

CONTINUATIONS_MAX = 8
"""Ends of turns in a row at which text may keep the turn going; some clients give up after more."""
WAKES_MAX = 12
WAKE_WINDOW_S = 120.0
"""At most so many wakes of one agent within so many seconds."""

STATES = {
    "session_started": "idle",
    "prompt": "busy",
    "tool_wanted": "busy",
    "tool_used": "busy",
    "turn_ended": "idle",
    "interrupted": "idle",
    "waiting": "waiting",
    "session_ended": "",
}


class Book:
    """One agent's client, as its hooks show it. In memory only: the next hook tells it again."""

    def __init__(self, agent: str, integration: Integration) -> None:
        self.agent = agent
        self.integration = integration
        self.session = ""
        self.transcript = ""
        self.is_ready = True
        """False while a long transcript is read for the first time, elsewhere."""
        self.reader: Reader | None = None
        self.state = ""
        self.open: dict[str, list[str]] = {}
        """Hand-overs without evidence: from the call's word to the marks of its messages."""
        self.announced: set[str] = set()
        """Large messages that the client was woken for already."""
        self.was_interrupted = False
        """Its human stopped it, and has said nothing since."""
        self.watching = False
        self.wake_waits = False
        self._queued: set[str] = set()
        self._continuations = 0
        self._wakes: deque[float] = deque()

    def note(self, event: HookEvent) -> None:
        """The main conversation goes on."""
        if (event.session, event.transcript) != (self.session, self.transcript) or self.reader is None:
            self.session, self.transcript = event.session, event.transcript
            self.reader = self.integration.reader(event)
            self.expect_open()
        if event.what in ("interrupted", "prompt"):
            self.was_interrupted = event.what == "interrupted"
        state = STATES.get(event.what)
        if state is not None:
            self.state = state
        if event.what in ("tool_used", "prompt"):
            self._continuations = 0

    def may_continue(self) -> bool:
        """Whether the turn may be kept from ending once more."""
        self._continuations += 1
        return self._continuations <= CONTINUATIONS_MAX

    def hand_over(self, call: str, marks: list[str], *, queued: bool = False) -> None:
        """Messages are on their way into the context; what is queued may come after other requests."""
        self.open[call] = marks
        if queued:
            self._queued.add(call)
        elif self.is_ready:
            self._expect(marks)

    def expect_open(self) -> None:
        """Tell a reader of what is on its way; not of what is queued."""
        self._queued.intersection_update(self.open)
        for call, marks in self.open.items():
            if call not in self._queued:
                self._expect(marks)

    def _expect(self, marks: Sequence[str]) -> None:
        expect = getattr(self.reader, "expect", None)
        if expect is not None:
            for mark in marks:
                expect(mark)

    def judge(self) -> tuple[list[str], list[str]]:
        """The calls whose messages were read, and those whose messages are not in the context."""
        if self.reader is None or not self.open or not self.is_ready:
            return [], []
        verdicts = self.reader.judge([mark for marks in self.open.values() for mark in marks])
        read: list[str] = []
        absent: list[str] = []
        for call, marks in list(self.open.items()):
            seen = {verdicts.get(mark, Verdict.OPEN) for mark in marks}
            if Verdict.OPEN in seen or not marks:
                continue
            (read if Verdict.READ in seen else absent).append(call)  # one text: all of it, or nothing
            del self.open[call]
        return read, absent

    @property
    def evidence(self) -> str:
        """The word for what the reader finds."""
        return getattr(self.reader, "evidence", self.integration.evidence)

    def may_wake(self) -> bool:
        """Whether one more wake is within the budget; if so it counts."""
        now = time.monotonic()
        while self._wakes and self._wakes[0] < now - WAKE_WINDOW_S:
            self._wakes.popleft()
        if len(self._wakes) >= WAKES_MAX:
            return False
        self._wakes.append(now)
        return True


def mark_of(message: str, *, notice: bool) -> str:
    """What a message's frame has in it, and nothing else does; a notice of the broker has another."""
    return f"palaver: notice id={message} " if notice else f"peer-message id={message} from="
