"""Gemini CLI."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.end_to_end.clients import KEY, NODE, SERVER, Client, package


class Gemini(Client):
    """Gemini CLI with a key of its own; every folder is trusted."""

    kind = "gemini-cli"
    short = "gemini"
    evidence = "transcript"
    relaunches = True
    ready_mark = "Type your message"
    unlisted = f"mcp_{SERVER}_{{}}"
    events = (
        "SessionStart",
        "BeforeAgent",
        "BeforeTool",
        "AfterTool",
        "AfterAgent",
        "PreCompress",
        "Notification",
        "SessionEnd",
    )

    def program(self) -> list[str]:
        """Node with the program's bundle."""
        return [str(NODE), str(package("@google/gemini-cli", "bundle", "gemini.js"))]

    def own_environment(self) -> dict[str, str]:
        """The model."""
        return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": self.model_url}

    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """`~/.gemini/settings.json`."""
        command = {"type": "command", "name": "recorder", "command": hook, "timeout": 20_000}
        entry = {"command": server[0], "args": list(server[1:]), "trust": True} if server else {}
        self.write(
            ".gemini/settings.json",
            {
                "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
                "hooksConfig": {"enabled": True},
                "mcpServers": {SERVER: entry} if server else {},
                "hooks": {event: [{"matcher": "*", "hooks": [command]}] for event in self.events}
                if hook
                else {},
            },
        )

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """`-p`, with an answer as data."""
        options = ["-m", "gemini-2.5-pro", "--output-format", "json"]
        return [*options, *(["--resume", resume] if resume else []), "-p", prompt]

    def interactive(self) -> list[str]:
        """A model whose name it knows."""
        return ["-m", "gemini-2.5-pro"]

    def final_text(self, out: str) -> str:
        """The response; it joins all texts of the turn."""
        return json.loads(out)["response"] if out.startswith("{") else out
