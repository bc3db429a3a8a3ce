"""`tellwire logs`: what the broker wrote to its log; it reads files and needs no broker."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tellwire.cli.options import Moment, jsonl_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.protocol.errors import TellwireError
from tellwire.settings import LOG_LEVELS, load_settings
from tellwire.views.words import clean, clean_lines

LINES = 50
POLL_S = 0.2
STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
RANKS = {**{word: rank for rank, word in enumerate(LOG_LEVELS)}, "critical": len(LOG_LEVELS)}
_HEAD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ([A-Z]+) ([\w.]+): (.*)", re.DOTALL)


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@click.option(
    "--lines",
    "-n",
    "count",
    type=click.IntRange(0, 100_000),
    default=LINES,
    metavar="N",
    help=f"Show the last N entries (default {LINES}).",
)
@click.option("--since", type=Moment(), default=0.0, help="Only since then: 2h, yesterday, or a date.")
@click.option("--level", type=click.Choice(LOG_LEVELS), default="debug", help="Only this level and above.")
@jsonl_option
def logs(*, follow: bool, count: int, since: float, level: str, as_json: bool) -> int:
    """Show the broker's log.

    It needs no running broker, and starts none. `tellwire config set log_level debug` makes the log longer.

    \b
    Examples:
      tellwire logs
      tellwire logs -f
      tellwire logs --level warning --since 2h
      tellwire logs --json | jq -r .message
    """
    path = load_settings().log
    reader = LogReader(path)
    wanted = (each for each in reader.entries() if is_wanted(each, since, level))
    screen = find_screen()
    shown = list(deque(wanted, maxlen=count))
    for entry in shown:
        write(render_entry(entry, screen=screen, as_json=as_json))
    if not shown and not follow:
        if not path.exists():
            raise TellwireError(
                "unreachable", f"There is no log yet: {path}.", "Start the broker: `tellwire up`."
            )
        write("Nothing in the log.\n" if not as_json else "", ERR)
    if follow:
        for entry in reader.follow():
            if is_wanted(entry, since, level):
                write(render_entry(entry, screen=screen, as_json=as_json))
    return 0


def is_wanted(entry: dict[str, Any], since: float, level: str) -> bool:
    """Whether an entry is late and serious enough."""
    return entry["at"] >= since and RANKS.get(entry["level"], len(RANKS)) >= RANKS[level]


def render_entry(entry: dict[str, Any], *, screen: Screen, as_json: bool) -> str:
    """An entry of the log; its further lines are indented."""
    if as_json:
        return render_json(entry)
    first, *rest = clean_lines(entry["message"]) or [""]
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"])) if entry["at"] else ""
    level = screen.paint(entry["level"].ljust(7), STYLES.get(entry["level"], "dim"))
    head = f"{screen.paint(clock, 'dim')}  {level}  {clean(entry['logger'])}: {first}"
    return "".join(f"{line}\n" for line in [head, *(f"    {line}" for line in rest)])


class LogReader:
    """Reads a log that another process writes and rotates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._at = 0

    def entries(self) -> Iterator[dict[str, Any]]:
        """All that is there, the rotated files first; the end is remembered."""
        older = sorted(self._path.parent.glob(f"{self._path.name}.*"), key=_number, reverse=True)
        text = "".join(_read(path) for path in older if _number(path))
        yield from parse_log(text + self._news())

    def follow(self) -> Iterator[dict[str, Any]]:
        """What comes after the end that was seen, for ever."""
        while True:
            yield from parse_log(self._news())
            time.sleep(POLL_S)

    def _news(self) -> str:
        """Whole lines behind the last one that was read; from the start after a rotation."""
        try:
            with open(self._path, "rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_ino != self._inode or facts.st_size < self._at:
                    self._inode, self._at = facts.st_ino, 0
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return ""
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.decode(errors="replace")


def parse_log(text: str) -> Iterator[dict[str, Any]]:
    """The entries of a text; a line that begins none belongs to the one before."""
    entry: dict[str, Any] | None = None
    for line in text.splitlines():
        found = _HEAD.fullmatch(line)
        if found is None and entry is not None:
            entry["message"] += f"\n{line}"
            continue
        if entry is not None:
            yield entry
        entry = _entry(found) if found else {"at": 0.0, "level": "info", "logger": "", "message": line}
    if entry is not None:
        yield entry


def _entry(found: re.Match[str]) -> dict[str, Any]:
    try:
        at = time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) + int(found[2]) / 1_000
    except (ValueError, OverflowError):
        at = 0.0
    return {"at": at, "level": found[3].lower(), "logger": found[4], "message": found[5]}


def _number(path: Path) -> int:
    ending = path.name.rpartition(".")[2]
    return int(ending) if ending.isascii() and ending.isdigit() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
