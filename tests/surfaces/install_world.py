"""A person with a home folder, and agent CLIs that only tell their version, for the tests of `install`."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import termios
from pathlib import Path
from typing import Any

from tests.integration.warm_cli import WARM_CLI
from tests.integration.world import WITHIN_S, tellwire_command
from tests.surfaces.cli_world import Done

VERSIONS = {
    "claude": "2.1.325 (Claude Code)",
    "codex": "codex-cli 0.166.0",
    "gemini": "0.61.0",
    "opencode": "1.18.33",
    "pi": "0.87.1",
}


class Person:
    """A home folder, a project in it, and agent CLIs that only tell their version."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        self.bin = root / "bin"
        self.bin.mkdir()
        self.state = self.home / ".local" / "state" / "tellwire"

    def has(self, program: str, says: str, *, more: str = "") -> None:
        """Have a client on the PATH."""
        path = self.bin / program
        path.write_text(f"#!/bin/sh\n{more}\necho '{says}'\n")
        path.chmod(0o755)

    def has_all(self) -> None:
        """Have every client, in a version that works."""
        for program, says in VERSIONS.items():
            self.has(program, says)

    def environment(self, **variables: str) -> dict[str, str]:
        """What a process of this person inherits; XDG_* and CODEX_HOME are those of nobody else."""
        path = f"{self.bin}:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **variables}

    def start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """Begin a command, without a terminal."""
        return subprocess.Popen(
            tellwire_command(*words),
            env=self.environment(**variables),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *words: str, **variables: str) -> Done:
        """Run a command, without a terminal."""
        variables = self.environment(**variables)
        ended = WARM_CLI.run([*words], variables, cwd=self.project, within_s=WITHIN_S)
        return Done(ended.code, ended.out.decode(), ended.err.decode())

    def json(self, *words: str, **variables: str) -> Any:
        """What a command says to a program."""
        done = self.run(*words, "--json", **variables)
        return json.loads(done.out or done.err)

    def answer(self, answer: str, *words: str) -> tuple[int, str]:
        """Run a command at a terminal and give an answer."""
        master, slave = pty.openpty()
        child = subprocess.Popen(
            tellwire_command(*words),
            env=self.environment(TERM="xterm", NO_COLOR="1"),
            cwd=self.project,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,  # noqa: PLW1509 - one call
        )
        os.close(slave)
        os.write(master, answer.encode())
        shown = b""
        try:
            while chunk := os.read(master, 65_536):
                shown += chunk
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(master)
        return child.wait(timeout=30), shown.decode().replace("\r\n", "\n")

    def write(self, path: str, text: str) -> Path:
        """Write a file in the home folder."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        return target

    def files(self) -> dict[str, bytes]:
        """All files, but for tellwire's own."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and not path.is_relative_to(self.state)
        }

    def plain(self, text: str) -> str:
        """Text without what differs from machine to machine."""
        relay = re.compile(r"[^\s\"']*/tellwire/relay/")
        short = relay.sub("RELAY/", text).replace(str(self.state / "bin" / "python"), "PYTHON")
        return short.replace(str(self.home), "~")


def finish(child: subprocess.Popen[bytes]) -> Done:
    """Wait for a command."""
    out, err = child.communicate(timeout=60)
    return Done(child.returncode, out.decode(), err.decode())
