"""Pi. It has no MCP in this version; tellwire comes to it by an extension."""

from __future__ import annotations

from collections.abc import Sequence

from tests.end_to_end.clients import KEY, NODE, SERVER, Client, package


class Pi(Client):
    """Pi with a provider of its own."""

    kind = "pi"
    short = "pi"
    evidence = "request"
    ready_mark = "scripted"
    busy_mark = "Working"
    unlisted = f"{SERVER}_{{}}"

    def program(self) -> list[str]:
        """Node with the program's entry."""
        return [str(NODE), str(package("@earendil-works/pi-coding-agent", "dist", "cli.js"))]

    def own_environment(self) -> dict[str, str]:
        """Silence towards the vendor."""
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def configure(self, server: Sequence[str] = (), hook: str = "") -> None:
        """`~/.pi/agent/models.json`; `hook` is the text of an extension."""
        assert not server, "there is no MCP in this version"
        model = {"id": "scripted", "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {
            "baseUrl": f"{self.model_url}/v1",
            "api": "openai-completions",
            "apiKey": KEY,
            "models": [model],
        }
        self.write(".pi/agent/models.json", {"providers": {"scripted": provider}})
        if hook:
            self.write(".pi/agent/extensions/recorder.ts", hook)

    def headless(self, prompt: str, *, resume: str = "") -> list[str]:
        """`-p`."""
        return [*self.interactive(), *(["--session", resume] if resume else []), "-p", prompt]

    def interactive(self) -> list[str]:
        """The scripted model."""
        return ["--model", "scripted/scripted"]
