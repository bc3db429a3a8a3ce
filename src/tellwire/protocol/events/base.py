"""What every event is: a committed fact with an audience and a version."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

import msgspec

from tellwire.protocol.operations.base import snake_case


class Audience(Enum):
    """Whether an event may reach agents, or only the registry and people."""

    AGENT = "agent"
    CONTROL = "control"


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One fact. Its sequence number is its place in the journal, which has it as `[tag, field, ...]`."""

    audience: ClassVar[Audience]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not isinstance(cls.__dict__.get("audience"), Audience):
            raise TypeError(f"event {cls.__name__} must declare its audience: AGENT or CONTROL")


def word(name: str) -> str:
    """The tag of an event class in the journal."""
    return snake_case(name)


def second_word(name: str) -> str:
    """The tag of an event class whose shape changed once."""
    return f"{snake_case(name)}.2"
