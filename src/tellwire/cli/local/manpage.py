"""Man pages from the help: one for the program, one for each command. Commands in, troff out; no I/O."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

import click

from tellwire.cli.table import Row

MANUAL = "tellwire manual"
BLOCK = "\b"
_NAME = re.compile(r"`([^`]+)`")


def render_program_page(cli: click.Group, sections: dict[str, tuple[Row, ...]], *, version: str) -> str:
    """The page `tellwire(1)`: all commands by section, the environment and the exit codes."""
    lines = [*_head("tellwire", version), ".SH NAME", "tellwire \\- coding agents that talk to each other"]
    lines += [".SH SYNOPSIS", ".B tellwire", "\\fICOMMAND\\fR [\\fIARGS\\fR]..."]
    lines += [".SH DESCRIPTION", *_prose(inspect.cleandoc(cli.help or ""))]
    for title, rows in sections.items():
        lines.append(f".SH {_quoted(title.upper())}")
        for row in rows:
            lines += [".TP", f"\\fBtellwire {_text(row.name)}\\fR", _text(row.help)]
    lines += [".SH NOTES", *_prose(inspect.cleandoc(cli.epilog or ""))]
    names = [row.name for rows in sections.values() for row in rows]
    lines += [".SH SEE ALSO", ", ".join(f"\\fBtellwire\\-{_text(name)}\\fR(1)" for name in names)]
    return "\n".join(lines) + "\n"


def render_page(path: Sequence[str], command: click.Command, *, version: str) -> str:
    """The page of one command, `tellwire-send(1)`; its subcommands are on it."""
    name = "-".join(("tellwire", *path))
    short = command.get_short_help_str(200).rstrip(".")
    lines = [*_head(name, version), ".SH NAME", f"{_text(name)} \\- {_text(short[:1].lower() + short[1:])}"]
    lines += [".SH SYNOPSIS", *_synopsis(("tellwire", *path), command)]
    lines += [".SH DESCRIPTION", *_prose(inspect.cleandoc(command.help or ""))]
    lines += _options(command)
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            lines += [f".SH {_quoted(word.upper())}", *_synopsis(("tellwire", *path, word), inner), ".PP"]
            lines += [*_prose(inspect.cleandoc(inner.help or "")), *_options(inner, heading=".SS OPTIONS")]
    lines += [".SH SEE ALSO", "\\fBtellwire\\fR(1)"]
    return "\n".join(lines) + "\n"


def _head(name: str, version: str) -> list[str]:
    words = [_quoted(name.upper()), "1", '""', _quoted(f"tellwire {version}"), _quoted(MANUAL)]
    return [f".TH {' '.join(words)}"]


def _synopsis(words: Sequence[str], command: click.Command) -> list[str]:
    ctx = click.Context(command, info_name=" ".join(words))
    usage = " ".join(command.collect_usage_pieces(ctx))
    return [f"\\fB{_text(' '.join(words))}\\fR {_text(usage)}".rstrip()]


def _options(command: click.Command, heading: str = ".SH OPTIONS") -> list[str]:
    ctx = click.Context(command)
    records = [record for param in command.get_params(ctx) if (record := param.get_help_record(ctx))]
    lines = [heading] if records else []
    for names, words in records:
        lines += [".TP", f"\\fB{_text(names)}\\fR", _text(words)]
    return lines


def _prose(text: str) -> list[str]:
    """Paragraphs; one that click is told to leave alone keeps its lines."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        words, _, block = paragraph.partition(BLOCK)
        if words.strip():
            lines += [".PP", _text(" ".join(words.split()))]
        for rows in block.split(f"{BLOCK}\n"):
            if rows.strip():
                lines += [".PP", ".nf", *(_text(row) for row in rows.strip("\n").split("\n")), ".fi"]
    return lines


def _text(text: str) -> str:
    """Text that troff takes for nothing but text; words in backquotes are bold."""
    safe = text.replace("\\", "\\e").replace("-", "\\-").replace(BLOCK, "")
    safe = _NAME.sub(r"\\fB\1\\fR", safe)
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def _quoted(text: str) -> str:
    return '"' + _text(text).replace('"', '""') + '"'
