"""`tellwire install` and `tellwire uninstall`: tellwire in the clients' settings, shown before it is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from tellwire.cli.local.render_install import (
    Fetch,
    Item,
    change_kind,
    render_diffs,
    render_sizes,
    render_summary,
)
from tellwire.cli.local.world import ALL, World, expand, find_clients, find_world
from tellwire.cli.options import ClientWord, json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.cli.tables import Column, render_table
from tellwire.clients import BY_NAME, CLIENTS, NAMES
from tellwire.clients.client import Client, Scope
from tellwire.install import downloads, launcher
from tellwire.install.apply import carry_out
from tellwire.install.check import Report, check
from tellwire.install.client_program import InstalledClient, complaint, judge, prepare
from tellwire.install.diffs import render_diff, shorten
from tellwire.install.files import refused
from tellwire.install.former import load_former_records
from tellwire.install.plan import Change, plan_install, plan_uninstall
from tellwire.install.records import load_records
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.views.words import clean, seal

F = TypeVar("F", bound=Callable[..., Any])
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
is. You see first which files change, and what else is downloaded; --diff shows every line. A backup of each
file is kept next to it until you uninstall.

With --check the exit code is 0 if everything is in order, otherwise 1.

\b
Examples:
  tellwire install {CLIENTS[0].name}
  tellwire install all --yes
  tellwire install {CLIENTS[1].name} --dry-run --diff
  tellwire install {PLUGIN_FOLDERS[0]} --plugin ~/tellwire-plugin
  tellwire install --check
"""


class Outcome(msgspec.Struct, kw_only=True):
    """The result of installing or removing for one client."""

    client: str
    status: str = "unchanged"
    """`unchanged`, `planned`, `installed`, `removed`, `skipped` or `failed`."""
    version: str = ""
    program: str = ""
    plan: Callable[[], list[Change]] | None = None
    changes: list[Change] = []
    fetches: list[Fetch] = []
    """What the client downloads because of it."""
    leftovers: list[str] = []
    """What it downloaded, and is removed."""
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
        click.option(
            "--diff", "diff", is_flag=True, help="Show every line that changes; secrets are masked."
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
    diff: bool,
    checking: bool,
    plugin: str | None,
    as_json: bool,
) -> int:
    """Add tellwire to the configuration of agent CLIs."""
    world = find_world(scope, fixed=dry_run or checking, plugin=_plugin(plugin, clients))
    if checking:
        return show_check(world, clients or (ALL,), as_json=as_json)
    outcomes = _plan_installs(world, _named(clients))
    wish = Wish(verb="installed", yes=yes, dry_run=dry_run, diff=diff, as_json=as_json)
    return _go_on(world, outcomes, wish)


@click.command()
@shared_options
def uninstall(
    *,
    clients: tuple[str, ...],
    scope: Scope,
    yes: bool,
    dry_run: bool,
    diff: bool,
    plugin: str | None,
    as_json: bool,
) -> int:
    """Remove tellwire from the configuration of agent CLIs.

    A file that has not been changed since is restored byte for byte; from any other file only tellwire's
    entries are removed. What a client downloaded because of tellwire is deleted, unless something else needs
    it. Messages and the broker are not touched.

    \b
    Examples:
      tellwire uninstall claude
      tellwire uninstall all --yes
      tellwire uninstall gemini --project
    """
    world = find_world(scope, fixed=True, plugin=_plugin(plugin, clients))
    outcomes = _plan_uninstalls(world, _named(clients))
    wish = Wish(verb="removed", yes=yes, dry_run=dry_run, diff=diff, as_json=as_json)
    return _go_on(world, outcomes, wish)


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
    judged = judge(client, found)
    if judged.is_refused:
        advice = f"{'Upgrade' if judged.level == 'old' else 'Downgrade'} {client.title} first."
        raise TellwireError("wrong_version", judged.words, advice)
    targets = client.targets(world.place, world.programs)
    home = str(world.settings.home)
    former = load_former_records(world.place.env)
    outcome.plan = lambda: plan_install(client, world.place, targets, load_records(home), former)
    outcome.changes = outcome.plan()
    if outcome.changes:
        outcome.status = "planned"
        outcome.fetches = _fetches(world, client)
        outcome.notes = [*client.hints]
        if world.place.plugin:
            outcome.notes = [note.replace("{folder}", world.place.plugin) for note in client.plugin_notes]
    doubt = complaint(client, found) if found.program else f"`{client.program}` is not on the PATH."
    doubt = doubt or judged.words
    outcome.notes = [*outcome.notes, doubt] if doubt else outcome.notes


def _fetches(world: World, client: Client) -> list[Fetch]:
    return [
        Fetch(each.what, each.size_mb, os.path.dirname(each.package(world.place)))
        for each in downloads.expected(client, world.place)
    ]


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
    outcome.leftovers = downloads.removable(client, world.place, home)
    if outcome.changes or outcome.leftovers:
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


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is to go on once everything is planned."""

    verb: str
    """`installed` or `removed`."""
    yes: bool
    dry_run: bool
    diff: bool
    as_json: bool


def _go_on(world: World, outcomes: list[Outcome], wish: Wish) -> int:
    planned = [outcome for outcome in outcomes if outcome.status == "planned"]
    if not wish.as_json:
        _show_plan(world, planned, diff=wish.diff)
    if planned and not wish.dry_run and not wish.yes:
        _ask(world, planned, as_json=wish.as_json)
    if wish.verb == "installed" and not wish.dry_run and any(each.status in LAUNCHED for each in outcomes):
        _write_launcher(world)
    if planned and not wish.dry_run:
        for outcome in planned:
            outcome.status = wish.verb
            _try(outcome, lambda outcome=outcome: _carry_out(world, outcome, again=wish.yes))
            if outcome.status == "installed":
                _prepare(world, outcome)
        if wish.verb == "removed" and not load_records(str(world.settings.home)).files:
            launcher.remove(str(world.settings.home))
    if wish.as_json:
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
    client, home = BY_NAME[outcome.client], str(world.settings.home)
    if outcome.leftovers:
        downloads.remove(client, world.place, home)
    if outcome.fetches:
        downloads.note(client, world.place, home)
    for left in reversed(range(TRIES)):
        try:
            carry_out(outcome.changes, home)
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
    if find_screen(ERR).person and outcome.fetches:
        write(f"{client.title} is downloading {outcome.fetches[0].what}; this may take a minute.\n", ERR)
    note = prepare(client, outcome.program, world.place.env, world.place.project)
    if note:
        outcome.notes = [*outcome.notes, note]


def _ask(world: World, planned: Sequence[Outcome], *, as_json: bool) -> None:
    """Ask, and show the diff as often as somebody wants to see it.

    Raises:
        TellwireError: there is nobody to ask.
    """
    if as_json or not sys.stdin.isatty():
        raise TellwireError(
            "confirmation_needed",
            "Cannot ask for confirmation without a terminal.",
            "To go ahead, add `--yes`.",
        )
    files = render_sizes(sum(len(each.changes) + len(each.leftovers) for each in planned))
    while True:
        answer = click.prompt(
            f"Change {files}? [y/N, d shows the diff]", default="n", show_default=False, err=True
        )
        if answer.strip().lower() in ("y", "yes"):
            return
        if answer.strip().lower() not in ("d", "diff"):
            raise click.Abort
        click.echo_via_pager(seal(render_diffs(_diffs(world, planned), Screen())), color=False)


def _show_plan(world: World, planned: Sequence[Outcome], *, diff: bool) -> None:
    screen = find_screen()
    items = [
        Item(
            outcome.client,
            outcome.version,
            outcome.changes,
            outcome.fetches,
            outcome.leftovers,
            downloads.size_mb(outcome.leftovers),
        )
        for outcome in planned
    ]
    if items:
        write(render_summary(items, home=world.place.home, screen=screen))
    if diff:
        write(render_diffs(_diffs(world, planned), screen))


def _diffs(world: World, planned: Sequence[Outcome]) -> list[str]:
    return [render_diff(change, home=world.place.home) for outcome in planned for change in outcome.changes]


def _tell(world: World, outcomes: Sequence[Outcome]) -> None:
    screen = find_screen()
    for outcome in outcomes:
        if outcome.error is not None:
            head = find_screen(ERR).paint(f"{outcome.client}:", "red")
            write(f"{head} {clean(outcome.error.message)}\n  {clean(outcome.error.advice)}\n", ERR)
            continue
        changed = _paths(world, [*(change.path for change in outcome.changes), *outcome.leftovers])
        words = {
            "unchanged": "nothing to do",
            "skipped": "skipped",
            "removed": _removed(world, outcome),
            "planned": f"would change {changed}",
        }.get(outcome.status, f"{outcome.status}: {changed}")
        notes = "".join(f"\n  {clean(note)}" for note in outcome.notes)
        write(f"{screen.paint(outcome.client, 'bold')}: {clean(words)}{notes}\n")
    if any(outcome.status == "installed" for outcome in outcomes):
        write("Restart running sessions to pick it up.\n")


def _paths(world: World, paths: Sequence[str]) -> str:
    return ", ".join(shorten(path, world.place.home) for path in paths)


def _removed(world: World, outcome: Outcome) -> str:
    """What taking tellwire out did: to files that stay, and to those that were tellwire's alone."""
    deleted = [change.path for change in outcome.changes if change_kind(change) == "remove"]
    edited = [change.path for change in outcome.changes if change_kind(change) == "edit"]
    deleted += outcome.leftovers
    words = [f"removed tellwire's entries from {_paths(world, edited)}"] if edited else []
    words += [f"deleted {_paths(world, deleted)}"] if deleted else []
    return "; ".join(words) or "nothing to do"


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
                "change": change_kind(change),
                "backup": change.backup,
                "diff": render_diff(change, home=world.place.home),
            }
            for change in outcome.changes
        ],
        "downloads": [fetch._asdict() for fetch in outcome.fetches],
        "removes": outcome.leftovers,
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
