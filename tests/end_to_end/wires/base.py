"""What the wire formats share."""

from __future__ import annotations

import json
import uuid
from typing import Any

FEW = 10
"""How many tokens anything costs here."""


def new_id(prefix: str) -> str:
    """An id as vendors make them."""
    return f"{prefix}{uuid.uuid4().hex[:20]}"


def listed(value: Any) -> list[Any]:
    """A list of decoded JSON, where it may be left out or be one thing."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownArgumentType]


def event(data: Any, name: str = "") -> str:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"
