"""Which program a child is, how it is started, and what keeps it from starting: one rule for all agent CLIs.

What a person would type is what is run. No flag here accepts anything on the person's behalf: a client that
asks whether a folder or a hook is trusted asks in its window, and does not come up.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tellwire.clients import BY_KIND, BY_WORD
from tellwire.clients.client import COMMAND, Bounds, ChildPlace
from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.scopes import ScopeRule

STARTABLE = {**{each.kind: each.name for each in BY_KIND.values()}, COMMAND: COMMAND}
"""What a child can be, and the other word for it."""
FIRST_WORDS = (
    "You were started by another agent. Its message has your task: it stands here already, or get_messages"
    " (wait_s=60) gets it. Do what it says, and end your turn with the result."
)
"""What starts the first turn. The task comes as a message, which a hook may have added to this prompt."""


NAMED_MAX = 8
"""Paths of a scope in the first prompt."""


HARMLESS = frozenset(
    {
        "--dangerously-bypass-hook-trust",
        "--effort",
        "--json",
        "--model",
        "--no-alt-screen",
        "--output-format",
        "--skip-git-repo-check",
        "--verbose",
        "-m",
        "-n",
        "--name",
    }
)
"""Options of a caller that change nothing about what may be written."""


Named = TypeVar("Named", SpawnAgent, AskAgent)


def by_kind(operation: Named) -> Named:
    """The same with the client's kind, where its other word was given."""
    known = BY_WORD.get(operation.client)
    return operation if known is None else msgspec.structs.replace(operation, client=known.kind)


class LaunchRefusal(NamedTuple):
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
) -> list[str] | LaunchRefusal:
    """The words to run, with the program found on the path; `bounds` are the client's own for a scope."""
    if client == COMMAND:
        words = list(command)
        if not words:
            return LaunchRefusal("No command was given.", "Give the program and its arguments in `command`.")
    else:
        known = BY_KIND.get(client)
        if known is None:
            kinds = ", ".join(STARTABLE)
            return LaunchRefusal(f"Unknown client {client[:40]!r}.", f"Use one of {kinds}.")
        first = known.launch.headless if headless else known.launch.window
        ask = known.launch.ask_headless if headless else known.launch.ask
        words = [known.program, *first, *command, *bounds, *ask, prompt]
    found = find_program(words[0], env)
    if found is None:
        package = BY_KIND[client].npm if client in BY_KIND else ""
        advice = f"Install it with `npm install -g {package}`." if package else "Give its full path."
        return LaunchRefusal(f"{words[0][:80]!r} is not installed.", advice)
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


def bounds_of(place: ChildPlace, rules: Sequence[ScopeRule]) -> Bounds:
    """What has a client's own sandbox or rules enforce a scope, as far as they can; blocks for a moment.

    Some clients have neither (`Client.hold`): their hooks are asked instead. What is reported as enforced
    must be: if the caller's options may change it, or the sandbox does not work here, it does not count.
    """
    roots = _folders(rules)
    if roots is None or not all(word in HARMLESS for word in place.command if word.startswith("-")):
        return Bounds()
    client = BY_KIND.get(place.client)
    return Bounds() if client is None or client.hold is None else client.hold(place, roots)


def _folders(rules: Sequence[ScopeRule]) -> list[str] | None:
    """The folders that may be written; None if it is not about whole folders that are there."""
    writes = [rule for rule in rules if rule.access == "write"]
    whole = all(rule.recursive and rule.path != "/" and os.path.isdir(rule.path) for rule in writes)
    return sorted({rule.path for rule in writes}) if whole else None


def find_dialog(kind: str, screen: str) -> str | None:
    """What a client's window asks its human before it begins; None if it asks nothing that is known."""
    dialogs = BY_KIND[kind].screen.dialogs if kind in BY_KIND else ()
    return next((what for what, words in dialogs if words.search(screen)), None)


def is_distrusted(kind: str, cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a client without a window would begin, unasked, in a folder that its human never trusted."""
    return kind in BY_KIND and BY_KIND[kind].screen.is_distrusted(cwd, env)
