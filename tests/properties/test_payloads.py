"""Whatever a hook brings, it is understood or refused as what it is: a payload that makes no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.codex.facts import CODEX
from tellwire.clients.gemini.facts import GEMINI
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.pi.facts import PI
from tellwire.relay.payloads import shorten
from tellwire.sessions.listening import on_our_clock
from tellwire.sessions.starts import read_payload
from tests.clients import requests_of, written_paths

NAMES = [
    *(
        "hook_event_name",
        "session_id",
        "cwd",
        "transcript_path",
        "turn_id",
        "prompt_id",
        "prompt",
        "tool_name",
    ),
    *(
        "tool_input",
        "tool_calls",
        "tool_response",
        "agent_id",
        "source",
        "notification_type",
        "requests",
        "held",
    ),
    *(
        "ending",
        "until_ms",
        "pid",
        "last_assistant_message",
        "prompt_response",
        "messages",
        "stop_hook_active",
    ),
]
EVENTS = [
    *("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionStart", "SessionEnd"),
    *("Notification", "SubagentStop", "PreCompact", "BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool"),
    *(
        "prompt",
        "busy",
        "tool_used",
        "turn_ended",
        "session_started",
        "write_wanted",
        "session_told",
        "answered",
    ),
]
odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "age_ms", "marks"]), inner)
    ),
    max_leaves=8,
)
payloads = st.fixed_dictionaries(
    {"hook_event_name": st.sampled_from(EVENTS), "session_id": st.just("s1")},
    optional=dict.fromkeys(NAMES[2:], odd),
)
COMMANDS = [CLAUDE, CODEX, GEMINI]
PLUGINS = [OPENCODE.opened(), PI.opened()]


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize("client", [*COMMANDS, *PLUGINS], ids=lambda each: each.kind)
@given(payload=payloads)
def test_a_payload_is_understood_or_refused(client: Any, payload: dict[str, Any]) -> None:
    written_paths(client.kind, payload)
    on_our_clock(payload.get("until_ms"))
    try:
        event = client.hooks.parse(payload)
    except ValueError:
        return
    if client in PLUGINS:
        requests_of(client).take(event, payload)


@pytest.mark.requirement("SEC-3")
@given(st.binary(max_size=300) | payloads.map(lambda each: json.dumps(each).encode()), st.booleans())
def test_bytes_are_a_payload_or_refused(data: bytes, cut: bool) -> None:
    try:
        assert isinstance(read_payload(data, cut=cut), dict)
    except ValueError:
        return


def test_a_long_line_that_only_mentions_a_patch_does_not_hide_where_a_call_writes() -> None:
    asked = {"tool_name": "Edit", "tool_input": {"content": "*** Add File: b" * 100_000, "file_path": "/p/a"}}
    short = shorten(json.dumps(asked).encode(), 1 << 20)
    assert json.loads(short)["tool_input"]["file_path"] == "/p/a"
