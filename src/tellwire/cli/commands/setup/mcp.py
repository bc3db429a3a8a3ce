"""`tellwire mcp`: the command that MCP clients start. It checks its options, then executes the shim."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tellwire.install.endpoint import load_endpoint
from tellwire.paths import home_path
from tellwire.protocol.addresses import parse_name
from tellwire.protocol.relay import ALL, CORE, DIALECT_NAMES

PACKAGE = Path(__file__).parents[3]
SHIM = str(PACKAGE / "relay" / "mcp_shim.py")


def shim_command(**options: str | None) -> list[str]:
    """The command line of a shim; an interpreter without its site packages starts in a third of the time."""
    words = [f"--{name}={value}" for name, value in options.items() if value]
    return [sys.executable, "-I", "-S", SHIM, *words]


@click.command()
@click.option("--name", metavar="NAME", help="The agent's name (default: from the folder and the client).")
@click.option(
    "--dialect",
    type=click.Choice(sorted(DIALECT_NAMES)),
    default="tellwire",
    help="Which set of tool names to offer.",
)
@click.option("--tools", type=click.Choice([CORE, ALL]), default=CORE, help="Offer the core tools, or all.")
@click.option("--home", metavar="DIR", help="The broker's home, for clients that drop the environment.")
@click.option("--plugin", is_flag=True, hidden=True)
def mcp(*, name: str | None, dialect: str, tools: str, home: str | None, plugin: bool) -> None:
    """Run an MCP server on stdin and stdout.

    This is for the configuration of an MCP client, not for use by hand. It starts the broker if none is
    running. The session is an agent for as long as the client keeps it open.

    \b
    Example of a client's configuration:
      {"mcpServers": {"tellwire": {"command": "tellwire", "args": ["mcp"]}}}

    \b
    Try it with the MCP inspector:
      npx @modelcontextprotocol/inspector --cli tellwire mcp --method tools/list
    """
    if name is not None:
        parse_name(name)
    if plugin:  # from a market: nobody ran `install`, which chooses where plugins find the broker
        load_endpoint(home_path(os.environ, home))
    command = shim_command(
        name=name,
        dialect=dialect if dialect != "tellwire" else None,
        tools=tools if tools != CORE else None,
        home=home,
    )
    os.execv(command[0], command)
