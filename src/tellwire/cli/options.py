"""How the commands parse their arguments: shared options, durations, times, completion of names."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tellwire.cli.speaking import ask
from tellwire.protocol.addresses import BROADCAST
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import ListAgents

F = TypeVar("F", bound=Callable[..., Any])

UNIT_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"(?:[01]?\d|2[0-3]):[0-5]\d")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w|)")


class ClientWord(click.Choice[str]):
    """An agent CLI by either word, or one of some further words; the value is one word for each."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """`words` has each word that is shown, and the other one for it."""
        super().__init__(list(words))
        self._others = {other: word for word, other in words.items()}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word that is shown."""
        return super().convert(self._others.get(value, value), param, ctx)


class Duration(click.ParamType[float]):
    """`90`, `90s`, `15min`, `2h`, `7d`, `1h30m`; in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the argument, or fail with an example."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip().lower()
        parts = _PART.findall(text)
        if not parts or "".join(_PART.sub("", text).split()) or (len(parts) > 1 and text[-1].isdigit()):
            self.fail(f"{value!r} is not a duration. Use for example 90s, 15min, 2h or 7d.", param, ctx)
        return sum(float(count) * UNIT_S[unit] for count, unit in parts)


class Moment(Duration):
    """A duration ago, a day, a time of today, or a date and time; in seconds since 1970."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the argument, or fail with an example."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        day = _day(text.lower(), datetime.now())
        if day is not None:
            return day.timestamp()
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            pass
        try:
            return time.time() - super().convert(value, param, ctx)
        except click.BadParameter:
            words = f"{value!r} is not a time. Use for example 2h, yesterday, monday, 14:30 or 2026-03-01."
            self.fail(words, param, ctx)


def _day(word: str, now: datetime) -> datetime | None:
    """The beginning of a day by its name, the last one of that name; or a time of today."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        return midnight - timedelta(days=word == "yesterday")
    if word in DAYS:
        return midnight - timedelta(days=(now.weekday() - DAYS.index(word)) % 7)
    if _CLOCK.fullmatch(word):
        hour, minute = map(int, word.split(":"))
        return midnight.replace(hour=hour, minute=minute)
    return None


def note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    """Remember that errors are to be JSON as well."""
    ctx.find_root().meta["tellwire.json"] = value
    return value


def json_option(function: F) -> F:
    """`--json`."""
    words = "Print one JSON document with every field."
    return click.option("--json", "as_json", is_flag=True, callback=note_json, help=words)(function)


def jsonl_option(function: F) -> F:
    """`--json` of a stream."""
    words = "Print one JSON document per line."
    return click.option("--json", "as_json", is_flag=True, callback=note_json, help=words)(function)


def as_option(function: F) -> F:
    """`--as NAME`."""
    words = "Act as this agent (only if it has no running client)."
    return click.option("--as", "speaker", metavar="NAME", help=words, shell_complete=complete_names)(
        function
    )


def complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The known agents; none if no broker runs."""
    return [CompletionItem(name) for name in _known() if name.lower().startswith(incomplete.lower())]


def complete_addresses(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The known agents behind the last comma, and the word for all."""
    before, comma, last = incomplete.rpartition(",")
    known = _known() if comma else [*_known(), BROADCAST]
    return [
        CompletionItem(f"{before}{comma}{name}") for name in known if name.lower().startswith(last.lower())
    ]


def _known() -> list[str]:
    try:
        return [agent.name for agent in ask(ListAgents(all=True), autostart=False).agents]
    except TellwireError:
        return []
