"""What people see of the past: history, audit, the live feed. Plain values in, text out; no I/O, no clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tellwire.cli.render import STATUS_STYLES, counted, format_age, render_json
from tellwire.cli.screen import Screen
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.ids import format_id
from tellwire.views.words import clean, cut

ORDER = ("denied", "expired", "pending", "delivered", "read", "answered")
"""Of the states of several recipients the first is shown."""
WHY_WIDTH_MAX = 40
PARTY_WIDTH_MIN = 14
EVENT_STYLES = {"message_queued": "bold", "refused": "red", "call_refused": "red", "messages_expired": "red"}


def render_history(messages: list[dict[str, Any]], *, now: float, screen: Screen) -> str:
    """One line for each message."""
    columns = [
        Column("ID", [message["id"] for message in messages]),
        Column("WHEN", [format_age(now - message["at"]) for message in messages], rank=2, style="dim"),
        Column("FROM", [clean(message["from"]) for message in messages], style="bold", least=PARTY_WIDTH_MIN),
        Column("TO", [clean(message["to"]) for message in messages], least=PARTY_WIDTH_MIN),
        Column("STATE", [_state_of(message) for message in messages], rank=1, styles=STATUS_STYLES),
        Column("WAITS", [_why_of(message) for message in messages], rank=3, least=10),
        Column("BODY", [_preview(message["body"]) for message in messages]),
    ]
    return render_table(columns, screen)


def _state_of(message: dict[str, Any]) -> str:
    states = [each["state"] for each in message.get("recipients", [])]
    return min(states, key=ORDER.index) if states else ""


def _why_of(message: dict[str, Any]) -> str:
    whys = [each["why"] for each in message.get("recipients", []) if each.get("why")]
    more = f" (+{len(whys) - 1})" if len(whys) > 1 else ""
    return clean(cut(whys[0], WHY_WIDTH_MAX) + more) if whys else ""


def _preview(body: object) -> str:
    return clean(body if isinstance(body, str) else render_json(body))


def render_audit(rows: list[dict[str, Any]], *, now: float, screen: Screen) -> str:
    """One line for each event of the journal."""
    columns = [
        Column("SEQ", [str(row["seq"]) for row in rows], right=True),
        Column("WHEN", [format_age(now - row["at"]) for row in rows], rank=2, style="dim"),
        Column("EVENT", [clean(row["type"]) for row in rows], styles=EVENT_STYLES),
        Column("WHO", [_parties(row) for row in rows], style="bold"),
        Column("DETAIL", [_details(row.get("detail", {})) for row in rows], rank=1),
    ]
    return render_table(columns, screen)


def render_event(event: dict[str, Any], *, screen: Screen) -> str:
    """One line of the live feed; with the clock of the day, as it is read while it happens."""
    clock = datetime.fromtimestamp(event["at"]).strftime("%H:%M:%S")
    kind = clean(event["type"])
    line = f"{clock}  {kind.ljust(18)}  {_parties(event)}"
    if kind == "message_queued":
        line += f"  {format_id('m', event['seq'])}"
    if event.get("text"):
        line += f"  {clean(event['text'])}"
    line = (line if screen.width is None else cut(line, screen.width)).rstrip()
    style = EVENT_STYLES.get(kind, "")
    if screen.colour:
        head, rest = line[:8], line[8:]
        line = screen.paint(head, "dim") + (screen.paint(rest, style) if style else rest)
    missed = event.get("missed", 0)
    return f"{line}\n" if not missed else f"… {counted(missed, 'event')} missed\n{line}\n"


def _parties(row: dict[str, Any]) -> str:
    whom = [clean(name) for name in row.get("whom", [])]
    others = ", ".join(whom[:3]) + (f" and {len(whom) - 3} more" if len(whom) > 3 else "")
    return " → ".join(part for part in (clean(row.get("who", "")), others) if part)


def _details(detail: dict[str, Any]) -> str:
    return "  ".join(f"{clean(name)}={_preview(value)}" for name, value in detail.items())


def render_verdict(verdict: dict[str, Any], *, screen: Screen) -> str:
    """What a proof of the journal came to."""
    findings, unnamed = verdict["findings"], verdict["unnamed"]
    size = ", ".join(counted(verdict[f"{noun}s"], noun) for noun in ("commit", "event", "message"))
    if not findings:
        begins = f", starting at event {verdict['begins'] + 1}" if verdict["begins"] else ""
        lines = [f"{screen.paint('proved', 'green')}  {size}{begins}", f"head    {verdict['head']}"]
        return "\n".join(lines) + "\n"
    count = len(findings) + unnamed
    text = f"{screen.paint('broken', 'red')}  {counted(count, 'finding')} in {size}\n"
    columns = [
        Column("SEQ", [str(finding["seq"]) for finding in findings], right=True),
        Column("WHAT", [finding["kind"] for finding in findings], style="red"),
        Column("WHY", [clean(finding["text"]) for finding in findings]),
    ]
    text += render_table(columns, screen)
    return text + (f"{unnamed} more not listed.\n" if unnamed else "")
