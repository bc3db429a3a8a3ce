"""`tellwire service`: the broker as a service of the user, for those who do not want it started on demand."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tellwire.cli.commands.broker import find_program
from tellwire.cli.local.service_files import MANAGERS, ServiceFile, is_ours, service_file, usual_manager
from tellwire.cli.options import json_option
from tellwire.cli.render import render_json
from tellwire.cli.screen import write
from tellwire.install.files import check_writable, look, make_folders, refused, write_whole
from tellwire.protocol.errors import TellwireError
from tellwire.settings import load_settings

F = TypeVar("F", bound=Callable[..., Any])
UNTESTED = "This file is checked for its form only; it has not been tested with {manager} itself."


def manager_option(function: F) -> F:
    """`--manager`."""
    words = "The service manager (default: that of this system)."
    return click.option("--manager", type=click.Choice(MANAGERS), default=usual_manager, help=words)(function)


@click.group(invoke_without_command=True)
@manager_option
@json_option
@click.pass_context
def service(ctx: click.Context, *, manager: str, as_json: bool) -> int:
    """Run the broker as a service of your user.

    This is optional: the broker starts automatically with the first command or agent session. A service
    starts it when you log in, and again if it fails. It writes one file, a systemd user unit or a launchd
    agent, and tells you the command that activates it; it runs nothing itself. The files are checked for
    their form, but untested with systemd and launchd. Without a subcommand it says whether the file is there.

    \b
    Examples:
      tellwire service
      tellwire service install
      tellwire service show --manager launchd
      tellwire service remove
    """
    if ctx.invoked_subcommand is not None:
        return 0
    file = find_file(manager)
    data = look(file.path).data
    state = (
        "absent" if data is None else "installed" if data.decode(errors="replace") == file.text else "differs"
    )
    if as_json:
        write(render_json({"manager": manager, "path": file.path, "state": state}))
    else:
        write(f"{file.path}: {state}\n")
    return 0


@service.command("install")
@manager_option
@json_option
def install_service(*, manager: str, as_json: bool) -> int:
    """Write the service's file.

    \b
    Examples:
      tellwire service install
      tellwire service install --manager systemd
    """
    file = find_file(manager)
    seen = look(file.path)
    text = (seen.data or b"").decode(errors="replace")
    if seen.data is not None and not is_ours(text):
        words = f"{file.path} exists and was not written by tellwire."
        advice = "Move it away, or edit it by hand: see `tellwire service show`."
        raise TellwireError("conflict", words, advice)
    changed = text != file.text
    if changed:
        check_writable(file.path, seen)
        try:
            make_folders(os.path.dirname(seen.path))
            write_whole(seen.path, file.text.encode(), mode=0o644, owner=seen.owner)
        except OSError as error:
            raise refused(file.path, error) from error
    if as_json:
        write(render_json({**file._asdict(), "changed": changed, "tested": False}))
        return 0
    write(f"{'Wrote' if changed else 'Nothing to do:'} {file.path}\n")
    write(f"To activate it:\n  tellwire down; {file.start}\n{UNTESTED.format(manager=file.manager)}\n")
    return 0


@service.command("remove")
@manager_option
@json_option
def remove_service(*, manager: str, as_json: bool) -> int:
    """Remove the service's file; messages are kept.

    \b
    Examples:
      tellwire service remove
    """
    file = find_file(manager)
    seen = look(file.path)
    if seen.data is not None and not is_ours(seen.data.decode(errors="replace")):
        words = f"{file.path} was not written by tellwire; it is left alone."
        raise TellwireError("conflict", words, "Remove it by hand if you want to.")
    if seen.data is not None:
        try:
            os.unlink(file.path)
        except OSError as error:
            raise refused(file.path, error) from error
    if as_json:
        write(render_json({"manager": manager, "path": file.path, "removed": seen.data is not None}))
    elif seen.data is None:
        write(f"There is no {file.path}.\n")
    else:
        write(f"Removed {file.path}\nIf the service is active, end it with:\n  {file.stop}\n")
    return 0


@service.command("show")
@manager_option
@json_option
def show_service(*, manager: str, as_json: bool) -> int:
    """Print the service's file, and change nothing.

    \b
    Examples:
      tellwire service show
      tellwire service show --manager launchd > tellwire.plist
    """
    file = find_file(manager)
    write(render_json({**file._asdict(), "tested": False}) if as_json else file.text)
    return 0


def find_file(manager: str) -> ServiceFile:
    """The file for this user and this installation."""
    settings = load_settings()
    variables = {"TELLWIRE_HOME": str(settings.home)} if settings.home_named else {}
    home = os.path.expanduser("~")
    return service_file(manager, broker_command(), home=home, env=os.environ, variables=variables)


def broker_command() -> list[str]:
    """What starts a broker in the foreground: the program that people type, else this interpreter."""
    program = find_program()
    if program:
        return [os.path.abspath(program), "up"]
    start = "import sys; from tellwire.cli.main import main; sys.argv = ['tellwire', 'up']; main()"
    return [sys.executable, "-I", "-c", start]
