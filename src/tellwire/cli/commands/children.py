"""Commands on children: spawn, stop, children; and going to the terminal of any agent."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from tellwire.children.process import attach_words, name_in
from tellwire.children.programs import STARTABLE
from tellwire.cli.documents import document
from tellwire.cli.options import ClientWord, as_option, complete_names, json_option
from tellwire.cli.plain import command_for
from tellwire.cli.render import format_age, render_json
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import Speaker, ask, ask_as, speak
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.agents import GetAgent
from tellwire.protocol.operations.children import (
    ChildRecord,
    Children,
    EndedRecord,
    ListChildren,
    StopAgent,
)
from tellwire.protocol.operations.feed import Overview
from tellwire.settings import load_settings
from tellwire.system.panes import ObstacleError, find_pane, go_words
from tellwire.views.words import clean

NO_TASK = "There is no task yet. End your turn; you are woken when a message comes."
ENDED_MAX = 10
"""Ended children shown in one listing."""


@click.command("spawn")
@click.argument("name")
@click.argument("client", type=ClientWord(STARTABLE))
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option("--task", default=NO_TASK, help="What it should do; delivered as a message.")
@click.option(
    "--scope",
    multiple=True,
    metavar="PATH",
    type=click.Path(),
    help="A path that only it may write to, with everything below; repeatable.",
)
@click.option(
    "--cwd",
    type=click.Path(file_okay=False),
    default="",
    help="Its working folder (default: the current one).",
)
@click.option("--headless", is_flag=True, help="Run it without a tmux window.")
@click.option("--quiet-turns", is_flag=True, help="Notify the parent only when it ends, not after each turn.")
@as_option
@json_option
def spawn(
    name: str, client: str, command: tuple[str, ...], *, speaker: str | None, as_json: bool, **options: Any
) -> int:
    """Start an agent as a child: an agent CLI, or any command.

    It runs in its own tmux window (see `tellwire go NAME`), or without one. Once it is up it gets its
    task as a message, and its answers come back as messages. If it fails to start, its output is shown.
    What follows -- is the program to run, or more arguments for the agent CLI.

    \b
    Examples:
      tellwire spawn helper claude
      tellwire spawn tester codex --task "Fix the tests." --scope tests
      tellwire spawn reviewer claude --task "Review it." -- --model opus
      tellwire spawn worker command --task "count" --headless -- ./worker.sh
    """

    async def work(me: Speaker) -> ChildRecord:
        return await me.children.spawn(
            name,
            client,
            options["task"],
            scope=options["scope"] or None,
            cwd=options["cwd"],
            command=command,
            listen=not options["quiet_turns"],
            headless=options["headless"],
        )

    record = speak(speaker, work)
    up = f"is up: {clean(record.place)}" if record.status != "ended" else "started, and has already ended."
    write(render_json(document(record)) if as_json else f"{record.name} {up}\n")
    return 0


STOP_HELP = """Stop a child.

It is asked to end, and killed after five seconds.

\b
Examples:
  tellwire stop tester
  tellwire stop tester --as alice
"""


def _show_stopped(record: ChildRecord) -> None:
    write(f"{record.name} is being stopped.\n")


stop = command_for(StopAgent, "stop", help=STOP_HELP, show=_show_stopped)


@click.command("go")
@click.argument("name", shell_complete=complete_names)
@json_option
def go(name: str, *, as_json: bool) -> int:
    """Go to an agent's terminal, to look or to type.

    Opens its tmux pane: in this terminal, or if you are in the same tmux, by switching to it. Leave with
    Ctrl-B D; the agent keeps running. With --json, print the command that opens it. `attach` is the same.

    \b
    Examples:
      tellwire go bob
      tellwire go tester --json
    """
    words = place_words(name)
    if as_json:
        write(render_json({"command": words}))
        return 0
    return os.execvp(words[0], words)


def place_words(name: str) -> list[str]:
    """The command that shows an agent's terminal.

    Raises:
        TellwireError: there is no such agent, or it has no terminal that can be shown.
    """
    return _child_window(name) or _pane(name)


def _child_window(name: str) -> list[str]:
    """The command that shows the window of a running child; none if it is no child."""
    found = [each for each in ask(ListChildren()).children if each.name.lower() == name.lower()]
    if not found:
        return []
    window = name_in(found[0].place)
    if not window:
        raise TellwireError("conflict", f"{name!r} has no window.", f"Its output is in {found[0].place}.")
    return attach_words(load_settings().home / "children", window)


def _pane(name: str) -> list[str]:
    """The command that shows the tmux pane of any other agent."""
    agent = ask(GetAgent(name=name))
    page = ask(Overview(after=_before(agent.id), limit=1))
    row = page.rows.agents.get(agent.id)
    terminal = f"It runs in {agent.terminal}. " if agent.terminal else ""
    if row is None or not row.online:
        raise TellwireError("conflict", f"{agent.name!r} is offline.", "")
    try:
        return go_words(find_pane(row.process), os.environ.get("TMUX", ""))
    except ObstacleError as error:
        advice = f"{terminal}Only panes of tmux can be opened from here."
        raise TellwireError("conflict", f"{agent.name!r}: {error.reason}.", advice) from error


def _before(agent_id: str) -> str:
    """The id behind which a page of the overview begins with this agent."""
    seq = parse_id("a", agent_id) or 1
    return format_id("a", seq - 1)


@click.command("children")
@as_option
@json_option
def children(speaker: str | None, *, as_json: bool) -> int:
    """List agents that were started by other agents.

    An agent, or --as NAME, sees its own children and their children; the operator sees all.

    \b
    Examples:
      tellwire children
      tellwire children --json | jq -r '.children[].name'
    """
    reply: Children = ask_as(speaker, ListChildren())
    if as_json:
        write(render_json(document(reply)))
        return 0
    rows, now = reply.children, time.time()
    if not rows:
        write("No children are running.\n" if reply.ended else "No agent has started a child.\n")
        _write_ended(reply.ended, now)
        return 0
    columns = [
        Column("NAME", [each.name for each in rows], style="bold"),
        Column("PARENT", [each.parent for each in rows]),
        Column("STATUS", [each.status for each in rows]),
        Column("KIND", [clean(each.kind) for each in rows], rank=2),
        Column("SINCE", [format_age(now - each.since) for each in rows], rank=3, style="dim"),
        Column("PLACE", [clean(each.place) for each in rows], rank=1),
        Column("HELD", [each.enforced for each in rows], rank=4),
        Column("SCOPE", [clean(", ".join(map(str, each.rules))) for each in rows]),
    ]
    write(render_table(columns, find_screen()))
    _write_ended(reply.ended, now)
    return 0


def _write_ended(ended: list[EndedRecord], now: float) -> None:
    """List recently ended children and how they ended."""
    for each in ended[:ENDED_MAX]:
        how = {"asked": "was stopped", "killed": "was killed"}.get(each.how, "has ended")
        whose = f" of {each.parent}" if each.parent else ""
        said = f"; its last answer is {each.result}" if each.result else ""
        write(f"{each.name} ({clean(each.kind)}{whose}) {how}, {format_age(now - each.at)}{said}.\n")
