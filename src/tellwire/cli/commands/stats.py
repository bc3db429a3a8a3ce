"""`stats`: what the mesh costs. Turns and messages of each agent, out of the journal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from tellwire.cli.documents import document
from tellwire.cli.options import Duration, complete_names, json_option
from tellwire.cli.render import format_duration, render_json
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import ask_all
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.addresses import SYSTEM
from tellwire.protocol.operations.audit import AuditRow, ReadAudit
from tellwire.sdk.broker_client import BrokerClient
from tellwire.views.words import clean

TYPES = ["message_queued", "turn_ended", "messages_read", "messages_expired"]
PAGE_MAX = 1_000
PAGES_MAX = 200
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
    rows, is_whole = _read(until - span_s, agent)
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


def _read(since: float, agent: str | None) -> tuple[list[AuditRow], bool]:
    """The events of that time, newest page first, and whether these are all."""

    async def work(client: BrokerClient) -> tuple[list[AuditRow], bool]:
        rows: list[AuditRow] = []
        before = 0
        for _ in range(PAGES_MAX):
            page = await client.call(ReadAudit(before=before, limit=PAGE_MAX, types=TYPES, agent=agent))
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
