"""What actions can do to the screen and the terminal: show, ask, tell, move, go elsewhere and come back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import NamedTuple, TypeVar

from textual.app import App, SuspendNotSupported

from tellwire.protocol.errors import TellwireError
from tellwire.tui.board import Board
from tellwire.tui.desk import Desk, Sheet
from tellwire.tui.foot import Foot
from tellwire.tui.paint import Line, Span, line
from tellwire.tui.stage import Question
from tellwire.views.words import clean, pad, seal, wrap

T = TypeVar("T")

LEVELS = {"ok": "good", "warn": "need", "fail": "bad"}


class Check(NamedTuple):
    """One finding of `tellwire doctor`."""

    level: str
    """`ok`, `warn` or `fail`."""
    about: str
    words: str
    advice: str = ""


class Abilities(NamedTuple):
    """What the console can do because somebody else knows how; both functions block."""

    go: Callable[[str], list[str]]
    """The command that shows an agent's terminal."""
    check: Callable[[], list[Check]]
    """What `tellwire doctor` finds."""


class Hands:
    """One console's."""

    def __init__(
        self,
        app: App[None],
        desk: Desk,
        *,
        abilities: Abilities,
        look_like: Callable[[str], None],
        paint: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.look_like = look_like
        self.paint = paint
        self._app = app
        self._abilities = abilities

    @property
    def _board(self) -> Board:
        return self._app.query_one(Board)

    @property
    def _foot(self) -> Foot:
        return self._app.query_one(Foot)

    @property
    def pane(self) -> str:
        return self._board.pane

    def chosen(self, pane: str = "") -> str:
        return self._board.chosen(pane)

    def select(self, pane: str) -> None:
        self._board.select(pane)

    def move(self, action: str) -> None:
        self._board.move(action)

    def back(self) -> None:
        self._board.back()

    def ask(self, question: Question) -> None:
        self._foot.ask(question)

    def tell(self, text: str) -> None:
        self._foot.tell(text)

    def show(self, sheet: Sheet) -> None:
        """Put it on top; one that is there already is replaced."""
        sheets = self.desk.sheets
        sheets[:] = [each for each in sheets if not each.again or each.again != sheet.again]
        sheets.append(sheet)
        self._foot.dismiss()
        self._board.pane_of("sheet").cursor = ""
        self._board.select("sheet")

    def copy(self, text: str) -> None:
        self._app.copy_to_clipboard(seal(text))

    def shown_text(self) -> str:
        return self._board.pane_of(self.pane).words

    def leave(self, *, for_a_while: bool = False) -> None:
        if for_a_while:
            self._app.action_suspend_process()
        else:
            self._app.exit()

    # -- the terminal and the machine -----------------------------------------------------------------

    async def go(self, name: str) -> None:
        """Show an agent's terminal: another pane of this tmux, or in place of the console until it is left.

        Raises:
            TellwireError: it has none that can be shown.
        """
        words = await _beside(partial(self._abilities.go, name))
        if "switch-client" in words:
            done = await asyncio.to_thread(subprocess.run, words, stderr=subprocess.PIPE, check=False)
            told = f"went to {name}; come back with tmux's key for the last window"
        else:
            done = self._step_aside(words, name)
            told = f"back from {name}"
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise TellwireError("conflict", f"tmux: {said[:200]}", f"Elsewhere: tellwire go {name}")
        self.tell(told)

    def _step_aside(self, words: list[str], name: str) -> subprocess.CompletedProcess[bytes]:
        """Give the terminal to a program until that ends."""
        environment = {key: value for key, value in os.environ.items() if key != "TMUX"}
        try:
            with self._app.suspend():
                done = subprocess.run(words, env=environment, stderr=subprocess.PIPE, check=False)
        except SuspendNotSupported:
            raise TellwireError(
                "conflict", "The console cannot leave this terminal.", f"Elsewhere: tellwire go {name}"
            ) from None
        self.paint()
        return done

    async def checks(self) -> Sheet:
        """What `tellwire doctor` finds, the worst first."""
        found = await _beside(self._abilities.check)
        size = max((len(each.about) for each in found), default=0)

        def make(width: int) -> list[Line]:
            lines: list[Line] = []
            for number, each in enumerate(found):
                indent = " " * (size + 8)
                first, *rest = wrap([clean(each.words)], indent=indent, width=width)
                head = Span(f" {pad(each.level, 5)}", LEVELS[each.level])
                key = f"check {number}"
                lines.append(line(key, head, f"{pad(clean(each.about), size)}  {first.strip()}"))
                lines += [line(key, text) for text in rest]
                if each.level != "ok" and each.advice:
                    advice = wrap([clean(each.advice)], indent=indent, width=width)
                    lines += [line(key, Span(text, "dim")) for text in advice]
            return lines

        bad = sum(each.level != "ok" for each in found)
        return Sheet(f"Doctor: {f'{bad} to look at' if bad else 'all is well'}", make, "doctor")


async def _beside(work: Callable[[], T]) -> T:
    """Do something that blocks, in a thread, with the usual output: libraries look at what it can take."""

    def done() -> T:
        with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
            return work()

    return await asyncio.to_thread(done)
