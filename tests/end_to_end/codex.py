"""Codex."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.end_to_end.clients import KEY, SERVER, Client, machine, package

CONFIG = """\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = {url}
wire_api = "responses"
env_key = "SCRIPTED_KEY"
requires_openai_auth = false

[analytics]
enabled = false

"""
PROJECT = """
[projects.{project}]
trust_level = "trusted"
"""
MCP = """
[mcp_servers.{server}]
command = {command}
args = {args}
default_tools_approval_mode = "approve"
required = true
"""
HOOK = """
[[hooks.{event}]]
[[hooks.{event}.hooks]]
type = "command"
command = {command}
timeout = 20
"""


class Codex(Client):
    """Codex with a provider of its own."""

    kind = "codex"
    short = "codex"
    evidence = "transcript"
    ready_mark = "Ask Codex to do anything"
    unlisted = f"mcp__{SERVER}/{{}}"
    events = (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
        "Interrupt",
    )

    def program(self) -> list[str]:
        """Its native program. Hooks need no review here: the settings are ours."""
        (found,) = package(f"@openai/codex-{machine()}", "vendor").glob("*/bin/codex")
        return [str(found)]

    def own_environment(self) -> dict[str, str]:
        """The key."""
        return {"SCRIPTED_KEY": KEY}

    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """`~/.codex/config.toml`."""
        # A JSON string or list of strings is one of TOML too.
        text = CONFIG.format(url=json.dumps(f"{self.model_url}/v1"))
        text += PROJECT.format(project=json.dumps(str(self.project)))
        if server:
            args = json.dumps(list(server[1:]))
            text += MCP.format(server=SERVER, command=json.dumps(server[0]), args=args)
        for event in self.events if hook else ():
            text += HOOK.format(event=event, command=json.dumps(hook))
        self.write(".codex/config.toml", text)

    def trust_project(self, project: Path) -> None:
        """In its settings."""
        super().trust_project(project)
        with (self.home / ".codex/config.toml").open("a", encoding="utf-8") as file:
            file.write(PROJECT.format(project=json.dumps(str(project))))

    def wait_for_tools(self) -> bool:
        """For a server that is not required it waits a second or two, and a busy machine takes longer."""
        path = self.home / ".codex/config.toml"
        table = f"[mcp_servers.{SERVER}]\n"
        text = path.read_text("utf-8")
        assert table in text
        path.write_text(text.replace(table, f"{table}required = true\n"), encoding="utf-8")
        return True

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """`exec`; only the final text goes to stdout."""
        options = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        return ["exec", *options, *(["resume", resume] if resume else []), prompt]

    def interactive(self) -> list[str]:
        """Nothing to review at the start."""
        return ["--dangerously-bypass-hook-trust"]
