"""Commands built from operations: arguments, options and help are the fields of the class and their docs.

An operation that is declared for the command line and has no row in `cli/table` gets such a command under its
own name. A row whose command only differs in words or in how it prints passes these to `command_for`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
import msgspec

from tellwire.cli.documents import document, facts
from tellwire.cli.options import Duration, as_option, complete_names, json_option
from tellwire.cli.render import render_json, render_pairs
from tellwire.cli.screen import find_screen, write
from tellwire.cli.speaking import Speaker, ask_as, ask_once, speak
from tellwire.cli.words import here
from tellwire.paths import canonical
from tellwire.protocol.docs import field_docs
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.base import AGENT, SCRIPT, Operation

Show = Callable[[Any], None]
"""Prints a reply for people."""
AGENT_FIELDS = ("agent", "name", "peer")
"""Fields that hold an agent's name: the shell completes them."""


def plain_command(name: str) -> click.Command:
    """The command of an operation that has none of its own."""
    return command_for(OPERATIONS[name.replace("-", "_")], name)


def command_for(
    kind: type[Operation[Any]],
    name: str,
    *,
    help: str = "",
    show: Show | None = None,
    exit_code: Callable[[Any], int] = lambda _reply: 0,
) -> click.Command:
    """A command that asks for one operation.

    Required fields are arguments, the others options. A request id is made here.
    """
    fields = [each for each in msgspec.structs.fields(kind) if each.name != "key" or not kind.repeats]

    def run(*, as_json: bool, speaker: str | None = None, **given: Any) -> int:
        values = {field.encode_name: given[field.name] for field in fields}
        reply = _ask(
            kind, {word: value for word, value in values.items() if value not in (None, ())}, speaker
        )
        if as_json:
            write(render_json(document(reply)))
        else:
            (show or show_reply)(reply)
        return exit_code(reply)

    docs = field_docs(kind) if not all(field.required for field in fields) else {}
    function: Any = json_option(run)
    function = as_option(function) if AGENT in kind.callers else function
    for field in reversed(fields):
        function = _parameter(field, docs.get(field.name, ""))(function)
    return click.command(name, help=help or help_of(kind, name))(function)


def help_of(kind: type[Operation[Any]], name: str) -> str:
    """The documentation of an operation, and how its command is called."""
    needed = [field.name.upper() for field in msgspec.structs.fields(kind) if field.required]
    usage = " ".join(["tellwire", name, *needed])
    return f"{inspect.cleandoc(kind.__doc__ or '')}\n\n\b\nExample:\n  {usage}\n"


def show_reply(reply: Any) -> None:
    """Any reply: its fields by name, or its note."""
    values = facts(reply)
    if set(values) <= {"note"}:
        write(f"{values.get('note') or 'Done.'}\n")
        return
    shown = [
        (word, value if isinstance(value, str) else render_json(value).strip())
        for word, value in values.items()
    ]
    write(render_pairs(shown, find_screen()))


def _ask(kind: type[Operation[Any]], values: dict[str, Any], speaker: str | None) -> Any:
    try:
        operation = msgspec.convert(values, kind, strict=False).resolved(here() or os.sep, canonical)
    except msgspec.ValidationError as error:
        raise TellwireError("bad_request", f"{error}.") from error
    name = speaker if SCRIPT in kind.callers else speaker or ""
    if not kind.repeats:
        return ask_as(name, operation)
    if name is None:
        return ask_once(lambda key: msgspec.structs.replace(operation, key=key))

    async def work(me: Speaker) -> Any:
        return await me.call(operation)

    return speak(name, work)


def _parameter(field: msgspec.structs.FieldInfo, doc: str) -> Callable[[Any], Any]:
    """The argument or option of one field."""
    kind, repeated = _type_of(field.type)
    word = field.name.replace("_", "-")
    completes: Any = {"shell_complete": complete_names} if field.name in AGENT_FIELDS else {}
    if field.required:
        return click.argument(field.name, nargs=-1 if repeated else 1, type=kind, required=True, **completes)
    if kind is click.BOOL:
        return click.option(f"--{word}", field.name, is_flag=True, help=doc)
    if field.name.endswith("_s") and kind is click.FLOAT:
        word, kind = word.removesuffix("-s"), Duration()
    return click.option(f"--{word}", field.name, type=kind, multiple=repeated, help=doc, **completes)


def _type_of(kind: Any) -> tuple[click.ParamType[Any], bool]:
    """How a field's value is written at the command line, and whether it may be given several times."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    origin = get_origin(kind)
    if origin is Literal:
        return click.Choice([str(each) for each in get_args(kind)]), False
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _type_of(get_args(kind)[0])[0], True
    simple: dict[Any, click.ParamType[Any]] = {bool: click.BOOL, int: click.INT, float: click.FLOAT}
    return simple.get(kind, click.STRING), False
