"""`tellwire mcp`: what an MCP client starts. It checks its words and becomes the shim."""

from __future__ import annotations

import os

import click

from tellwire.cli.local.shim import shim_command
from tellwire.protocol.addresses import parse_name
from tellwire.protocol.relay import ALL, CORE, DIALECT_NAMES


@click.command()
@click.option("--name", metavar="NAME", help="The agent's name (default: from the folder and the client).")
@click.option(
    "--dialect",
    type=click.Choice(sorted(DIALECT_NAMES)),
    default="tellwire",
    help="Which set of tool names to speak.",
)
@click.option(
    "--tools", type=click.Choice([CORE, ALL]), default=CORE, help="The small set of tools, or all of them."
)
@click.option("--home", metavar="DIR", help="The broker's home, for clients that pass no environment on.")
def mcp(*, name: str | None, dialect: str, tools: str, home: str | None) -> None:
    """Be an MCP server on stdin and stdout.

    This is for an MCP client's configuration, not for typing. The broker is started if none runs; the session
    is an agent on it as long as the client keeps it open.

    \b
    Example of a client's configuration:
      {"mcpServers": {"tellwire": {"command": "tellwire", "args": ["mcp"]}}}

    \b
    Look at it with the MCP inspector:
      npx @modelcontextprotocol/inspector --cli tellwire mcp --method tools/list
    """
    if name is not None:
        parse_name(name)
    command = shim_command(
        name=name,
        dialect=dialect if dialect != "tellwire" else None,
        tools=tools if tools != CORE else None,
        home=home,
    )
    os.execv(command[0], command)
