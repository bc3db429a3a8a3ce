"""Stands in for an agent CLI on a screen: draws an input line as Gemini CLI does, and takes keys.

Each line that is entered runs the client's prompt hook and goes, with the hook's answer, into `lines` of the
folder given. What a test wants of it comes as JSON lines through the pipe `control`; its answers go into
`answers`. Not a test; `test_typing` runs it in tmux.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import termios
import tty
from pathlib import Path
from typing import Any

from tests.integration.stand_in import StandIn

SESSION = "0199a1b2-0000-7000-8000-0000000000aa"
HINT = "  Type your message or @path/to/file"
WIDTH = 60


class Prompting:
    """One client on one screen."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._text = ""
        self._stand_in = StandIn("gemini-cli-mcp-client")
        self._is_known = bool(name)
        if name:
            self._stand_in.join(name)
            self.hook("SessionStart", source="startup")

    def hook(self, event: str, **fields: Any) -> Any:
        """Run one of the client's hooks."""
        payload = {
            "session_id": SESSION,
            "transcript_path": str(self._folder / "chat.jsonl"),
            "cwd": "/",
            "hook_event_name": event,
            **fields,
        }
        return self._stand_in.hook("gemini-cli", json.dumps(payload))

    def mute(self, *options: str) -> Any:
        """Ask to be left alone, as an agent does through a command."""
        words = [str(Path(sys.executable).with_name("tellwire")), "mute", *options]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode

    def mute_for(self, length: str) -> Any:
        """The same for a time."""
        return self.mute("--for", length)

    def mute_off(self) -> Any:
        """No longer."""
        return self.mute("--off")

    def ignore(self) -> None:
        """From now on a line that is entered starts no turn."""
        self._is_known = False

    def shell(self) -> Any:
        """Let a child have the terminal, as a client does for an editor; until the next word."""
        child = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
        select.select([self.control], [], [], 60)
        child.kill()
        return child.wait()

    def draw(self) -> None:
        """The frame, the line, and the cursor behind its last character."""
        line = f" > {self._text or ' ' + HINT[1:]}"
        screen = f"\x1b[H\x1b[2J{'▄' * WIDTH}\r\n{line}\r\n{'▀' * WIDTH}\x1b[2;{4 + len(self._text)}H"
        os.write(1, screen.encode())

    def take(self, data: bytes) -> None:
        """Keys."""
        for char in data.decode(errors="replace"):
            if char in "\r\n":
                line, self._text = self._text, ""
                given = self.hook("BeforeAgent", prompt=line)["out"] if self._is_known else ""
                self._write("lines", {"line": line, "given": given})
            elif char == "\x7f":
                self._text = self._text[:-1]
            else:
                self._text += char

    def obey(self, line: str) -> None:
        """What a test wants."""
        command = json.loads(line)
        answer = getattr(self, command.pop("do"))(**command)
        self._write("answers", answer)

    def _write(self, name: str, value: Any) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def run(self) -> None:
        """Until it is told to end."""
        os.mkfifo(self._folder / "control")
        self.control = os.open(self._folder / "control", os.O_RDWR)
        before = termios.tcgetattr(0)
        tty.setraw(0)
        try:
            while True:
                self.draw()
                ready, _, _ = select.select([0, self.control], [], [])
                if 0 in ready:
                    self.take(os.read(0, 1024))
                if self.control in ready:
                    for line in os.read(self.control, 65_536).decode().splitlines():
                        self.obey(line)
        finally:
            termios.tcsetattr(0, termios.TCSANOW, before)
            self._stand_in.end()


if __name__ == "__main__":
    Prompting(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "").run()
