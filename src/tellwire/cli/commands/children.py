"""Commands on children: spawn, stop, attach, children."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from tellwire.children.process import attach_words, name_in
from tellwire.children.programs import STARTABLE
from tellwire.cli.documents import document
from tellwire.cli.group import performs
from tellwire.cli.options import as_option, complete_names, json_option
from tellwire.cli.render import format_age, render_json
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import Speaker, ask, ask_as, speak
from tellwire.cli.tables import Column, render_table
from tellwire.cli.texts import clean
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.children import (
    ChildRecord,
    Children,
    EndedRecord,
    ListChildren,
    SpawnAgent,
    StopAgent,
)
from tellwire.settings import load_settings

ENDED_MAX = 10
"""Ended children shown in one listing."""


@click.command("spawn")
@click.argument("name")
@click.argument("client", type=click.Choice(STARTABLE))
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option("--task", required=True, help="What it should do; delivered as a message.")
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
@performs(SpawnAgent)
def spawn(
    name: str, client: str, command: tuple[str, ...], *, speaker: str | None, as_json: bool, **options: Any
) -> int:
    """Start an agent as a child: an agent CLI, or any command.

    It runs in its own tmux window (see `tellwire attach NAME`), or without one. Once it is up it gets its
    task as a message, and its answers come back as messages. If it fails to start, its output is shown.
    What follows -- is the program to run, or more arguments for the agent CLI.

    \b
    Examples:
      tellwire spawn tester codex --task "Run the tests and fix what fails." --scope tests
      tellwire spawn reviewer claude-code --task "Review the diff." -- --model opus
      tellwire spawn worker command --task "count" --headless -- ./worker.sh --fast
    """

    async def work(me: Speaker) -> ChildRecord:
        return await me.spawn(
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


@click.command("stop")
@click.argument("name", shell_complete=complete_names)
@as_option
@json_option
@performs(StopAgent)
def stop(name: str, speaker: str | None, *, as_json: bool) -> int:
    """Stop a child.

    It is asked to end, and killed after five seconds.

    \b
    Examples:
      tellwire stop tester
      tellwire stop tester --as alice
    """
    record: ChildRecord = ask_as(speaker, StopAgent(name=name))
    write(render_json(document(record)) if as_json else f"{record.name} is being stopped.\n")
    return 0


@click.command("attach")
@click.argument("name", shell_complete=complete_names)
@json_option
@performs(ListChildren)
def attach(name: str, *, as_json: bool) -> int:
    """Open a child's tmux window, to look or to type.

    Leave it with Ctrl-B D; the child keeps running. With --json, print the command that opens it.

    \b
    Example:
      tellwire attach tester
    """
    found = [each for each in ask(ListChildren()).children if each.name.lower() == name.lower()]
    if not found:
        raise TellwireError(
            "unknown_agent", f"No child named {name!r} is running.", "List them with `tellwire children`."
        )
    window = name_in(found[0].place)
    if not window:
        raise TellwireError("conflict", f"{name!r} has no window.", f"Its output is in {found[0].place}.")
    words = attach_words(load_settings().home / "children", window)
    if as_json:
        write(render_json({"command": words}))
        return 0
    return os.execvp(words[0], words)


@click.command("children")
@as_option
@json_option
@performs(ListChildren)
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
