"""The shape of the command line: sections in its help, refusals and exit codes alike for every command."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tellwire.cli.refusals import tell_refusal
from tellwire.cli.screen import ERR, UnwrittenError, tell_unwritten, write
from tellwire.cli.unread import tell_unread
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.base import Operation

F = TypeVar("F", bound=Callable[..., Any])

EXIT_INTERRUPTED = 130
JSON_WORDS = ("--json",)


def performs(*operations: type[Operation[Any]]) -> Callable[[F], F]:
    """Note which operations of the table a command carries out."""

    def note(function: F) -> F:
        setattr(function, "operations", operations)  # noqa: B010 - functions have no such field
        return function

    return note


def operations_of(command: click.Command) -> tuple[type[Operation[Any]], ...]:
    """The operations that a command carries out."""
    return getattr(command.callback, "operations", ())


class Group(click.Group):
    """Commands in sections; every refusal ends with the exit code of the error table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections: dict[str, list[str]] = {}

    def add_section(self, title: str, commands: Sequence[click.Command]) -> None:
        """Add commands under a heading."""
        self.sections[title] = [command.name or "" for command in commands]
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        del ctx
        return [name for names in self.sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Section by section."""
        for title, names in self.sections.items():
            room = formatter.width - 6 - max(map(len, self.commands))
            rows = [(name, self.commands[name].get_short_help_str(room)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)
        del ctx

    def run(self, words: list[str]) -> int:
        """Carry a command line out, and say if mail waits; the exit code that its outcome means."""
        code = self._run(words)
        try:
            sys.stdout.flush()
            tell_unread(words)
        except (UnwrittenError, OSError) as error:
            return tell_unwritten(error)
        return code

    def _run(self, words: list[str]) -> int:
        try:
            code = self.main(words, prog_name="tellwire", standalone_mode=False)
        except TellwireError as error:
            as_json = any(word in JSON_WORDS for word in words)
            return tell_refusal(error.code, error.message, error.advice, as_json=as_json)
        except UnicodeEncodeError:
            as_json = any(word in JSON_WORDS for word in words)
            return tell_refusal("bad_request", "An argument is not valid UTF-8.", "", as_json=as_json)
        except click.UsageError as error:
            _tell(error)
            return ERRORS["bad_request"].exit
        except click.ClickException as error:
            _tell(error)
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except (UnwrittenError, BrokenPipeError) as error:
            return tell_unwritten(error)
        return code if isinstance(code, int) else 0


def _tell(error: click.ClickException) -> None:
    """Print a usage error; its text may contain anything that was typed."""
    told = io.StringIO()
    error.show(told)
    write(told.getvalue(), ERR)
