"""Commands on the broker itself: up, down, status, completion."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time

import click
from click.shell_completion import get_completion_class

from tellwire.cli.documents import document
from tellwire.cli.launch import detach, run_broker
from tellwire.cli.local.holder import POLL_S, SILENT, find_holder, reach_broker
from tellwire.cli.options import json_option
from tellwire.cli.render import render_json, render_state
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.speaking import ask, tell_faults
from tellwire.clients import CLIENTS
from tellwire.mcp.membership import default_name
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.broker import BrokerState, BrokerStatus, StopBroker
from tellwire.settings import Settings, load_settings
from tellwire.version import VERSION

STOP_S = 20.0
REPLACE_TRIES = 3
SHELLS = ("bash", "zsh", "fish")
STOPPED = """\
The broker has stopped. Waiting messages are kept. The next agent session or tellwire command restarts it.
"""


@click.command()
@click.option(
    "--detach", "detached", is_flag=True, help="Run in the background; return once it is listening."
)
@click.option("--replace", is_flag=True, help="Stop the running broker first; nothing is lost.")
def up(*, detached: bool, replace: bool) -> int:
    """Start the broker.

    Other commands and clients start it automatically. Use this to start it by hand, to see why it does not
    start, or to replace it after an upgrade.

    \b
    Examples:
      tellwire up
      tellwire up --detach --replace
    """
    settings = load_settings()
    tell_faults(settings)
    running = _find_running(settings)
    if running and replace:
        _stop(settings)
    elif isinstance(running, BrokerState):
        if not detached:
            raise TellwireError("already_running", f"A broker is already running (pid {running.pid}).")
        write(f"A broker is already running (pid {running.pid}, version {running.version}).\n")
        _tell_version(running)
        return 0
    code, words = detach() if detached else run_broker(lambda: _tell_how_to_join(settings))
    if running and replace and code == ERRORS["already_running"].exit:
        code, words = _go_on(settings, code, words, detached=detached)
    if words:
        write(f"tellwire: {words.rstrip()}\n", ERR)
    elif detached:
        write(f"The broker is running. Socket: {settings.socket}\n{_next_steps()}")
    return code


def _go_on(settings: Settings, code: int, words: str, *, detached: bool) -> tuple[int, str]:
    """While one broker is replaced by another, a client may start one sooner than we do."""
    if detached and ask(BrokerStatus()).version == VERSION:
        return 0, ""
    for _ in range(REPLACE_TRIES):
        _stop(settings)
        code, words = detach() if detached else run_broker(lambda: _tell_how_to_join(settings))
        if code != ERRORS["already_running"].exit:
            break
    return code, words


@click.command()
@json_option
def down(*, as_json: bool) -> int:
    """Stop the broker; waiting messages are kept.

    The next session of an agent CLI, or the next command, starts it again, and open sessions then reconnect.
    A prompt in an open session does not start it.
    """
    settings = load_settings()
    tell_faults(settings)
    running = _find_running(settings)
    if running:
        _stop(settings)
    if as_json:
        write(render_json({"stopped": bool(running)}))
    else:
        write(STOPPED if running else "No broker is running.\n")
    return 0


@click.command()
@json_option
def status(*, as_json: bool) -> int:
    """Show the state of the broker.

    It does not start one: the exit code is 69 if none is running.

    \b
    Examples:
      tellwire status
      tellwire status --json | jq .pending
    """
    state = reach_broker(load_settings())
    write(render_json(document(state)) if as_json else render_state(document(state), find_screen()))
    return 0


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print shell completion for commands, options and names.

    \b
    Put it where your shell looks for it:
      bash   tellwire completion bash > DIR/tellwire, where DIR is
             ~/.local/share/bash-completion/completions
      zsh    tellwire completion zsh > a folder of $fpath, as _tellwire
      fish   tellwire completion fish > ~/.config/fish/completions/tellwire.fish
    \b
    Or for the current shell only:
      eval "$(tellwire completion bash)"
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    root = click.get_current_context().find_root().command
    write(kind(root, {}, "tellwire", "_TELLWIRE_COMPLETE").source() + "\n")
    return 0


# -- starting and stopping ----------------------------------------------------------------------------


def _tell_how_to_join(settings: Settings) -> None:
    write(
        f"tellwire {VERSION} is running (pid {os.getpid()}). Socket: {settings.socket}\n"
        f"{_next_steps()}"
        f"Stop it with Ctrl-C or `{_command()} down`; nothing is lost.\n"
    )


def replace_broker(settings: Settings) -> None:
    """Stop the running broker and start this version's, detached.

    Raises:
        TellwireError: it does not stop, or the new one does not start.
    """
    _stop(settings)
    code, words = detach()
    if code == ERRORS["already_running"].exit:
        code, words = _go_on(settings, code, words, detached=True)
    if code:
        raise TellwireError("unreachable", words.strip(), "See `tellwire logs`.")


def _next_steps() -> str:
    """What to do with a broker: run two agents, and let them talk."""
    first, second = (each.name for each in CLIENTS[:2])
    short = default_name(os.getcwd(), CLIENTS[1].mcp.short)
    return (
        "Run two agents, each in a terminal of its own:\n"
        f"  {_command()} run {first}\n"
        f"  {_command()} run {second}\n"
        f"and tell the first one: Ask {short} what it is working on.\n"
    )


def find_program() -> str:
    """The command `tellwire` of this installation, else the one on the path; empty if there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "tellwire")
    return beside if os.path.exists(beside) else shutil.which("tellwire") or ""


def _command() -> str:
    """How this command is typed."""
    program = "" if shutil.which("tellwire") else find_program()
    return os.path.relpath(program) if program else "tellwire"


def _tell_version(state: BrokerState) -> None:
    if state.version != VERSION:
        write(
            f"The broker has version {state.version}, this command {VERSION}. Run `tellwire up --replace`.\n"
        )


def _find_running(settings: Settings) -> BrokerState | int:
    """The broker; its process alone if it does not answer; 0 if none runs."""
    try:
        return reach_broker(settings)
    except TellwireError as error:
        if error.code != "unreachable":
            raise
        return find_holder(settings.lock)


def _stop(settings: Settings) -> None:
    """Ask the broker to stop, or signal the process that holds the lock; wait until the lock is free."""
    try:
        ask(StopBroker(), settings=settings, autostart=False)
    except TellwireError as error:
        if error.code not in SILENT:
            raise
        if pid := find_holder(settings.lock):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    fd = os.open(settings.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL_S)
            else:
                return
        pid = find_holder(settings.lock)
        advice = f"See its log. `kill -9 {pid}` ends it; nothing is lost."
        raise TellwireError("timeout", "The broker did not stop in time.", advice if pid else None)
    finally:
        os.close(fd)
