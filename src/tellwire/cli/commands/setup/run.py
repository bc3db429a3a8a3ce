"""`tellwire run`: an agent CLI on the mesh for one session, without touching its configuration."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import NoReturn

import click
import msgspec

from tellwire.cli.local.world import World, find_world
from tellwire.cli.options import json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import ERR, write
from tellwire.cli.speaking import ask
from tellwire.clients import BY_WORD, CLIENTS, NAMES
from tellwire.clients.client import LAUNCHER, Client, RunPlace, RunStart, Scope
from tellwire.clients.entries import Hooks, MemberEntry
from tellwire.install import launcher
from tellwire.install.check import check
from tellwire.install.client_program import InstalledClient
from tellwire.install.files import look, make_folders, read_bytes, refused, write_whole
from tellwire.install.formats.file_format import format_of
from tellwire.install.texts import edited, read_target
from tellwire.mcp.membership import default_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import ListAgents
from tellwire.views.words import clean

FOLDER = "run"
"""In the home: files that are the same for every session of a client."""
NUMBERS_MAX = 1_000
SCOPES: tuple[Scope, ...] = ("user", "project")
RUN_HELP = f"""Start agent CLIs with tellwire, for this session only.

CLIENT is {NAMES}. Its configuration is not changed: your login, settings and sessions are the
usual ones, and nothing stays behind. A client that tellwire is installed in is started as it is. What
follows the client is passed on to it. Several clients open side by side in tmux.

With --json, nothing is started; the command line, the environment and the notes are printed.

\b
Examples:
  tellwire run {CLIENTS[0].name}
  tellwire run {CLIENTS[0].name} {CLIENTS[1].name}
  tellwire run {CLIENTS[0].name} --model opus
"""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is ready to be started."""

    client: str
    name: str
    """The agent's, unless this terminal or this conversation had another one before."""
    words: tuple[str, ...]
    environment: dict[str, str]
    """What is added to the person's."""
    notes: tuple[str, ...] = ()


@click.command(
    "run",
    help=RUN_HELP,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="CLIENT... [ARGUMENT...]")
def run(words: tuple[str, ...], *, as_json: bool) -> int:
    """Start agent CLIs with tellwire, for this session only."""
    clients, rest = split_words(words)
    world = find_world("user", fixed=False)
    try:
        launcher.write(str(world.settings.home))
    except OSError as error:
        raise refused(str(world.settings.home), error) from error
    taken: set[str] = set()
    prepared = [prepare(world, client, rest, taken) for client in clients]
    if as_json:
        write(render_json({"clients": msgspec.to_builtins(prepared)}))
        return 0
    for each in prepared:
        notes = "".join(f"  {clean(note)}\n" for note in each.notes)
        write(f"{each.name}: {BY_WORD[each.client].title}, on the mesh for this session.\n{notes}", ERR)
    if len(prepared) > 1:
        return open_together(world, prepared)
    return start(prepared[0])


def start(prepared: Prepared) -> NoReturn:
    """Become the client."""
    os.execve(prepared.words[0], prepared.words, {**os.environ, **prepared.environment})


def split_words(words: Sequence[str]) -> tuple[list[Client], list[str]]:
    """The clients, and what is passed on to the only one.

    Raises:
        click.UsageError: no client is named, or it is not clear whose the words are.
    """
    rest = list(words)
    clients: list[Client] = []
    while rest and rest[0] in BY_WORD:
        clients.append(BY_WORD[rest.pop(0)])
    if not clients:
        known = f"{rest[0]!r} is not an agent CLI that tellwire knows. " if rest else ""
        raise click.UsageError(f"{known}Name a client: {NAMES}.")
    if rest[:1] == ["--"]:
        del rest[0]
    if rest and len(clients) > 1:
        raise click.UsageError("Arguments can be passed on to one client only.")
    return clients, rest


def prepare(world: World, client: Client, rest: Sequence[str], taken: set[str]) -> Prepared:
    """Have the files of a session, and say how it is started; `taken` are names that others here will have.

    Raises:
        TellwireError: `bad_request`: the client is not on the PATH.
    """
    program = shutil.which(client.program)
    if program is None:
        raise TellwireError(
            "bad_request",
            f"`{client.program}` is not on the PATH.",
            f"Install it with `npm install -g {client.npm}`.",
        )
    name = free_name(client, taken)
    facts = {"client": client.name, "name": name}
    state = installed_state(world, client, program)
    if state:
        words = f"tellwire is {state} in its configuration: run `tellwire install {client.name}`."
        notes = () if state == "installed" else (words,)
        return Prepared(**facts, words=(program, *rest), environment={}, notes=notes)
    folder = os.path.join(str(world.settings.home), FOLDER, client.name)
    start_up = client.session(RunPlace(folder=folder, programs=world.programs, env=os.environ))
    try:
        lay_out(folder, start_up)
    except OSError as error:
        raise refused(folder, error) from error
    return Prepared(
        **facts, words=(program, *start_up.words, *rest), environment=dict(start_up.env), notes=start_up.notes
    )


def installed_state(world: World, client: Client, program: str) -> str:
    """How the client has tellwire already, for this person or in this project; empty if it does not.

    It must not have it twice.
    """
    for scope in SCOPES:
        targets = client.targets(msgspec.structs.replace(world.place, scope=scope), world.programs)
        report = check(client, targets, InstalledClient(program))
        for target, file in zip(targets, report.files, strict=True):
            wanted = {each.label for each in target.entries if isinstance(each, MemberEntry | Hooks)}
            if not file.error and wanted - set(file.missing):
                return report.state
    return ""


def lay_out(folder: str, start_up: RunStart) -> None:
    """Write the files that a session needs, in a folder of the home; the same for every session.

    Raises:
        TellwireError: a file of the person's is not what it should be.
        OSError: something cannot be written.
    """
    make_folders(folder)
    files = dict(start_up.files)
    for base, target in start_up.copies:
        make_folders(os.path.dirname(target.path))
        text = read_target(target, look(base).data)[1]
        files[target.path] = edited(
            target, lambda target=target, text=text: format_of(target).apply(text, target.entries)
        )
    for path, to in start_up.links.items():
        if to.endswith("/"):
            os.makedirs(to, 0o700, exist_ok=True)
        if not os.path.islink(path) and os.path.isfile(path):
            keep_newer(path, to)  # the client has put a new file in the link's place
        launcher.link(to.rstrip("/"), path)
    for path, text in files.items():
        if read_bytes(path) != text.encode():
            write_whole(path, text.encode(), mode=0o600)


def keep_newer(path: str, to: str) -> None:
    """Give a file to the person, unless theirs is newer."""
    if not os.path.exists(to) or os.stat(to).st_mtime < os.stat(path).st_mtime:
        shutil.move(path, to)
    else:
        os.unlink(path)


def free_name(client: Client, taken: set[str]) -> str:
    """The name that a new session of the client gets here."""
    usual = default_name(os.getcwd(), client.mcp.short)
    online = {agent.name for agent in ask(ListAgents(all=True)).agents if agent.status == "online"}
    names = [usual, *(f"{usual}-{number}" for number in range(2, NUMBERS_MAX))]
    name = next((name for name in names if name not in online | taken), usual)
    taken.add(name)
    return name


def open_together(world: World, prepared: Sequence[Prepared]) -> int:
    """Open the clients side by side in tmux, in a window of their own, and go there.

    Raises:
        TellwireError: `bad_request`: there is no tmux.
    """
    tmux = shutil.which("tmux")
    if tmux is None:
        advice = "Install tmux, or run each client in a terminal of its own."
        raise TellwireError("bad_request", "Several clients open in tmux, which is not installed.", advice)
    home = str(world.settings.home)
    kept = [f"PATH={os.environ.get('PATH', os.defpath)}"]
    kept += [f"TELLWIRE_HOME={home}"] if world.settings.home_named else []
    start = ["env", *kept, os.path.join(home, "bin", LAUNCHER), "run"]
    lines = [shlex.join([*start, each.client]) for each in prepared]
    inside = "TMUX" in os.environ
    first = ["new-window"] if inside else ["new-session", "-d", "-x", "200", "-y", "50"]
    made = [tmux, *first, "-P", "-F", "#{window_id} #{session_id}", "-n", "tellwire", lines[0]]
    window, session = _tmux(made).split()
    for line in lines[1:]:
        _tmux([tmux, "split-window", "-h", "-t", window, line])
    _tmux([tmux, "select-layout", "-t", window, "even-horizontal"])
    if not inside:
        os.execv(tmux, [tmux, "attach-session", "-t", session])
    return 0


def _tmux(words: Sequence[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TellwireError("bad_request", f"tmux: {done.stderr.strip() or 'failed'}.", "Try it in tmux.")
    return done.stdout
