"""Claude Code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.end_to_end.clients import KEY, SERVER, Client, machine, package


class Claude(Client):
    """Claude Code with a key of its own; nothing is asked at the start."""

    kind = "claude-code"
    short = "claude"
    evidence = "request"
    ready_mark = "? for shortcuts"
    interrupt_keys = ("Escape", "C-u")  # an unanswered prompt goes back to the input line
    unlisted = f"mcp__{SERVER}__{{}}"
    events = (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Stop",
        "StopFailure",
        "SubagentStart",
        "SubagentStop",
        "Notification",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
    )

    def program(self) -> list[str]:
        """Its native program."""
        return [str(package(f"@anthropic-ai/claude-code-{machine()}", "claude"))]

    def own_environment(self) -> dict[str, str]:
        """The model, and silence towards the vendor."""
        return {
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """`~/.claude.json` and `~/.claude/settings.json`."""
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
        }
        servers = (
            {SERVER: {"type": "stdio", "command": server[0], "args": list(server[1:])}} if server else {}
        )
        self.write(".claude.json", {**state, "mcpServers": servers})
        command = {"type": "command", "command": hook, "timeout": 20}
        hooks = {event: [{"hooks": [command]}] for event in self.events} if hook else {}
        self.write(".claude/settings.json", {"permissions": {"allow": [f"mcp__{SERVER}__*"]}, "hooks": hooks})

    def trust_project(self, project: Path) -> None:
        """In its settings."""
        super().trust_project(project)
        state = json.loads((self.home / ".claude.json").read_text("utf-8"))
        state["projects"][str(project)] = {"hasTrustDialogAccepted": True}
        self.write(".claude.json", state)

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """`-p`."""
        return ["-p", prompt, *(["--resume", resume] if resume else [])]

    def interactive(self) -> list[str]:
        """Rules decide, not the mode that asks a vendor's server."""
        return ["--permission-mode", "manual"]
