"""Commands about tellwire itself: help, version, upgrade."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, cast

import click
from click.shell_completion import CompletionItem

from tellwire.cli.commands.broker import find_program, replace_broker
from tellwire.cli.group import WHOLE
from tellwire.cli.local.holder import reach_broker
from tellwire.cli.local.manpage import render_page, render_program_page
from tellwire.cli.options import json_option
from tellwire.cli.render import counted, render_json, render_pairs
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import ask
from tellwire.cli.table import ALIASES, all_rows, all_sections
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus
from tellwire.protocol.suggestions import nearest
from tellwire.settings import Settings, load_settings
from tellwire.version import VERSION

PACKAGE = "tellwire"
BACK_S = 15.0
"""How long sessions may take to reconnect to a new broker."""
POLL_S = 0.1
LOSES_NOTHING = "Nothing is lost: messages are on disk. Open agent sessions need no restart; they reconnect."


# -- help ---------------------------------------------------------------------------------------------


def complete_commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Commands, then the subcommands of the one that was named."""
    root = ctx.find_root().command
    group = root
    for word in cast("tuple[str, ...]", ctx.params.get("words") or ()):
        group = _inner(group).get(word, group)
    if group is root:
        rows = all_rows().values()
        return [CompletionItem(row.name, help=row.help) for row in rows if row.name.startswith(incomplete)]
    return [CompletionItem(name) for name in _inner(group) if name.startswith(incomplete)]


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_commands)
@click.option("--all", "whole", is_flag=True, help="Explain every command in a line, and the exit codes.")
@click.option("--man", is_flag=True, help="Print it as a man page.")
@json_option
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...], *, whole: bool, man: bool, as_json: bool) -> int:
    """Explain tellwire, or one command.

    \b
    Examples:
      tellwire help
      tellwire help send
      tellwire help --all
      tellwire help send --man | man -l -
      tellwire help --json | jq -r '.commands[].name'
    """
    root = ctx.find_root()
    command, info = find_command(root, words)
    if as_json:
        write(render_json(_document(words, command)))
    elif man and words:
        write(render_page(words, command, version=VERSION))
    elif man:
        write(render_program_page(cast("click.Group", command), all_sections(), version=VERSION))
    else:
        root.meta[WHOLE] = whole
        write(info.get_help() + "\n")
    return 0


def find_command(root: click.Context, words: Sequence[str]) -> tuple[click.Command, click.Context]:
    """The command that some words name, with a context that knows what it is called.

    Raises:
        TellwireError: `bad_request`: there is none.
    """
    command, ctx = root.command, root
    for word in words:
        known = _inner(command)
        if word not in known:
            near = nearest(word, known)
            advice = f"Did you mean {' or '.join(near)}?" if near else "List them with `tellwire help --all`."
            raise TellwireError("bad_request", f"There is no command {' '.join(words)!r}.", advice)
        command = known[ALIASES.get(word, word) if command is root.command else word]
        ctx = command.make_context(command.name, [], parent=ctx, resilient_parsing=True)
    return command, ctx


def _inner(command: click.Command) -> Mapping[str, click.Command]:
    return command.commands if isinstance(command, click.Group) else {}


def _document(words: Sequence[str], command: click.Command) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": " ".join(("tellwire", *words)), "help": command.help or ""}
    if not words:
        titles = {row.name: title for title, rows in all_sections().items() for row in rows}
        rows = all_rows().values()
        facts["commands"] = [
            {"name": row.name, "help": row.help, "section": titles[row.name]} for row in rows
        ]
        facts["aliases"] = dict(ALIASES)
        return facts
    if isinstance(command, click.Group):
        inner = _inner(command).items()
        facts["commands"] = [{"name": name, "help": each.get_short_help_str(200)} for name, each in inner]
    facts["options"] = [
        {"names": [*each.opts, *each.secondary_opts], "help": each.help or ""}
        for each in command.params
        if isinstance(each, click.Option)
    ]
    return facts


# -- version ------------------------------------------------------------------------------------------


@click.command()
@json_option
def version(*, as_json: bool) -> int:
    """Show the versions of tellwire and the broker.

    It starts no broker.

    \b
    Examples:
      tellwire version
      tellwire version --json | jq -r .version
    """
    settings = load_settings()
    broker = _running(settings)
    facts = {
        "version": VERSION,
        "broker": None if broker is None else broker.version,
        "python": platform.python_version(),
        "program": os.path.abspath(find_program() or sys.argv[0]),
        "home": str(settings.home),
    }
    if as_json:
        write(render_json(facts))
        return 0
    running = "not running" if broker is None else f"{broker.version}, pid {broker.pid}"
    rows = [
        ("tellwire", VERSION),
        ("broker", running),
        ("python", facts["python"] or ""),
        ("program", facts["program"] or ""),
        ("home", facts["home"] or ""),
    ]
    write(render_pairs(rows, find_screen()))
    if broker is not None and broker.version != VERSION:
        write("The broker is of another version: run `tellwire upgrade --restart`.\n")
    return 0


def _running(settings: Settings) -> BrokerState | None:
    try:
        return reach_broker(settings)
    except TellwireError:
        return None


# -- upgrade ------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """How tellwire was installed, and what upgrades it."""

    how: str
    """`clone`, `uv`, `pipx`, `pip` or `file`."""
    words: str
    command: str


@click.command()
@click.option("--restart", is_flag=True, help="Replace the running broker by this version now.")
@json_option
def upgrade(*, restart: bool, as_json: bool) -> int:
    """Say how to upgrade, and restart the broker.

    It finds out how tellwire was installed, and prints the command that upgrades it; it downloads nothing
    itself. After that command, --restart replaces the running broker by the new version, waits until the open
    sessions are back, and shows that agents and messages are still there.

    \b
    Examples:
      tellwire upgrade
      tellwire upgrade --restart
      tellwire upgrade --json | jq -r .command
    """
    settings = load_settings()
    way = find_way()
    before = _running(settings)
    after = before
    if restart:
        after = _restart(settings, before)
    fine = not restart or before is None or after is None or _is_whole(before, after)
    if as_json:
        told = {
            "version": VERSION,
            "how": way.how,
            "command": way.command,
            "broker": None if before is None else before.version,
            "restarted": restart,
            "before": _counts(before),
            "after": _counts(after),
        }
        write(render_json(told))
    elif restart:
        _tell_restart(before, after)
    else:
        _tell_way(way, before)
    return 0 if fine else ERRORS["timeout"].exit


def find_way() -> Way:
    """How this tellwire was installed, by where it is and what its installer noted."""
    noted = _direct_url()
    url = str(noted.get("url", ""))
    source = Path(url.removeprefix("file://")) if url.startswith("file://") else None
    if cast("dict[str, Any]", noted.get("dir_info") or {}).get("editable") and source is not None:
        command = f"cd {shlex.quote(str(source))} && git pull && make setup"
        return Way("clone", f"from the clone {source}", command)
    parts = Path(sys.prefix).parts
    if "pipx" in parts and "venvs" in parts:
        return Way("pipx", "by pipx", f"pipx upgrade {PACKAGE}")
    if "uv" in parts and "tools" in parts:
        return Way("uv", "by uv", f"uv tool upgrade {PACKAGE}")
    pip = f"{shlex.quote(sys.executable)} -m pip install --upgrade"
    if source is not None:
        return Way("file", f"by pip, from {source}", f"{pip} NEW-FILE")
    return Way("pip", "by pip", f"{pip} {PACKAGE}")


def _direct_url() -> dict[str, Any]:
    """What the installer noted of where the package came from."""
    try:
        return json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}


def _tell_way(way: Way, broker: BrokerState | None) -> None:
    write(f"tellwire {VERSION} was installed {way.words}. To upgrade it:\n  {way.command}\n")
    write("  tellwire upgrade --restart\n")
    write(f"{LOSES_NOTHING}\n")
    if broker is None:
        write("No broker is running; the next command or session starts the new one.\n")
    elif broker.version != VERSION:
        write(f"The running broker is still {broker.version}: run `tellwire upgrade --restart`.\n")
    else:
        write(f"The running broker is {broker.version}, with {_words(broker)}.\n")


def _restart(settings: Settings, before: BrokerState | None) -> BrokerState | None:
    """Replace the broker, and wait for the sessions that were connected."""
    if before is None:
        return None
    replace_broker(settings)
    deadline = time.monotonic() + BACK_S
    while True:
        after = ask(BrokerStatus(), settings=settings)
        if _is_whole(before, after) or time.monotonic() > deadline:
            return after
        time.sleep(POLL_S)


def _is_whole(before: BrokerState, after: BrokerState) -> bool:
    """Whether everybody is back; mail may have come or been read meanwhile, so it is shown, not judged."""
    return after.online >= before.online and after.agents >= before.agents


def _tell_restart(before: BrokerState | None, after: BrokerState | None) -> None:
    if before is None or after is None:
        write("No broker was running; the next command or session starts it.\n")
        return
    write(f"before  {before.version}, pid {before.pid}: {_words(before)}\n")
    write(f"after   {after.version}, pid {after.pid}: {_words(after)}\n")
    if _is_whole(before, after):
        write("Every session is back.\n")
    else:
        write("Not every session is back yet. See `tellwire list --all` and `tellwire doctor`.\n")


def _words(state: BrokerState) -> str:
    unread = counted(state.pending, "unread message")
    return f"{counted(state.agents, 'agent')} known, {state.online} online, {unread}"


def _counts(state: BrokerState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "version": state.version,
        "agents": state.agents,
        "online": state.online,
        "pending": state.pending,
    }
