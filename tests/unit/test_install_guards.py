"""The hooks that ask before a file is written: there, for the right tools, and set right again."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tellwire.clients.codex.install import EVENTS as CODEX_EVENTS
from tellwire.clients.codex.trust import event_word, trust_hash, untrusted
from tellwire.clients.entries import Hooks, our_hooks
from tellwire.install.entries import find_lacks
from tests.clients import TOOLS
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
    assert "/tellwire-home/guards/$PPID ] && " in hook["command"], "with nothing to guard it costs one look"


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


# -- what the version before has written, and what is left without our programs -------------------------


def before(here: Desk, word: str) -> dict[str, Any]:
    """A client's settings with hooks as the version before wrote them."""
    relay, python, home = here.programs.relay, here.programs.python, here.home
    hook = {"type": "command", "command": f"exec {python} -I -S {relay}/hook.py {word}", "timeout": 10}
    gate = {**hook, "command": f"/bin/sh {relay}/gate.sh {word} {python} {home}/marks"}
    call = {
        "type": "http",
        "url": "http://127.0.0.1:20001/hooks/claude-code",
        "headers": {"Authorization": "Bearer abab", "X-Tellwire": "1"},
        "timeout": 10,
    }
    if word == "claude":
        return {"SessionStart": [{"hooks": [hook]}], "Stop": [{"hooks": [call]}]}
    return {"SessionStart": [{"matcher": "*", "hooks": [hook]}], "AfterTool": [{"hooks": [gate]}]}


@pytest.mark.parametrize("word", ["claude", "gemini"])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_entries_of_the_version_before_are_known(here: Desk, word: str, command: str) -> None:
    target = settings_of(here, word)
    Path(target.path).parent.mkdir(parents=True, exist_ok=True)
    mine = {"hooks": [{"type": "command", "command": "say done"}]}
    hooks = {"Stop": [mine], **before(here, word)}
    hooks["Stop"] = [mine, *before(here, word).get("Stop", [])]
    Path(target.path).write_text(json.dumps({"hooks": hooks}), "utf-8")
    if command == "install":
        labels = {f"hooks.{event}" for event in before(here, word)}
        assert labels <= {lack.label for lack in find_lacks(meaning(target), target.entries) if lack.outdated}
        here.install(word)
        assert not find_lacks(meaning(target), target.entries)
        text = Path(target.path).read_text("utf-8")
        assert "http://" not in text
        assert "gate.sh" not in text
        assert "say done" in text
    else:
        here.uninstall(word)
        assert meaning(target).get("hooks") == {"Stop": [mine]}


@pytest.mark.requirement("FIRST-3", stage="contact")
@pytest.mark.parametrize("word", ["claude", "codex", "gemini"])
@pytest.mark.parametrize("shell", ["sh", "bash", "zsh"])
def test_hooks_without_our_programs_are_silent(here: Desk, word: str, shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell) or "/bin/sh"
    for folder in ("marks", "guards"):
        marked = tmp_path / "tellwire-home" / folder / str(os.getpid())
        marked.parent.mkdir(parents=True)
        marked.touch()  # a mark that a broker has left
    here.programs = here.at("/nowhere/at all")
    hooks = [entry for entry in settings_of(here, word).entries if isinstance(entry, Hooks)]
    commands = {hook["command"] for entry in hooks for hook in entry.wanted}
    assert len(commands) >= 3
    for command in commands:
        done = subprocess.run([program, "-c", command], input=b"{}", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), command
