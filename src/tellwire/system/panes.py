"""The tmux pane that an agent CLI runs in: found by its process, looked at, and typed into if that is safe.

Everything here blocks and has to run in a thread (`system/threads`). Nothing is ever deleted from an input
line, and a line that cannot be read for certain is left alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tellwire.system.proc import terminal_of
from tellwire.system.processes import Process, Tmux, ancestry_of, find_tmux, read_process, readers_of
from tellwire.system.screens import Prompt, Shown, read_input

if TYPE_CHECKING:
    from libtmux.common import tmux_cmd

WAKE_LINE = "tellwire: you have mail"
"""All that is ever typed. Short, so that it fits any pane, and no client reads a command into it."""
HUMAN_S = 10.0
"""Nothing is typed until this long after a person's last key. tmux reports whole seconds; who pauses longer
has either nothing in the line, or something, which is seen."""
SHOWN_S = 3.0
LOOK_S = 0.1
SETTLE_S = 0.5
"""Between the text and Enter: clients take what comes faster for pasted text."""
CAPTURE_LINES = 200
PANE = (
    "pane_id",
    "pane_pid",
    "pane_tty",
    "pane_dead",
    "pane_in_mode",
    "pane_synchronized",
    "pane_input_off",
    "pane_width",
    "cursor_x",
    "cursor_y",
    "window_id",
)
CLIENT = ("client_activity", "client_control_mode", "window_id")
FREE = "#{&&:#{==:#{pane_in_mode},0},#{==:#{pane_synchronized},0}}"


class ObstacleError(Exception):
    """Nothing may be typed into a pane now, and why."""

    def __init__(self, reason: str, *, passing: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing
        """It may be otherwise soon."""


class Pane(NamedTuple):
    """A pane in which an agent's client has the terminal."""

    server: Tmux
    id: str
    window: str
    client: Process


def type_line(
    owner: str,
    prompt: Prompt,
    still: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
    *,
    human_s: float = HUMAN_S,
) -> None:
    """Type the line and Enter for the client of `pid.start`; `still` tells whether it is still wanted.

    Raises:
        ObstacleError: nothing was typed, or not all of it.
    """
    pane = find_pane(owner)

    def seen() -> str:
        return look(pane, prompt, human_s=human_s)

    found = seen()
    if found not in ("", WAKE_LINE):
        raise ObstacleError("there is text in its input line")
    if not found:
        _require(still)
        _send(pane, "-l", WAKE_LINE)
        _await_line(seen, pause)
    pause(SETTLE_S)
    _require(still)
    if seen() != WAKE_LINE:
        raise ObstacleError("its input line changed while the wake line was typed; Enter was not pressed")
    _send(pane, "Enter")


def capture(owner: str) -> str:
    """What the client's pane shows, and some of what has scrolled away.

    Raises:
        ObstacleError: it runs in no pane, or another program has it.
    """
    pane = find_pane(owner)
    (row,) = _list(pane.server, "list-panes", PANE, "-t", pane.id, only=pane.id) or [{"pane_tty": ""}]
    _check_foreground(pane, row["pane_tty"])
    return "\n".join(_run(pane.server, "capture-pane", "-p", "-J", "-S", f"-{CAPTURE_LINES}", "-t", pane.id))


def find_pane(owner: str) -> Pane:
    """The pane of a client's process.

    Raises:
        ObstacleError: it runs in none, or is unknown.
    """
    chain = ancestry_of(owner)
    if not chain:
        raise ObstacleError("its process is unknown", passing=False)
    server = find_tmux(chain)
    if server is None:
        raise ObstacleError("it is not running in tmux", passing=False)
    pids = [each.pid for each in chain]
    panes = [row for row in _list(server, "list-panes", PANE, "-a") if int(row["pane_pid"] or 0) in pids]
    if not panes:
        raise ObstacleError("it is not running in tmux", passing=False)
    row = min(panes, key=lambda each: pids.index(int(each["pane_pid"])))
    return Pane(server, row["pane_id"], row["window_id"], chain[0])


def go_words(pane: Pane, inside: str) -> list[str]:
    """The command that shows a pane to a person; `inside` is TMUX of their own terminal, if that is one.

    Raises:
        ObstacleError: tmux does not answer.
    """
    (session,) = _run(pane.server, "display-message", "-p", "-t", pane.id, "#{session_id}")
    words = ["tmux", "-S", pane.server.socket]
    words += ["select-window", "-t", pane.id, ";", "select-pane", "-t", pane.id, ";"]
    same = inside.split(",", maxsplit=1)[0] == pane.server.socket
    return [*words, "switch-client" if same else "attach-session", "-t", session]


def look(pane: Pane, prompt: Prompt, *, human_s: float = HUMAN_S) -> str:
    """The text in the input line of a pane that may be typed into.

    Raises:
        ObstacleError: it may not.
    """
    row = next(iter(_list(pane.server, "list-panes", PANE, "-t", pane.id, only=pane.id)), None)
    if row is None or row["pane_dead"] == "1":
        raise ObstacleError("its pane is gone", passing=False)
    if row["pane_in_mode"] != "0":
        raise ObstacleError("its pane is in copy mode")
    if row["pane_synchronized"] != "0":
        raise ObstacleError("its pane is synchronised with others")
    if row["pane_input_off"] != "0":
        raise ObstacleError("its pane takes no input")
    if int(row["pane_width"]) < len(WAKE_LINE) + 12:
        raise ObstacleError("its pane is too narrow")
    _check_foreground(pane, row["pane_tty"])
    _check_human(pane, human_s)
    lines = _run(pane.server, "capture-pane", "-p", "-e", "-t", pane.id)
    found = read_input(Shown(lines, int(row["cursor_x"]), int(row["cursor_y"])), prompt)
    if found is None:
        raise ObstacleError("its input line cannot be recognised")
    return found


def _check_foreground(pane: Pane, terminal: str) -> None:
    chain = ancestry_of(pane.client.key)
    try:
        device = terminal_of(os.stat(terminal).st_rdev)
    except OSError:
        device = 0
    if not chain or not device or chain[0].terminal != device:
        raise ObstacleError("another program has its terminal")
    if chain[0].foreground != chain[0].group:
        raise ObstacleError("another program has its terminal")
    above = {each.pid for each in chain}
    if not above.issuperset(readers_of(device, chain[0].group)):
        raise ObstacleError("another program has its terminal")  # an editor, started by the client


def _check_human(pane: Pane, human_s: float) -> None:
    now = time.time()
    for row in _list(pane.server, "list-clients", CLIENT):
        if row["window_id"] != pane.window:
            continue
        if row["client_control_mode"] == "1":
            raise ObstacleError("another program is showing its pane, and tmux cannot see its keys")
        if now - float(row["client_activity"] or 0) < human_s:
            raise ObstacleError("a person typed just now")


def _require(still: Callable[[], bool]) -> None:
    if not still():
        raise ObstacleError("it is no longer idle")


def _await_line(seen: Callable[[], str], pause: Callable[[float], None]) -> None:
    deadline = time.monotonic() + SHOWN_S
    while seen() != WAKE_LINE:
        if time.monotonic() > deadline:
            raise ObstacleError("the wake line was typed but did not appear; Enter was not pressed")
        pause(LOOK_S)


# -- tmux ---------------------------------------------------------------------------------------------


def _send(pane: Pane, *keys: str) -> None:
    """Send keys, unless a mode or a synchronisation began; tmux looks and sends in one step."""
    words = " ".join(f'"{key}"' for key in keys)
    told = _run(
        pane.server,
        *("if-shell", "-F", "-t", pane.id, FREE),
        f"send-keys -t {pane.id} {words}",
        "display-message -p no",
    )
    if told:
        raise ObstacleError("its pane is in copy mode, or synchronised with others")


def _list(
    server: Tmux, command: str, names: tuple[str, ...], *words: str, only: str = ""
) -> list[dict[str, str]]:
    form = "\t".join(f"#{{{name}}}" for name in names)
    rows = [line.split("\t") for line in _run(server, command, *words, "-F", form)]
    found = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    return [row for row in found if not only or row["pane_id"] == only]


def _run(server: Tmux, *words: str) -> list[str]:
    """One command of tmux.

    Raises:
        ObstacleError: it failed, or would not answer.
    """
    process = read_process(server.pid)
    if process is None or process.is_stopped:
        # Asking would last as long as that: what tmux is asked holds on to our pipes until it is read.
        raise ObstacleError("tmux does not respond")
    done = _call(server, *words)
    if done.returncode:
        raise ObstacleError(f"tmux: {' '.join(done.stderr)[:200]}")
    return done.stdout


def _call(server: Tmux, *words: str) -> tmux_cmd:
    from libtmux.common import tmux_cmd  # noqa: PLC0415 - 80 ms and 9 MB, for brokers that never type
    from libtmux.exc import TmuxCommandNotFound  # noqa: PLC0415 - as above

    try:
        return tmux_cmd("-u", f"-S{server.socket}", *words)
    except TmuxCommandNotFound as error:
        raise ObstacleError("tmux is not installed", passing=False) from error
