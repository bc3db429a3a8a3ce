"""Stands in for a headless Claude Code that tellwire starts: one turn with its hooks and tools, then it ends.

It is found as `claude` on the path of whoever starts it; `acts.json` in the folder that is its first word
says what becomes of its turns. Not a test; see `fake_clients`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.integration.stand_in import StandIn

SESSION = "0199a1b2-0000-7000-8000-0000000fa4e0"
WAIT_S = 60.0


class FakeClaude(StandIn):
    """One run."""

    def __init__(self, folder: Path) -> None:
        super().__init__("claude-code")
        self._folder = folder
        self._transcript = folder / "transcript.jsonl"

    def tell(self, event: str, **fields: Any) -> str:
        """One hook; what it put into the context."""
        payload = {
            "session_id": SESSION,
            "hook_event_name": event,
            "transcript_path": str(self._transcript),
            "cwd": "/",
            **fields,
        }
        return self.hook("claude-code", json.dumps(payload))["out"]

    def run(self, prompt: str) -> int:
        """The turns that are written down for it, each begun by mail but the first; then its exit code."""
        self._transcript.touch()
        acts = json.loads((self._folder / "acts.json").read_text("utf-8"))
        self.join("whoever")
        self.tell("SessionStart", source="startup")
        for number, act in enumerate(acts):
            words = prompt if number == 0 else f"<task-notification>{self._mail()}"
            told = self.tell("UserPromptSubmit", prompt=words, prompt_id=f"p{number}")
            if number == 0 and "peer-message" not in told:
                self.tool("get_messages", wait_s=20)
            if "code" in act:
                sys.stderr.write(act.get("says", ""))
                return act["code"]
            if "fields" in act:
                self.tell(act.get("event", "Stop"), prompt_id=f"p{number}", **act["fields"])
        time.sleep(WAIT_S)  # it is ended from outside
        return 1

    def _mail(self) -> str:
        return self.tool("get_messages", wait_s=WAIT_S)["content"][0]["text"]


if __name__ == "__main__":
    sys.exit(FakeClaude(Path(sys.argv[1])).run(sys.argv[-1]))
