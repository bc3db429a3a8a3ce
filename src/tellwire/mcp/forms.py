"""Tools out of the dialect tables: their schemas for the client, and calls into operations."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from tellwire.clients import KINDS
from tellwire.mcp.dialects.tool import ANY_CLIENT, WAIT_S_MAX, Tool
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.suggestions import nearest

WAIT = "wait_s"
EXPLANATION_LENGTH_MAX = 300


class Form:
    """What calls of one tool are checked against: made once, because looking at types is slow."""

    def __init__(self, tool: Tool) -> None:
        fields = {field.name: field for field in msgspec.structs.fields(tool.operation)}
        self.tool = tool
        self.types = {each.public_name: _type_schema(fields[each.field].type) for each in tool.arguments}
        self.fields = {each.public_name: each.field for each in tool.arguments}
        self.needed = [
            each.public_name for each in tool.arguments if each.needed or fields[each.field].required
        ]
        self.known = [*self.fields, WAIT] if tool.waits else list(self.fields)
        self.choices = {word: schema["enum"] for word, schema in self.types.items() if "enum" in schema}

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, short: every client sends it to its model."""
        properties: dict[str, Any] = {}
        for argument in self.tool.arguments:
            schema = dict(argument.schema or self.types[argument.public_name])
            if argument.doc:
                schema["description"] = argument.doc.replace(ANY_CLIENT, KINDS)
            properties[argument.public_name] = schema
        if self.tool.waits:
            doc = f"Hold the call for up to {WAIT_S_MAX:.0f} seconds until something comes."
            properties[WAIT] = {"type": "number", "description": doc}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": self.needed} if self.needed else schema

    def parse(self, arguments: dict[str, Any], extra: dict[str, Any]) -> tuple[Operation[Any], float | None]:
        """Turn a call into its operation, and how long it may be held if the caller says so.

        Raises:
            TellwireError: `bad_request`, in words that tell a model what to correct.
        """
        tool = self.tool
        given = {word: value for word, value in arguments.items() if value is not None}
        wait_s = _wait(given.pop(WAIT, None)) if tool.waits else None
        self._check(given)
        values = {self.fields[word]: value for word, value in given.items()}
        try:
            return msgspec.convert({**values, **tool.fixed, **extra}, tool.operation), wait_s
        except msgspec.ValidationError as error:
            raise TellwireError("bad_request", _explain(tool, str(error))) from error

    def _check(self, given: dict[str, Any]) -> None:
        """What models get wrong most, in words that say what is right.

        Raises:
            TellwireError: `bad_request`.
        """
        name = self.tool.name
        for word in given:
            if word not in self.fields:
                near = nearest(word, self.known)
                hint = (
                    f"Did you mean {near[0]}?"
                    if near
                    else f"Its arguments: {', '.join(self.known) or 'none'}."
                )
                raise TellwireError("bad_request", f"{name} has no argument {word[:40]!r}.", hint)
        for word in self.needed:
            if word not in given:
                raise TellwireError("bad_request", f"{name} needs `{word}`.", "Call it again with it.")
        for word, choices in self.choices.items():
            if word in given and given[word] not in choices:
                right = ", ".join(choices)
                raise TellwireError("bad_request", f"`{word}` must be one of {right}.", "Or leave it out.")
        for word, field in self.fields.items():
            value = given.get(word)
            if field == "to" and isinstance(value, str) and "," in value:
                names = ", ".join(
                    f'"{each.strip()}"' for each in value.strip("[] ").replace('"', "").split(",")
                )
                raise TellwireError("bad_request", "Several recipients go as a list.", f"Use [{names}].")


_FORMS: dict[int, Form] = {}


def form_of(tool: Tool) -> Form:
    """The form of a tool of the tables, which live as long as we do."""
    form = _FORMS.get(id(tool))
    if form is None:
        form = _FORMS[id(tool)] = Form(tool)
    return form


def _type_schema(kind: Any) -> dict[str, Any]:
    """A field's own type, without the None that only means it may be left out."""
    if get_origin(kind) in (Union, UnionType):
        kinds = tuple(each for each in get_args(kind) if each is not NoneType)
        kind = kinds[0] if len(kinds) == 1 else Union[kinds]  # noqa: UP007 - made of values, not written
    return msgspec.json.schema(kind)


def _wait(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= WAIT_S_MAX:
        raise TellwireError("bad_request", f"{WAIT} must be a number from 0 to {WAIT_S_MAX:.0f}.")
    return float(value)


def _explain(tool: Tool, text: str) -> str:
    """A validation error in the caller's own words for the fields."""
    for argument in tool.arguments:
        text = text.replace(f"$.{argument.field}`", f"{argument.public_name}`")
        text = text.replace(f"`{argument.field}`", f"`{argument.public_name}`")
    return f"{tool.name}: {text[:EXPLANATION_LENGTH_MAX]}."
