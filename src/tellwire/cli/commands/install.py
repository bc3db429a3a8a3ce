"""`tellwire install` and `tellwire uninstall`: tellwire in the clients' settings, shown before it is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from tellwire.cli.local.world import ALL, World, expand, find_clients, find_world
from tellwire.cli.options import ClientWord, json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.cli.tables import Column, render_table
from tellwire.clients import BY_NAME, CLIENTS, NAMES
from tellwire.clients.client import Client, Scope
from tellwire.install import launcher
from tellwire.install.apply import carry_out
from tellwire.install.check import Report, check
from tellwire.install.client_program import InstalledClient, complaint, is_too_old, prepare
from tellwire.install.files import refused
from tellwire.install.former import load_former_records
from tellwire.install.plan import Change, plan_install, plan_uninstall, render_diff, shorten
from tellwire.install.records import load_records
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.views.words import clean

F = TypeVar("F", bound=Callable[..., Any])
DIFF_STYLES = {"+": "green", "-": "red", "@": "dim"}
TRIES = 3
CHOICES = {**{each.name: each.kind for each in CLIENTS}, ALL: ALL}
"""What can be named, and the other word for it."""
LAUNCHED = ("planned", "unchanged")
"""Clients that start the launcher afterwards."""
PLUGIN_FOLDERS = [each.name for each in CLIENTS if each.plugin_notes]
"""Clients that take tellwire as a plugin folder."""

INSTALL_HELP = f"""Add tellwire to the configuration of agent CLIs.

CLIENT is {NAMES}, or all: those found on this machine. It adds the MCP server,
permission to use its tools, and the hooks that deliver mail during a turn. It leaves everything else as it
is. You see a diff of every file first. A backup of each file is kept next to it until you uninstall.

With --check the exit code is 0 if everything is in order, otherwise 1.

\b
Examples:
  tellwire install {CLIENTS[0].name}
  tellwire install all --yes
  tellwire install {CLIENTS[1].name} --dry-run
  tellwire install {PLUGIN_FOLDERS[0]} --plugin ~/tellwire-plugin
  tellwire install --check
"""


class Outcome(msgspec.Struct, kw_only=True):
    """What came of one client."""

    client: str
    status: str = "unchanged"
    """`unchanged`, `planned`, `installed`, `removed`, `skipped` or `failed`."""
    version: str = ""
    program: str = ""
    plan: Callable[[], list[Change]] | None = None
    changes: list[Change] = []
    notes: list[str] = []
    error: TellwireError | None = None


def shared_options(function: F) -> F:
    """The options of both commands."""
    for option in (
        json_option,
        click.option(
            "--plugin",
            metavar="DIR",
            type=click.Path(file_okay=False, resolve_path=True),
            help=f"Write a plugin folder instead, for `--plugin-dir` ({', '.join(PLUGIN_FOLDERS)} only).",
        ),
        click.option("--dry-run", is_flag=True, help="Show what would change, but change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--user", "scope", flag_value="user", default=True, help="For your user (default)."),
        click.option("--project", "scope", flag_value="project", help="For this folder only."),
        click.argument("clients", nargs=-1, type=ClientWord(CHOICES), metavar="CLIENT..."),
    ):
        function = option(function)
    return function


@click.command(help=INSTALL_HELP)
@shared_options
@click.option("--check", "checking", is_flag=True, help="Only report what is missing, outdated or too old.")
def install(
    *,
    clients: tuple[str, ...],
    scope: Scope,
    yes: bool,
    dry_run: bool,
    checking: bool,
    plugin: str | None,
    as_json: bool,
) -> int:
    """Add tellwire to the configuration of agent CLIs."""
    world = find_world(scope, fixed=dry_run or checking, plugin=_plugin(plugin, clients))
    if checking:
        return show_check(world, clients or (ALL,), as_json=as_json)
    outcomes = _plan_installs(world, _named(clients))
    return _go_on(world, outcomes, verb="installed", yes=yes, dry_run=dry_run, as_json=as_json)


@click.command()
@shared_options
def uninstall(
    *,
    clients: tuple[str, ...],
    scope: Scope,
    yes: bool,
    dry_run: bool,
    plugin: str | None,
    as_json: bool,
) -> int:
    """Remove tellwire from the configuration of agent CLIs.

    A file that has not been changed since is restored byte for byte; from any other file only tellwire's
    entries are removed. Messages and the broker are not touched.

    \b
    Examples:
      tellwire uninstall claude
      tellwire uninstall all --yes
      tellwire uninstall gemini --project
    """
    world = find_world(scope, fixed=True, plugin=_plugin(plugin, clients))
    outcomes = _plan_uninstalls(world, _named(clients))
    return _go_on(world, outcomes, verb="removed", yes=yes, dry_run=dry_run, as_json=as_json)


def _plugin(folder: str | None, clients: tuple[str, ...]) -> str:
    if folder and clients not in [(word,) for word in PLUGIN_FOLDERS]:
        raise click.UsageError(f"--plugin works only with {' or '.join(PLUGIN_FOLDERS)}, on its own.")
    return folder or ""


def _named(clients: tuple[str, ...]) -> tuple[str, ...]:
    if not clients:
        raise click.UsageError(f"Name a client: {NAMES} or {ALL}.")
    return clients


# -- planning -----------------------------------------------------------------------------------------


def _plan_installs(world: World, clients: tuple[str, ...]) -> list[Outcome]:
    words = expand(clients)
    found = find_clients(words)
    outcomes: list[Outcome] = []
    for word in words:
        outcome = Outcome(client=word)
        outcomes.append(outcome)
        if ALL in clients and not _is_here(world, BY_NAME[word], found[word]):
            outcome.status, outcome.notes = "skipped", ["Not found on this machine."]
        else:
            _try(outcome, lambda word=word, outcome=outcome: _plan_one(world, outcome, found.get(word)))
    if all(outcome.status == "skipped" for outcome in outcomes):
        raise TellwireError(
            "bad_request",
            "No agent CLI was found on this machine.",
            f"Install one first, or name it: `tellwire install {CLIENTS[0].name}`.",
        )
    return outcomes


def _plan_one(world: World, outcome: Outcome, found: InstalledClient | None) -> None:
    client = BY_NAME[outcome.client]
    assert found is not None
    outcome.version, outcome.program = found.version, found.program
    if is_too_old(client, found):
        raise TellwireError("wrong_version", complaint(client, found), f"Upgrade {client.title} first.")
    targets = client.targets(world.place, world.programs)
    home = str(world.settings.home)
    former = load_former_records(world.place.env)
    outcome.plan = lambda: plan_install(client, world.place, targets, load_records(home), former)
    outcome.changes = outcome.plan()
    if outcome.changes:
        outcome.status = "planned"
        outcome.notes = [*client.hints]
        if world.place.plugin:
            outcome.notes = [note.replace("{folder}", world.place.plugin) for note in client.plugin_notes]
    if not found.version:
        unknown = complaint(client, found) if found.program else f"`{client.program}` is not on the PATH."
        outcome.notes = [*outcome.notes, unknown]


def _plan_uninstalls(world: World, clients: tuple[str, ...]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for word in expand(clients):
        outcome = Outcome(client=word)
        outcomes.append(outcome)
        _try(outcome, lambda outcome=outcome: _plan_removal(world, outcome))
    return outcomes


def _plan_removal(world: World, outcome: Outcome) -> None:
    client = BY_NAME[outcome.client]
    targets = client.targets(world.place, world.programs)
    home = str(world.settings.home)
    former = load_former_records(world.place.env)
    outcome.plan = lambda: plan_uninstall(client, targets, load_records(home), former)
    outcome.changes = outcome.plan()
    if outcome.changes:
        outcome.status = "planned"


def _is_here(world: World, client: Client, found: InstalledClient) -> bool:
    paths = [target.path for target in client.targets(world.place, world.programs)]
    return bool(found.program) or any(os.path.exists(path) for path in paths)


def _try(outcome: Outcome, step: Callable[[], None]) -> None:
    """One client's trouble is not another one's."""
    try:
        step()
    except TellwireError as error:
        outcome.status, outcome.error, outcome.changes = "failed", error, []


# -- doing --------------------------------------------------------------------------------------------


def _go_on(
    world: World, outcomes: list[Outcome], *, verb: str, yes: bool, dry_run: bool, as_json: bool
) -> int:
    planned = [outcome for outcome in outcomes if outcome.status == "planned"]
    if not as_json:
        _show_diffs(world, planned)
    if planned and not dry_run and not yes:
        _ask(sum(len(outcome.changes) for outcome in planned), as_json=as_json)
    if verb == "installed" and not dry_run and any(each.status in LAUNCHED for each in outcomes):
        _write_launcher(world)
    if planned and not dry_run:
        for outcome in planned:
            outcome.status = verb
            _try(outcome, lambda outcome=outcome: _carry_out(world, outcome, again=yes))
            if outcome.status == "installed":
                _prepare(world, outcome)
        if verb == "removed" and not load_records(str(world.settings.home)).files:
            launcher.remove(str(world.settings.home))
    if as_json:
        write(render_json({"clients": [_document(world, outcome) for outcome in outcomes]}))
    else:
        _tell(world, outcomes)
    failed = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    return 0 if failed is None else ERRORS[failed.code].exit


def _write_launcher(world: World) -> None:
    home = str(world.settings.home)
    try:
        launcher.write(home)
    except OSError as error:
        raise refused(home, error) from error


def _carry_out(world: World, outcome: Outcome, *, again: bool) -> None:
    """Apply the plan; if a file has changed meanwhile and no confirmation is needed, plan again."""
    for left in reversed(range(TRIES)):
        try:
            carry_out(outcome.changes, str(world.settings.home))
        except TellwireError as error:
            if error.code != "conflict" or not again or not left or outcome.plan is None:
                raise
            outcome.changes = outcome.plan()
        else:
            return


def _prepare(world: World, outcome: Outcome) -> None:
    client = BY_NAME[outcome.client]
    if not client.prepare or not outcome.program:
        return
    if find_screen(ERR).person:
        write(f"{client.title} is preparing for its first plugin; this may take a minute.\n", ERR)
    note = prepare(client, outcome.program, world.place.env, world.place.project)
    if note:
        outcome.notes = [*outcome.notes, note]


def _ask(count: int, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise TellwireError(
            "confirmation_needed",
            "Cannot ask for confirmation without a terminal.",
            "To go ahead, add `--yes`.",
        )
    files = "this file" if count == 1 else f"these {count} files"
    click.confirm(f"Change {files}?", abort=True, err=True)


def _show_diffs(world: World, planned: Sequence[Outcome]) -> None:
    screen = find_screen()
    for outcome in planned:
        for change in outcome.changes:
            for line in render_diff(change, home=world.place.home).splitlines():
                style = DIFF_STYLES.get(line[:1], "")
                write((screen.paint(clean(line), style) if style else clean(line)) + "\n")


def _tell(world: World, outcomes: Sequence[Outcome]) -> None:
    screen = find_screen()
    for outcome in outcomes:
        if outcome.error is not None:
            head = find_screen(ERR).paint(f"{outcome.client}:", "red")
            write(f"{head} {clean(outcome.error.message)}\n  {clean(outcome.error.advice)}\n", ERR)
            continue
        words = {
            "unchanged": "nothing to do",
            "skipped": "skipped",
            "removed": _removed(world, outcome),
            "planned": f"would change {_paths(world, outcome.changes)}",
        }.get(outcome.status, f"{outcome.status}: {_paths(world, outcome.changes)}")
        notes = "".join(f"\n  {clean(note)}" for note in outcome.notes)
        write(f"{screen.paint(outcome.client, 'bold')}: {clean(words)}{notes}\n")
    if any(outcome.status == "installed" for outcome in outcomes):
        write("Restart running sessions to pick it up.\n")


def _paths(world: World, changes: Sequence[Change]) -> str:
    return ", ".join(shorten(change.path, world.place.home) for change in changes)


def _removed(world: World, outcome: Outcome) -> str:
    """What taking tellwire out did: to files that stay, and to those that were tellwire's alone."""
    deleted = [change for change in outcome.changes if _kind(change) == "remove"]
    edited = [change for change in outcome.changes if _kind(change) == "edit"]
    words = [f"removed tellwire's entries from {_paths(world, edited)}"] if edited else []
    words += [f"deleted {_paths(world, deleted)}"] if deleted else []
    return "; ".join(words) or "nothing to do"


def _kind(change: Change) -> str:
    if change.seen.data == change.after:
        return "none"
    if change.seen.data is None:
        return "create"
    return "remove" if change.after is None else "edit"


def _document(world: World, outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    facts: dict[str, Any] = {
        "client": outcome.client,
        "status": outcome.status,
        "version": outcome.version,
        "notes": outcome.notes,
        "files": [
            {
                "path": change.path,
                "change": _kind(change),
                "backup": change.backup,
                "diff": render_diff(change, home=world.place.home),
            }
            for change in outcome.changes
        ],
    }
    if error is not None:
        facts["error"] = {"code": error.code, "message": error.message, "advice": error.advice}
    return facts


# -- install --check ----------------------------------------------------------------------------------

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
