"""The command that asks a fresh agent one question: ask."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from tellwire.children.programs import STARTABLE
from tellwire.cli.commands.messages import body_of
from tellwire.cli.documents import document
from tellwire.cli.options import ClientWord, Duration, as_option, json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, LINE_WIPED, find_screen, write
from tellwire.cli.speaking import Speaker, speak
from tellwire.protocol.operations.asking import Answered
from tellwire.system.tasks import alongside
from tellwire.views.words import clean_lines

BEAT_S = 1.0


@click.command("ask")
@click.argument("client", type=ClientWord(STARTABLE))
@click.argument("question", required=False)
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option("--timeout", type=Duration(), help="How long it may take (default 5min).")
@click.option(
    "--cwd",
    type=click.Path(file_okay=False),
    default="",
    help="Its working folder (default: the current one).",
)
@as_option
@json_option
def ask(
    client: str,
    question: str | None,
    command: tuple[str, ...],
    *,
    speaker: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Ask a fresh agent one question, and print its answer.

    An agent of that CLI is started, without a window, for this question alone. It may read files but not
    write them. It ends when it has answered, or when you press Ctrl-C, and leaves nothing behind. The
    question is read from stdin if it is `-`, or left out in a pipe. If no answer comes, the exit code is 75
    and the agent's own output is shown.

    \b
    Examples:
      tellwire ask codex "Which test covers the parser's error path?"
      git diff | tellwire ask claude - --timeout 10min
      tellwire ask command "how many?" -- sh -c 'ls | wc -l'
    """
    text = body_of(question)
    live = find_screen(ERR).person and not as_json

    async def work(me: Speaker) -> Answered:
        asking = me.children.ask(
            client, text, cwd=options["cwd"], command=command, timeout_s=options["timeout"]
        )
        with alongside(asking) as asked:  # on Ctrl-C it must hear of it before we hang up
            await _show(asked, client, live=live)
            return await asked

    answer = speak(speaker, work)
    write(render_json(document(answer)) if as_json else "\n".join([*clean_lines(answer.text), ""]))
    return 0


async def _show(asked: asyncio.Future[Answered], client: str, *, live: bool) -> None:
    """Tell a person at a terminal that it is at work."""
    began = time.monotonic()
    while not asked.done():
        await asyncio.wait({asked}, timeout=BEAT_S)
        if live and not asked.done():
            write(f"{LINE_WIPED}{client} is working: {time.monotonic() - began:.0f} s", ERR)
    if live:
        write(LINE_WIPED, ERR)
