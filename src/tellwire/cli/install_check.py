"""`tellwire install --check`: what is missing, out of date or too old."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tellwire.cli.install_world import ALL, World, expand, find_clients
from tellwire.cli.render import render_json
from tellwire.cli.screen import Screen, find_screen, write
from tellwire.cli.tables import Column, render_table
from tellwire.cli.texts import clean
from tellwire.clients import BY_NAME
from tellwire.install.check import Report, check
from tellwire.install.plan import shorten

STATE_STYLES = {"installed": "green", "outdated": "yellow", "incomplete": "yellow", "broken": "red"}
EXIT_NOT_FINE = 1


def show_check(world: World, clients: tuple[str, ...], *, as_json: bool) -> int:
    """Show it; 0 if all is in order."""
    words = expand(clients)
    found = find_clients(words)
    reports: list[Report] = []
    for word in words:
        client = BY_NAME[word]
        state = check(client, client.targets(world.place, world.programs), found[word])
        if ALL in clients and state.state == "absent" and not state.program:
            state = msgspec.structs.replace(state, fine=True)
        reports.append(state)
    fine = all(report.fine for report in reports)
    if as_json:
        write(render_json({"fine": fine, "clients": msgspec.to_builtins(reports)}))
    else:
        write(_render_reports(reports, world.place.home, find_screen()))
    return 0 if fine else EXIT_NOT_FINE


def _render_reports(reports: Sequence[Report], home: str, screen: Screen) -> str:
    columns = [
        Column("CLIENT", [report.client for report in reports], style="bold"),
        Column("VERSION", [clean(report.version or "-") for report in reports]),
        Column("STATE", [report.state for report in reports], styles=STATE_STYLES),
    ]
    lines: list[str] = []
    for report in reports:
        for file in report.files:
            path = shorten(file.path, home)
            if report.state != "absent" and file.missing:
                lines.append(f"{report.client}: {path} lacks {', '.join(file.missing)}")
            if file.outdated:
                lines.append(f"{report.client}: {path} is out of date in {', '.join(file.outdated)}")
            if file.error:
                lines.append(f"{report.client}: {file.error}")
        lines += [f"{report.client}: {note}" for note in report.notes]
        if report.state in ("absent", "outdated", "incomplete") and report.program:
            lines.append(f"{report.client}: run `tellwire install {report.client}`")
    return render_table(columns, screen) + "".join(f"{clean(line)}\n" for line in lines)
