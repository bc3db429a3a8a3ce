"""What people see of links: a table of them, and one with its members. Plain values in, text out."""

from __future__ import annotations

from typing import Any

from tellwire.cli.render import format_age
from tellwire.cli.screen import Screen
from tellwire.cli.tables import Column, render_table
from tellwire.cli.texts import clean

STYLES = {"active": "green", "paused": "yellow", "closed": "dim", "in": "green", "left": "dim"}


def render_links(links: list[dict[str, Any]], *, now: float, screen: Screen, hidden: int = 0) -> str:
    """One line for each link."""
    if not links:
        return "No links.\n"
    columns = [
        Column("LINK", [link["id"] for link in links], style="bold"),
        Column("STATUS", [link["status"] for link in links], styles=STYLES),
        Column("TURNS", [f"{link.get('turns', 0)}/{link.get('turns_max', 0)}" for link in links], right=True),
        Column("SAID", [str(link.get("said", 0)) for link in links], right=True, rank=2),
        Column("OPENED", [format_age(now - link["opened_at"]) for link in links], rank=1, style="dim"),
        Column("MEMBERS", [_members(link) for link in links]),
    ]
    more = screen.paint(f"{hidden} older ones: --agent NAME", "dim") + "\n" if hidden else ""
    return render_table(columns, screen) + more


def _members(link: dict[str, Any]) -> str:
    closed = link["status"] == "closed"
    here = [member for member in link.get("members", []) if closed or not member.get("left_at")]
    return ", ".join(clean(member["name"]) for member in here)


def render_link(link: dict[str, Any], *, now: float, screen: Screen) -> str:
    """One link: how it stands, and who is and was in it."""
    status = screen.paint(link["status"], STYLES[link["status"]])
    reason = f" ({clean(link['reason'])})" if link.get("reason") else ""
    made = f", {link['made']}" if link.get("made") else ""
    kind = "direct, " if link.get("direct") else ""
    counts = f"{link.get('said', 0)} said, {link.get('turns', 0)} of {link.get('turns_max', 0)} turns used"
    head = f"{screen.paint('link:' + link['id'], 'bold')}  {status}{reason}{made}  {kind}{counts}\n"
    members = link.get("members", [])
    columns = [
        Column("NO", [str(member["number"]) for member in members], right=True),
        Column("NAME", [clean(member["name"]) for member in members], style="bold"),
        Column("HERE", ["left" if member.get("left_at") else "in" for member in members], styles=STYLES),
        Column("SHARES", [member.get("share", "all") for member in members], rank=2),
        Column("JOINED", [format_age(now - member["joined_at"]) for member in members], rank=1, style="dim"),
        Column("ROLE", [clean(member.get("role", "")) for member in members]),
    ]
    return head + render_table(columns, screen)
