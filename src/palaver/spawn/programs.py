"""Which program a child is, and what it may inherit: data about each agent CLI, and one rule.

A child begins with a clean environment: of its parent's it gets what every program needs, and the keys of its
own client only. No token of another agent, and no other client's key.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

COMMAND = "command"
"""The client that is any program."""
FIRST_WORDS = (
    "Your task waits: call get_messages (wait_s=60), do what it says, and end your turn with the result."
)
"""What starts the first turn; the task itself comes as a message."""
PLAIN = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")


class Program(NamedTuple):
    """One agent CLI as it is started."""

    kind: str
    """What its session is registered as."""
    window: tuple[str, ...]
    """In a window of its own; the first words follow."""
    headless: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Beginnings of the variables that it needs."""
    install: str = ""


PROGRAMS: dict[str, Program] = {
    "claude-code": Program(
        "claude-code",
        ("claude",),
        ("claude", "-p"),
        ("ANTHROPIC_", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN"),
        "npm install -g @anthropic-ai/claude-code",
    ),
    "codex": Program(
        "codex",
        ("codex",),
        ("codex", "exec"),
        ("OPENAI_", "CODEX_HOME", "CODEX_API_KEY"),
        "npm install -g @openai/codex",
    ),
    "gemini-cli": Program(
        "gemini-cli",
        ("gemini", "-i"),
        ("gemini", "-p"),
        ("GEMINI_", "GOOGLE_"),
        "npm install -g @google/gemini-cli",
    ),
    "opencode": Program(
        "opencode",
        ("opencode", "--prompt"),
        ("opencode", "run"),
        ("OPENCODE_CONFIG", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        "npm install -g opencode-ai",
    ),
    "pi": Program(
        "pi",
        ("pi",),
        ("pi", "-p"),
        ("PI_", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        "npm install -g @mariozechner/pi-coding-agent",
    ),
}


class Unstartable(NamedTuple):
    """Why a child cannot be started, and what to do about it."""

    reason: str
    advice: str = ""


def command_line(
    client: str, command: Sequence[str], *, headless: bool, env: Mapping[str, str]
) -> list[str] | Unstartable:
    """The words to run, with the program found on the path."""
    if client == COMMAND:
        words = list(command)
        if not words:
            return Unstartable("No command is given.", "Give the program and its words in `command`.")
    else:
        program = PROGRAMS.get(client)
        if program is None:
            known = ", ".join([*PROGRAMS, COMMAND])
            return Unstartable(f"No client {client[:40]!r} is known.", f"Use one of {known}.")
        words = [*(program.headless if headless else program.window), *command, FIRST_WORDS]
    found = shutil.which(words[0], path=env.get("PATH"))
    if found is None:
        install = PROGRAMS[client].install if client in PROGRAMS else ""
        advice = f"Install it: {install}" if install else "Give its whole path."
        return Unstartable(f"{words[0][:80]!r} is not installed.", advice)
    return [found, *words[1:]]


def environment_of(client: str, parent: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a child inherits of its parent, and what is its own."""
    keys = PROGRAMS[client].keys if client in PROGRAMS else ()
    kept = {
        name: value
        for name, value in parent.items()
        if name in PLAIN or name.startswith("XDG_") or (keys and name.startswith(keys))
    }
    return {**kept, "TERM": "xterm-256color", **own}
