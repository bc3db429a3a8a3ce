"""Which program a child is, and how it is started: one rule for all agent CLIs.

What a person would type is what is run. No flag here accepts anything on the person's behalf: a client that
asks whether a folder or a hook is trusted asks in its window, and does not come up.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tellwire.clients import BY_KIND
from tellwire.clients.client import COMMAND
from tellwire.protocol.operations.scopes import ScopeRule

STARTABLE = (*BY_KIND, COMMAND)
"""What a child can be."""
FIRST_WORDS = (
    "You were started by another agent. Its message has your task: it stands here already, or get_messages"
    " (wait_s=60) gets it. Do what it says, and end your turn with the result."
)
"""What starts the first turn. The task comes as a message, which a hook may have put beside these words."""


NAMED_MAX = 8
"""Paths of a scope in the first prompt."""


class Unstartable(NamedTuple):
    """Why a child cannot be started, and what to do about it."""

    reason: str
    advice: str = ""


def command_line(
    client: str,
    command: Sequence[str],
    *,
    headless: bool,
    env: Mapping[str, str],
    bounds: Sequence[str] = (),
    prompt: str = FIRST_WORDS,
) -> list[str] | Unstartable:
    """The words to run, with the program found on the path; `bounds` are the client's own for a scope."""
    if client == COMMAND:
        words = list(command)
        if not words:
            return Unstartable("No command was given.", "Give the program and its arguments in `command`.")
    else:
        known = BY_KIND.get(client)
        if known is None:
            kinds = ", ".join(STARTABLE)
            return Unstartable(f"Unknown client {client[:40]!r}.", f"Use one of {kinds}.")
        first = known.launch.headless if headless else known.launch.window
        ask = known.launch.ask_headless if headless else known.launch.ask
        words = [known.program, *first, *command, *bounds, *ask, prompt]
    found = find_program(words[0], env)
    if found is None:
        package = BY_KIND[client].npm if client in BY_KIND else ""
        advice = f"Install it with `npm install -g {package}`." if package else "Give its full path."
        return Unstartable(f"{words[0][:80]!r} is not installed.", advice)
    return [found, *words[1:]]


def first_words(rules: Sequence[ScopeRule] | None) -> str:
    """What starts the first turn, with where the child may write; None: that is not bounded."""
    if rules is None:
        return FIRST_WORDS
    paths = [
        rule.path if rule.recursive else f"{rule.path} (not beneath)"
        for rule in rules
        if rule.access == "write"
    ]
    if not paths:
        return f"{FIRST_WORDS} You may write nowhere: whatever you try to write is refused."
    more = f" and {len(paths) - NAMED_MAX} more paths" if len(paths) > NAMED_MAX else ""
    named = ", ".join(paths[:NAMED_MAX])
    return f"{FIRST_WORDS} You may write to {named}{more}, and nowhere else: that is refused."


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """Where a program is, for an environment."""
    return shutil.which(name, path=env.get("PATH"))
