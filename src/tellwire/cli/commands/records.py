"""Commands on what was: history, search, purge, tail."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import click

from tellwire.cli.documents import document, facts
from tellwire.cli.options import Duration, Moment, as_option, complete_names, json_option, jsonl_option
from tellwire.cli.render import counted, format_duration, render_json, render_messages
from tellwire.cli.render_records import render_event, render_history
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.cli.speaking import ask, ask_as, client_to
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.frames import Welcome
from tellwire.protocol.operations.feed import FeedEvent, WatchFeed
from tellwire.protocol.operations.history import (
    History,
    HistoryRecord,
    PurgeHistory,
    ReadHistory,
    SearchMessages,
)
from tellwire.sdk.broker_client import BrokerClient, Handlers
from tellwire.sdk.connection import BrokerConnection
from tellwire.settings import load_settings

F = TypeVar("F", bound=Callable[..., Any])

LIMIT = 20
PAGE_MAX = 50
FEED_QUEUE_MAX = 10_000


def filters(function: F) -> F:
    """The options that history and search share."""
    for option in (
        click.option("--full", is_flag=True, help="Show whole bodies instead of one line per message."),
        click.option(
            "--limit",
            type=click.IntRange(1, 10_000),
            default=LIMIT,
            help=f"Show at most N (default {LIMIT}).",
        ),
        click.option("--until", type=Moment(), default=0.0, help="Only up to then: 2h, yesterday, a date."),
        click.option("--since", type=Moment(), default=0.0, help="Only since then: 2h, yesterday, a date."),
        click.option(
            "--peer",
            metavar="NAME",
            shell_complete=complete_names,
            help="Only between this agent and --agent.",
        ),
        click.option("--link", metavar="LINK", help="Only messages on this link."),
        click.option(
            "--agent",
            metavar="NAME",
            shell_complete=complete_names,
            help="Only messages it sent or received.",
        ),
    ):
        function = option(function)
    return function


@click.command()
@filters
@as_option
@json_option
def history(**options: Any) -> int:
    """Show earlier messages, newest last.

    An agent sees its own messages; the operator sees all. STATE is the receipt; of a message to several, the
    one that got least far.

    \b
    Examples:
      tellwire history --agent alice --since 2h
      tellwire history --agent alice --peer bob --full
      tellwire history --limit 1000 --json | jq '.messages[].body'
    """
    return _show(_pages(options, ReadHistory), options)


@click.command()
@click.argument("query")
@filters
@as_option
@json_option
def search(query: str, **options: Any) -> int:
    """Search messages, newest last.

    All words must occur, in upper or lower case. "two words" is a phrase, wor* matches the start of a word.

    \b
    Examples:
      tellwire search parser
      tellwire search '"release plan" frid*' --agent alice --since 30d
    """
    return _show(_pages(options, partial(SearchMessages, query=query)), options)


def _pages(options: dict[str, Any], make: Callable[..., ReadHistory | SearchMessages]) -> History:
    """As many messages as asked for, page by page, newest first."""
    bounds = {name: options[name] for name in ("agent", "peer", "link", "since", "until")}
    found: list[HistoryRecord] = []
    before: str | None = None
    while True:
        size = min(PAGE_MAX, options["limit"] - len(found))
        page = ask_as(options["speaker"], make(**bounds, before=before, limit=size))
        found += page.messages
        before = page.next or None
        if not page.more or before is None or len(found) >= options["limit"]:
            return History(messages=found, more=page.more, next=page.next)


def _show(reply: History, options: dict[str, Any]) -> int:
    if options["as_json"]:
        write(render_json(document(reply)))
        return 0
    messages = [facts(message) for message in reversed(reply.messages)]
    screen, now = find_screen(), time.time()
    if not messages:
        write("No messages found.\n")
    elif options["full"]:
        write(render_messages(messages, now=now, screen=screen))
    else:
        write(render_history(messages, now=now, screen=screen))
    if reply.more and screen.person:
        write(screen.paint(f"There is more; use --limit {2 * options['limit']}", "dim") + "\n")
    return 0


@click.command()
@click.option("--older-than", type=Duration(), required=True, help="Delete what is older: 7d, 12h.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def purge(*, older_than: float, yes: bool, as_json: bool) -> int:
    """Delete delivered messages now.

    By default they are deleted after a while (setting `retention_s`). Messages that still wait are kept. What
    is deleted cannot be read or searched again; the rest of the journal can still be verified.

    \b
    Examples:
      tellwire purge --older-than 7d
      tellwire purge --older-than 12h --yes
    """
    if not yes:
        if not os.isatty(0):
            raise TellwireError("confirmation_needed", "This cannot be undone.", "To go ahead, add `--yes`.")
        click.confirm(f"Delete all history older than {format_duration(older_than)}?", abort=True, err=True)
    messages = commits = 0
    while True:
        done = ask(PurgeHistory(older_than_s=older_than))
        messages, commits = messages + done.messages, commits + done.commits
        if not done.more:
            break
    if as_json:
        write(render_json({"messages": messages, "commits": commits, "held_by": done.held_by}))
        return 0
    write(f"Deleted {counted(messages, 'message')}.\n")
    if done.held_by:
        write(f"Messages from {done.held_by} on were kept: that one is still unread.\n")
    return 0


# -- live ---------------------------------------------------------------------------------------------


@click.command()
@jsonl_option
def tail(*, as_json: bool) -> int:
    """Follow events live, until Ctrl-C.

    Prints a line for each committed event: agents that come and go, messages sent, delivered, read, refused.
    It continues across restarts of the broker, but what happens meanwhile is missed. Use it to see raw events
    in brief; use `tellwire follow` for sentences, filters, and a record in which nothing is missing.

    \b
    Examples:
      tellwire tail
      tellwire tail --json | jq -r 'select(.type == "message_queued") | .text'
    """
    screen = find_screen()
    asyncio.run(_watch(lambda event: write(_line_of(event, screen, as_json=as_json))))
    return 0


def _line_of(event: FeedEvent, screen: Screen, *, as_json: bool) -> str:
    return render_json(document(event)) if as_json else render_event(facts(event), screen=screen)


@asynccontextmanager
async def feed_of() -> AsyncGenerator[tuple[BrokerClient, asyncio.Queue[FeedEvent | None]]]:
    """A connection that watches, through restarts of the broker; None in the queue if it cannot go on."""
    events: asyncio.Queue[FeedEvent | None] = asyncio.Queue(FEED_QUEUE_MAX)

    async def subscribe(connection: BrokerConnection, _welcome: Welcome) -> None:
        await client.call_on(connection, WatchFeed())

    def put(event: FeedEvent | None = None) -> None:
        if not events.full():
            events.put_nowait(event)

    client = client_to(load_settings(), Handlers(on_feed=put, on_connected=subscribe, on_failed=put))
    try:
        await client.open()
        yield client, events
    finally:
        await client.close()


async def _watch(show: Callable[[FeedEvent], None]) -> None:
    async with feed_of() as (client, events):
        if os.isatty(2):
            write("Watching; press Ctrl-C to stop.\n", ERR)
        while (event := await events.get()) is not None:
            show(event)
        if client.failure is not None:
            raise client.failure
