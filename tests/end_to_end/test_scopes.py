"""Real agent CLIs at another's files: the client's own tool is kept from writing, its model learns why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.end_to_end.clients import Client, run
from tests.end_to_end.family import RESULT, open_family
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import Step, call, say
from tests.end_to_end.stage import FINAL, PROMPT, once, open_stage
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.trust import cautious, trust
from tests.integration.world import Home, until

OLD = "It is as it was.\n"
NEW = "The client wrote this.\n"
PATCH = "input"
CODEX_MODEL = "gpt-5.5"
TASK = "Write the files, helper."
KID_TASK = "Write two files."


class Hand(NamedTuple):
    """How a client writes files with its own tools."""

    tool: str
    field: str
    allow: Callable[[Client], None] = lambda _client: None
    """Have it write without asking its human."""

    def write(self, path: Path) -> Step:
        """Make a file, or write it anew."""
        if self.field != PATCH:
            return call(self.tool, **{self.field: str(path), "content": NEW})
        head = f"*** Delete File: {path}\n" if path.exists() else ""
        text = f"*** Begin Patch\n{head}*** Add File: {path}\n+{NEW}*** End Patch\n"
        return call(self.tool, **{self.field: text})


def settle(client: Client, path: str, **settings: Any) -> None:
    """Change a client's own settings; what tellwire has there stays."""
    file = client.home / path
    known = json.loads(file.read_text("utf-8"))
    for key, value in settings.items():
        known.setdefault(key, {}).update(value)
    file.write_text(json.dumps(known), encoding="utf-8")


def allow_claude(client: Client) -> None:
    """A mode in which edits need no leave."""
    settle(client, ".claude/settings.json", permissions={"defaultMode": "acceptEdits"})


def allow_gemini(client: Client) -> None:
    """As above."""
    settle(client, ".gemini/settings.json", general={"defaultApprovalMode": "auto_edit"})


def allow_codex(client: Client) -> None:
    """A model that it knows to take patches; that there are newer ones its human has heard."""
    file = client.home / ".codex/config.toml"
    text = file.read_text("utf-8").replace('model = "scripted"\n', f'model = "{CODEX_MODEL}"\n', 1)
    file.write_text(f'{text}\n[notice.model_migrations]\n"{CODEX_MODEL}" = "gpt-6-sol"\n', encoding="utf-8")


HANDS = {
    "claude": Hand("Write", "file_path", allow_claude),
    "codex": Hand("apply_patch", PATCH, allow_codex),
    "gemini": Hand("write_file", "file_path", allow_gemini),
    "opencode": Hand("write", "filePath"),
    "pi": Hand("write", "path"),
}


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize("short", REAL)
async def test_a_client_writes_where_it_may_and_is_told_why_not_elsewhere(short: str, tmp_path: Path) -> None:
    async with open_stage(short, tmp_path) as stage:
        hand = HANDS[short]
        hand.allow(stage.client)
        claimed = stage.client.project / "src"
        claimed.mkdir()
        hers, new = claimed / "parser.py", stage.client.project / "free.txt"
        hers.write_text(OLD, encoding="utf-8")
        await stage.alice.scopes.claim([str(claimed)])
        look = [call("Read", file_path=str(hers))] if short == "claude" else []  # else it refuses by itself
        stage.play(call("list_peers"), *look, hand.write(hers), hand.write(new), say(FINAL))
        ran = await run(stage.client, PROMPT)
        assert ran.text.endswith(FINAL), ran
        before, after = stage.requests[-3:-1]
        once(after, f"{hers} belongs to alice")
        assert "belongs to alice" not in before.text
        assert hers.read_text("utf-8") == OLD
        assert new.read_text("utf-8") == NEW, stage.requests[-1].turns[-1]

        async def told() -> bool:
            rows = json.loads(stage.home.tellwire("audit", "--json").stdout)["rows"]
            refused = [(row["who"], row["detail"]) for row in rows if row["type"] == "call_refused"]
            return any(who == stage.agent and "scope_conflict" in detail.values() for who, detail in refused)

        await until(told, what="the refusal on record")


@pytest.mark.requirement("CHILD-5", stage="lineage")
async def test_a_sub_agent_writes_under_the_name_of_the_main_one(tmp_path: Path) -> None:
    async with open_stage("claude", tmp_path) as stage:
        hand = HANDS["claude"]
        hand.allow(stage.client)
        hers, new = stage.client.project / "src" / "new.py", stage.client.project / "free.txt"
        await stage.alice.scopes.claim([str(hers.parent)])
        words = {"description": "write files", "prompt": TASK, "subagent_type": "general-purpose"}
        own = [call("list_peers"), call("Agent", **words), *[say(FINAL)] * 3]
        sub = [hand.write(hers), hand.write(new), say("The helper is done.")]
        stage.play(*(step._replace(when=PROMPT) for step in own), *(step._replace(when=TASK) for step in sub))
        ran = await run(stage.client, PROMPT)
        assert ran.text.endswith(FINAL), ran
        told = [
            each for each in stage.requests if PROMPT not in each.text and "belongs to alice" in each.text
        ]
        assert told, "in the context of the sub-agent"
        assert (hers.exists(), new.read_text("utf-8")) == (False, NEW)


@pytest.mark.requirement("CHILD-5", stage="lineage")
async def test_codex_on_its_daemon_asks_too(tmp_path: Path) -> None:
    async with open_stage("codex", tmp_path) as stage:
        hand = HANDS["codex"]
        hand.allow(stage.client)
        async with cautious(stage) as client:
            await trust(stage.home, client, stage.agent)
            hers, new = client.project / "src" / "new.py", client.project / "free.txt"
            await stage.alice.scopes.claim([str(hers.parent)])
            here = f"<cwd>{client.project}</cwd>"  # not in what makes a title for the terminal
            steps = [call("list_peers"), hand.write(hers), hand.write(new), say(FINAL)]
            stage.play(*(step._replace(when=here) for step in steps))
            async with Terminal.open(client) as terminal:
                await terminal.shows(client.ready_mark)
                await terminal.type(PROMPT)
                await terminal.shows(FINAL)
        once([each for each in stage.requests if here in each.text][2], f"{hers} belongs to alice")
        assert (hers.exists(), new.read_text("utf-8")) == (False, NEW)


@pytest.mark.requirement("CHILD-5", stage="lineage")
@pytest.mark.parametrize("short", ["codex", "gemini"])
async def test_a_child_is_held_to_its_scope_while_the_broker_does_not_answer(
    short: str, tmp_path: Path
) -> None:
    async with open_family(tmp_path, short) as family:
        hand = HANDS[short]
        hand.allow(family.clients[short])
        inside, outside = family.shop / "parser" / "new.py", family.shop / "free.txt"
        inside.parent.mkdir()
        go = asyncio.Event()
        steps = [hand.write(outside)._replace(hold=go), hand.write(inside), say(RESULT)]
        family.play(short, *(step._replace(when=KID_TASK) for step in steps), call("get_messages", wait_s=60))
        done = await family.spawn("kid", short, "--headless", "--scope", "parser", task=KID_TASK)
        assert done.returncode == 0, done.stderr
        await family.request(short, KID_TASK)
        family.home.signal(Home.STOP)
        try:
            go.set()
            told = await family.request(short, "is outside your scope")
        finally:
            family.home.signal(Home.GO_ON)
        once(told, f"{outside} is outside your scope. You may write in {inside.parent} only; ask boss")
        result, _ending = await family.heard(2)
        assert result.body == RESULT
        assert (outside.exists(), inside.read_text("utf-8")) == (False, NEW)
