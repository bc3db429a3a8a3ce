"""Completion in the shells themselves: bash by its own machinery, zsh at a terminal, with a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tellwire.cli.app import cli
from tellwire.cli.table import ALIASES
from tests.integration.world import WITHIN_S, Home
from tests.surfaces.cli_world import environment, run

BIN = str(Path(sys.executable).parent)

BASH = r"""
eval "$(tellwire completion bash)"
complete -p tellwire >/dev/null || exit 3
COMP_WORDS=({words}); COMP_CWORD={last}
_tellwire_completion tellwire
printf '%s\n' "${{COMPREPLY[@]}}"
"""

# Completion of zsh works at a terminal only: one is made with zpty, a Tab is typed, the answer is read.
ZSH = r"""
zmodload zsh/zpty || exit 3
zpty shell zsh -f -i
zpty -w shell 'PS1=READY; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D'
zpty -w shell 'LISTMAX=1000; eval "$(tellwire completion zsh)"; print PRE""PARED'
zpty -r -m shell seen '*PREPARED*READY*' || exit 4
zpty -n -w shell $'{typed}\t'
zpty -r -m shell seen '*{expected}*' && print found
zpty -d shell
"""


def shell_environment(home: Home) -> dict[str, str]:
    env = environment(home)
    return {**env, "PATH": f"{BIN}:{env['PATH']}", "TERM": "dumb", "ZDOTDIR": str(home.path)}


def complete_in_bash(home: Home, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH.format(words=quoted, last=len(words) - 1)],
        env=shell_environment(home),
        capture_output=True,
        text=True,
        timeout=WITHIN_S * 2,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_values_and_names(home: Home) -> None:
    home.up()
    for name in ("anna", "anton", "bob"):
        assert run(home, "register", name).code == 0
    found = set(complete_in_bash(home, "tellwire", "s"))
    assert found == {name for name in cli.commands if name.startswith("s") and name not in ALIASES}
    assert {"send", "search", "service"} <= found
    assert complete_in_bash(home, "tellwire", "send", "--mo") == ["--mode"]
    assert complete_in_bash(home, "tellwire", "send", "--mode", "c") == ["challenge", "collaborate"]
    assert complete_in_bash(home, "tellwire", "send", "an") == ["anna", "anton"]
    assert complete_in_bash(home, "tellwire", "send", "bob,an") == ["bob,anna", "bob,anton"]
    assert complete_in_bash(home, "tellwire", "send", "b") == ["bob", "broadcast"]
    assert complete_in_bash(home, "tellwire", "inbox", "--as", "b") == ["bob"]
    assert complete_in_bash(home, "tellwire", "chat", "an") == ["anna", "anton"]
    assert complete_in_bash(home, "tellwire", "config", "get", "ttl_") == ["ttl_s", "ttl_s_max"]
    assert complete_in_bash(home, "tellwire", "help", "lin") == ["link"]
    assert complete_in_bash(home, "tellwire", "logs", "--level", "w") == ["warning"]
    assert complete_in_bash(home, "tellwire", "service", "--manager", "l") == ["launchd"]
    assert complete_in_bash(home, "tellwire", "install", "cl") == ["claude"]


def test_completion_starts_no_broker_and_complains_of_none(home: Home) -> None:
    assert complete_in_bash(home, "tellwire", "info", "a") == []
    assert not home.starters()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("tellwire compl", "completion"),
        ("tellwire send ann", "anna"),
        ("tellwire send anna --conf", "--confirm"),
    ],
)
def test_zsh_completes_at_a_terminal(home: Home, typed: str, expected: str) -> None:
    home.up()
    assert run(home, "register", "anna").code == 0
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH.format(typed=typed, expected=expected)],
        env=shell_environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S * 2,
        check=False,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "found"), done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_printed_and_names_its_command(home: Home, shell: str) -> None:
    done = run(home, "completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_TELLWIRE_COMPLETE={shell}_complete" in done.out
    assert os.linesep in done.out
    assert not home.starters()


def test_another_shell_is_refused(home: Home) -> None:
    done = run(home, "completion", "tcsh")
    assert (done.code, done.out) == (64, "")
    assert "bash" in done.err
