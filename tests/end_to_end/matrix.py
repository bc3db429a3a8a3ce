"""The delivery matrix: which client can be reached in which state. Its cells, and the table of outcomes.

A cell is a test of one row and one column. One that fails is played once more, on a stage of its own, and
both outcomes are told. With `TELLWIRE_MATRIX=write` in the environment outcomes go into
`docs/delivery-matrix.md`; a plain run leaves it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import pytest

from tests.end_to_end.clients import ROOT
from tests.end_to_end.stage import Stage, open_stage
from tests.end_to_end.trust import trusted

TABLE = ROOT / "docs" / "delivery-matrix.md"
WRITING = os.environ.get("TELLWIRE_MATRIX") == "write"
ATTEMPTS = 2
ATTEMPT_S = 240
ENDING_S = 30
PROPERTY = "matrix"
"""Under which a test's report has the outcome."""
NOTE_CHARS_MAX = 300

ROWS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "pi": "Pi",
    "mcp": "plain MCP client",
}
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "pi": "@earendil-works/pi-coding-agent",
}
COLUMNS = {
    "tool call": "the model calls tellwire's tools, and a peer gets what it sends",
    "mid-turn": "mail that arrives during a turn is in the next request of that turn",
    "end of turn": "mail that arrives during the last answer of a turn keeps the turn going",
    "idle": "mail starts a turn in a session that waits for its user, in a terminal",
    "beyond time-out": "the same after longer than any hook, waiter or poll of the client may last",
    "after Esc": "as idle, after the user has interrupted a turn",
    "Esc with mail": "the user interrupts a prompt that brought mail along; a later turn has the mail once",
    "no broker at start": "as idle, if no broker was running when the client started",
    "two in one folder": "as idle, with two sessions of the client in one folder: each gets its own mail",
    "offline": "mail that was sent while the client was closed is in its next run",
    "burst": "twenty messages during one turn, in order",
    "large body": "a body of 64 KiB, the largest allowed, is announced and fetched in parts, complete",
    "parallel calls": "mail while two tool calls run at once",
    "sub-agent": "mail that arrives while a sub-agent runs enters the main conversation, not the sub-agent's",
    "client killed": "`kill -9` of the client between delivery and read, then the session is resumed",
    "broker killed": "`kill -9` of the broker between delivery and read",
    "broker stalled": "the broker stops for ten seconds at the end of a turn; then the mail arrives, once",
    "model error": "the model fails twice on the request that has the mail, and is asked again",
    "failed turn retried": "a woken turn that failed is tried again; the mail is in the context once",
    "reply": "an answer with `re` makes the receipt `answered`",
    "final text": "the end of a turn is recorded once, with the final answer only",
    "headless speed": "a headless run takes as long as without tellwire (median ratio of pairs of runs)",
    "who woke it": "the client's screen shows the user who woke the agent, and the first words",
    "/clear or /new": "mail enters the conversation that the user has just started, once, never the old one",
    "uninstall": "after `tellwire uninstall` every file is as before, byte for byte",
}

YES, LIMIT, UNSTEADY, FAILS, OPEN = "yes", "limit", "unsteady", "fails", "–"
PATH = re.compile(r"/tmp/[^\s\"')]+")
TITLE = re.compile(r" \d[\d.]*$")
"""The version behind a name."""
HEAD = """\
# Delivery matrix

Every client in every state, tested with the real programs against a scripted model on loopback. A cell says
`yes` if the message was exactly once in what the model was asked, by the record of the requests it received,
and the sender's receipt shows it with evidence. Written by `make test-clients TELLWIRE_MATRIX=write`; do not
edit.

Codex has hooks that were trusted in its own dialog: its terminals run in its daemon, headless runs do not.

- `yes`: it works. A note says how, if not by the client's own means.
- `limit`: the client makes it impossible. A note says why, and a test shows what happens instead.
- `unsteady`: it failed once and worked when it was repeated. `fails`: it failed twice.
"""

Play: TypeAlias = Callable[[Stage], Awaitable[None]]


class Cell(NamedTuple):
    """One cell's outcome."""

    outcome: str = OPEN
    note: str = ""


LIMITS: dict[tuple[str, str], str] = {}
"""Why a client cannot do what a column asks, by row and column."""
BY_TYPING = "by a line that tellwire types into its tmux pane; elsewhere mail comes with the next prompt"
REMARKS = {
    ("claude", "beyond time-out"): f"its waiter may wait a week; after that {BY_TYPING}",
    ("codex", "/clear or /new"): "with its first prompt",
    ("opencode", "two in one folder"): (
        "of two that start at the same moment in a home where it never ran, the screen of one may stay "
        "blank: seen in 2 of 10 such starts without tellwire"
    ),
    ("opencode", "/clear or /new"): BY_TYPING,
    **{
        ("gemini", column): BY_TYPING
        for column in ("idle", "beyond time-out", "after Esc", "failed turn retried", "no broker at start")
    },
}
"""How a cell holds, where that is worth telling."""
DECLARED: set[tuple[str, str]] = set()
"""All cells that a test plays, or that have a reason not to be played."""
UNPLAYED: dict[tuple[str, str], Cell] = {}
"""Those with nothing to play, only a reason."""


def cell(column: str, *rows: str, broker: bool = True, **limits: str) -> Callable[[Play], Any]:
    """Make a test of a play, for these rows, and for those with a limit: there it shows what happens."""
    assert column in COLUMNS, column
    played = (*rows, *limits)

    def decorate(play: Play) -> Any:
        for row in played:
            declare(row, column, limits.get(row, ""))

        async def test(row: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
            told: list[tuple[str, object]] = cast("pytest.Item", request.node).user_properties
            await attempt(play, row, column, folder=tmp_path, record=told.append, broker=broker)

        test.__name__ = test.__qualname__ = play.__name__
        test.__doc__, test.__module__ = play.__doc__, play.__module__
        bounded = pytest.mark.timeout(ATTEMPTS * (ATTEMPT_S + ENDING_S))
        return bounded(pytest.mark.parametrize("row", played)(test))

    return decorate


def impossible(row: str, column: str, reason: str) -> None:
    """A cell with nothing to play."""
    declare(row, column, reason)
    UNPLAYED[row, column] = Cell(LIMIT, reason)


def declare(row: str, column: str, limit: str) -> None:
    """A cell, with the reason if the client cannot do what the column asks."""
    assert (row, column) not in DECLARED, (row, column)
    DECLARED.add((row, column))
    if limit:
        LIMITS[row, column] = limit


async def attempt(
    play: Play,
    row: str,
    column: str,
    *,
    folder: Path,
    record: Callable[[tuple[str, object]], None],
    broker: bool = True,
) -> None:
    """Play a cell, and once more if it fails; record its outcome."""
    limit = LIMITS.get((row, column), "")
    faults: list[str] = []
    for number in range(1, ATTEMPTS + 1):
        try:
            async with (
                open_stage(row, folder / str(number), broker=broker) as stage,
                asyncio.timeout(ATTEMPT_S),
                trusted(stage),
            ):
                await play(stage)
        except Exception as fault:
            faults.append(_shorten(fault))
            if number == ATTEMPTS:
                record((PROPERTY, [row, column, FAILS, tell(faults)]))
                raise
        else:
            steady = [LIMIT, limit] if limit else [YES, REMARKS.get((row, column), "")]
            record((PROPERTY, [row, column, *([UNSTEADY, tell(faults)] if faults else steady)]))
            return


def tell(faults: list[str]) -> str:
    """Both outcomes of a cell that failed."""
    return f"first: {faults[0]}; then: {faults[1] if len(faults) == ATTEMPTS else 'it held'}"


def _shorten(fault: BaseException) -> str:
    while isinstance(fault, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", fault)
        fault = group.exceptions[0]
    words = " ".join(str(fault).partition("\nassert")[0].split()) or type(fault).__name__
    return PATH.sub("…", words)[:NOTE_CHARS_MAX].replace("|", "/")


# -- the table ----------------------------------------------------------------------------------------


def outcomes(reports: Iterable[pytest.TestReport]) -> dict[tuple[str, str], Cell]:
    """The cells that a run has played, by what its tests have recorded."""
    found: dict[tuple[str, str], Cell] = {}
    for report in reports:
        for name, value in report.user_properties:
            if name == PROPERTY:
                row, column, outcome, note = cast("list[str]", value)
                found[row, column] = Cell(outcome, note)
    return found


def save_table(cells: dict[tuple[str, str], Cell]) -> None:
    """Put outcomes into the table; what was not played stays."""
    TABLE.write_text(render_table({**load_table(), **cells}), encoding="utf-8")


def load_table(text: str | None = None) -> dict[tuple[str, str], Cell]:
    """The cells of the written table, or of a text like it; empty if there is none."""
    if text is None:
        text = TABLE.read_text("utf-8") if TABLE.exists() else ""
    notes = {
        (row, column): note for row, column, note in re.findall(r"^- \*\*(.+), (.+)\*\*: (.+)$", text, re.M)
    }
    lines = [
        [each.strip() for each in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    shorts = {title: short for short, title in ROWS.items()}
    titles = [TITLE.sub("", name) for name in lines[0][1:]] if lines else []
    return {
        (shorts[title], column): Cell(outcome, notes.get((title, column), ""))
        for label, *outcomes in lines[2:]
        for title, outcome in zip(titles, outcomes, strict=True)
        if (column := label.split("**")[1]) in COLUMNS and title in shorts
    }


def render_table(cells: dict[tuple[str, str], Cell]) -> str:
    """The whole file."""
    cells = {**cells, **UNPLAYED}
    versions = json.loads((ROOT / "requirements" / "clients.json").read_text("utf-8"))["dependencies"]
    names = [f"{title} {versions.get(PACKAGES.get(row, ''), '')}".rstrip() for row, title in ROWS.items()]
    lines = [HEAD, f"| the state, and what happens | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for column, meaning in COLUMNS.items():
        shown = [cells.get((row, column), Cell()).outcome for row in ROWS]
        lines.append(f"| **{column}**: {meaning} | {' | '.join(shown)} |")
    notes = [
        f"- **{title}, {column}**: {cells[row, column].note}"
        for row, title in ROWS.items()
        for column in COLUMNS
        if (row, column) in cells and cells[row, column].note
    ]
    return "\n".join([*lines, "", "## Notes", "", *notes, ""])
