"""The command on the journal as evidence: show it, prove it, export it."""

from __future__ import annotations

import io
import os
import time
from typing import Any

import click

from tellwire.cli.documents import document, facts
from tellwire.cli.options import complete_names, json_option
from tellwire.cli.render import counted, render_json
from tellwire.cli.render_records import render_audit, render_verdict
from tellwire.cli.screen import ERR, LINE_START, OUT, find_screen, write
from tellwire.cli.speaking import ask
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.audit import AcknowledgeLosses, Audit, AuditRow, ReadAudit
from tellwire.settings import load_settings
from tellwire.store.audit import export, verify

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
