"""The command that looks into an agent's session."""

from __future__ import annotations

import time

import click

from tellwire.cli.documents import document
from tellwire.cli.options import Moment, complete_names, json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.speaking import ask
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.views.words import clean, clean_lines

TAIL_MAX = 24_000
WHERE = {"transcript": "from its client's transcript", "terminal": "from its terminal"}


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option(
    "--tail", type=click.IntRange(1, TAIL_MAX), default=4_000, help="Show at most N characters, from the end."
)
@click.option("--since", type=Moment(), default=0.0, help="Only since then: 10min, 2h, or a date.")
@json_option
def session(*, name: str, tail: int, since: float, as_json: bool) -> int:
    """Show an agent's session.

    Its prompts, its answers and its tool calls, as Markdown from its client's transcript; or else what its
    terminal shows. Reasoning and tool results are left out.

    \b
    Examples:
      tellwire session backend
      tellwire session backend --since 10min --tail 20000
    """
    reply = ask(GetSessionData(agent=name, since=since, tail=tail))
    if as_json:
        write(render_json(document(reply)))
        return 0
    if not find_screen().person:
        write((reply.text or reply.note) + "\n")
        return 0
    write(find_screen(ERR).paint(clean(_about(reply)), "dim") + "\n\n", ERR)
    write("\n".join([*clean_lines(reply.text or reply.note), ""]))
    return 0


def _about(reply: SessionData) -> str:
    state = reply.activity or reply.status
    words = [f"{reply.agent} ({reply.kind}, {state})"]
    if reply.source in WHERE:
        words.append(WHERE[reply.source])
    if reply.last_at:
        words.append(time.strftime("last at %H:%M:%S", time.localtime(reply.last_at)))
    if reply.cut:
        words.append("for more use --tail or --since")
    return ", ".join(words)
