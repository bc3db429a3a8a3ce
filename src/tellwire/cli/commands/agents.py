"""Commands on agents and topics: register, update, mute, unregister, list, info, session, subscribe."""

from __future__ import annotations

import time

import click

from tellwire.cli.documents import document, facts
from tellwire.cli.options import Duration, Moment, as_option, complete_names, json_option
from tellwire.cli.plain import command_for
from tellwire.cli.render import counted, format_duration, render_agent, render_agents, render_json
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.shapes import whole_agents
from tellwire.cli.speaking import Speaker, ask, ask_as, speak
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import (
    AgentRecord,
    GetAgent,
    ListAgents,
    MuteAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.protocol.operations.topics import ListTopics, Subscribe, Topics, Unsubscribe
from tellwire.views.words import clean, clean_lines


@click.command()
@click.argument("name")
@click.option(
    "--capability", "capabilities", multiple=True, metavar="WORD", help="Something it can do; repeatable."
)
@json_option
def register(name: str, capabilities: tuple[str, ...], *, as_json: bool) -> int:
    """Register an agent, so that others can send to it.

    It gets a mailbox, and is shown as offline while no command acts as it. Registering again is harmless and
    updates its capabilities. The name of an agent with a running client is refused.

    \b
    Examples:
      tellwire register bob --capability review --capability python
      tellwire inbox --as bob --wait 10min
    """

    async def work(me: Speaker) -> tuple[AgentRecord, bool]:
        if me.attached:
            raise TellwireError(
                "conflict", f"{me.name} is already registered: it is the agent that runs this command.", ""
            )
        return await me.peer(me.name), me.resumed

    agent, known = speak(name, work, capabilities=capabilities if capabilities else None)
    if as_json:
        write(render_json({**document(agent), "resumed": known}))
        return 0
    write(f"{agent.name} was already registered.\n" if known else f"{agent.name} is registered.\n")
    if agent.pending:
        write(f"{counted(agent.pending, 'message')} unread: tellwire inbox --as {agent.name}\n")
    return 0


@click.command()
@click.argument("agent", required=False, shell_complete=complete_names)
@as_option
@click.option("--name", metavar="NEW", help="A new name; the mailbox is kept.")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="WORD",
    help="Replaces its capabilities; repeatable.",
)
@json_option
def update(
    agent: str | None, speaker: str | None, name: str | None, capabilities: tuple[str, ...], *, as_json: bool
) -> int:
    """Change an agent's name or capabilities.

    The operator may change any agent. If the new name belongs to an agent that is offline, the agent takes
    over that name and its mail.

    \b
    Examples:
      tellwire update --as bob --name robert
      tellwire update --as bob --capability review
      tellwire update shop-claude-2 --name shop-claude
    """
    if name is None and not capabilities:
        raise click.UsageError("Nothing to change: give --name or --capability.")
    words = list(capabilities) if capabilities else None
    if agent is not None:
        return _show_agent(ask(UpdateAgent(agent=agent, name=name, capabilities=words)), as_json=as_json)

    async def work(me: Speaker) -> AgentRecord:
        return await me.update(name=name, capabilities=words)

    return _show_agent(speak(speaker, work), as_json=as_json)


@click.command()
@click.argument("name", required=False, shell_complete=complete_names)
@click.option(
    "--for", "for_s", type=Duration(), metavar="TIME", help="How long: 90s, 15min, 2h (default: until --off)."
)
@click.option("--off", is_flag=True, help="Unmute it.")
@json_option
def mute(name: str | None, for_s: float | None, *, off: bool, as_json: bool) -> int:
    """Do not wake an agent.

    Its mail waits for its next turn, and senders are told so. The operator may mute any agent. An agent may
    mute itself; it leaves NAME out.

    \b
    Examples:
      tellwire mute bob --for 1h
      tellwire mute bob --off
    """
    agent = ask(MuteAgent(name=name, for_s=for_s, off=off))
    if as_json:
        write(render_json(document(agent)))
        return 0
    length = "" if for_s is None else f" for {format_duration(for_s)}"
    write(
        f"{agent.name} is {'no longer muted' if off else f'muted{length}: mail waits for its next turn'}.\n"
    )
    return 0


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--forget", is_flag=True, help="Free its name too; its unread mail is lost.")
@json_option
def unregister(name: str, *, forget: bool, as_json: bool) -> int:
    """Remove an agent (operator only).

    Its mailbox is kept in case it comes back. With --forget its name and mail are deleted as well, and the
    senders of unread messages are notified.

    \b
    Examples:
      tellwire unregister bob
      tellwire unregister old-agent --forget
    """
    done = ask(UnregisterAgent(name=name, forget=forget))
    write(render_json(document(done)) if as_json else f"{name} {'is forgotten' if forget else 'has left'}.\n")
    return 0


@click.command("list")
@click.option("--all", "everyone", is_flag=True, help="Include agents that are offline or in other projects.")
@click.option("--capability", metavar="WORD", help="Only agents with this capability.")
@click.option("--watch", is_flag=True, help="Show all agents and what they do, as it changes, until Ctrl-C.")
@json_option
def list_agents(*, everyone: bool, capability: str | None, watch: bool, as_json: bool) -> int:
    """List agents.

    Shows the agents that are online in this project, without yourself. WAITING counts unread messages. With
    --watch, the agents of all projects in a fixed order, with what needs you: at a terminal the screen is
    drawn again when something changes; in a pipe there is a line for each agent that changed.

    \b
    Examples:
      tellwire list
      tellwire list --all --capability review
      tellwire list --watch
      tellwire list --json | jq -r '.agents[].name'
    """
    if watch:
        if capability is not None:
            raise click.UsageError("--watch and --capability cannot be combined.")
        # Imported here for start-up speed: a listing that ends at once does not need it.
        from tellwire.cli.commands.watching import watch_agents  # noqa: PLC0415

        return watch_agents(everyone=everyone, as_json=as_json)
    reply = facts(ask(ListAgents(all=everyone, capability=capability)))
    if as_json:
        write(render_json(whole_agents(reply)))
    else:
        write(render_agents(reply, now=time.time(), screen=find_screen()))
    return 0


def _show_agent(agent: AgentRecord, *, as_json: bool) -> int:
    if as_json:
        write(render_json(document(agent)))
    else:
        _show_info(agent)
    return 0


def _show_info(agent: AgentRecord) -> None:
    write(render_agent(facts(agent), now=time.time(), screen=find_screen()))


INFO_HELP = """Show everything about one agent.

\b
Examples:
  tellwire info bob
  tellwire info bob --json | jq .pending
"""
info = command_for(GetAgent, "info", help=INFO_HELP, show=_show_info)


# -- topics -------------------------------------------------------------------------------------------


def _show_topics(reply: Topics) -> None:
    write(f"Subscribed to {', '.join(reply.topics)}.\n" if reply.topics else "Subscribed to no topics.\n")


SUBSCRIBE_HELP = """Subscribe to a topic, also while offline.

\b
Examples:
  tellwire subscribe "#builds" --as bob
  tellwire send "#builds" "main is green" --as ci
"""
UNSUBSCRIBE_HELP = """Unsubscribe from a topic; waiting messages are kept.

\b
Example:
  tellwire unsubscribe "#builds" --as bob
"""

subscribe = command_for(Subscribe, "subscribe", help=SUBSCRIBE_HELP, show=_show_topics)
unsubscribe = command_for(Unsubscribe, "unsubscribe", help=UNSUBSCRIBE_HELP, show=_show_topics)


@click.command("topics")
@as_option
@json_option
def list_topics(speaker: str | None, *, as_json: bool) -> int:
    """List topics and who is subscribed to them.

    \b
    Examples:
      tellwire topics
      tellwire topics --json | jq -r '.topics[].topic'
    """
    reply = ask_as(speaker, ListTopics())
    if as_json:
        write(render_json(document(reply)))
    elif not reply.topics:
        write("Nobody is subscribed to any topic.\n")
    else:
        columns = [
            Column("TOPIC", [clean(each.topic) for each in reply.topics], style="bold"),
            Column("SUBSCRIBERS", [clean(", ".join(each.subscribers)) for each in reply.topics]),
        ]
        write(render_table(columns, find_screen()))
    return 0


# -- its session ---------------------------------------------------------------------------------------

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
