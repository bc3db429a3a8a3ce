"""The commands on the journal: show it, prove it, export it, and count what agents did."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from tellwire.cli.documents import document, facts
from tellwire.cli.options import Duration, complete_names, json_option
from tellwire.cli.render import counted, format_duration, render_json
from tellwire.cli.render_records import render_audit, render_verdict
from tellwire.cli.screen import ERR, LINE_START, OUT, find_screen, write
from tellwire.cli.speaking import ask, ask_all
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.addresses import SYSTEM
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.audit import AcknowledgeLosses, Audit, AuditRow, ReadAudit
from tellwire.sdk.broker_client import BrokerClient
from tellwire.settings import load_settings
from tellwire.store.audit import export, verify
from tellwire.views.words import clean

LIMIT = 30
PAGE_MAX = 100
LINES_AT_ONCE = 500


@click.command()
@click.option("--verify", "proves", is_flag=True, help="Verify the whole journal by its chain of hashes.")
@click.option(
    "--head", metavar="HASH", help="With --verify: require this hash, noted earlier, to be in the chain."
)
@click.option(
    "--export", "target", metavar="FILE", help="Write every event as a line of JSON; `-` for stdout."
)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=LIMIT, help=f"Show the newest N (default {LIMIT})."
)
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only such events, as message_queued; repeatable."
)
@click.option("--agent", metavar="NAME", shell_complete=complete_names, help="Only what concerns this agent.")
@click.option("--acknowledge", is_flag=True, help="Confirm that you know what was lost (at a terminal only).")
@json_option
def audit(**options: Any) -> int:
    """Show the journal: every event, every refused call.

    Newest last. Message bodies are shown by their digest only. The last line is the head: the hash of the
    newest commit, which covers everything before it. Keep a copy of it elsewhere; --verify --head then proves
    later that nothing before it was changed, removed or reordered. The exit code is 74 if something was.

    --verify and --export read the file directly, whether or not the broker is running. If the broker found at
    startup that the end of the journal is missing, --verify reports it until you --acknowledge it.

    \b
    Examples:
      tellwire audit --limit 100
      tellwire audit --agent bob --type message_queued --type call_refused
      tellwire audit --verify --head 9f86d081884c7d65
      tellwire audit --export journal.jsonl
    """
    if options["head"] is not None and not options["proves"]:
        raise click.UsageError("--head needs --verify.")
    if options["proves"] and options["target"] is not None:
        raise click.UsageError("--verify and --export cannot be combined.")
    if options["acknowledge"]:
        if options["proves"] or options["target"] is not None:
            raise click.UsageError("--acknowledge cannot be combined with other options.")
        return _acknowledge(as_json=options["as_json"])
    if options["proves"]:
        return _verify(options["head"], as_json=options["as_json"])
    if options["target"] is not None:
        return _export(options["target"])
    reply = _read(options["limit"], types=list(options["types"]), agent=options["agent"])
    if options["as_json"]:
        write(render_json(document(reply)))
        return 0
    screen = find_screen()
    rows = [facts(row) for row in reply.rows]
    write(render_audit(rows, now=time.time(), screen=screen) if rows else "No such events.\n")
    write(screen.paint(f"head {reply.head}", "dim") + "\n")
    return 0


def _acknowledge(*, as_json: bool) -> int:
    reply = ask(AcknowledgeLosses())
    if as_json:
        write(render_json(document(reply)))
    elif reply.count:
        write("Acknowledged. The details are kept in the home folder, as head.acknowledged-TIME.\n")
    else:
        write("Nothing was lost.\n")
    return 0


def _read(limit: int, *, types: list[str], agent: str | None) -> Audit:
    """The newest rows, page by page, oldest first."""
    rows: list[AuditRow] = []
    head, before = "", 0
    while True:
        size = min(PAGE_MAX, limit - len(rows))
        page = ask(ReadAudit(before=before, limit=size, types=types, agent=agent))
        rows = [*page.rows, *rows]
        head = head or page.head
        if not page.more or len(rows) >= limit:
            return Audit(rows=rows, more=page.more, head=head, next=page.next)
        before = page.next


def _verify(head: str | None, *, as_json: bool) -> int:
    told = os.isatty(ERR)
    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if told and percent != shown:
            shown = percent
            write(f"{LINE_START}{percent} %", ERR)

    verdict = verify(load_settings().database, head, progress)
    if told:
        write(LINE_START, ERR)
    if as_json:
        write(render_json({"ok": verdict.ok, **document(verdict)}))
    else:
        write(render_verdict(facts(verdict), screen=find_screen()))
    return 0 if verdict.ok else ERRORS["database_corrupt"].exit


class _Sink(io.StringIO):
    """Where an export goes; a failure of it must not look like one of the database."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: list[str] = []

    def write(self, text: str, /) -> int:
        """Take a line; some of them are written at once."""
        self._lines.append(text)
        if len(self._lines) >= LINES_AT_ONCE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write the lines that are buffered."""
        lines, self._lines = self._lines, []
        write("".join(lines), self._descriptor)


def _export(target: str) -> int:
    database = load_settings().database
    try:
        # Who did what is as private as the journal itself.
        options = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        descriptor = OUT if target == "-" else os.open(target, options, 0o600)
    except OSError as error:
        raise TellwireError("bad_request", f"Cannot write {target}: {error.strerror}.", "") from error
    sink = _Sink(descriptor)
    count = export(database, sink)
    sink.flush()
    if descriptor != OUT:
        os.close(descriptor)
        write(f"Wrote {counted(count, 'event')} to {target}.\n", ERR)
    return 0


# -- what it costs ------------------------------------------------------------------------------------

COUNTED = ["message_queued", "turn_ended", "messages_read", "messages_expired"]
COUNTED_PAGE_MAX = 1_000
COUNTED_PAGES_MAX = 200
"""Pages of the journal that are looked at: about 400,000 events."""
HOUR_S = 3_600.0
BARS = " ▁▂▃▄▅▆▇█"
HOURS_SHOWN = 24


class Count(msgspec.Struct):
    """What one agent did."""

    name: str
    turns: int = 0
    woken: int = 0
    """Turns that no person began."""
    failed: int = 0
    sent: int = 0
    received: int = 0
    expired: int = 0
    """Messages to it that expired unread."""
    hours: list[int] = []
    """Turns and messages sent in each hour, the last one last."""


@click.command()
@click.option(
    "--for", "span_s", type=Duration(), default="24h", metavar="TIME", help="Look back so far (default 24h)."
)
@click.option("--agent", metavar="NAME", shell_complete=complete_names, help="Only this agent.")
@json_option
def stats(*, span_s: float, agent: str | None, as_json: bool) -> int:
    """Show turns and messages of each agent, hour by hour.

    WOKEN are turns that messages began, not a person: they are what the mesh costs. FAILED are turns that
    ended with an error, EXPIRED messages to the agent that nobody read in time. The bars are turns and
    messages sent, one for each of the last hours.

    \b
    Examples:
      tellwire stats
      tellwire stats --for 1h --agent bob
      tellwire stats --json | jq '.agents[] | select(.woken > 20) | .name'
    """
    until = time.time()
    rows, is_whole = _read_since(until - span_s, agent)
    hours = min(HOURS_SHOWN, max(1, -int(-span_s // HOUR_S)))
    found = count(rows, until=until, hours=hours)
    kept = [each for each in found if agent is None or each.name.lower() == agent.lower()]
    if as_json:
        told = {"since": until - span_s, "until": until, "whole": is_whole}
        write(render_json({**told, "agents": [document(each) for each in kept]}))
        return 0
    if kept:
        write(render_table(_columns(kept), find_screen()))
    else:
        write(f"Nothing was said in the last {format_duration(span_s)}.\n")
    if not is_whole:
        write("There was more than can be counted: look back less far with --for.\n")
    return 0


def _read_since(since: float, agent: str | None) -> tuple[list[AuditRow], bool]:
    """The events of that time, newest page first, and whether these are all."""

    async def work(client: BrokerClient) -> tuple[list[AuditRow], bool]:
        rows: list[AuditRow] = []
        before = 0
        for _ in range(COUNTED_PAGES_MAX):
            page = await client.call(
                ReadAudit(before=before, limit=COUNTED_PAGE_MAX, types=COUNTED, agent=agent)
            )
            rows += [row for row in page.rows if row.at >= since]
            before = page.next
            if not before or any(row.at < since for row in page.rows):
                return rows, True
        return rows, False

    return ask_all(work)


def count(rows: Iterable[AuditRow], *, until: float, hours: int) -> list[Count]:
    """What each agent did, by name; the broker's own notices are counted as received only."""
    found: dict[str, Count] = {}

    def of(name: str) -> Count:
        if name not in found:
            found[name] = Count(name, hours=[0] * hours)
        return found[name]

    def tick(each: Count, at: float) -> None:
        place = int((until - at) // HOUR_S)
        if 0 <= place < hours:
            each.hours[hours - 1 - place] += 1

    for row in rows:
        if row.type == "turn_ended":
            _count_turn(of(row.who), row.detail)
            tick(of(row.who), row.at)
        elif row.type == "message_queued":
            for name in row.whom:
                of(name).received += 1
            if row.who != SYSTEM:
                of(row.who).sent += 1
                tick(of(row.who), row.at)
        elif row.type == "messages_expired":
            of(row.who).expired += len(row.detail.get("ids", []))
    return sorted(found.values(), key=lambda each: each.name.lower())


def _count_turn(each: Count, detail: dict[str, Any]) -> None:
    if detail.get("outcome") == "waiting":
        return  # the turn goes on
    each.turns += 1
    each.woken += not detail.get("human")
    each.failed += detail.get("outcome") == "errored"


def _columns(counts: list[Count]) -> list[Column]:
    def numbers(heading: str, field: str, rank: int) -> Column:
        cells = [str(getattr(each, field) or "") for each in counts]
        return Column(heading, cells, right=True, rank=rank)

    top = max((max(each.hours, default=0) for each in counts), default=0) or 1
    return [
        Column("NAME", [clean(each.name) for each in counts], style="bold"),
        numbers("TURNS", "turns", 0),
        numbers("WOKEN", "woken", 0),
        numbers("FAILED", "failed", 2),
        numbers("SENT", "sent", 1),
        numbers("RECEIVED", "received", 1),
        numbers("EXPIRED", "expired", 3),
        Column("BY HOUR", ["".join(_bar(n, top) for n in each.hours) for each in counts], rank=4),
    ]


def _bar(number: int, top: int) -> str:
    return BARS[-(-number * (len(BARS) - 1) // top)]
