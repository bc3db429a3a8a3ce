"""What is known of an agent through its client's hooks: its session, its turn, and open hand-overs."""

from __future__ import annotations

import time
from collections.abc import Callable

from palaver.core.state import Agent
from palaver.core.waking import WAKEABLE, Standing, recent
from palaver.gateways.turns import Ending, Turn, Turns
from palaver.integrations.codex import NAME
from palaver.integrations.conversations import last_asked
from palaver.integrations.hooks import HookEvent, Integration, Outcome, Reader, Turning, Verdict

NAMED = "daemon"
"""How the word of a hand-over begins that goes into a client under a name of its own."""
LOST_S = 5.0
"""A text that was handed to a waiter so long ago is in the client, or will never be."""

STATES = {
    "session_started": "idle",
    "prompt": "busy",
    "tool_wanted": "busy",
    "tool_used": "busy",
    "turn_ended": "idle",
    "errored": "errored",
    "interrupted": "idle",
    "idle": "idle",
    "waiting": "waiting",
    "session_ended": "",
}
_CLOSING: dict[str, Outcome] = {"turn_ended": "ended", "errored": "errored", "interrupted": "interrupted"}


class Book:
    """One agent's client, as its hooks show it."""

    def __init__(
        self, agent: str, integration: Integration, name: Callable[[], str], *, wake_line: str = ""
    ) -> None:
        self.agent = agent
        self.integration = integration
        self.turns = Turns(name, wake_line=wake_line)
        self.session = ""
        self.transcript = ""
        self.heard = 0
        """Events of the main conversation so far."""
        self.heard_at = 0.0
        """When the last one was, in seconds of the wall clock."""
        self.final_text = ""
        self.final_at = 0.0
        """What the last turn that ended said in the end, and when."""
        self.delegations = 0
        """Sub-agents under way whose hooks look like the main conversation's."""
        self.is_woken = False
        """The turn under way, or the one that comes, is a wake's."""
        self.has_failed = False
        """It errored after a wake, and has shown no life by itself since (WAKE-3)."""
        self.worked: dict[str, float] = {}
        """From the name of each path to when evidence last proved it."""
        self.ways: dict[str, str] = {}
        """By which path each open call went."""
        self.handed: dict[str, float] = {}
        """When each open call was handed over, in seconds of the wall clock."""
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
        self.interrupted_at = 0.0
        self.watching = False
        self.wake_waits = False
        self._queued: set[str] = set()
        self.continuations = 0
        """Ends of turns in a row that text has kept from being ends."""
        self._wakes: list[float] = []

    def note(self, event: HookEvent) -> list[Ending]:
        """The main conversation goes on; the turns that this ends. One that ends with it is `close`'s."""
        self.heard += 1
        self.heard_at = time.time()
        if (event.session, event.transcript) != (self.session, self.transcript) or self.reader is None:
            self.restore(event.session, event.transcript)
        if event.what == "interrupted":
            self.interrupt()
        elif event.what == "prompt":
            self.was_interrupted = False
        endings = self.turns.see(event)
        turn = self.turns.current
        if event.what == "prompt" and turn is not None and turn.human:
            self.is_woken = self.has_failed = False
            self._doubt_wakes()
        if event.what == "idle" and self.state in ("busy", "waiting"):
            endings += self.turns.end("interrupted")
        is_news = event.what != "idle" or self.state != "errored"
        if is_news and (event.what, event.source) != ("session_started", "compact"):
            self.state = STATES.get(event.what, self.state)
        self._count(event)
        return endings

    def restore(self, session: str, transcript: str) -> None:
        """This is the session, and there it is written down."""
        self.session, self.transcript = session, transcript
        event = HookEvent(what="other", name="", session=session, transcript=transcript)
        self.reader = self.integration.reader(event)
        self.expect_open()

    def _count(self, event: HookEvent) -> None:
        if event.what in ("tool_used", "prompt"):
            self.continuations = 0
        if event.delegation:
            self.delegations = max(0, self.delegations + event.delegation)
        elif event.what not in ("tool_wanted", "tool_used", "waiting", "other"):
            self.delegations = 0  # a sub-agent that died told no end

    def interrupt(self) -> None:
        """Its human stopped it."""
        self.was_interrupted, self.interrupted_at = True, time.time()

    def close(self, event: HookEvent) -> list[Ending]:
        """The event ends a turn, and nothing keeps it from ending."""
        outcome = _CLOSING.get(event.what)
        if outcome == "ended" and self.turns.is_part_again(event.final_text):
            self.state = "busy"
            return []
        return [] if outcome is None else self.finish(outcome, event.final_text, event.ending)

    def is_checkpoint(self, turn: Turn, prompt: str) -> bool:
        """Whether a turn answers a checkpoint's prompt, which may also have come by another's hook."""
        if turn.checkpoint or not prompt:
            return turn.checkpoint
        return prompt in turn.prompt or prompt in last_asked(self.integration.kind, self.transcript)

    def part(self, event: HookEvent) -> list[Ending]:
        """What it has finally said before mail that may keep its turn going."""
        endings = self.turns.part(event.final_text)
        if endings:
            self.final_text, self.final_at = endings[-1].text, time.time()
        return endings

    def keep_going(self) -> None:
        """Mail keeps its turn from ending."""
        self.state = "busy"
        self.turns.keep_going()

    def finish(self, outcome: Outcome, text: str = "", ending: str = "") -> list[Ending]:
        """The turn is over, whoever told so; `ending` is the client's id of that, if it has one."""
        endings = self.turns.end(outcome, text, ending)
        self.state = "errored" if outcome == "errored" else "idle"
        if endings and outcome == "ended":
            self.final_text, self.final_at = endings[-1].text, time.time()
            self.has_failed = False
        is_ours = self.is_woken or any(not ending.turn.human for ending in endings)
        if outcome == "errored" and is_ours:
            self.has_failed = True
        self.is_woken = False
        return endings

    def takes(self, event: HookEvent) -> bool:
        """Whether text given at this event reaches the main conversation."""
        return event.takes_text and not (event.what == "tool_used" and self.delegations)

    def turning(self, pid: int) -> Turning:
        """The turn under way, for a look into the client's own files."""
        turn = self.turns.current
        return Turning(
            pid=pid,
            session=self.session,
            transcript=self.transcript,
            since=self.heard_at,
            began_at=self.heard_at if turn is None else turn.began_at,
            word="" if turn is None else turn.word,
        )

    @property
    def checkpoint_next(self) -> bool:
        """Whether the next turn is a checkpoint's: it concerns nobody else."""
        return self.turns.checkpoint_next

    @checkpoint_next.setter
    def checkpoint_next(self, value: bool) -> None:
        self.turns.checkpoint_next = value

    def hand_over(
        self, call: str, marks: list[str], *, way: str = "", queued: bool = False, at: float = 0.0
    ) -> None:
        """Messages are on their way into the context; what is queued may come after other requests."""
        self.open[call] = marks
        self.ways[call] = way
        self.handed[call] = at or time.time()
        if queued:
            self._queued.add(call)
        elif self.is_ready:
            self._expect(call)

    def expect_open(self) -> None:
        """Tell a reader of what is on its way; not of what is queued."""
        self._queued.intersection_update(self.open)
        for call in self.open:
            if call not in self._queued:
                self._expect(call)

    def _expect(self, call: str) -> None:
        expect = getattr(self.reader, "expect", None)
        if expect is not None:
            for mark in self.open[call]:
                expect(mark, self.handed.get(call))

    def _doubt_wakes(self) -> None:
        """What a waiter was given begins a turn at once; if a human does so later, it may have been lost."""
        late = time.time() - LOST_S
        for call in self._queued & self.open.keys():
            if call.startswith("wake:") and self.handed.get(call, 0.0) < late:
                self._queued.discard(call)
                self.handed[call] = time.time()
                if self.is_ready:
                    self._expect(call)

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
        for call in read:
            if way := self.ways.get(call):
                self.worked[way] = time.time()
        for facts in (self.ways, self.handed):
            for call in facts.keys() - self.open.keys():
                del facts[call]
        return read, absent

    @property
    def evidence(self) -> str:
        """The word for what the reader finds."""
        return getattr(self.reader, "evidence", self.integration.evidence)

    @property
    def is_wakeable(self) -> bool:
        """Whether a wake could begin a turn."""
        return self.state in WAKEABLE

    @property
    def standing(self) -> Standing:
        """What decides whether it may be woken."""
        stopped_at = self.interrupted_at if self.was_interrupted else 0.0
        return Standing(self.state, self.has_failed, stopped_at, self._wakes)

    @property
    def woken_at(self) -> float:
        """When it was last woken; 0 if it was not."""
        return self._wakes[-1] if self._wakes else 0.0

    def count_wake(self, now: float) -> None:
        """It is being woken."""
        self._wakes = [*recent(self._wakes, now), now]


def mark_of(message: str, *, notice: bool) -> str:
    """What a message's frame has in it, and nothing else does; a notice of the broker has another."""
    return f"palaver: notice id={message} " if notice else f"peer-message id={message} from="


def name_of(agent: Agent, call: str) -> str:
    """The name under which a hand-over goes into its client, if it has one: no other ever has the same."""
    return f"{NAME}{agent.session}:{call}" if call.startswith(f"{NAMED}:") else ""
