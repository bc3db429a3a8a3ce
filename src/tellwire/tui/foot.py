"""The foot of the screen: what was done or refused, the prompt with what helps to fill it in, the keys."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.timer import Timer

from tellwire.protocol.errors import TellwireError
from tellwire.tui.commands import KEYS
from tellwire.tui.lists import Bar, Look
from tellwire.tui.paint import Span
from tellwire.tui.panes import fitted, footer
from tellwire.tui.prompt import Candidate, Prompt, Told
from tellwire.tui.stage import Question
from tellwire.views.signs import Signs
from tellwire.views.words import clean, cut, pad, width_of, wrap

NOTICE_S = 4.0
HISTORY_MAX = 100
FOUND_MAX = 5
"""Completions that are shown, one on a line."""
REFUSAL_LINES_MAX = 4
HINTS = tuple((row.shown, row.short) for row in KEYS if row.short)
PROMPT_HINTS = (("Enter", "done"), ("Tab", "completes"), ("Ctrl-J", "new line"), ("Esc", "gives up"))


class Foot(Container):
    """One notice, one prompt. A refusal stays until a key; a success goes by itself."""

    class Answered(Message):
        """The prompt was filled in."""

        def __init__(self, question: Question, text: str) -> None:
            super().__init__()
            self.question = question
            self.text = text

    def __init__(self, look: Look, signs: Callable[[], Signs], closed: Callable[[], None]) -> None:
        super().__init__(id="foot")
        self._on_closed = closed
        self._look = look
        self._signs = signs
        self.question: Question | None = None
        self._timer: Timer | None = None
        self._sticky = False
        self._drafts: dict[str, str] = {}
        """What was typed and neither sent nor given up, by the prompt's label."""
        self._history: dict[str, list[str]] = {}

    def compose(self) -> ComposeResult:
        yield Bar(self._look, id="notice")
        yield Bar(self._look, id="hint")
        told = Told(self._done, self._given_up, self._typed, lambda: self.question is not None)
        yield Prompt(self._look, told, id="prompt")
        yield Bar(self._look, id="footer")

    def on_mount(self) -> None:
        for name in ("notice", "hint", "prompt"):
            self.query_one(f"#{name}").display = False
        self.paint()

    def on_resize(self) -> None:
        self.paint()

    def paint(self) -> None:
        """The keys, for the prompt or for the lists."""
        hints = HINTS if self.question is None else PROMPT_HINTS
        self._bar("footer").show([footer(self.size.width, hints)])

    def _bar(self, name: str) -> Bar:
        return self.query_one(f"#{name}", Bar)

    # -- notices --------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Say that something worked, for a few seconds."""
        self._notice([(Span(" " + self._fit(clean(text)), "good"),)], sticky=False)

    def refuse(self, error: TellwireError) -> None:
        """Say what was refused and what to do, until a key is pressed."""
        width = max(20, self.size.width - 2)
        texts = wrap([clean(error.message)], indent=" ", width=width)
        lines = [(Span(text, "bad"),) for text in texts[:REFUSAL_LINES_MAX]]
        advice = wrap([clean(error.advice)], indent=" ", width=width) if error.advice else []
        lines += [(Span(text, "need"),) for text in advice[:REFUSAL_LINES_MAX]]
        self._notice(lines, sticky=True)

    def _notice(self, lines: list[tuple[Span, ...]], *, sticky: bool) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        signs = self._signs()
        shown = [tuple(Span(fitted(span.text, signs), span.role) for span in line) for line in lines]
        self._sticky = sticky
        self._bar("notice").show(shown)
        self._bar("notice").display = True
        if not sticky:
            self._timer = self.set_timer(NOTICE_S, self.dismiss)

    def dismiss(self) -> None:
        """The notice goes."""
        self._sticky = False
        self._bar("notice").display = False

    def key_pressed(self) -> None:
        """A refusal that was read goes."""
        if self._sticky:
            self.dismiss()

    @property
    def notice(self) -> str:
        """What is said now."""
        return self._bar("notice").words if self._bar("notice").display else ""

    # -- the prompt -----------------------------------------------------------------------------------

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    def ask(self, question: Question) -> None:
        """Open the prompt; what was typed under the same label before is there again."""
        self.question = question
        self.prompt.display = True
        self.prompt.ask(
            question.label,
            question.complete,
            text=question.text or self._drafts.get(question.label, ""),
            history=self._history.setdefault(question.kind, []) if question.kind else [],
        )
        self._help()
        self.paint()
        self.screen.set_focus(self.prompt)

    def keep(self, question: Question, text: str) -> None:
        """Keep a text that could not be sent."""
        self._drafts[question.label] = text

    def _done(self, text: str) -> None:
        """Hand the text over."""
        question = self.question
        if question is None:
            return
        self._close()
        self._drafts.pop(question.label, None)
        if question.kind and text.strip():
            past = self._history[question.kind]
            past.append(text)
            del past[:-HISTORY_MAX]
        self.post_message(self.Answered(question, text))

    def _given_up(self) -> None:
        """Nothing is sent; what was typed is kept for the next time."""
        if self.question is not None:
            text = self.prompt.edit.text
            if text.strip() and self.question.kind == "say":
                self._drafts[self.question.label] = text
            else:
                self._drafts.pop(self.question.label, None)
        self._close()

    def _typed(self) -> None:
        self.key_pressed()
        self._help()

    def _close(self) -> None:
        self.question = None
        self.prompt.display = False
        self._bar("hint").display = False
        self.paint()
        self._on_closed()

    def _help(self) -> None:
        """Above the prompt: what it is about, and what completes the word."""
        if self.question is None:
            return
        said = self.question.hint(self.prompt.edit.text)
        lines: list[tuple[Span, ...]] = []
        if said:
            lines.append((Span(" " + self._fit(clean(said)), "dim"),))
        found = self.prompt.found
        first = max(0, min(self.prompt.picked - FOUND_MAX + 1, len(found) - FOUND_MAX))
        for index, each in enumerate(found[first : first + FOUND_MAX], first):
            lines.append(self._candidate(each, picked=index == self.prompt.picked))
        self._bar("hint").show(lines)
        self._bar("hint").display = bool(lines)

    def _candidate(self, each: Candidate, *, picked: bool) -> tuple[Span, ...]:
        mark = self._signs().chosen if picked else " "
        text = pad(clean(each.text), 14)
        return Span(f"{mark} {text} ", "key" if picked else "name"), Span(self._fit(clean(each.note)), "dim")

    def _fit(self, text: str) -> str:
        return fitted(cut(text, max(8, self.size.width - 2 - width_of(" "))), self._signs())
