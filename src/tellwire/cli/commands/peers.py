"""Commands on peers: peer add, remove and list; and who sees whom in a project: policy."""

from __future__ import annotations

import os

import click

from tellwire.cli.documents import document
from tellwire.cli.options import as_option, complete_names, json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import ask, ask_as
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.operations.peers import ListPeers, MeshPolicy, Peers, RegisterPeer, RemovePeer
from tellwire.system.projects import group_of
from tellwire.views.words import clean


@click.group("peer", invoke_without_command=True)
@json_option
@click.pass_context
def peer(ctx: click.Context, *, as_json: bool) -> int:
    """Add, remove and list peers.

    Peers see each other and can send to each other, whatever the policy of their projects. Being peers has
    no other effect: no scope, no ownership, no notices.

    \b
    Examples:
      tellwire peer add alice bob
      tellwire peer add bob --as alice
      tellwire peer list alice
    """
    return 0 if ctx.invoked_subcommand else _show(ask_as("", ListPeers()), as_json=as_json)


@peer.command("add")
@click.argument("name", shell_complete=complete_names)
@click.argument("other", required=False, shell_complete=complete_names)
@as_option
@json_option
def add(name: str, other: str | None, speaker: str | None, *, as_json: bool) -> int:
    """Make two agents peers of each other.

    As the operator, give two names. As an agent (or with --as), give the other's name. Repeating it is
    harmless.

    \b
    Examples:
      tellwire peer add alice bob
      tellwire peer add bob --as alice
    """
    return _show(_ask(RegisterPeer(name=name, other=other), other, speaker), as_json=as_json)


@peer.command("remove")
@click.argument("name", shell_complete=complete_names)
@click.argument("other", required=False, shell_complete=complete_names)
@as_option
@json_option
def remove(name: str, other: str | None, speaker: str | None, *, as_json: bool) -> int:
    """Make two agents peers no longer.

    \b
    Examples:
      tellwire peer remove alice bob
      tellwire peer remove bob --as alice
    """
    return _show(_ask(RemovePeer(name=name, other=other), other, speaker), as_json=as_json)


@peer.command("list")
@click.argument("name", required=False, shell_complete=complete_names)
@as_option
@json_option
def list_peers(name: str | None, speaker: str | None, *, as_json: bool) -> int:
    """List the peers of an agent.

    \b
    Examples:
      tellwire peer list alice
      tellwire peer list --as alice --json
    """
    reply = (
        ask(ListPeers(name=name)) if name and speaker is None else ask_as(speaker or "", ListPeers(name=name))
    )
    return _show(reply, as_json=as_json)


def _ask(operation: RegisterPeer | RemovePeer, other: str | None, speaker: str | None) -> Peers:
    if other is not None and speaker is not None:
        raise click.UsageError("Give two names, or one name and --as.")
    return ask(operation) if other is not None else ask_as(speaker or "", operation)


def _show(reply: Peers, *, as_json: bool) -> int:
    if as_json:
        write(render_json(document(reply)))
        return 0
    if not reply.peers:
        write(f"{reply.name} has no peers.\n")
        return 0
    columns = [
        Column(f"PEERS OF {reply.name}", [each.name for each in reply.peers], style="bold"),
        Column("STATUS", [each.status for each in reply.peers]),
        Column("KIND", [clean(each.kind) for each in reply.peers], rank=1),
        Column("PROJECT", [clean(each.group) for each in reply.peers], rank=2),
    ]
    write(render_table(columns, find_screen()))
    return 0


@click.command("policy")
@click.argument("policy", required=False, type=click.Choice(["open", "peers"]))
@click.option(
    "--project",
    type=click.Path(file_okay=False),
    help="The project's folder (default: the current one).",
)
@json_option
def policy_of(policy: str | None, project: str | None, *, as_json: bool) -> int:
    """Show or set who sees whom in a project.

    `open`: all its agents see each other and can send to each other. `peers`: an agent sees only its parent,
    its children, its peers, members of its links, and you. Only the operator can set it; it is permanent.

    \b
    Examples:
      tellwire policy
      tellwire policy peers
      tellwire policy open --project ~/shop
    """
    group = group_of(os.path.abspath(project or os.getcwd()))
    reply = ask(MeshPolicy(group=group, policy=policy))  # pyright: ignore[reportArgumentType]  # the choices are these words
    if as_json:
        write(render_json(document(reply)))
    else:
        verb = "is now" if reply.changed else "is"
        write(f"The policy of {clean(reply.group)} {verb} {reply.policy}.\n")
    return 0
