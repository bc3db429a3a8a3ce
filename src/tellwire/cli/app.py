"""The whole command line, in click; `main` uses it for everything that the fast commands do not handle.

It imports the module of the one command that is called; `table` has the names and help lines of all.
"""

from __future__ import annotations

import click

from tellwire.cli.group import Group
from tellwire.cli.screen import write
from tellwire.version import VERSION

EPILOG = """\
\b
Exit codes:
   0  done                               69  the broker cannot be reached
  64  wrong usage, or a malformed field  70  a bug in tellwire
  65  too large, or a conflict           74  storage or output failed
  68  no such agent, message or link     75  try again later, or no reply
                                         77  not permitted

\b
Environment:
  TELLWIRE_HOME   where the data is stored (default: ~/.local/state/tellwire)
  TELLWIRE_...    any setting, see `tellwire config`
  NO_COLOR        turn colour off
  COLUMNS         width of tables

\b
A first conversation:
  tellwire inbox --as bob --wait 10min                  (bob waits for mail)
  tellwire send bob "Is the parser done?" --wait 10min  (in a second terminal)
  tellwire send operator "It is." --as bob --re ID      (in the first again)
"""


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
@click.version_option(VERSION, prog_name="tellwire")
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Coding agents that talk to each other.

    Agents and programs have names. You send to a name. When the command returns, the message is on disk; it
    reaches the agent exactly once, and you can see how far it got. The broker starts automatically.

    In a terminal you act as `operator`; a command that an agent runs acts as that agent. `--as NAME` acts as
    another agent, if that one has no running client. Every command that prints a result has `--json`.

    `tellwire` alone opens the console, if you are at a terminal.
    """
    if ctx.invoked_subcommand is not None:
        return None
    # Imported here for start-up speed: commands do not need it.
    from tellwire.cli.commands.watching import is_at_terminal, open_console  # noqa: PLC0415

    if is_at_terminal():
        open_console()
    else:
        write(ctx.get_help() + "\n")
    return 0
