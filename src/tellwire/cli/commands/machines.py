"""Commands on other machines: pair, look, rename, share, switch off, remove."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from types import ModuleType
from typing import Any

import click
from click.shell_completion import CompletionItem

from tellwire.cli.documents import document
from tellwire.cli.options import json_option, jsonl_option
from tellwire.cli.refusals import tell_refusal
from tellwire.cli.render import counted, format_age, render_json, render_pairs
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.speaking import ask
from tellwire.cli.tables import Column, render_table
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.machines import Trust
from tellwire.protocol.operations.machines import (
    ListMachines,
    MachineCard,
    MachineList,
    MachineRecord,
    RemoveMachine,
    RenameMachine,
    RenewMachine,
    SetTrust,
    ShowMachine,
)
from tellwire.views.words import clean

STYLES = {"online": "green", "unreachable": "yellow", "removed": "dim"}
OFF = "off "
JOIN = """\
On the other machine, within 10 minutes:
  tellwire machine join {invite}
It has the password of your Redis in it: treat it like one. This machine is {words}.
(Waiting. Ctrl-C withdraws the invite.)
"""
OWN = """\
This makes {label} ({words}) one of your own machines: its agents can write to all agents here.
"""
TEAM = """\
This pairs {label} ({words}) as another person's machine: it sees only projects that you share with it.
"""


def complete_machines(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The labels of machines that are paired; none if no broker runs."""
    try:
        found = ask(ListMachines(), autostart=False).machines
    except TellwireError:
        return []
    labels = [each.label for each in found if each.status != "removed"]
    return [CompletionItem(label) for label in labels if label.lower().startswith(incomplete.lower())]


def machine_argument(function: Any) -> Any:
    """`MACHINE`."""
    return click.argument("machine", metavar="MACHINE", shell_complete=complete_machines)(function)


as_option = click.option("--as", "label", default="", metavar="LABEL", help="What to call it here.")
me_option = click.option("--me", default="", metavar="LABEL", help="What it is to call this machine.")
team_option = click.option("--team", is_flag=True, help="Another person's machine: it sees what you share.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def _pairing() -> ModuleType:
    """What pairing needs: PyNaCl and redis, which take long to import, or are not installed."""
    try:
        from tellwire.cli.local import pairing  # noqa: PLC0415 - see above
    except ImportError as error:
        raise TellwireError(
            "not_paired", f"{error}.", "Install tellwire with the extra `machines`: `tellwire[machines]`."
        ) from error
    return pairing


@click.group("machine", invoke_without_command=True)
@json_option
@click.pass_context
def machine(ctx: click.Context, *, as_json: bool) -> int:
    """Pair with other machines, and list them.

    Agents on a machine that is paired are listed as MACHINE:NAME, and you send to them under that name. What
    you send is stored here first, and arrives when the other machine can be reached.

    \b
    Examples:
      tellwire machine                (list them)
      tellwire machine add desk       (an ssh destination that has tellwire)
      tellwire machine invite --carrier rediss://USER:PASSWORD@HOST:6379/0
      tellwire machine show desk
      tellwire machine remove desk
    """
    return 0 if ctx.invoked_subcommand else _list(ask(ListMachines()), as_json=as_json)


@machine.command("list")
@json_option
def list_machines(*, as_json: bool) -> int:
    """List the machines, removed ones too.

    \b
    Example:
      tellwire machine list --json
    """
    return _list(ask(ListMachines()), as_json=as_json)


@machine.command("show")
@machine_argument
@json_option
def show(machine: str, *, as_json: bool) -> int:
    """Show everything about one machine.

    \b
    Example:
      tellwire machine show desk
    """
    record = ask(ShowMachine(machine=machine))
    if as_json:
        write(render_json(document(record)))
    else:
        write(render_pairs(_facts(record), find_screen()))
    return 0


# -- pairing -------------------------------------------------------------------------------------------


@machine.command("add")
@click.argument("destination", metavar="DESTINATION")
@click.option("--program", default="", metavar="PATH", help="Where tellwire is on the other machine.")
@as_option
@me_option
@team_option
@json_option
def add(destination: str, program: str, label: str, me: str, *, team: bool, as_json: bool) -> int:
    """Pair with a machine that you can log in to by ssh.

    Nothing has to be done on the other machine. ssh runs in this terminal, so passphrases, jump hosts and
    hardware keys work as always. Later the broker calls the other machine by itself: that needs a key that
    works without being asked for.

    \b
    Examples:
      tellwire machine add desk
      tellwire machine add me@desk.example --as desk --program /opt/tellwire/bin/tellwire
    """
    pairing = _pairing()
    _progress(f"Logging in to {destination} by ssh …", as_json=as_json)
    names = pairing.Names(label, me)
    paired = pairing.add_by_ssh(destination, program=program, names=names, trust=_trust(team=team))
    return _show_paired(paired, "ssh", as_json=as_json)


def accept() -> int:
    """Be paired with the machine at the other end of an ssh; `add` runs `machine accept --stdio` there."""
    try:
        pairing = _pairing()
        pairing.accept(sys.stdin.buffer, sys.stdout.buffer, pairing.own_program())
    except TellwireError as error:
        return tell_refusal(error.code, error.message, error.advice, as_json=False)
    return 0


@machine.command("invite")
@click.option("--carrier", default="", metavar="URL", help="The Redis to use; remembered for the next time.")
@as_option
@me_option
@team_option
@jsonl_option
def invite(carrier: str, label: str, me: str, *, team: bool, as_json: bool) -> int:
    """Invite a machine that both can reach over a Redis.

    It prints a command for the other machine, and waits for it. An invite can be used once, within ten
    minutes. The Redis sees only sealed blobs, and need not be durable.

    \b
    Examples:
      tellwire machine invite --carrier rediss://tellwire:PASSWORD@redis.example:6379/0
      tellwire machine invite
    """
    pairing = _pairing()

    def show_invite(text: str, words: str) -> None:
        if as_json:
            write(render_json({"invite": text, "words": words, "within_s": pairing.INVITE_S}))
        else:
            write(JOIN.format(invite=text, words=words))

    paired = pairing.invite(
        carrier,
        names=pairing.Names(label, me),
        trust=_trust(team=team),
        show=show_invite,
        note=_note,
    )
    return _show_paired(paired, "redis", as_json=as_json)


@machine.command("join")
@click.argument("invite", metavar="INVITE")
@click.option(
    "--carrier", default="", metavar="URL", help="The same Redis with a user of this machine's own."
)
@as_option
@me_option
@team_option
@yes_option
@json_option
def join(invite: str, carrier: str, label: str, me: str, *, team: bool, yes: bool, as_json: bool) -> int:
    """Use an invite of another machine.

    The invite has the address of the Redis in it. If each machine has a user of its own there (see `machine
    acl`), give this machine's address with --carrier.

    \b
    Examples:
      tellwire machine join tellwire1.mfrggzdf…
      tellwire machine join tellwire1.mfrggzdf… --as laptop --yes
    """
    pairing = _pairing()
    from tellwire.federation.pairing import parse_invite  # noqa: PLC0415 - as `_pairing`

    def confirm(partner: Any) -> None:
        words = OWN if partner.trust == "own" else TEAM
        _confirm(words.format(label=clean(partner.card.label), words=partner.words), yes=yes)

    paired = pairing.join(
        parse_invite(invite),
        carrier,
        names=pairing.Names(label, me),
        trust=_trust(team=team),
        confirm=confirm,
        note=partial(_progress, as_json=as_json),
    )
    return _show_paired(paired, "redis", as_json=as_json)


@machine.command("acl")
@json_option
def acl(*, as_json: bool) -> int:
    """Print the command that lets this machine into a Redis, with the least rights.

    Run it with `redis-cli` as the owner of the Redis (version 7, or Valkey), with a password in its place.
    """
    pairing = _pairing()
    here = ask(MachineCard())
    line = pairing.acl_line(here.id, here.label)
    write(render_json({"acl": line}) if as_json else f"{line}\n")
    return 0


# -- changing ------------------------------------------------------------------------------------------


@machine.command("rename")
@machine_argument
@click.argument("label", metavar="LABEL")
@json_option
def rename(machine: str, label: str, *, as_json: bool) -> int:
    """Give a machine another label; the former one goes on working.

    \b
    Example:
      tellwire machine rename desk workbench
    """
    return _changed(ask(RenameMachine(machine=machine, label=label)), "is the label now", as_json=as_json)


@machine.command("remove")
@machine_argument
@yes_option
@json_option
def remove(machine: str, *, yes: bool, as_json: bool) -> int:
    """Remove a machine, at once and for ever.

    Its keys are dropped, its agents are gone from here, and what was not delivered to them is denied. The
    same identity can never be paired again.

    \b
    Example:
      tellwire machine remove old-laptop
    """
    record = ask(ShowMachine(machine=machine))
    if record.status != "removed":
        waiting = f" {counted(record.outbox, 'item')} for it will be denied." if record.outbox else ""
        _confirm(f"This removes {clean(record.label)} for ever.{waiting}\n", yes=yes)
    return _changed(ask(RemoveMachine(machine=record.id)), "is removed", as_json=as_json)


@machine.command("share")
@machine_argument
@click.argument("project", nargs=-1, required=True, metavar="PROJECT...")
@json_option
def share(machine: str, project: tuple[str, ...], *, as_json: bool) -> int:
    """Let a team machine see the agents of these projects.

    \b
    Example:
      tellwire machine share ana shop
    """
    record = ask(SetTrust(machine=machine, share=list(project)))
    return _changed(record, f"sees: {', '.join(record.shares) or 'nothing'}", as_json=as_json)


@machine.command("unshare")
@machine_argument
@click.argument("project", nargs=-1, required=True, metavar="PROJECT...")
@json_option
def unshare(machine: str, project: tuple[str, ...], *, as_json: bool) -> int:
    """Hide projects from a team machine again.

    \b
    Example:
      tellwire machine unshare ana shop
    """
    record = ask(SetTrust(machine=machine, unshare=list(project)))
    return _changed(record, f"sees: {', '.join(record.shares) or 'nothing'}", as_json=as_json)


@machine.command("off")
@click.argument("machine", metavar="[MACHINE]", required=False, shell_complete=complete_machines)
@json_option
def off(machine: str | None, *, as_json: bool) -> int:
    """Do not connect to a machine, or to any, until `machine on`; what is sent waits.

    \b
    Example:
      tellwire machine off desk
    """
    return _switch(machine, on=False, as_json=as_json)


@machine.command("on")
@click.argument("machine", metavar="[MACHINE]", required=False, shell_complete=complete_machines)
@json_option
def on(machine: str | None, *, as_json: bool) -> int:
    """Connect to a machine, or to all, again.

    \b
    Example:
      tellwire machine on desk
    """
    return _switch(machine, on=True, as_json=as_json)


@machine.command("renew")
@click.option("--moved", is_flag=True, help="Keep the identity: the home was moved, and is nowhere else.")
@yes_option
@json_option
def renew(*, moved: bool, yes: bool, as_json: bool) -> int:
    """Give this machine a new identity, because its home was copied or its key is lost.

    Every other machine then has to be paired again, and to remove the old one.

    \b
    Examples:
      tellwire machine renew
      tellwire machine renew --moved
    """
    if not moved:
        _confirm("This machine gets a new identity: every other machine has to be paired again.\n", yes=yes)
    here = ask(RenewMachine(moved=moved))
    if as_json:
        write(render_json({"id": here.id, "label": here.label, "words": here.words}))
    else:
        write(f"This machine is {here.label}: {here.words}\n")
    return 0


@machine.command("connect")
@machine_argument
@json_option
def connect(machine: str, *, as_json: bool) -> int:
    """Hold the connection to a machine from this terminal (not in this version)."""
    del as_json
    record = ask(ShowMachine(machine=machine))
    raise TellwireError(
        "not_across_machines",
        f"This version cannot hold the connection to {record.label} from a terminal.",
        "Give the broker's ssh a key that works without being asked for: `IdentityFile` in ~/.ssh/config.",
    )


# -- showing -------------------------------------------------------------------------------------------


def _trust(*, team: bool) -> Trust:
    return "team" if team else "own"


def _note(text: str) -> None:
    write(f"{clean(text)}\n", ERR)


def _progress(text: str, *, as_json: bool) -> None:
    if not as_json and find_screen(ERR).person:
        write(f"{clean(text)}\n", ERR)


def _confirm(text: str, *, yes: bool) -> None:
    if yes:
        return
    if not os.isatty(0):
        raise TellwireError(
            "confirmation_needed", "Cannot ask for confirmation without a terminal.", "Add `--yes`."
        )
    write(text, ERR)
    click.confirm("Go on?", abort=True, err=True)


def _show_paired(paired: Any, carrier: str, *, as_json: bool) -> int:
    record: MachineRecord = paired.record
    if as_json:
        here = {"id": paired.here.id, "label": paired.here.label, "words": paired.here.words}
        write(render_json({**document(record), "words": paired.words, "here": here}))
        return 0
    screen = find_screen()
    label = screen.paint(clean(record.label), "bold")
    write(f"{label}  paired  {record.trust}  by {carrier}  {paired.words}\n")
    if paired.agents:
        write(f"  {counted(paired.agents, 'agent')} there: tellwire list --all\n")
    write(f"  This machine is {paired.here.label}: {paired.here.words}\n")
    return 0


def _changed(record: MachineRecord, words: str, *, as_json: bool) -> int:
    write(render_json(document(record)) if as_json else f"{clean(record.label)} {words}.\n")
    return 0


def _switch(machine: str | None, *, on: bool, as_json: bool) -> int:
    known = ask(ListMachines()).machines
    chosen = [ask(ShowMachine(machine=machine))] if machine else [each for each in known if _is_paired(each)]
    changed: list[MachineRecord] = []
    for each in chosen:
        bare = [word.removeprefix(OFF) for word in each.carriers]
        carriers = bare if on else [OFF + word for word in bare]
        changed.append(ask(SetTrust(machine=each.id, carriers=carriers)))
    if as_json:
        write(render_json({"machines": [document(each) for each in changed]}))
    elif not changed:
        write("No machine is paired.\n")
    for each in changed if not as_json else []:
        write(f"{clean(each.label)} is {'on' if on else 'off'}.\n")
    return 0


def _is_paired(record: MachineRecord) -> bool:
    return record.status != "removed"


def _list(reply: MachineList, *, as_json: bool) -> int:
    if as_json:
        write(render_json(document(reply)))
        return 0
    if not reply.machines:
        write("No other machine is paired. Pair one: `tellwire machine add SSH-DESTINATION`, or `invite`.\n")
        return 0
    now = time.time()
    rows = reply.machines
    columns = [
        Column("MACHINE", [clean(each.label) for each in rows], style="bold"),
        Column("STATUS", [_status(each, now) for each in rows], styles=STYLES),
        Column("HEARD", [_heard(each, now) for each in rows], rank=2, style="dim"),
        Column("CARRIER", [_carrier(each) for each in rows], rank=1),
        Column("TRUST", [_trusted(each) for each in rows], rank=1),
        Column("OUTBOX", [str(each.outbox) if _is_paired(each) else "" for each in rows], right=True),
        Column("AGENTS", [str(each.agents) if _is_paired(each) else "" for each in rows], right=True),
    ]
    write(render_table(columns, find_screen()))
    return 0


def _status(record: MachineRecord, now: float) -> str:
    if record.status == "removed" and record.removed_at:
        return f"removed {format_age(now - record.removed_at)}"
    if record.carriers and all(word.startswith(OFF) for word in record.carriers):
        return f"{record.status}, off"
    return record.status


def _heard(record: MachineRecord, now: float) -> str:
    if record.status == "removed":
        return ""
    return format_age(now - record.heard_at) if record.heard_at else "never"


def _carrier(record: MachineRecord) -> str:
    if record.status == "removed":
        return ""
    return record.carrier or (
        record.carriers[0].removeprefix(OFF).partition(" ")[0] if record.carriers else "none"
    )


def _trusted(record: MachineRecord) -> str:
    by = f", by {clean(record.by)}" if record.by else ""
    return f"{record.trust}{by}" if record.status != "removed" else ""


def _facts(record: MachineRecord) -> list[tuple[str, str]]:
    now = time.time()
    rows = [
        ("machine", clean(record.label)),
        ("id", record.id),
        ("words", _words(record)),
        ("status", _status(record, now)),
        ("heard", _heard(record, now)),
        ("trust", _trusted(record)),
        ("shares", ", ".join(map(clean, record.shares))),
        ("carriers", ", ".join(map(clean, record.carriers))),
        ("connected", f"by {record.carrier}" if record.carrier else ""),
        ("problem", clean(record.problem)),
        ("round trip", f"{record.round_trip_s * 1_000:.1f} ms" if record.round_trip_s else ""),
        ("outbox", f"{counted(record.outbox, 'item')}, {record.outbox_bytes} bytes" if record.outbox else ""),
        ("agents", str(record.agents) if _is_paired(record) else ""),
        ("version", clean(record.version)),
        ("knows", ", ".join(map(clean, record.knows))),
        ("former labels", ", ".join(map(clean, record.former))),
        ("paired", format_age(now - record.paired_at) if record.paired_at else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _words(record: MachineRecord) -> str:
    """The fingerprint, if what makes it is installed."""
    if not record.sign_key:
        return ""
    try:
        return _pairing().fingerprint(record.sign_key)
    except TellwireError:
        return ""
