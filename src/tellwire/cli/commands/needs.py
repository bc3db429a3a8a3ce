"""Commands for the person who runs all this: what waits for you, in full or in one line, and answering it."""

from __future__ import annotations

import time
from typing import Any

import click
from click.shell_completion import CompletionItem

from tellwire.cli.documents import document, facts
from tellwire.cli.options import json_option
from tellwire.cli.refusals import tell_unsent
from tellwire.cli.render import (
    format_age,
    needs_somebody,
    render_glance,
    render_json,
    render_message,
    render_sent,
    render_tmux,
)
from tellwire.cli.screen import Screen, find_screen, write
from tellwire.cli.shapes import whole_sent
from tellwire.cli.speaking import ask, ask_all, ask_once, overview_of
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.feed import OverviewPage
from tellwire.protocol.operations.needs import AnswerMessage, Glance, ListNeeds, Need, Needs
from tellwire.sdk.broker_client import BrokerClient
from tellwire.views import attention as views
from tellwire.views.attention import attention
from tellwire.views.model import snapshot
from tellwire.views.words import clean, wrap

NOTHING = "Nothing waits for you.\n"
MAIL = frozenset({"question", "message", "full"})
"""Kinds of needs that are told with their whole text."""
OTHER_FIELDS = ("kind", "who", "text", "since", "place", "agent", "id")
COMMANDS = {
    "answer": "",
    "read": "tellwire inbox",
    "go": "tellwire go {who}",
    "why": "tellwire info {who}",
    "inside": "tellwire session {who}",
    "unmute": "tellwire mute {who} --off",
    "resume": "tellwire link resume {id}",
    "scopes": "tellwire scopes",
    "doctor": "tellwire doctor {who}",
    "hide": "",
}
"""What to type for the first thing that can be done about a need."""
TMUX_DOWN = "tellwire is not running\n"


@click.command()
@click.option("--limit", default=50, help="Show at most N (default 50).", metavar="N")
@json_option
def needs(*, limit: int, as_json: bool) -> int:
    """Show what needs you, and what to do about it.

    First questions and messages to you, the oldest first, each with the command that answers it. Then what
    else needs somebody: clients that wait for their human, children that did not come up, failed turns,
    mail that cannot be delivered, paused links, expired messages, refused writes. A question with choices
    stays until it is answered; any other message until you have read it with `tellwire inbox`. This command
    only looks.

    \b
    Examples:
      tellwire needs
      tellwire needs --json | jq -r '.needs[].id'
      tellwire needs --json | jq -r '.others[] | .kind + " " + .who'
    """

    async def work(client: BrokerClient) -> tuple[Needs, list[OverviewPage]]:
        return await client.call(ListNeeds(limit=limit)), await overview_of(client)

    reply, pages = ask_all(work)
    others = [each for each in attention(snapshot(*pages), pages[0].at) if each.kind not in MAIL]
    if as_json:
        write(render_json({**document(reply), "others": [_document(need) for need in others]}))
    else:
        write(render_needs(reply, others, now=time.time(), screen=find_screen()))
    return 0


def _document(need: views.Need) -> dict[str, Any]:
    found = need._asdict()
    return {**{name: found[name] for name in OTHER_FIELDS}, "actions": list(need.actions)}


@click.command()
@click.option("--tmux", is_flag=True, help="For tmux's status line: signs, numbers, its own colours.")
@json_option
def glance(*, tmux: bool, as_json: bool) -> int:
    """Show in one line whether anything needs you.

    For prompts and status bars: it is quick, marks nothing as read and starts no broker. The exit code is
    0 if nothing needs you, and 1 if a message waits for you, a client waits for its human, or an agent
    failed. With --tmux: ⚑ messages for you, ◐ agents that wait for you, ✕ failed, ● busy, ○ idle.

    \b
    Examples:
      tellwire glance
      tellwire glance --json | jq .needs
      tmux set -g status-right '#(tellwire glance --tmux)'
    """
    if tmux and as_json:
        raise click.UsageError("--tmux and --json cannot be combined.")
    try:
        counts = ask(Glance(), autostart=False)
    except TellwireError as error:
        if tmux and error.code == "unreachable":
            write(TMUX_DOWN)  # a status line shows nothing of stderr
        raise
    if as_json:
        write(render_json(document(counts)))
    else:
        write((render_tmux if tmux else render_glance)(facts(counts)))
    return int(needs_somebody(facts(counts)))


def render_needs(reply: Needs, others: list[views.Need], *, now: float, screen: Screen) -> str:
    """Each need with its text, its choices and what to do."""
    blocks = [_block(need, now, screen) for need in reply.needs]
    blocks += [_other_block(need, now, screen) for need in others]
    if reply.more:
        blocks.append(f"{reply.more} more behind these: tellwire needs --limit 200\n")
    if reply.full:
        names = ", ".join(map(clean, reply.full))
        blocks.append(f"Refused until you have read some: what else these send you: {names}\n")
    return "\n".join(blocks) or NOTHING


def _block(need: Need, now: float, screen: Screen) -> str:
    message = {"id": need.id, "from": need.who, "to": OPERATOR, "body": need.body, "at": need.at}
    lines = [render_message(message, now=now, screen=screen).rstrip("\n")]
    if need.choices:
        lines += wrap([f"choices: {', '.join(map(clean, need.choices))}"], indent="  ", width=screen.width)
    lines.append("  " + screen.paint(_command(need), "dim"))
    return "\n".join(lines) + "\n"


def _other_block(need: views.Need, now: float, screen: Screen) -> str:
    age = f", {format_age(now - need.since)}" if need.since else ""
    place = f" (in {need.place})" if need.place else ""
    lines = wrap([f"{need.who}: {need.text}{place}{age}"], indent="", width=screen.width)
    command = COMMANDS[need.actions[0]].format(who=need.who, id=need.id)
    if command:
        lines.append("  " + screen.paint(command, "dim"))
    return "\n".join(lines) + "\n"


def _command(need: Need) -> str:
    """The exact words to type."""
    if not need.answerable:
        return "tellwire inbox"
    return f"tellwire answer {need.id} {_quoted(need.choices[0]) if need.choices else 'TEXT'}"


def _quoted(word: str) -> str:
    shown = clean(word)
    return shown if shown.isalnum() else "'" + shown.replace("'", "'\\''") + "'"


def complete_needs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of what waits, then the choices of the one that was named; none if no broker runs."""
    try:
        waiting = ask(ListNeeds(limit=200), autostart=False).needs
    except TellwireError:
        return []
    if param.name == "message_id":
        found = [CompletionItem(need.id, help=clean(need.who)) for need in waiting if need.answerable]
    else:
        named: Any = ctx.params.get("message_id")
        found = [CompletionItem(word) for need in waiting if need.id == named for word in need.choices]
    return [item for item in found if str(item.value).casefold().startswith(incomplete.casefold())]


@click.command()
@click.argument("message_id", metavar="ID", shell_complete=complete_needs)
@click.argument("words", metavar="TEXT", nargs=-1, required=True, shell_complete=complete_needs)
@click.option("--key", help="Request id: a repeat with the same one is harmless.")
@json_option
def answer(message_id: str, words: tuple[str, ...], *, key: str | None, as_json: bool) -> int:
    """Answer a message that an agent sent you.

    ID is that of `tellwire needs`. If the message offers choices, TEXT must be one of them; in any case it
    reaches the agent as a message with `re`. A message that is answered already, or has expired, is not
    answered again: you are told by what and when. For you at a terminal only.

    \b
    Examples:
      tellwire answer m4f2k yes
      tellwire answer m4f2k "Use the second layout."
    """
    sent = ask_once(lambda fresh: AnswerMessage(id=message_id, body=" ".join(words), key=key or fresh))
    if not sent.id:
        return tell_unsent(facts(sent), as_json=as_json)
    if as_json:
        write(render_json(whole_sent(facts(sent))))
    else:
        write(render_sent(facts(sent), "the agent", screen=find_screen()))
    return 0
