"""Asking for leave to write, as each client does it, and what a hook says that finds no broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from tellwire.install.endpoint import HookEndpoint, load_endpoint
from tests.integration.hook_client import CODEX, SESSION, Client
from tests.integration.test_hook_doors import post
from tests.integration.world import Home, until

Ask: TypeAlias = Callable[..., Awaitable[str]]
PROGRAMS = {
    "claude-code": "claude-code",
    "codex": CODEX,
    "gemini-cli": "gemini-cli-mcp-client",
    "opencode": "opencode",
    "pi": "pi",
}


async def served(home: Home) -> HookEndpoint:
    """The HTTP door, open."""
    found = load_endpoint(str(home.path))

    async def is_open() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", found.port)
        except OSError:
            return False
        writer.close()
        return True

    await until(is_open, what="the HTTP door")
    return found


def patch(*paths: object) -> dict[str, str]:
    """What Codex's tool gets."""
    files = "".join(f"*** Add File: {path}\n+x\n" for path in paths)
    return {"command": f"*** Begin Patch\n{files}*** End Patch\n"}


def written(kind: str, path: object) -> dict[str, Any]:
    """What a client tells before it writes a file."""
    fields = {
        "claude-code": ("PreToolUse", "Write", {"file_path": str(path), "content": "x"}),
        "codex": ("PreToolUse", "apply_patch", patch(path)),
        "gemini-cli": ("BeforeTool", "write_file", {"file_path": str(path), "content": "x"}),
        "opencode": ("write_wanted", "write", {"filePath": str(path)}),
        "pi": ("write_wanted", "write", {"path": str(path)}),
    }
    event, tool, given = fields[kind]
    return {"hook_event_name": event, "tool_name": tool, "tool_input": given}


def reason_in(kind: str, answer: dict[str, Any]) -> str:
    """Why a call is refused, in the form that the client understands; empty if it is not."""
    if not answer:
        return ""
    if kind in ("claude-code", "codex"):
        said = answer["hookSpecificOutput"]
        assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
        return said["permissionDecisionReason"]
    if kind == "gemini-cli":
        assert answer["decision"] == "deny"
        return answer["reason"]
    return answer["deny"]


def asking(home: Home, client: Client, kind: str, shop: Path, endpoint: HookEndpoint | None) -> Ask:
    """Ask as the client does, from its project; what it is told."""

    async def ask(path: object, **fields: Any) -> str:
        told = {"session_id": SESSION, "cwd": str(shop), **written(kind, path), **fields}
        if endpoint is None:
            return reason_in(
                kind, await client.hook(marks=str(home.path / "guards"), kind=kind, event="", **told)
            )
        body = json.dumps({"pid": client.pid, "transcript_path": "", **told}).encode()
        status, answer = await post(endpoint, body, target=f"/hooks/{kind}")
        assert status == 200
        return reason_in(kind, json.loads(answer) if answer else {})

    return ask


class Alone:
    """A home that no broker runs in, with what one left behind for a client."""

    def __init__(self, home: Home, client: Client, folder: Path, cwd: Path) -> None:
        self.scope = folder / "guards" / f"{client.pid}.json"
        self.scope.parent.mkdir(parents=True)
        self._client, self._folder, self._cwd = client, folder, cwd
        for name in (str(client.pid), f"{client.pid}.json"):
            if (home.path / "guards" / name).exists():
                (self.scope.parent / name).write_bytes((home.path / "guards" / name).read_bytes())

    async def ask(self, path: object, *, kind: str = "codex", **fields: Any) -> str:
        """What a hook says that finds no broker."""
        told = {"session_id": SESSION, "cwd": str(self._cwd), **written(kind, path), **fields}
        gate = str(self.scope.parent)
        done = await self._client.do(
            "hook", client=kind, payload=json.dumps(told), marks=gate, home=str(self._folder)
        )
        assert (done["code"], done["err"]) == (0, ""), done
        return reason_in(kind, json.loads(done["out"]) if done["out"] else {})
