"""The record of Codex: what its parts are, and what is special about it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellwire.clients.client import (
    FOLDER,
    HOOKS,
    SET_UP,
    Client,
    EnvRules,
    HookTrust,
    LaunchWords,
    McpTraits,
    ScreenTraits,
    Writes,
    prompt,
)
from tellwire.clients.codex import sandbox, trust
from tellwire.clients.codex.app_server import is_app_server
from tellwire.clients.codex.daemon import CodexDaemon
from tellwire.clients.codex.hooks import REFUSAL, CodexHooks
from tellwire.clients.codex.install import KIND, TRUST, session, targets
from tellwire.clients.codex.queue import CodexQueue
from tellwire.clients.codex.rollout import CodexTranscript
from tellwire.clients.codex.threads import CodexThreads
from tellwire.clients.payloads import read_settings
from tellwire.clients.ports import ClientThreads, Doors, SessionPort, Waker
from tellwire.clients.reader import mapping, string


def named_keys(env: Mapping[str, str]) -> frozenset[str]:
    """What its providers take from the environment."""
    folder = Path(env.get("CODEX_HOME") or Path(env.get("HOME", "/nonexistent")) / ".codex")
    found: set[str] = set()
    for provider in mapping(_config(folder / "config.toml").get("model_providers")).values():
        table = mapping(provider)
        headers = mapping(table.get("env_http_headers"))
        found.update(each for each in (table.get("env_key"), *headers.values()) if isinstance(each, str))
    return frozenset(found)


def _config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_settings(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def parent_of(meta: Mapping[str, Any]) -> str:
    """A sub-agent's calls name the session that started it."""
    turn = mapping(meta.get("x-codex-turn-metadata"))
    return string(turn.get("session_id")) if turn.get("thread_source") == "subagent" else ""


def wakers(port: SessionPort, doors: Doors, threads: ClientThreads | None) -> list[Waker]:
    """Without a daemon a line that is typed is sooner there than what its terminal looks for."""
    assert isinstance(threads, CodexThreads)
    return [CodexDaemon(port, threads), doors.typing, CodexQueue(port, threads)]


CODEX = Client(
    kind=KIND,
    name="codex",
    title="Codex",
    program="codex",
    npm="@openai/codex",
    lowest=(0, 160),
    highest_known=(0, 166, 0),
    mcp=McpTraits(
        info="codex-mcp-client",
        short="codex",
        owns=True,
        shows=True,
        text_only=True,
        result_bytes=8_500,
        parent_of=parent_of,
    ),
    hooks=CodexHooks(),
    cut_mark=b'"type":"compacted"',
    starts_with_prompt=True,
    silent_at_start=True,
    transcript=CodexTranscript(),
    launch=LaunchWords(
        # Its shared server would run the hooks and the tools outside of this child's process.
        window=("--no-daemon",),
        headless=("exec",),
        once=("exec",),
    ),
    environment=EnvRules(keys=("CODEX_API_KEY", "CODEX_HOME", "OPENAI_"), named_keys=named_keys),
    screen=ScreenTraits(
        prompt=prompt("› ", r"\s*", r"\s*", r"(Ask Codex to do anything)?\s*"),
        dialogs=(
            (FOLDER, re.compile(r"Trust this folder\?")),
            (HOOKS, re.compile(r"Hooks need review")),
            (SET_UP, re.compile(r"Sign in with ChatGPT")),
        ),
    ),
    writes=Writes(event="PreToolUse", tools={"apply_patch": ""}, refusal=REFUSAL),
    hold=sandbox.hold,
    targets=targets,
    session=session,
    hints=(TRUST,),
    trust=HookTrust(
        untrusted=trust.untrusted,
        switched_off=trust.switched_off,
        lacking=trust.LACKING,
        again=trust.AGAIN,
    ),
    threads=CodexThreads,
    runs_many=is_app_server,
    wakers=wakers,
)
