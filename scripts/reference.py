"""Writes docs/reference.md from the code: operations, errors, settings; `--check` compares it."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import msgspec

from tellwire.core.limits import Limits
from tellwire.protocol.docs import field_docs, field_types
from tellwire.protocol.errors import ERRORS
from tellwire.protocol.operations import OPERATIONS
from tellwire.settings import NAMES, Settings

TARGET = Path(__file__).parent.parent / "docs" / "reference.md"
HEADING = """\
# Reference

Generated from the code by `make reference`; do not edit it by hand.
"""


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


def main() -> int:
    """Write the reference, or compare it."""
    text = "\n".join([HEADING, *operations(), *errors(), *settings()]).rstrip() + "\n"
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.stderr.write("docs/reference.md is out of date: run `make reference`\n")
            return 1
        return 0
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
