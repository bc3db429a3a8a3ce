"""The whole command line, in click. `main` comes here for all that the fast commands leave over."""

from __future__ import annotations

import click

from tellwire.cli.commands import (
    agents,
    asking,
    audit,
    broker,
    children,
    doctor,
    install,
    links,
    mcp,
    messages,
    peers,
    records,
    scopes,
    session,
    watching,
)
from tellwire.cli.group import Group
from tellwire.version import VERSION

EPILOG = """\
\b
Exit codes:
   0  done                                  69  no broker can be reached
  64  wrong usage, or a malformed field     70  a bug in tellwire
  65  too large, or in conflict             74  storage failed, or nobody reads the output
  68  no such agent or message              75  try again later, or no reply in time
                                            77  not allowed to this caller

\b
Environment:
  TELLWIRE_HOME   where the data is (default: ~/.local/state/tellwire)
  TELLWIRE_...    any setting, see `tellwire settings`
  NO_COLOR       no colour, even on a terminal
  COLUMNS        the width of tables

\b
A first conversation:
  tellwire register bob
  tellwire send bob "Could you look at the parser?" --as alice --wait 10min
  tellwire inbox --as bob                     (in another terminal)
  tellwire send alice "Looks good." --as bob --re ID
"""


@click.group(
    cls=Group,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
@click.version_option(VERSION, prog_name="tellwire")
def cli() -> None:
    """Coding agents that talk to each other.

    Agents and programs have names. You send to a name; the message is on disk when the command returns, it
    reaches the agent exactly once, and you can see how far it got. The broker between them is started by
    itself.

    Who speaks: with `--as NAME` that agent, if it has no client of its own. Without it, beneath an agent,
    that agent; at a terminal you, as `operator`. Every command has `--json`.
    """


cli.add_section("Talk", [messages.send, messages.inbox, messages.broadcast, messages.message_status])
cli.add_section("Conversations", [links.link, watching.watch, links.listen, links.unlisten, links.checkpoint])
cli.add_section(
    "Agents and topics",
    [
        agents.list_agents,
        agents.info,
        session.session,
        agents.register,
        agents.update,
        agents.mute,
        agents.unregister,
        agents.subscribe,
        agents.unsubscribe,
    ],
)
cli.add_section(
    "Peers, scopes and children",
    [
        peers.peer,
        peers.policy_of,
        scopes.claim,
        scopes.release,
        scopes.who_owns,
        scopes.scopes,
        children.spawn,
        children.children,
        children.attach,
        children.stop,
        asking.ask,
    ],
)
cli.add_section("Agent CLIs and other MCP clients", [install.install, install.uninstall, mcp.mcp])
cli.add_section("The record", [records.history, records.search, records.tail, audit.audit, records.purge])
cli.add_section(
    "The broker",
    [broker.up, broker.down, broker.status, doctor.doctor, broker.show_settings, broker.completion],
)
