"""What is written down for a hook without a broker says of every path what the broker would say."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.children.write_rules import Guard, guard_of, is_guarded
from tellwire.protocol.errors import TellwireError
from tellwire.relay.guard import UNCLEAR, denial, judge, why
from tellwire.sessions.gate_files import ON_FILE, WRITES
from tests.clients import EVENTS, TOOLS
from tests.unit.family import Family, rule, write

FOLDERS = ["/", "/p", "/p/a", "/p/a/b", "/p/ab", "/q"]
PATHS = [*FOLDERS, "/p/a/x", "/p/a/b/x", "/p/a/b/c/x", "/p/ab/x", "/q/x", "/x", "/p/a/b/c"]
rules = st.builds(rule, st.sampled_from(FOLDERS), st.sampled_from(["read", "write"]), recursive=st.booleans())


def on_file(mesh: Family, name: str) -> dict[str, Any]:
    """As the file has it."""
    return json.loads(msgspec.json.encode(guard_of(mesh.state, mesh.agent(name).id)))


@pytest.mark.requirement("CHILD-5", stage="lineage")
@given(
    given_to=st.lists(rules, max_size=3),
    given_on=st.lists(rules, max_size=2),
    free=st.lists(rules, max_size=3),
)
def test_a_hook_alone_judges_as_the_broker_does(
    given_to: list[Any], given_on: list[Any], free: list[Any]
) -> None:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    for wanted in free:
        with suppress(TellwireError):  # what is refused is not held
            mesh.claim("bob", rules=[wanted])
    with suppress(TellwireError):
        mesh.bear("alice", "kid", scope=given_to)
        mesh.bear("kid", "grandkid", scope=given_on)
    free_names = {"alice", "bob"}
    for name in ("kid", "grandkid", *free_names):
        if name not in mesh.names():
            continue
        guard = on_file(mesh, name)
        for path in PATHS:
            verdict = mesh.judge(name, path)
            refused = why(guard, path)
            assert (refused is None) == verdict.allowed, (name, path, verdict)
            if refused is not None and (name in free_names or verdict.reason.startswith("You gave")):
                assert refused[1] == verdict.reason


def test_only_who_was_given_a_scope_has_one_on_file() -> None:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    alice, bob = mesh.agent("alice").id, mesh.agent("bob").id
    assert (guard_of(mesh.state, alice), is_guarded(mesh.state, alice)) == (Guard([], ""), False)
    mesh.claim("alice", rules=[rule("/p", "read")])
    assert not is_guarded(mesh.state, bob), "to read is nobody's exclusive right"
    mesh.claim("alice", rules=write("/p"))
    assert (is_guarded(mesh.state, alice), is_guarded(mesh.state, bob)) == (False, True)
    mesh.bear("alice", "kid", "/p/src")
    assert is_guarded(mesh.state, alice), "it gave a part away"
    assert is_guarded(mesh.state, mesh.agent("kid").id)
    assert [guard_of(mesh.state, each).otherwise for each in (alice, bob)] == ["", ""], "they have no scope"
    mesh.end("kid")
    assert not is_guarded(mesh.state, alice)


def test_a_file_tells_only_what_touches_the_scope() -> None:
    mesh = Family()
    for name in ("alice", "bob"):
        mesh.register(name, kind="codex")
    mesh.claim("bob", *[f"/b/{number}" for number in range(50)])
    mesh.bear("alice", "kid", "/p/src")
    guard = on_file(mesh, "kid")
    assert [each["path"] for each in guard["rules"]] == ["/p/src"]

    def said(*paths: str) -> list[tuple[str, str]]:
        patch = "".join(f"*** Add File: {path}\n" for path in paths)
        told = {"hook_event_name": "PreToolUse", "tool_name": "apply_patch", "cwd": "/", "tool_input": patch}
        return judge(guard, WRITES["codex"], told, within_s=30.0)

    assert said("/p/src/a", "/p/src") == []
    (code, doc), (_, other) = said("/p/doc", "/p/src/a", "/b/1/x")
    assert code == "scope_outside"
    assert doc.startswith("/p/doc is outside your scope. You may write in /p/src only; ask alice for more")
    assert other.startswith("/b/1/x is outside")


scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@given(
    kind=st.sampled_from(["codex", "gemini-cli", "nobody"]),
    tool=st.sampled_from(["apply_patch", "write_file", "Bash"]) | scraps,
    fields=st.dictionaries(st.sampled_from(["cwd", "tool_input"]), scraps)
    | st.just({"hook_event_name": "PostToolUse"}),
    guard=st.dictionaries(st.sampled_from(["process", "rules", "otherwise"]), scraps),
    cut=st.booleans(),
)
def test_whatever_a_hook_alone_is_given_it_lets_pass_or_refuses(
    kind: str, tool: Any, fields: dict[str, Any], guard: dict[str, Any], cut: bool
) -> None:
    payload = {"hook_event_name": EVENTS.get(kind, "PreToolUse"), "tool_name": tool, **fields}
    writes = not isinstance(tool, str) or tool in TOOLS.get(kind, {})
    writes = (writes or cut) and kind in EVENTS
    asked = writes and payload["hook_event_name"] == EVENTS.get(kind)
    with tempfile.TemporaryDirectory() as folder:
        whole = {**guard, "writes": ON_FILE}
        Path(folder, f"{os.getppid()}.json").write_text(json.dumps(whole), "utf-8")
        said, plain = denial(kind, json.dumps(payload).encode(), folder, cut=cut)
    assert not plain
    # None of these is a scope: what asks to write is refused, and nothing else is.
    assert bool(said) == asked, (payload, guard)
    if said:
        answer = json.loads(said)
        assert (
            answer.get("decision") == "deny" or answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        )


@pytest.mark.requirement("CHILD-5", stage="lineage")
@given(
    kind=st.sampled_from(["codex", "gemini-cli", "nobody"]),
    guard=st.binary(max_size=20) | scraps.map(lambda value: json.dumps(value).encode()),
    fields=st.dictionaries(st.sampled_from(["cwd", "tool_input", "tool_name"]), scraps),
)
def test_without_the_facts_of_its_client_a_hook_refuses_every_tool_call(
    kind: str, guard: bytes, fields: dict[str, Any]
) -> None:
    payload = {"hook_event_name": "PreToolUse", **fields}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{os.getppid()}.json").write_bytes(guard)
        refused = denial(kind, json.dumps(payload).encode(), folder, cut=False)
        ran = denial(kind, json.dumps({**payload, "tool_response": {}}).encode(), folder, cut=False)
    asks = "tool_name" in fields or "tool_input" in fields
    assert refused == ((UNCLEAR.encode(), True) if asks else (b"", False))
    assert ran == (b"", False), "it is too late to refuse"
