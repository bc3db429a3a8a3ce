"""The turns of one agent's main conversation, as its client's hooks show them: who began one, how it ended.

A turn ends once. What an agent finally said before mail kept its turn going is a part, reported for itself:
otherwise what it said while others spoke would be lost to them. Some clients do not tell every end
(an Esc in Claude Code, a model that fails in Codex): then the next turn tells it, or the client's own files
do, before that.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import msgspec

from tellwire.clients.events import HookEvent, Outcome

TEXT_BYTES_MAX = 1 << 20
DOUBLE_S = 2.0
"""A hook that is registered twice reports the same end again within this."""
LATE_S = 3.0
PROMPT_CHARS_MAX = 2_000
_OF_TURNS = ("prompt", "tool_wanted", "tool_used", "turn_ended", "errored")
RETRY_LINE = "[tellwire: your last turn failed before it ended; go on with it]"
"""What begins a turn again after a woken one that failed, if no new mail does."""
_OURS = re.compile(
    rf"peer-message id=\S{{1,80}} from=|tellwire: notice id=|^\s*\[tellwire|{re.escape(RETRY_LINE)}"
)
"""In what tellwire itself puts before a client as a prompt."""
# Terminal control: CSI, OSC and other strings with their end, then single escapes and stray controls.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


class Turn(msgspec.Struct, kw_only=True):
    """One turn that has not ended."""

    id: str
    """Ours, of this agent only."""
    client_id: str = msgspec.field(default="", name="word")
    """The client's id of it, where it has one; `word` in files of earlier brokers."""
    human: bool = False
    """A prompt that a human typed began it."""
    checkpoint: bool = False
    began_at: float
    """In seconds of the wall clock."""
    is_prompted: bool = True
    """A prompt was seen at its beginning; else it began before anything was heard of it, or by a message."""
    prompt: str = ""
    """The beginning of what began it, where the client reports it."""
    waits: int = 0
    """How often it has waited for its human."""
    parts: int = 0
    """How often it finally said something, and went on."""
    is_told: bool = False
    """What it said last was reported as a part; if nothing keeps it going, that was its end."""
    ending: str = ""
    """The client's id of the end that the answer below would be."""
    answer: str = ""
    """All that the model said, if nothing followed: the end, if the client leaves without telling one."""


class Ending(msgspec.Struct, frozen=True):
    """The end of a turn, as it is reported."""

    turn: Turn
    id: str
    outcome: Outcome
    text: str = ""


class TurnLog:
    """The turns of one agent, in order."""

    def __init__(
        self, name: Callable[[], str], *, wake_line: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._wake_line = wake_line
        self._clock = clock
        self._last = ("", "", 0.0)
        """Of the last end: the client's id of the turn, the text, and when."""
        self._part = ("", 0.0)
        """Of the last part: the text, and when."""
        self.current: Turn | None = None
        self.is_waiting = False
        self.wants = ""
        """While it waits for its human: what for."""
        self.checkpoint_next = False
        """The next turn is a checkpoint's."""

    def see(self, event: HookEvent) -> list[Ending]:
        """What an event tells, except for the end that it may be itself: that is `end`'s."""
        match event.what:
            case what if what in _OF_TURNS:
                return self._go_on(event)
            case "waiting":
                return self.wait(event.final_text)
            case "session_started" if event.source != "compact":
                return self.end("interrupted")
            case "session_ended":
                return self.end_session()
            case "other" if event.continues and self.current is not None:
                self.current.answer, self.current.ending = event.final_text, event.ending
                return []
            case _:
                return []

    def _go_on(self, event: HookEvent) -> list[Ending]:
        """The turn that the event belongs to is the current one."""
        self.is_waiting = False
        before: list[Ending] = []
        is_ours = event.what == "prompt" and self.is_ours(event.prompt)
        if self.ends_before(event):
            before = self.end("interrupted")
        human = event.typed and not is_ours
        if self.current is None:
            if not self._is_repeated(event):
                self._begin(human=human, event=event)
            return before
        self.current.answer = ""
        if not self.current.is_prompted and event.what == "prompt":
            # Some clients report that they are busy a moment before they report why.
            self.current.human = human and self._clock() - self.current.began_at < LATE_S
            self.current.is_prompted = True
            self.current.prompt = event.prompt[:PROMPT_CHARS_MAX]
        return before

    def ends_before(self, event: HookEvent) -> bool:
        """Whether the current turn is over because the event belongs to another one."""
        turn = self.current
        if turn is None or event.what not in _OF_TURNS:
            return False
        if turn.client_id and event.turn:
            return turn.client_id != event.turn
        return event.begins and not self.is_ours(event.prompt)

    def _begin(self, *, human: bool, event: HookEvent) -> None:
        checkpoint, self.checkpoint_next = self.checkpoint_next, False
        self.current = Turn(
            id=self._name(),
            client_id=event.turn,
            human=human,
            checkpoint=checkpoint,
            began_at=self._clock(),
            is_prompted=event.what == "prompt",
            prompt=event.prompt[:PROMPT_CHARS_MAX],
        )

    def is_ours(self, prompt: str) -> bool:
        """Whether tellwire gave this prompt, and no human."""
        return bool(_OURS.search(prompt)) or (bool(self._wake_line) and prompt.strip() == self._wake_line)

    def wait(self, text: str) -> list[Ending]:
        """The client asks its human; once for each time."""
        if self.is_waiting:
            self.wants = self.wants or clean_text(text)
            return []
        self.is_waiting, self.wants = True, clean_text(text)
        if self.current is None:
            return []
        self.current.waits += 1
        return [Ending(self.current, f"{self.current.id}.w{self.current.waits}", "waiting", clean_text(text))]

    def part(self, text: str) -> list[Ending]:
        """It has finally said something, and mail may keep it going."""
        turn = self.current
        if turn is None or not text.strip():
            return []
        turn.parts += 1
        turn.is_told = True
        self._part = text, self._clock()
        said = msgspec.structs.replace(turn)
        return [Ending(said, f"{turn.id}.c{turn.parts}", "ended", clean_text(text))]

    def is_part_again(self, text: str) -> bool:
        """Whether a hook that is registered twice reports a part again, which kept going."""
        said, at = self._part
        turn = self.current
        going = turn is not None and bool(turn.parts) and not turn.is_told
        return going and text == said and self._clock() - at < DOUBLE_S

    def keep_going(self) -> None:
        """Mail keeps the turn from ending; what follows is no human's doing."""
        if self.current is not None:
            self.current.is_told = self.current.human = self.current.checkpoint = False
            self.current.answer = ""

    def end(self, outcome: Outcome, text: str = "", ending: str = "") -> list[Ending]:
        """The current turn is over; nothing if there is none.

        With the client's own id of the end it is reported once, also if a broker died between the two.
        """
        turn, self.current, self.is_waiting = self.current, None, False
        if turn is None:
            return []
        self._last = turn.client_id, text, self._clock()
        told = turn.is_told and outcome == "ended"
        return [] if told else [Ending(turn, ending or turn.id, outcome, clean_text(text))]

    def end_session(self) -> list[Ending]:
        """The session is over. A client that runs one turn may exit before it reports the end of it."""
        turn = self.current
        if turn is None or not turn.answer.strip():
            return self.end("interrupted")
        return self.end("ended", turn.answer, turn.ending)  # should it be told after all, it counts once

    def _is_repeated(self, event: HookEvent) -> bool:
        client_id, text, at = self._last
        is_end = event.what in ("turn_ended", "errored")
        same = (event.turn, event.final_text) == (client_id, text)
        return is_end and same and self._clock() - at < DOUBLE_S


def clean_text(text: str) -> str:
    """A final text without terminal control, and no longer than may be reported."""
    text = _ANSI.sub("", text)
    data = text.encode(errors="replace")
    return text if len(data) <= TEXT_BYTES_MAX else data[:TEXT_BYTES_MAX].decode(errors="ignore")
