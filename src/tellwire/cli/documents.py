"""Replies as plain values: `facts` as the wire has them, `document` with the fields at their default too."""

from __future__ import annotations

from typing import Any, cast

import msgspec


def facts(reply: msgspec.Struct) -> dict[str, Any]:
    """As the wire has it, for rendering."""
    return msgspec.to_builtins(reply)


def document(reply: msgspec.Struct) -> dict[str, Any]:
    """Every field, for `--json`."""
    values = {
        field.encode_name: _value(getattr(reply, field.name)) for field in msgspec.structs.fields(reply)
    }
    return msgspec.to_builtins(values)


def _value(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return document(value)
    if isinstance(value, list):
        return [_value(item) for item in cast("list[Any]", value)]
    return value
