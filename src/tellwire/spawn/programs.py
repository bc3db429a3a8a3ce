"""Which program a child is, and how it is started: data about each agent CLI, and one rule.

What a person would type is what is run. No flag here accepts anything on the person's behalf: a client that
asks whether a folder or a hook is trusted asks in its window, and does not come up.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tellwire.protocol.operations.scopes import ScopeRule

COMMAND = "command"
"""The client that is any program."""
FIRST_WORDS = (
    "You were started by another agent. Its message has your task: it stands here already, or get_messages"
    " (wait_s=60) gets it. Do what it says, and end your turn with the result."
)
"""What starts the first turn. The task comes as a message, which a hook may have put beside these words."""


NAMED_MAX = 8
"""Paths of a scope in the first prompt."""


class Program(NamedTuple):
    """One agent CLI as it is started."""

    kind: str
    """What its session is registered as."""
    name: str
    window: tuple[str, ...]
    """Its words in a window of its own; the caller's words follow, then what introduces the first prompt."""
    headless: tuple[str, ...]
    ask: tuple[str, ...] = ("--",)
    """What introduces the first prompt in a window: the last of its words, whatever the caller's are."""
    ask_headless: tuple[str, ...] = ("--",)
    install: str = ""
    word: str = ""
    """What `tellwire install` calls it."""


PROGRAMS: dict[str, Program] = {
    "claude-code": Program(
        "claude-code",
        "claude",
        (),
        ("-p",),
        install="npm install -g @anthropic-ai/claude-code",
        word="claude",
    ),
    "codex": Program(
        "codex",
        "codex",
        # Its shared server would run the hooks and the tools outside of this child's process.
        ("--no-daemon",),
        ("exec",),
        install="npm install -g @openai/codex",
        word="codex",
    ),
    "gemini-cli": Program(
        "gemini-cli",
        "gemini",
        (),
        (),
        ask=("-i",),
        ask_headless=("-p",),
        install="npm install -g @google/gemini-cli",
        word="gemini",
    ),
    "opencode": Program(
        "opencode",
        "opencode",
        (),
        ("run",),
        ask=("--prompt",),
        install="npm install -g opencode-ai",
        word="opencode",
    ),
    "pi": Program(
        "pi",
        "pi",
        (),
        ("-p",),
        install="npm install -g @earendil-works/pi-coding-agent",
        word="pi",
    ),
}


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
            return Unstartable("No command is given.", "Give the program and its words in `command`.")
    else:
        program = PROGRAMS.get(client)
        if program is None:
            known = ", ".join([*PROGRAMS, COMMAND])
            return Unstartable(f"No client {client[:40]!r} is known.", f"Use one of {known}.")
        first = program.headless if headless else program.window
        ask = program.ask_headless if headless else program.ask
        words = [program.name, *first, *command, *bounds, *ask, prompt]
    found = find_program(words[0], env)
    if found is None:
        install = PROGRAMS[client].install if client in PROGRAMS else ""
        advice = f"Install it: {install}" if install else "Give its whole path."
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
