"""The shape of the command line: sections in its help, refusals and exit codes alike for every command."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from tellwire.cli.refusals import tell_refusal
from tellwire.cli.screen import ERR, UnwrittenError, tell_unwritten, write
from tellwire.cli.table import ALIASES, COMMON, ROWS, SHORT_TITLES, Row, all_rows, all_sections
from tellwire.cli.words import tell_unread
from tellwire.protocol.errors import ERRORS, TellwireError

EXIT_INTERRUPTED = 130
WHOLE = "tellwire.help.all"
"""In a context: the help is to show everything."""
FIRST = "In a terminal you act as `operator`."
MORE = "To begin: `tellwire run {} {}`. More: `tellwire help COMMAND` or `--all`."
JSON_WORDS = ("--json",)


class Commands(MutableMapping[str, click.Command]):
    """The commands of the table by name; the module of one is imported when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        name = ALIASES.get(name, name)
        if name not in self._loaded:
            self._loaded[name] = _load(ROWS.get(name) or all_rows()[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*all_rows(), *ALIASES, *self._loaded]))

    def __len__(self) -> int:
        return len({*all_rows(), *ALIASES, *self._loaded})


def _load(row: Row) -> click.Command:
    """Import a command, or make it from its operation."""
    if not row.place:
        # Imported here for start-up speed: commands of the table do not need it.
        from tellwire.cli.plain import plain_command  # noqa: PLC0415

        return plain_command(row.name)
    module, _, command = row.place.partition(":")
    return getattr(import_module(f"tellwire.cli.commands.{module}"), command)


class Group(click.Group):
    """Commands in sections; every refusal ends with the exit code of the error table."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, commands=Commands())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        del ctx
        return list(all_rows())

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One screen: the common commands, and the names of all others; the whole if that was asked for."""
        if ctx.find_root().meta.get(WHOLE):
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write(f"{(self.help or '').partition(chr(10))[0]} {FIRST}\n\n")
        rows = all_rows()
        common = [rows[name] for name in COMMON if name in rows]
        with formatter.indentation():
            formatter.write_dl([(row.name, row.help) for row in common])
        formatter.write_paragraph()
        groups: dict[str, list[str]] = {}
        for title, section in all_sections().items():
            names = [row.name for row in section if row.name not in COMMON]
            groups.setdefault(SHORT_TITLES.get(title, title), []).extend(names)
        with formatter.indentation():
            formatter.write_dl([(title, ", ".join(names)) for title, names in groups.items() if names])
        formatter.write_paragraph()
        from tellwire.clients import CLIENTS  # noqa: PLC0415 - start-up speed: only the help names clients

        formatter.write(f"{MORE.format(CLIENTS[0].program, CLIENTS[1].program)}\n")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Section by section."""
        for title, rows in all_sections().items():
            with formatter.section(title):
                formatter.write_dl([(row.name, row.help) for row in rows])
        del ctx

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands and options, without importing a command."""
        names = [
            CompletionItem(row.name, help=row.help)
            for row in all_rows().values()
            if row.name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

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
