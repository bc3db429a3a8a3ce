"""What the scripted model is told to say, and what it was asked: steps, and a record of each request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

NO_WORDS = frozenset({"type", "role", "id", "call_id", "tool_use_id", "cache_control", "status", "signature"})
"""Keys whose strings are no words for a model."""
PEER_MESSAGE = re.compile(r'(?:(?:<|&lt;)peer-message id=|"id": ?")(\w+)"?,? ?"?from')
"""In words, with entities where Gemini writes them, or where a client shows its model data instead."""


class Turn(NamedTuple):
    """One entry of the context: who says it, and all the text in it."""

    role: str
    text: str


class Request(NamedTuple):
    """One request of a client to its model."""

    agent: str
    api: str
    tools: tuple[str, ...]
    turns: tuple[Turn, ...]
    body: dict[str, Any]

    @property
    def main(self) -> bool:
        """It goes on with the conversation; one without tools makes a title or a summary."""
        return bool(self.tools)

    @property
    def text(self) -> str:
        """The whole context."""
        return "\n".join(turn.text for turn in self.turns)

    def where(self, text: str) -> list[str]:
        """The roles of the entries that hold a text, once for each time."""
        return [turn.role for turn in self.turns for _ in range(turn.text.count(text))]

    def message_id(self, index: int = -1) -> str:
        """The id of a peer's message that stands in the context, by default the last one's."""
        found: list[str] = PEER_MESSAGE.findall(self.text)
        assert found, f"no message of a peer in {self.text[-2_000:]}"
        return found[index]


class Call(NamedTuple):
    """A tool call. The tool is meant by its name, or by the end of the name that the client gave it."""

    tool: str
    arguments: Mapping[str, Any]
    """A value may be a function of the request, for what only the context tells."""


class Step(NamedTuple):
    """What answers one main request."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 0
    """An HTTP error instead of an answer."""
    when: str = ""
    """Only for a request with this text; others are answered by the steps behind it."""
    hold: asyncio.Event | None = None
    """Answer when it is set."""


class Reply(NamedTuple):
    """A step made ready for one request: names as the client offers them, arguments as values."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...]


def say(text: str) -> Step:
    """End the turn with a text."""
    return Step(text=text)


def call(tool: str, **arguments: Any) -> Step:
    """Call one tool."""
    return Step(calls=(Call(tool, arguments),))


def fail(status: int) -> Step:
    """Answer with an HTTP error."""
    return Step(status=status)


def message_id(request: Request) -> str:
    """As an argument: the id of the last message that a peer sent."""
    return request.message_id()


def ready(step: Step, request: Request, unlisted: str) -> Reply:
    """Resolve a step for the request that it answers."""
    return Reply(
        step.text,
        tuple(
            (offered(each.tool, request.tools, unlisted), values(each.arguments, request))
            for each in step.calls
        ),
    )


def offered(tool: str, tools: tuple[str, ...], unlisted: str) -> str:
    """The offered tool of a name; `unlisted` makes the name of one that the client does not show at first."""
    for name in tools:
        if name == tool or re.fullmatch(rf".*[_/]{re.escape(tool)}", name):
            return name
    return unlisted.format(tool)


def values(arguments: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The arguments, with what depends on the request worked out."""
    return {key: _value(each, request) for key, each in arguments.items()}


def _value(given: Any, request: Request) -> Any:
    ask: Callable[[Request], Any] | None = given if callable(given) else None
    return ask(request) if ask else given


def words(value: Any) -> Iterator[str]:
    """All strings in decoded JSON that a model reads."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from words(each)
    elif isinstance(value, dict):
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            if key not in NO_WORDS:
                yield from words(each)


def turn(role: str, *values: Any) -> Turn:
    """An entry of the context out of decoded JSON."""
    return Turn(role, "\n".join(words(list(values))))
