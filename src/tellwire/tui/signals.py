"""The person at the terminal: whether they look, and how to get their attention.

Always the bell, and a notification where the terminal is known to show one. Inside tmux that is wrapped, if
tmux lets it through; else the bell remains, which tmux shows at the window's name.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.needs import Notice
from tellwire.tui.bridge import Wire
from tellwire.views.words import clean, cut

BELL = "\a"
ESCAPE = "\x1b"
END = "\x1b\\"
TEXT_MAX = 120
TMUX_S = 2.0
AWAY_S = 300.0
UNSURE_S = 60.0
"""After so long without a key the person is not taken to be looking."""
Job: TypeAlias = Coroutine[Any, Any, None]
NINE = ("iterm", "wezterm", "ghostty", "windows terminal")
SEVENS = ("rxvt", "foot", "contour", "warp")


def find_terminal(environment: Mapping[str, str]) -> tuple[str, bool]:
    """The name of the terminal, and whether what it is sent has to pass through tmux; blocks for a moment.

    The name is empty if it is not known, or if tmux lets nothing through.
    """
    if not environment.get("TMUX"):
        known = ("TERM_PROGRAM", "TERM") if not environment.get("KITTY_WINDOW_ID") else ()
        name = " ".join(environment.get(each, "") for each in known) or "kitty"
        return name.casefold(), False
    words = ["tmux", "display-message", "-p", "#{allow-passthrough} #{client_termtype} #{client_termname}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TMUX_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "", True
    passes, _, name = done.stdout.strip().partition(" ")
    return name.casefold() if passes in ("on", "all") else "", True


def signal(text: str, terminal: str, *, in_tmux: bool) -> str:
    """What to write to the terminal: a bell, and the text as a notification where that is understood."""
    words = cut(clean(text), TEXT_MAX).replace(";", ",")
    if "kitty" in terminal:
        code = f"{ESCAPE}]99;;{words}{END}"
    elif any(name in terminal for name in NINE):
        code = f"{ESCAPE}]9;{words}{END}"
    elif any(name in terminal for name in SEVENS):
        code = f"{ESCAPE}]777;notify;tellwire;{words}{END}"
    else:
        code = ""
    if code and in_tmux:
        code = f"{ESCAPE}Ptmux;{code.replace(ESCAPE, ESCAPE * 2)}{END}"
    return BELL + code


class Person:
    """Whether the person looks at this console: it has the focus, and they were there not long ago.

    A terminal that does not tell of focus is believed for a shorter time after a key.
    """

    def __init__(self, wire: Wire, clock: Callable[[], float], work: Callable[[Job], None]) -> None:
        self._wire = wire
        self._clock = clock
        self._work = work
        self._focused = True
        self._tells = False
        self._active_at = clock()
        self._told: bool | None = None

    def focus(self, *, has_focus: bool) -> None:
        """The terminal said so."""
        self._focused, self._tells = has_focus, True
        self.active()

    def active(self) -> None:
        """The person did something."""
        self._active_at = self._clock()
        if self._told is not None:
            self.tell()

    @property
    def looking(self) -> bool:
        return self._focused and self._clock() - self._active_at < (AWAY_S if self._tells else UNSURE_S)

    def tell(self) -> None:
        """Tell the broker, if this is news."""
        before, self._told = self._told, self.looking
        if before != self._told:
            self._work(self._attend())

    def notify(self, notice: Notice, write: Callable[[str], None]) -> None:
        """Ring, and notify where the terminal can; then say that it was done."""

        async def ring() -> None:
            terminal, in_tmux = await asyncio.to_thread(find_terminal, os.environ)
            write(signal(notice.text, terminal, in_tmux=in_tmux))
            await self._attend(heard=notice.id)

        self._work(ring())

    async def _attend(self, heard: int = 0) -> None:
        try:
            await self._wire.attend(focused=self.looking, notifies=True, heard=heard)
        except TellwireError as error:
            if error.code != "forbidden":  # no person is at this terminal, as far as the broker can see
                raise
