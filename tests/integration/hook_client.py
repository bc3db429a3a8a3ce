"""A stand-in for an agent CLI with hooks, as a test talks to it: a process of its own, and a rollout."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tellwire import Agent
from tellwire.core.mail.drafts import digest_of
from tellwire.daemon import Times
from tellwire.wiring import SessionTimes
from tests.integration.world import WITHIN_S, Home, OpenRaw, until

SESSION = "0199a1b2-0000-7000-8000-00000000c0de"
CODEX = "codex-mcp-client"
PATIENT = Times(sessions=SessionTimes(hook_answer_s=WITHIN_S))
"""A broker that answers hooks however late; see `open_client`."""


class Client:
    """The stand-in for an agent CLI, as a test talks to it."""

    def __init__(self, process: asyncio.subprocess.Process, rollout: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.rollout = rollout
        self._process = process
        self._answers = 0
        self._stdin, self._stdout = process.stdin, process.stdout

    async def do(self, word: str, **arguments: Any) -> Any:
        """Have it do something."""
        self._stdin.write(json.dumps({"do": word, **arguments}).encode() + b"\n")
        async with asyncio.timeout(2 * WITHIN_S):
            return json.loads(await self._stdout.readline())

    async def hook(
        self, event: str, marks: str = "", *, kind: str = "codex", **fields: Any
    ) -> dict[str, Any]:
        """A hook, by default of Codex; what it prints, as data."""
        payload = {
            "session_id": SESSION,
            "hook_event_name": event,
            "turn_id": "t1",
            "transcript_path": str(self.rollout),
            "cwd": "/",
            **fields,
        }
        done = await self.do("hook", client=kind, payload=json.dumps(payload), marks=marks)
        assert (done["code"], done["err"]) == (0, ""), done
        return json.loads(done["out"]) if done["out"] else {}

    def write(self, kind: str, **payload: Any) -> None:
        """Let the client write something down."""
        with self.rollout.open("a", encoding="utf-8") as file:
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            file.write(json.dumps({"timestamp": now, "type": kind, "payload": payload}) + "\n")

    def ask(self, role: str, text: str) -> None:
        """What the model is asked with, as the rollout has it."""
        self.write("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])

    def answer(self, text: str) -> None:
        """The model's answer, announced and complete."""
        self._answers += 1
        name = f"msg_{self._answers}"
        self.write("event_msg", type="item_completed", item={"type": "AgentMessage", "id": name})
        content = [{"type": "output_text", "text": text}]
        self.write("response_item", type="message", role="assistant", id=name, content=content)
        self.write("token_usage_record")

    async def end(self) -> None:
        """End it and all beneath it."""
        self._stdin.close()
        async with asyncio.timeout(WITHIN_S):
            await self._process.wait()


@asynccontextmanager
async def open_client(
    home: Home, transcript: Path, *, program: str = CODEX, name: str = "worker", patient: bool = False
) -> AsyncGenerator[Client]:
    """A stand-in for a client, registered under a name, or under none at all; it ends with the block.

    If it is patient, its hooks wait for the broker as long as a busy machine takes.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.stand_in",
        program,
        env=home.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    stand_in = Client(process, transcript)
    if patient:
        await stand_in.do("be_patient")
    if name:
        await stand_in.do("join", name=name)
    try:
        yield stand_in
    finally:
        await stand_in.end()


async def state_of(sender: Agent, message: str) -> tuple[str, str]:
    """How far a message got, and by what evidence."""
    (seen,) = (await sender.status(message)).recipients
    return seen.state, seen.evidence


async def read(sender: Agent, message: str) -> bool:
    """Whether the transcript has shown it."""
    return await state_of(sender, message) == ("read", "transcript")


class Claude:
    """Its hooks, its waiter, and the file it keeps of itself."""

    def __init__(self, client: Client, session: str = SESSION) -> None:
        self.client = client
        self.session = session

    async def hook(self, event: str, prompt_id: str = "p1", **fields: Any) -> dict[str, Any]:
        """A hook."""
        named = {"session_id": self.session, "prompt_id": prompt_id, **fields}
        return await self.client.hook(event, kind="claude-code", **named)

    def status(self, word: str, **fields: Any) -> None:
        """What it says of itself from now on."""
        folder = self.client.rollout.parents[2] / "sessions"
        folder.mkdir(exist_ok=True)
        facts = {"pid": self.client.pid, "sessionId": self.session, "status": word}
        path = folder / f"{self.client.pid}.json"
        path.write_text(json.dumps({**facts, "statusUpdatedAt": time.time() * 1_000, **fields}), "utf-8")


@asynccontextmanager
async def open_claude(
    home: Home, config: Path, *, name: str = "worker", session: str = SESSION, patient: bool = False
) -> AsyncGenerator[Claude]:
    """A stand-in for Claude Code with its folder of configuration, registered under a name."""
    transcript = config / "projects" / "-" / f"{session}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.touch()
    async with open_client(home, transcript, program="claude-code", name=name, patient=patient) as client:
        yield Claude(client, session)


class Turns:
    """The turns on record."""

    def __init__(self, raw: OpenRaw) -> None:
        self._raw = raw

    async def ended(self, count: int, *, within_s: float = WITHIN_S) -> list[tuple[str, bool, str]]:
        """Outcome, whether a human began it, and the digest of its text, once there are so many."""
        connection = await self._raw()
        seen: list[tuple[str, bool, str]] = []

        async def look() -> bool:
            nonlocal seen
            rows = (await connection.call("read_audit", limit=1_000))["ok"]["rows"]
            seen = [
                (detail["outcome"], detail.get("human", False), detail.get("digest", ""))
                for detail in (row["detail"] for row in rows if row["type"] == "turn_ended")
            ]
            return len(seen) >= count

        await until(look, within_s=within_s, what=f"{count} turns")
        assert len(seen) == count, seen
        return seen


def said(text: str) -> str:
    """As the record has a text."""
    return digest_of("", text)


async def activity(asker: Any, name: str = "worker") -> str:
    """What an agent does, as the listing says."""
    return next(peer.activity for peer in await asker.peers(all=True) if peer.name == name)


async def restart(home: Home, asker: Any, name: str = "worker") -> None:
    """Kill the broker and start the next one, before a client's shim does; wait until they are back."""
    home.signal(Home.KILL)
    await asyncio.to_thread(home.up)

    async def back() -> bool:
        return any(peer.name == name and peer.status == "online" for peer in await asker.peers(all=True))

    await until(back, what=f"{name} back")
