"""Real agent CLIs under hcom, as its users run them: `hcom claude`, `hcom codex`, in a terminal."""

import asyncio
import json
from pathlib import Path

from bench.engine import Missing, RoundFailed
from bench.engines import hcom
from bench.engines.hcom_hook import NOWHERE, SENDER
from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client
from tests.end_to_end.codex import Codex
from tests.integration.world import until

LIST_S = 10.0


class HcomClient(Client):
    """A client that hcom starts; its own program is behind a name on the path."""

    command = ""

    def program(self) -> list[str]:
        """hcom, which finds the client on the path."""
        folder = self.home / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.short
        path.write_text(f'#!/bin/sh\nexec {" ".join(super().program())} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
        return [self.command, self.short]

    def environment(self) -> dict[str, str]:
        """The client's, with hcom's folder; what hcom asks of the net does not leave."""
        usual = super().environment()
        return {
            **usual,
            "PATH": f"{self.home / 'bin'}:{Path(self.command).parent}:{usual['PATH']}",
            "HCOM_DIR": str(self.home / ".hcom"),
            "HTTPS_PROXY": NOWHERE,
            "https_proxy": NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def interactive(self) -> list[str]:
        """What passes the review of hooks by is hcom's own business."""
        return [word for word in super().interactive() if "hook-trust" not in word]


class HcomClaude(HcomClient, Claude):
    """Claude Code under hcom."""


class HcomCodex(HcomClient, Codex):
    """Codex under hcom."""


def install(folder: Path) -> str:
    """hcom's command, installed below the folder.

    Raises:
        Missing: it cannot be installed.
    """
    return hcom.install(folder).send[0]


def make(short: str, command: str, folder: Path, model_url: str) -> HcomClient:
    """A client for hcom, with settings as without it."""
    kind = {"claude": HcomClaude, "codex": HcomCodex}[short]
    client = kind(folder / "hcom", folder / "hcom-shop", model_url)
    client.command = command
    client.configure()
    return client


class Mailer:
    """Somebody who writes to the only client by hcom's command."""

    def __init__(self, client: HcomClient) -> None:
        self._client = client
        self._name = ""

    async def joined(self) -> None:
        """Wait until the client is there, and join beside it."""

        async def look() -> bool:
            told = json.loads(await self._run("list", "--json"))
            names = [each["name"] for each in told if each["name"] != SENDER and each["hooks_bound"]]
            self._name = next(iter(names), "")
            return bool(self._name)

        try:
            await until(look, what="hcom's client")
        except AssertionError as error:
            raise Missing("hcom did not bind its client") from error
        await self._run("start", "--as", SENDER)

    async def send(self, text: str) -> None:
        """Write to it."""
        await self._run("send", f"@{self._name}", "--name", SENDER, "--json", "--", text)

    async def _run(self, *words: str) -> str:
        return await run(self._client.command, *words, environment=self._client.environment())


async def run(*command: str, environment: dict[str, str]) -> str:
    """Run a command to its end; what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIST_S):
        out, err = await process.communicate()
    if process.returncode:
        raise RoundFailed(f"{Path(command[0]).name} {command[1]}: {err.decode()[-200:]}")
    return out.decode()
