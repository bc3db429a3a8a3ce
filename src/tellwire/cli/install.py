"""`tellwire install` and `tellwire uninstall`: tellwire in the clients' settings, shown before it is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from tellwire.cli.install_check import show_check
from tellwire.cli.install_world import ALL, World, expand, find_clients, find_world
from tellwire.cli.options import json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.texts import clean
from tellwire.integrations.install.carrying_out import carry_out
from tellwire.integrations.install.clients import CLIENTS, UNSUPPORTED, WORDS, client_named
from tellwire.integrations.install.plan import Change, plan_install, plan_uninstall, render_diff, shorten
from tellwire.integrations.install.preparing import prepare
from tellwire.integrations.install.records import load_records
from tellwire.integrations.install.spec import ClientSpec, Scope
from tellwire.integrations.install.versions import Found, complaint, is_too_old
from tellwire.protocol.errors import ERRORS, TellwireError

F = TypeVar("F", bound=Callable[..., Any])

DIFF_STYLES = {"+": "green", "-": "red", "@": "dim"}
TRIES = 3


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
            help="Of claude: a plugin folder, for `claude --plugin-dir DIR`.",
        ),
        click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--user", "scope", flag_value="user", default=True, help="For you (default)."),
        click.option("--project", "scope", flag_value="project", help="For this folder only."),
        click.argument("clients", nargs=-1, type=click.Choice([*WORDS, ALL]), metavar="CLIENT..."),
    ):
        function = option(function)
    return function


@click.command()
@shared_options
@click.option("--check", "checking", is_flag=True, help="Only tell what is missing, out of date or too old.")
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
    """Put tellwire into the configuration of agent CLIs.

    CLIENT is claude, codex, gemini, opencode, pi, or all: those that are found on this machine. It adds the
    MCP server, permission for its tools and the hooks that bring mail into a turn, and leaves everything else
    as it is. You see a diff of every file first. A copy of each file stays beside it until you uninstall.

    --check exits with 0 if all is in order, else with 1.

    \b
    Examples:
      tellwire install claude
      tellwire install all --yes
      tellwire install codex --dry-run
      tellwire install claude --plugin ~/tellwire-plugin
      tellwire install --check
    """
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
    """Take tellwire out of the configuration of agent CLIs.

    A file that nobody else has changed is restored byte for byte; from any other one exactly tellwire's
    entries are taken. Messages and the broker are not touched.

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
    if folder and clients != ("claude",):
        raise click.UsageError("--plugin is for claude alone.")
    return folder or ""


def _named(clients: tuple[str, ...]) -> tuple[str, ...]:
    if not clients:
        raise click.UsageError(f"Say which client: {', '.join(WORDS)} or {ALL}.")
    return clients


# -- planning -----------------------------------------------------------------------------------------


def _plan_installs(world: World, clients: tuple[str, ...]) -> list[Outcome]:
    words = expand(clients)
    found = find_clients(words)
    outcomes: list[Outcome] = []
    for word in words:
        outcome = Outcome(client=word)
        outcomes.append(outcome)
        if word in UNSUPPORTED and ALL in clients:
            outcome.status, outcome.notes = "skipped", [UNSUPPORTED[word]]
        elif ALL in clients and not _is_here(world, CLIENTS[word], found[word]):
            outcome.status, outcome.notes = "skipped", ["Not found on this machine."]
        else:
            _try(outcome, lambda word=word, outcome=outcome: _plan_one(world, outcome, found.get(word)))
    if all(outcome.status == "skipped" for outcome in outcomes):
        raise TellwireError(
            "bad_request", "No agent CLI was found on this machine.", "Name one: `tellwire install claude`."
        )
    return outcomes


def _plan_one(world: World, outcome: Outcome, found: Found | None) -> None:
    client = client_named(outcome.client)
    assert found is not None
    outcome.version, outcome.program = found.version, found.program
    if is_too_old(client, found):
        raise TellwireError("wrong_version", complaint(client, found), f"Upgrade {client.title} first.")
    targets = client.targets(world.place, world.programs)
    home = str(world.settings.home)
    outcome.plan = lambda: plan_install(client, world.place, targets, load_records(home))
    outcome.changes = outcome.plan()
    if outcome.changes:
        outcome.status = "planned"
        outcome.notes = [*client.hints]
        if world.place.plugin:
            outcome.notes = [
                f"Start it with `claude --plugin-dir {world.place.plugin}`.",
                'It asks once for each tool, unless your settings allow "mcp__plugin_tellwire_tellwire__*".',
            ]
    if not found.version:
        unknown = complaint(client, found) if found.program else f"`{client.program}` is not on the PATH."
        outcome.notes = [*outcome.notes, unknown]


def _plan_uninstalls(world: World, clients: tuple[str, ...]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for word in expand(clients):
        if word in UNSUPPORTED and ALL in clients:
            continue
        outcome = Outcome(client=word)
        outcomes.append(outcome)
        _try(outcome, lambda outcome=outcome: _plan_removal(world, outcome))
    return outcomes


def _plan_removal(world: World, outcome: Outcome) -> None:
    client = client_named(outcome.client)
    targets = client.targets(world.place, world.programs)
    home = str(world.settings.home)
    outcome.plan = lambda: plan_uninstall(client, targets, load_records(home))
    outcome.changes = outcome.plan()
    if outcome.changes:
        outcome.status = "planned"


def _is_here(world: World, client: ClientSpec, found: Found) -> bool:
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
    if planned and not dry_run:
        if not yes:
            _ask(sum(len(outcome.changes) for outcome in planned), as_json=as_json)
        for outcome in planned:
            outcome.status = verb
            _try(outcome, lambda outcome=outcome: _carry_out(world, outcome, again=yes))
            if outcome.status == "installed":
                _prepare(world, outcome)
    if as_json:
        write(render_json({"clients": [_document(world, outcome) for outcome in outcomes]}))
    else:
        _tell(world, outcomes)
    failed = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    return 0 if failed is None else ERRORS[failed.code].exit


def _carry_out(world: World, outcome: Outcome, *, again: bool) -> None:
    """Do it; if a file was changed in the meantime, and nobody wants to see what is done, plan it anew."""
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
    client = client_named(outcome.client)
    if not client.prepare or not outcome.program:
        return
    if find_screen(ERR).person:
        write(f"{client.title} gets ready for its first plugin; this may take a minute.\n", ERR)
    note = prepare(client, outcome.program, world.place.env, world.place.project)
    if note:
        outcome.notes = [*outcome.notes, note]


def _ask(count: int, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise TellwireError("confirmation_needed", "Nobody can be asked here.", "Add `--yes`.")
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
