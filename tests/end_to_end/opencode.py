"""OpenCode."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.end_to_end.clients import KEY, SERVER, Client, machine, package

PLUGIN_API = {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}


class OpenCode(Client):
    """OpenCode with a provider of its own; everything is allowed."""

    kind = "opencode"
    short = "opencode"
    evidence = "request"
    ready_mark = "Ask anything"
    busy_mark = r"esc (again to )?interrupt"
    interrupt_keys = ("Escape", "Escape")
    unlisted = f"{SERVER}_{{}}"

    def program(self) -> list[str]:
        """Its native program."""
        return [str(package(f"opencode-{machine()}", "bin", "opencode"))]

    def own_environment(self) -> dict[str, str]:
        """Silence towards the vendor."""
        words = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{word}": "1" for word in words}

    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """`~/.config/opencode/opencode.json`; `hook` is the text of a plugin."""
        model = {"name": "scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{self.model_url}/v1", "apiKey": KEY},
            "models": {"scripted": model},
        }
        entry = {"type": "local", "command": list(server), "enabled": True}
        self.write(
            ".config/opencode/opencode.json",
            {
                "model": "scripted/scripted",
                "small_model": "scripted/scripted",
                "autoupdate": False,
                "share": "disabled",
                "enabled_providers": ["scripted"],
                "provider": {"scripted": provider},
                "permission": {"*": "allow"},
                "mcp": {SERVER: entry} if server else {},
            },
        )
        # With a plugin it installs the plugins' API from a registry first, unless it looks installed; ours,
        # plain JavaScript, does without.
        self.write(".config/opencode/package.json", PLUGIN_API)
        self.write(".config/opencode/package-lock.json", {"lockfileVersion": 3, "packages": {"": PLUGIN_API}})
        (self.home / ".config/opencode/node_modules").mkdir(exist_ok=True)
        if hook:
            self.write(".config/opencode/plugins/recorder.js", hook)

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """`run`, with its events as data."""
        return ["run", "--format", "json", *(["-s", resume] if resume else []), prompt]

    def final_text(self, out: str) -> str:
        """The last text part."""
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        texts = [each["part"]["text"] for each in events if each["type"] == "text"]
        return texts[-1] if texts else ""
