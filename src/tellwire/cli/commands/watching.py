"""The command that follows a link."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import click

from tellwire.cli.commands.links import complete_links
from tellwire.cli.commands.records import feed_of
from tellwire.cli.documents import document, facts
from tellwire.cli.group import performs
from tellwire.cli.options import jsonl_option
from tellwire.cli.render import render_json, render_message
from tellwire.cli.render_records import render_event
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.client.client import Client
from tellwire.protocol.addresses import LINK, parse_link
from tellwire.protocol.operations.feed import FeedEvent, WatchFeed
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.links import LinkHistory, ListLinks

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
@performs(WatchFeed, LinkHistory)
def watch(link_id: str, last: int, *, as_json: bool) -> int:
    """Follow a link until it is closed, or Ctrl-C.

    \b
    Examples:
      tellwire watch link:l4f2k
      tellwire watch l4f2k --json | jq -r '.body // .type'
    """
    asyncio.run(_Reader(parse_link(link_id), as_json=as_json).run(last))
    return 0


class _Reader:
    """Shows each thing said once, in order, through restarts of the broker."""

    def __init__(self, link: str, *, as_json: bool) -> None:
        self._link = link
        self._as_json = as_json
        self._shown = ""

    async def run(self, last: int) -> None:
        async with feed_of() as (client, events):
            (record,) = (await client.call(ListLinks(link=self._link))).links
            if not self._as_json and os.isatty(2):
                write(f"Following {LINK}{self._link}; press Ctrl-C to stop.\n", ERR)
            page = (await client.call(LinkHistory(link=self._link, limit=max(last, 1)))).messages
            if page and not last:
                self._shown = page[0].id
            self._show(page[:last])
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

    async def _catch_up(self, client: Client) -> None:
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
