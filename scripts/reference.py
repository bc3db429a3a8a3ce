"""Writes the references in docs/ from the code; `--check` compares them.

reference.md: operations, errors, settings. commands.md: the command line. python.md: the Python package.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import click
import msgspec

import tellwire
from tellwire.cli.app import cli
from tellwire.cli.table import SECTIONS
from tellwire.core.limits import Limits
from tellwire.protocol.docs import field_docs, field_types
from tellwire.protocol.errors import ERRORS
from tellwire.protocol.operations import OPERATIONS
from tellwire.sdk import calls
from tellwire.settings import NAMES, Settings

DOCS = Path(__file__).parent.parent / "docs"
GENERATED = "Generated from the code by `make reference`; do not edit it by hand."
WIDTH = 80
SUBJECTS = {
    "past": calls.Past,
    "links": calls.Links,
    "turns": calls.Turns,
    "pairs": calls.Pairs,
    "scopes": calls.Scopes,
    "children": calls.Children,
}
"""What an agent has an object for, by its name."""


def fields_table(kind: type[Any]) -> list[str]:
    """One row for each field."""
    words, types = field_docs(kind), field_types(kind)
    fields = msgspec.structs.fields(kind)
    if not fields:
        return ["No fields."]
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for field in fields:
        default = "required" if field.required else f"`{default_of(field)!r}`"
        shape = types.get(field.name, "").replace("|", "\\|")
        rows.append(f"| `{field.encode_name}` | `{shape}` | {default} | {words.get(field.name, '')} |")
    return rows


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """A field's default value."""
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory()


def operations() -> list[str]:
    """A section for each operation."""
    lines = ["## Operations", ""]
    for word, kind in OPERATIONS.items():
        lines += [f"### {word}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
        lines += [*fields_table(kind), ""]
        callers, surfaces = ", ".join(sorted(kind.callers)), ", ".join(sorted(kind.surfaces))
        lines += [f"Callers: {callers}. Surfaces: {surfaces}. Reply: {kind.reply.__name__}:", ""]
        lines += [*fields_table(kind.reply), ""]
    return lines


def errors() -> list[str]:
    """One row for each error code."""
    rows = ["## Errors", "", "| code | exit | HTTP | advice |", "|---|---|---|---|"]
    rows += [f"| `{code}` | {row.exit} | {row.http} | {row.advice} |" for code, row in ERRORS.items()]
    return [*rows, ""]


def settings() -> list[str]:
    """One row for each setting."""
    rows = [
        "## Settings",
        "",
        "Set them in `config.toml` in the home folder, or in the environment as `TELLWIRE_` and the name in",
        "capitals. The home folder itself is `TELLWIRE_HOME`. Times are in seconds.",
        "",
        "| setting | default | |",
        "|---|---|---|",
    ]
    words = {**field_docs(Settings), **field_docs(Limits)}
    known = {field.name: field for kind in (Settings, Limits) for field in msgspec.structs.fields(kind)}
    rows += [f"| `{name}` | `{default_of(known[name])!r}` | {words.get(name, '')} |" for name in NAMES]
    return [*rows, ""]


# -- the command line ---------------------------------------------------------------------------------


def commands() -> list[str]:
    """The help of each command, in the sections of `tellwire --help`."""
    root = click.Context(cli, info_name="tellwire", terminal_width=WIDTH)
    lines: list[str] = []
    for section, rows in SECTIONS.items():
        lines += [f"## {section}", ""]
        for row in rows:
            command = cli.get_command(root, row.name)
            assert command is not None
            lines += _help(command, root, row.name)
    return lines


def _help(command: click.Command, parent: click.Context, name: str) -> list[str]:
    """One command, and the commands below it."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    lines = [f"### {context.command_path}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            lines += _help(below, context, word)
    return lines


# -- Python -------------------------------------------------------------------------------------------


def python() -> list[str]:
    """The public names, and the objects by subject."""
    lines = ["## Functions", ""]
    for name in ("connect", "connect_sync", "watch"):
        lines += _function(getattr(tellwire, name), f"tellwire.{name}")
    lines += ["## Agent", "", *_text(tellwire.Agent), *_methods(tellwire.Agent, "")]
    for name, kind in SUBJECTS.items():
        lines += [f"## Agent.{name}", "", *_text(kind), *_methods(kind, f"{name}.")]
    lines += ["## BlockingAgent", "", *_text(tellwire.BlockingAgent)]
    lines += ["It has the methods and objects of `Agent`, without `await`, and is iterated with `for`.", ""]
    lines += ["## Records", ""]
    for name in ("Message", "Peer", "Receipt"):
        kind = getattr(tellwire, name)
        lines += [f"### {name}", "", *_text(kind), *fields_table(kind), ""]
    lines += ["### Status", "", *_text(tellwire.Status)]
    return [*lines, "### TellwireError", "", *_text(tellwire.TellwireError)]


def _methods(kind: type[Any], prefix: str) -> Iterator[str]:
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield from [f"### {prefix}{name}", "", *_text(member)]
        elif isinstance(member, FunctionType):
            yield from _function(member, f"{prefix}{name}")


def _function(function: Callable[..., Any], name: str) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    words = [_parameter(each) for each in parameters if each.name != "self"]
    star = next((i for i, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)
    if star is not None:
        words.insert(star - (parameters[0].name == "self"), "*")
    result = inspect.signature(function).return_annotation
    verb = "await " if inspect.iscoroutinefunction(function) else ""
    head = f"{verb}{name}({', '.join(words)}) -> {result}"
    if len(head) > WIDTH:
        inside = "".join(f"    {word},\n" for word in words)
        head = f"{verb}{name}(\n{inside}) -> {result}"
    return [f"### {name}", "", "```python", head, "```", "", *_text(function)]


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{parameter.name}: {parameter.annotation}"
    return text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}"


def _text(thing: object) -> list[str]:
    """Its docstring; the part about exceptions as a list."""
    text = inspect.cleandoc(thing.__doc__ or "")
    head, _, raised = text.partition("Raises:\n")
    lines = [head.rstrip(), ""] if head.strip() else []
    for line in inspect.cleandoc(raised).splitlines():
        lines.append(f"  {line.strip()}" if line.startswith(" ") else f"- raises {line.strip()}")
    return [*lines, ""] if raised else lines


# -- writing ------------------------------------------------------------------------------------------

PAGES = {
    "reference.md": (
        "Reference: operations, errors, settings",
        lambda: [*operations(), *errors(), *settings()],
    ),
    "commands.md": ("Command reference", commands),
    "python.md": ("Python reference", python),
}


def main() -> int:
    """Write the pages, or compare them."""
    stale: list[str] = []
    for name, (title, content) in PAGES.items():
        text = "\n".join([f"# {title}", "", GENERATED, "", *content()]).rstrip() + "\n"
        if sys.argv[1:] != ["--check"]:
            (DOCS / name).write_text(text, encoding="utf-8")
        elif not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != text:
            stale.append(f"docs/{name}")
    if stale:
        sys.stderr.write(f"{', '.join(stale)} out of date: run `make reference`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
