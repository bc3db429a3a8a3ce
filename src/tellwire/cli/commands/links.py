"""Commands on links and listeners: link, watch, listen, unlisten, checkpoint."""

from __future__ import annotations

import time
from typing import Any

import click
from click.shell_completion import CompletionItem

from tellwire.cli.commands.messages import body_of, send_words
from tellwire.cli.documents import document, facts
from tellwire.cli.options import as_option, complete_names, json_option
from tellwire.cli.plain import command_for
from tellwire.cli.render import format_age, render_json, render_messages
from tellwire.cli.screen import Screen, find_screen, write
from tellwire.cli.speaking import Speaker, ask, speak
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.addresses import LINK, parse_link
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.links import (
    AddMember,
    CloseLink,
    LeaveLink,
    LinkHistory,
    LinkList,
    LinkRecord,
    ListLinks,
    OpenLink,
    ResumeLink,
)
from tellwire.protocol.operations.listeners import Listen, Listening, MarkCheckpoint, Unlisten
from tellwire.views.words import clean

SHOWN = 20


def complete_links(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The links there are, with or without the word for them."""
    prefix = LINK if incomplete.startswith(LINK) else ""
    try:
        known = [f"{prefix}{each.id}" for each in ask(ListLinks(), autostart=False).links]
    except TellwireError:
        return []
    return [CompletionItem(each) for each in known if each.startswith(incomplete)]


link_argument = click.argument("link_id", metavar="LINK", shell_complete=complete_links)


def _show(record: LinkRecord, *, as_json: bool) -> int:
    screen = find_screen()
    write(
        render_json(document(record))
        if as_json
        else render_link(facts(record), now=time.time(), screen=screen)
    )
    return 0


def _list(reply: LinkList, *, as_json: bool) -> int:
    links = [facts(each) for each in reply.links]
    write(
        render_json(document(reply))
        if as_json
        else render_links(links, now=time.time(), screen=find_screen(), hidden=reply.hidden)
    )
    return 0


def _done(reply: Done, text: str, *, as_json: bool) -> int:
    write(render_json(document(reply)) if as_json else f"{text}\n")
    return 0


@click.group("link", invoke_without_command=True)
@json_option
@click.pass_context
def link(ctx: click.Context, *, as_json: bool) -> int:
    """Manage conversations shared by agents.

    Without a command it lists the open links. A member's final answer in each turn goes to all others. A
    link pauses when its turns are used up, or when they add nothing new. `link say` or `link resume`
    continues it.

    \b
    Examples:
      tellwire link open alice bob --role bob=critic
      tellwire link say l4f2k "Please look at the tests as well."
      tellwire link show l4f2k
      tellwire link close l4f2k --message "Thank you all."
    """
    return 0 if ctx.invoked_subcommand else _list(ask(ListLinks()), as_json=as_json)


@link.command("open")
@click.argument("members", nargs=-1, required=True, shell_complete=complete_names)
@click.option("--role", "roles", multiple=True, metavar="NAME=ROLE", help="A member's role; repeatable.")
@click.option(
    "--share",
    type=click.Choice(("all", "link")),
    default="all",
    help="Which of the opener's turns are shared.",
)
@json_option
def open_(members: tuple[str, ...], roles: tuple[str, ...], share: Any, *, as_json: bool) -> int:
    """Open a link between agents; between two it is their direct link.

    An agent that opens a link is a member of it without being named.
    """
    words = {name: role for name, _, role in (each.partition("=") for each in roles)}
    if not all(words.values()):
        raise click.UsageError("A role is given as NAME=ROLE.")
    return _show(ask(OpenLink(members=list(members), roles=words, share=share)), as_json=as_json)


@link.command("close")
@click.argument("link_id", metavar="LINK", required=False, shell_complete=complete_links)
@click.option(
    "--peer", metavar="NAME", shell_complete=complete_names, help="Close the direct link with this agent."
)
@click.option("--message", help="A last message, delivered before it closes.")
@json_option
def close(link_id: str | None, peer: str | None, message: str | None, *, as_json: bool) -> int:
    """Close a link for all its members."""
    operation = CloseLink(link=link_id, peer=peer, message=message)
    if message is None:
        return _show(ask(operation), as_json=as_json)

    async def work(me: Speaker) -> LinkRecord:
        return await me.call(operation)

    return _show(speak(None, work), as_json=as_json)


@link.command("list")
@click.option("--all", "everything", is_flag=True, help="Include closed links.")
@click.option("--agent", metavar="NAME", shell_complete=complete_names, help="Only links of this agent.")
@json_option
def list_(agent: str | None, *, everything: bool, as_json: bool) -> int:
    """List links."""
    return _list(ask(ListLinks(all=everything, agent=agent)), as_json=as_json)


@link.command("show")
@link_argument
@click.option(
    "--limit", type=click.IntRange(0, 200), default=SHOWN, help=f"Show the last N messages (default {SHOWN})."
)
@json_option
def show(link_id: str, limit: int, *, as_json: bool) -> int:
    """Show a link, its members and its last messages."""
    found = ask(ListLinks(link=link_id)).links
    if not found:
        raise TellwireError("unknown_link", f"You are not a member of {link_id!r}.")
    messages = ask(LinkHistory(link=link_id, limit=limit)).messages if limit else []
    if as_json:
        said = [document(each) for each in reversed(messages)]
        write(render_json({**document(found[0]), "messages": said}))
        return 0
    _show(found[0], as_json=False)
    if messages:
        shown = [facts(each) for each in reversed(messages)]
        write("\n" + render_messages(shown, now=time.time(), screen=find_screen()))
    return 0


@link.command("say")
@link_argument
@click.argument("body", required=False)
@as_option
@json_option
def say(link_id: str, body: str | None, **options: Any) -> int:
    """Send a message to a link: as the operator, or as a member.

    The operator's message resets the count of turns and resumes a paused link.
    """
    words = {"re": None, "mode": None, "kind": None, "ttl": None, "wait": None, "confirm": False, "key": None}
    return send_words(f"{LINK}{parse_link(link_id)}", body_of(body), {**words, **options})


@link.command("resume")
@link_argument
@json_option
def resume(link_id: str, *, as_json: bool) -> int:
    """Resume a paused link."""
    return _show(ask(ResumeLink(link=link_id)), as_json=as_json)


@link.command("leave")
@link_argument
@click.argument("name", required=False, shell_complete=complete_names)
@json_option
def leave(link_id: str, name: str | None, *, as_json: bool) -> int:
    """Remove a member from a link; an agent leaves by itself."""
    return _done(ask(LeaveLink(link=link_id, name=name)), "Left.", as_json=as_json)


@link.command("add")
@link_argument
@click.argument("name", shell_complete=complete_names)
@click.option("--role", default="", help="Its role in the link.")
@json_option
def add(link_id: str, name: str, role: str, *, as_json: bool) -> int:
    """Add an agent to a link."""
    return _show(ask(AddMember(link=link_id, name=name, role=role)), as_json=as_json)


# -- listeners ----------------------------------------------------------------------------------------


LISTEN_HELP = """Be notified each time an agent finishes a turn.

You are also notified if it fails, waits for its human, ends, or is overdue. The notices go to your inbox,
or to that of the agent you act as.

\b
Examples:
  tellwire listen worker
  tellwire listen worker --as ci
"""
UNLISTEN_HELP = """Stop listening to an agent.

\b
Example:
  tellwire unlisten worker
"""


def _show_listening(reply: Listening) -> None:
    write(f"Listening to: {', '.join(reply.agents) or 'nobody'}.\n")


listen = command_for(Listen, "listen", help=LISTEN_HELP, show=_show_listening)
unlisten = command_for(Unlisten, "unlisten", help=UNLISTEN_HELP, show=_show_listening)


@click.command()
@click.argument("name", shell_complete=complete_names)
@json_option
def checkpoint(name: str, *, as_json: bool) -> int:
    """Keep an agent's next turn private.

    Its answer is not sent to any link or listener, and does not count as a turn of a link.

    \b
    Example:
      tellwire checkpoint worker && tellwire send worker "Save your notes."
    """
    return _done(ask(MarkCheckpoint(name=name)), f"The next turn of {name} will be private.", as_json=as_json)


# -- tables -------------------------------------------------------------------------------------------

STYLES = {"active": "green", "paused": "yellow", "closed": "dim", "in": "green", "left": "dim"}


def render_links(links: list[dict[str, Any]], *, now: float, screen: Screen, hidden: int = 0) -> str:
    """One line for each link."""
    if not links:
        return "No links.\n"
    columns = [
        Column("LINK", [link["id"] for link in links], style="bold"),
        Column("STATUS", [link["status"] for link in links], styles=STYLES),
        Column("TURNS", [f"{link.get('turns', 0)}/{link.get('turns_max', 0)}" for link in links], right=True),
        Column("SAID", [str(link.get("said", 0)) for link in links], right=True, rank=2),
        Column("OPENED", [format_age(now - link["opened_at"]) for link in links], rank=1, style="dim"),
        Column("MEMBERS", [_members(link) for link in links]),
    ]
    more = (
        screen.paint(f"{hidden} older links are not shown; use --agent NAME", "dim") + "\n" if hidden else ""
    )
    return render_table(columns, screen) + more


def _members(link: dict[str, Any]) -> str:
    closed = link["status"] == "closed"
    here = [member for member in link.get("members", []) if closed or not member.get("left_at")]
    return ", ".join(clean(member["name"]) for member in here)


def render_link(link: dict[str, Any], *, now: float, screen: Screen) -> str:
    """One link: its state, and its present and former members."""
    status = screen.paint(link["status"], STYLES[link["status"]])
    reason = f" ({clean(link['reason'])})" if link.get("reason") else ""
    made = f", {link['made']}" if link.get("made") else ""
    kind = "direct, " if link.get("direct") else ""
    counts = f"{link.get('said', 0)} said, {link.get('turns', 0)} of {link.get('turns_max', 0)} turns used"
    head = f"{screen.paint('link:' + link['id'], 'bold')}  {status}{reason}{made}  {kind}{counts}\n"
    members = link.get("members", [])
    columns = [
        Column("NO", [str(member["number"]) for member in members], right=True),
        Column("NAME", [clean(member["name"]) for member in members], style="bold"),
        Column("HERE", ["left" if member.get("left_at") else "in" for member in members], styles=STYLES),
        Column("SHARES", [member.get("share", "all") for member in members], rank=2),
        Column("JOINED", [format_age(now - member["joined_at"]) for member in members], rank=1, style="dim"),
        Column("ROLE", [clean(member.get("role", "")) for member in members]),
    ]
    return head + render_table(columns, screen)
