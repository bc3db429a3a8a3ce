"""Commands on scopes: claim, release, who-owns, scopes."""

from __future__ import annotations

import os
import time

import click

from tellwire.cli.documents import document
from tellwire.cli.options import Duration, as_option, json_option
from tellwire.cli.plain import command_for
from tellwire.cli.render import format_duration, render_json
from tellwire.cli.screen import Screen, find_screen, write
from tellwire.cli.speaking import ask_as
from tellwire.cli.words import here
from tellwire.paths import canonical
from tellwire.protocol.operations.scopes import (
    ClaimRecord,
    Claims,
    ClaimScope,
    ListScopes,
    Ownership,
    ReleaseScope,
    ScopeRecord,
    ScopeRule,
    Scopes,
    WhoOwns,
)
from tellwire.views.words import clean, cut

EXIT_HELD = 1
"""`who-owns`: somebody else has it."""


@click.command("claim")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option("--read", is_flag=True, help="Claim for reading; others may still write.")
@click.option("--flat", is_flag=True, help="The folder and the files in it, without subfolders.")
@click.option("--for", "for_s", type=Duration(), help="How long: 30min, 2h (default 4h).")
@as_option
@json_option
def claim(
    paths: tuple[str, ...],
    for_s: float | None,
    speaker: str | None,
    *,
    read: bool,
    flat: bool,
    as_json: bool,
) -> int:
    """Claim files or folders for one agent's writes.

    No other agent may write there meanwhile. You get all of them or none: if another agent holds one, the
    refusal names it. Claiming again extends the claim. The claims of an agent that has ended are released.

    \b
    Examples:
      tellwire claim src/parser --as alice
      tellwire claim docs README.md --for 30min --as alice
    """
    access = "read" if read else "write"
    rules: list[ScopeRule | str] = [ScopeRule(canonical(path, here()), access, not flat) for path in paths]
    return _show_claims(ask_as(speaker or "", ClaimScope(rules=rules, for_s=for_s)), as_json=as_json)


@click.command("release")
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path())
@as_option
@json_option
def release(paths: tuple[str, ...], speaker: str | None, *, as_json: bool) -> int:
    """Release claims: those on these paths, or all.

    \b
    Examples:
      tellwire release src/parser --as alice
      tellwire release --as alice
    """
    operation = ReleaseScope(paths=[canonical(path, here()) for path in paths])
    return _show_claims(ask_as(speaker or "", operation), as_json=as_json)


def _show_claims(reply: Claims, *, as_json: bool) -> int:
    if as_json:
        write(render_json(document(reply)))
        return 0
    if not reply.rules:
        write(f"{reply.name} holds no claims.\n")
        return 0
    lines = [f"{reply.name} holds", *(f"  {_rule(rule)}" for rule in reply.rules)]
    write("\n".join(lines) + "\n")
    return 0


WHO_OWNS_HELP = """Show who owns a path, and whether you may write to it.

The exit code is 1 if you, or the agent you act as, should not.

\b
Examples:
  tellwire who-owns src/parser.py
  tellwire who-owns src/parser.py --as bob && edit src/parser.py
"""
SCOPES_HELP = """Show who may write where, as a tree.

\b
Examples:
  tellwire scopes
  tellwire scopes --json | jq '.scopes[] | select(.parent == "")'
"""


def _show_owner(reply: Ownership) -> None:
    owner = reply.owner or "nobody"
    through = f", through {', '.join(reply.through)}" if reply.through else ""
    rule = f" ({_rule(reply.rule)}{through})" if reply.rule is not None else ""
    write(f"{clean(reply.path)}: {owner}{rule}\n")
    if reply.readers:
        write(f"  readers: {', '.join(reply.readers)}\n")
    if not reply.may_write:
        write(f"  {clean(reply.reason)}\n")
        write(f"  {reply.enforced}: {reply.why}\n")


def _owner_exit(reply: Ownership) -> int:
    return 0 if reply.may_write else EXIT_HELD


def _show_scopes(reply: Scopes) -> None:
    write(render_scopes(reply.scopes, find_screen()) or "Nobody has claimed anything.\n")


who_owns = command_for(WhoOwns, "who-owns", help=WHO_OWNS_HELP, show=_show_owner, exit_code=_owner_exit)
scopes = command_for(ListScopes, "scopes", help=SCOPES_HELP, show=_show_scopes)


def render_scopes(scopes: list[ScopeRecord], screen: Screen) -> str:
    """The tree; a child is shown below its parent."""
    depths: dict[str, int] = {}
    lines: list[str] = []
    for scope in scopes:
        depth = depths[scope.name] = depths.get(scope.parent, -1) + 1
        indent = "  " * depth
        held = "scoped" if scope.scoped else ("child" if scope.parent else "")
        words = [scope.status, *([held] if held else []), *([_holding(scope)] if scope.rules else [])]
        head = f"{indent}{scope.name}  ({', '.join(words)})"
        lines.append(screen.paint(_fit(head, screen), "bold"))
        lines += [_fit(f"{indent}  {_rule(rule)}", screen) for rule in scope.rules]
    return "".join(f"{line}\n" for line in lines)


def _holding(scope: ScopeRecord) -> str:
    return f"{scope.enforced}: {scope.why}" if scope.why else scope.enforced


def _fit(line: str, screen: Screen) -> str:
    return line if screen.width is None else cut(line, screen.width)


def _rule(rule: ClaimRecord) -> str:
    left = f"  for {format_duration(max(0.0, rule.until - time.time()))}" if rule.until else ""
    flat = "" if rule.recursive else " (not beneath)"
    return f"{rule.access.ljust(5)} {clean(_short(rule.path))}{flat}{left}"


def _short(path: str) -> str:
    """A path with the home folder as `~`."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path
