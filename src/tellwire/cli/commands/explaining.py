"""Commands that explain one message: why it has not been read, and the thread it belongs to."""

from __future__ import annotations

import time

import click

from tellwire.cli.documents import document
from tellwire.cli.options import as_option, json_option
from tellwire.cli.render import format_age, render_json
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import ask_as
from tellwire.protocol.operations.explain import ExplainMessage, ReadThread, Thread
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.views.messages import thread_rows, why_lines
from tellwire.views.words import wrap

LIMIT = 100
PAGE_MAX = 50


@click.command()
@click.argument("message_id", metavar="ID")
@as_option
@json_option
def why(message_id: str, speaker: str | None, *, as_json: bool) -> int:
    """Explain why a message has not been read.

    For each recipient: what happened to the message so far, what it waits for, and what happens next. ID is
    shown by `tellwire send`, `history` and `tail`.

    \b
    Examples:
      tellwire why m4f2k
      tellwire why m4f2k --json | jq -r '.recipients[] | .name + ": " + .gate'
    """
    told = ask_as(speaker, ExplainMessage(id=message_id))
    if as_json:
        write(render_json(document(told)))
        return 0
    now, screen = time.time(), find_screen()
    for line in why_lines(told, age=lambda at: format_age(now - at)):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        write("\n".join(wrap([line.lstrip(" ")], indent=indent, width=screen.width)) + "\n")
    return 0


@click.command()
@click.argument("message_id", metavar="ID")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=LIMIT, help=f"Show at most N (default {LIMIT})."
)
@as_option
@json_option
def thread(message_id: str, limit: int, speaker: str | None, *, as_json: bool) -> int:
    """Show a message, what it answers, and all answers to it.

    ID is that of any message of it. The oldest comes first, answers are indented, and each tells how far it
    got.

    \b
    Examples:
      tellwire thread m4f2k
      tellwire thread m4f2k --json | jq -r '.messages[].body'
    """
    told = _whole(message_id, limit, speaker)
    if as_json:
        write(render_json(document(told)))
        return 0
    now, screen = time.time(), find_screen()
    for row in thread_rows(told, age=lambda at: format_age(now - at)):
        indent = "  " * row.depth
        head = [screen.paint(line, "bold") for line in wrap([row.head], indent=indent, width=screen.width)]
        write("\n".join([*head, *wrap(row.body, indent=indent + "  ", width=screen.width)]) + "\n")
    if told.more and screen.person:
        write(screen.paint(f"There is more; use --limit {2 * limit}", "dim") + "\n")
    if told.cut and screen.person:
        write(screen.paint("The thread is very large: some answers are not shown.", "dim") + "\n")
    return 0


def _whole(message_id: str, limit: int, speaker: str | None) -> Thread:
    """As many messages as asked for, page by page."""
    found: list[HistoryRecord] = []
    after: str | None = None
    while True:
        size = min(PAGE_MAX, limit - len(found))
        page = ask_as(speaker, ReadThread(id=message_id, after=after, limit=size))
        found += page.messages
        after = page.next
        if not page.more or len(found) >= limit:
            return Thread(root=page.root, messages=found, more=page.more, next=page.next, cut=page.cut)
