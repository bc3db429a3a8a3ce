"""The commands that follow: one link, everything that happens, what agents do; and the console."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from tellwire.cli.commands.links import complete_links
from tellwire.cli.commands.records import feed_of
from tellwire.cli.documents import document, facts
from tellwire.cli.options import complete_names, jsonl_option
from tellwire.cli.render import render_json, render_message
from tellwire.cli.render_records import render_event
from tellwire.cli.screen import ERR, OUT, SCREEN_WIPED, find_screen, write
from tellwire.cli.speaking import own_address
from tellwire.protocol.addresses import LINK, parse_link
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.feed import FeedEvent, OverviewPage, Pulse, WatchFeed
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.links import LinkHistory, ListLinks
from tellwire.sdk.broker_client import BrokerClient
from tellwire.sdk.watching import Change, Watch
from tellwire.settings import load_settings
from tellwire.views.agents import AgentLine, agent_lines, agent_rows, header_line
from tellwire.views.attention import attention
from tellwire.views.model import Model, fold
from tellwire.views.timeline import QUIET, event_line, pulse_line, summary_line
from tellwire.views.words import wrap

if TYPE_CHECKING:
    from tellwire.tui.hands import Check

MISSED = "some events were missed; what follows is complete again"
LAST = 10
PAGE_MAX = 50


@click.command()
@click.argument("link_id", metavar="LINK", shell_complete=complete_links)
@click.option(
    "--last",
    type=click.IntRange(0, PAGE_MAX),
    default=LAST,
    help=f"Start with the last N messages (default {LAST}).",
)
@jsonl_option
def watch(link_id: str, last: int, *, as_json: bool) -> int:
    """Follow a link until it is closed, or Ctrl-C.

    \b
    Examples:
      tellwire watch link:l4f2k
      tellwire watch l4f2k --json | jq -r '.body // .type'
    """
    asyncio.run(LinkReader(parse_link(link_id), as_json=as_json).run(last))
    return 0


class LinkReader:
    """Shows each thing said once, in order, through restarts of the broker."""

    def __init__(self, link: str, *, as_json: bool) -> None:
        self._link = link
        self._as_json = as_json
        self._shown = ""
        self.ready = asyncio.Event()
        """Whatever is said from now on is shown."""

    async def run(self, last: int) -> None:
        """Show the last messages, then what comes, until the link is closed."""
        async with feed_of() as (client, events):
            (record,) = (await client.call(ListLinks(link=self._link))).links
            if not self._as_json and os.isatty(2):
                write(f"Following {LINK}{self._link}; press Ctrl-C to stop.\n", ERR)
            page = (await client.call(LinkHistory(link=self._link, limit=max(last, 1)))).messages
            if page and not last:
                self._shown = page[0].id
            self._show(page[:last])
            self.ready.set()
            while record.status != "closed":
                event = await events.get()
                if event is None:
                    break
                if event.missed or (event.link == self._link and event.type == "message_queued"):
                    await self._catch_up(client)
                if event.link == self._link and event.type != "message_queued":
                    self._tell(event)
                    if event.type == "link_closed":
                        break
            if client.failure is not None:
                raise client.failure

    async def _catch_up(self, client: BrokerClient) -> None:
        found: list[HistoryRecord] = []
        before: str | None = None
        while True:
            page = await client.call(LinkHistory(link=self._link, before=before, limit=PAGE_MAX))
            new = [each for each in page.messages if _order(each.id) > _order(self._shown)]
            found += new
            before = page.next or None
            if len(new) < len(page.messages) or not page.more or before is None:
                break
        self._show(found)

    def _show(self, newest_first: list[HistoryRecord]) -> None:
        for each in reversed(newest_first):
            self._shown = each.id
            if self._as_json:
                write(render_json(document(each)))
            else:
                values: dict[str, Any] = facts(each)
                write(render_message(values, now=time.time(), screen=find_screen()) + "\n")

    def _tell(self, event: FeedEvent) -> None:
        screen = find_screen()
        write(render_json(document(event)) if self._as_json else render_event(facts(event), screen=screen))


def _order(message_id: str) -> tuple[int, str]:
    """Ids grow with time."""
    return len(message_id), message_id


# -- everything ---------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_names,
    help="Only what concerns this agent; repeatable.",
)
@click.option("--link", metavar="LINK", help="Only what happens on this link.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only such events; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Also each hand-over and other details.")
@jsonl_option
def follow(
    agents: tuple[str, ...], link: str | None, types: tuple[str, ...], *, everything: bool, as_json: bool
) -> int:
    """Follow what happens, in plain sentences, until Ctrl-C.

    One line for each thing that happened, with the time; what needs you begins with those words. It has no
    colour and no tables: for screen readers, pipes and logs. No line is lost or doubled if the broker is
    restarted. Use `tellwire tail` for the raw events in brief, `tellwire list --watch` to see what agents do.

    \b
    Examples:
      tellwire follow
      tellwire follow --agent bob --agent alice
      tellwire follow --json | jq -r 'select(.type == "messages_read") | .ids[]'
    """
    asked = WatchFeed(agents=list(agents), types=list(types), link=link, live=True)
    painter = _Painter(everything=everything or bool(types), as_json=as_json)
    asyncio.run(_follow(asked, painter))
    return 0


async def _follow(asked: WatchFeed, painter: _Painter) -> None:
    address = own_address()
    async with Watch(address, asked) as feed:
        if os.isatty(ERR) and not painter.as_json:
            write("Following; press Ctrl-C to stop.\n", ERR)
        async for change in feed:
            painter.paint(change)


class _Painter:
    """Writes a line for each change that a person should hear of."""

    def __init__(self, *, everything: bool, as_json: bool) -> None:
        self.as_json = as_json
        self._everything = everything
        self._model = Model()
        self._begun = False

    def paint(self, change: Change) -> None:
        fold(self._model, change)
        if isinstance(change, OverviewPage):
            self._overview(change)
        elif isinstance(change, FeedEvent):
            self._event(change)
        elif isinstance(change, Pulse) and not self.as_json:
            self._line(pulse_line(change, self._model), change.since)

    def _overview(self, page: OverviewPage) -> None:
        if page.next or self.as_json:
            return
        self._line(MISSED if self._begun else summary_line(self._model), page.at)
        self._begun = True

    def _event(self, event: FeedEvent) -> None:
        if self.as_json:
            write(render_json(document(event)))
        elif self._everything or event.type not in QUIET:
            self._line(event_line(event), event.at)

    def _line(self, text: str, at: float) -> None:
        if text:
            line = f"{datetime.fromtimestamp(at):%H:%M:%S}  {text}"
            write("\n".join(wrap([line], indent="", width=find_screen().width)) + "\n")


# -- agents -------------------------------------------------------------------------------------------

REDRAW_S = 0.1
"""The least time between two pictures."""
AGES_S = 1.0
"""Ages are drawn again after this."""
PLAIN_WIDTH = 120
HEIGHT_MIN = 3


def watch_agents(*, everyone: bool, as_json: bool) -> int:
    """What agents do, until Ctrl-C: a picture at a terminal, a line for each change elsewhere."""
    screen = find_screen()
    board = _Board(everyone=everyone, as_json=as_json, drawn=screen.person and not as_json)
    asyncio.run(_watch_agents(board))
    return 0


async def _watch_agents(board: _Board) -> None:
    address = own_address()
    async with Watch(address, WatchFeed(live=True, chars=0)) as feed, asyncio.TaskGroup() as tasks:
        drawing = tasks.create_task(board.draw())
        async for change in feed:
            board.take(change)
        drawing.cancel()


class _Board:
    """Keeps the picture, and shows of it what changed."""

    def __init__(self, *, everyone: bool, as_json: bool, drawn: bool) -> None:
        self._everyone = everyone
        self._as_json = as_json
        self._drawn = drawn
        self._model = Model()
        self._told: dict[str, AgentLine] = {}
        self._is_whole = False
        self._changed = asyncio.Event()

    def take(self, change: Change) -> None:
        fold(self._model, change)
        if isinstance(change, OverviewPage):
            self._is_whole = not change.next
        if self._is_whole:
            self._changed.set()

    async def draw(self) -> None:
        """Show what is new, not more often than eyes can follow."""
        while True:
            try:
                async with asyncio.timeout(AGES_S if self._drawn and self._is_whole else None):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            self._show()
            await asyncio.sleep(REDRAW_S)

    def _show(self) -> None:
        now = time.time()
        rows = agent_rows(self._model, now, offline=self._everyone)
        if not self._drawn:
            self._tell(rows, now)
            return
        screen = find_screen()
        width, height = screen.width or PLAIN_WIDTH, os.get_terminal_size(OUT).lines
        needs = len(attention(self._model, now))
        lines = [header_line(self._model, needs, width=width), *agent_lines(rows, now, width=width)]
        if len(lines) >= height > HEIGHT_MIN:  # some terminals do not tell how high they are
            left = len(lines) - height + 2
            lines = [*lines[: height - 2], f"and {left} more lines"]
        write(SCREEN_WIPED + "\n".join(lines) + "\n")

    def _tell(self, rows: list[AgentLine], now: float) -> None:
        """A line for each agent of which something else is to be said, and for each that is gone."""
        known, self._told = self._told, {row.id: row for row in rows}
        for row in rows:
            if _seen(row) == _seen(known.get(row.id)):
                continue
            if self._as_json:
                write(render_json({**row._asdict(), "at": now}))
            else:
                write(f"{datetime.fromtimestamp(now):%H:%M:%S} {_agent_words(row)}\n")
        for key in known.keys() - self._told.keys():
            if self._as_json:
                write(render_json({**known[key]._asdict(), "state": "offline", "at": now}))
            else:
                write(f"{datetime.fromtimestamp(now):%H:%M:%S} {known[key].name}: offline\n")


def _seen(row: AgentLine | None) -> tuple[object, ...]:
    """What is worth a line: not what passes with time alone."""
    return () if row is None else (row.name, row.state, row.pending, row.muted, row.place, row.project)


def _agent_words(row: AgentLine) -> str:
    mail = f", {row.pending} waiting" if row.pending else ""
    note = f", {row.note}" if row.note else ""
    return f"{row.name}: {row.state}{mail}{note} ({row.kind}, {row.project})"


# -- the console --------------------------------------------------------------------------------------


@click.command()
def tui() -> int:
    """Open the console: agents, what needs you, conversations.

    `tellwire` alone does the same at a terminal. Press ? there for the keys. It is for you: beneath an agent
    it is refused.

    \b
    Examples:
      tellwire tui
      NO_COLOR=1 tellwire tui
    """
    open_console()
    return 0


def open_console() -> None:
    """Run it until the person leaves.

    Raises:
        TellwireError: there is no terminal, Textual is missing, or the broker refuses.
    """
    if not is_at_terminal():
        raise TellwireError(
            "bad_request",
            "The console needs a terminal that can move its cursor.",
            "Elsewhere use `tellwire follow`, which prints lines; `tellwire --help` lists all commands.",
        )
    if find_spec("textual") is None:
        raise TellwireError(
            "bad_request",
            "The console needs Textual, which is not installed.",
            "Install it with `pip install 'tellwire[console]'`; `tellwire --help` lists what works without.",
        )
    # Imported here for start-up speed: Textual takes longer than any other command.
    from tellwire.tui.app import run_console  # noqa: PLC0415
    from tellwire.tui.hands import Abilities  # noqa: PLC0415

    run_console(load_settings(), Abilities(_go, _check))


def is_at_terminal() -> bool:
    """Whether a person can see and use a console here."""
    return os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


def _go(name: str) -> list[str]:
    from tellwire.cli.commands.children import place_words  # noqa: PLC0415 - not before it is needed

    return place_words(name)


def _check() -> list[Check]:
    from tellwire.cli.commands.setup.doctor import find_checks  # noqa: PLC0415 - as above
    from tellwire.tui.hands import Check  # noqa: PLC0415 - as above

    checks, _ = find_checks(None)
    rank = ("fail", "warn", "ok")
    found = [Check(each.level, each.about, each.words, each.advice) for each in checks]
    return sorted(found, key=lambda each: rank.index(each.level))
