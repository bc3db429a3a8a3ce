"""The hooks that ask before a file is written: there, for the right tools, and set right again."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from palaver.integrations.install.codex import EVENTS as CODEX_EVENTS
from palaver.integrations.install.entries import Hooks, find_lacks, our_hooks
from palaver.integrations.install.trust import event_word, trust_hash, untrusted
from palaver.relay.writes import TOOLS
from tests.unit.test_install_plan import Desk, meaning, write

BEFORE = {"claude": ("PreToolUse", -1), "gemini": ("BeforeTool", 1)}


@pytest.fixture
def here(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def settings_of(here: Desk, word: str) -> Any:
    """The file with the hooks."""
    return here.targets(word)[-1]


@pytest.mark.parametrize(
    ("word", "kind", "event"),
    [
        ("claude", "claude-code", "PreToolUse"),
        ("codex", "codex", "PreToolUse"),
        ("gemini", "gemini-cli", "BeforeTool"),
    ],
)
def test_the_tools_that_write_are_asked_about_and_no_others(
    here: Desk, word: str, kind: str, event: str
) -> None:
    here.install(word)
    group = meaning(settings_of(here, word))["hooks"][event][-1]
    named = group["matcher"].removeprefix("^").removesuffix("$").strip("()").split("|")
    assert set(named) == set(TOOLS[kind])
    (hook,) = group["hooks"]
    if word == "claude":
        assert hook["type"] == "http"
    else:
        assert hook["command"].split()[1].endswith("gate.sh"), "with nothing to guard it costs one look"
        assert hook["command"].endswith("/palaver-home/guards")


@pytest.mark.parametrize("word", BEFORE)
def test_a_hook_that_is_missing_or_asks_about_other_tools_is_found_and_set_right(
    here: Desk, word: str
) -> None:
    event, number = BEFORE[word]
    here.install(word)
    target = settings_of(here, word)
    whole = meaning(target)
    for matcher in ("", "^Read$"):
        document = copy.deepcopy(whole)
        if matcher:
            document["hooks"][event][number]["matcher"] = matcher
        else:
            del document["hooks"][event][number]
        document["hooks"][event].insert(
            0, {"matcher": "mine", "hooks": [{"type": "command", "command": "mine"}]}
        )
        write(target.path, json.dumps(document))
        assert [lack.label for lack in find_lacks(meaning(target), target.entries)] == [f"hooks.{event}"]
        assert here.install(word)
        assert find_lacks(meaning(target), target.entries) == []
        assert here.install(word) == []
        groups = meaning(target)["hooks"][event]
        assert groups[0]["matcher"] == "mine"
        assert len(groups) == 1 + len(whole["hooks"][event])


def test_an_upgrade_of_codex_needs_trust_for_the_new_hook_only(here: Desk) -> None:
    (target,) = here.targets("codex")
    here.install("codex")
    text = Path(target.path).read_text("utf-8")
    document = meaning(target)
    notes: dict[str, Any] = {}
    for event in CODEX_EVENTS:  # what its human had trusted before
        ((number, index, hook),) = our_hooks(document, event)
        noted = {"trusted_hash": trust_hash(event, hook, None)}
        notes[f"{target.path}:{event_word(event)}:{number}:{index}"] = noted
    hooks = [entry for entry in target.entries if isinstance(entry, Hooks)]
    state = {"hooks": {"state": notes}}
    assert untrusted(document, hooks, path=target.path, notes=state) == ["PreToolUse"]
    write(target.path, text.split("\n[[hooks.PreToolUse]]")[0])
    assert [lack.label for lack in find_lacks(meaning(target), target.entries)] == ["hooks.PreToolUse"]
    here.install("codex")
    assert Path(target.path).read_text("utf-8") == text, "the others stand as they stood"


def test_a_matcher_that_codex_has_otherwise_is_set_right(here: Desk) -> None:
    (target,) = here.targets("codex")
    here.install("codex")
    text = Path(target.path).read_text("utf-8")
    write(target.path, text.replace("^apply_patch$", "^nothing$"))
    assert [(lack.label, lack.outdated) for lack in find_lacks(meaning(target), target.entries)] == [
        ("hooks.PreToolUse", True)
    ]
    here.install("codex")
    assert find_lacks(meaning(target), target.entries) == []
    assert "^nothing$" not in Path(target.path).read_text("utf-8")
