"""Paths as the file system has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tellwire.core.children.scopes import as_rules
from tellwire.paths import as_on_disk, as_spelled, canonical
from tellwire.protocol.operations.agents import ListAgents
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.scopes import ClaimScope, ReleaseScope, ScopeRule, WhoOwns


@pytest.fixture
def real(tmp_path: Path) -> Path:
    (tmp_path / "real" / "Src").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    return Path(os.path.realpath(tmp_path)) / "real"


@pytest.mark.requirement("CHILD-2", stage="lineage")
@pytest.mark.parametrize("text", ["real", "./real/", "link", "real/Src/..", "x/../link/.", "real//"])
def test_every_spelling_of_a_path_is_the_same(real: Path, text: str) -> None:
    assert canonical(text, str(real.parent)) == str(real)
    assert canonical(str(real.parent / text), "/elsewhere") == str(real)


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_what_does_not_exist_is_resolved_as_far_as_it_does(real: Path) -> None:
    assert canonical("link/new/../newer/file", str(real.parent)) == str(real / "newer" / "file")
    assert canonical("gone/file", str(real)) == str(real / "gone" / "file")


def test_text_that_is_no_path_is_left_to_be_refused(real: Path) -> None:
    assert canonical("a\0b", str(real)) == "a\0b"
    assert canonical("", str(real)) == ""
    assert canonical("relative", "") == "relative"
    assert canonical("loop/x", str(real.parent)).startswith("/")


def test_the_home_folder_has_its_short_name(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(real))
    assert canonical("~/Src", "/") == str(real / "Src")


def test_a_folder_that_does_not_tell_case_apart_gives_the_spelling(real: Path) -> None:
    assert as_spelled("src", ["a", "Src"]) == "Src"
    assert as_spelled("src", ["SRC", "src"]) == "src"
    assert as_spelled("new", ["Src"]) == "new"
    assert as_on_disk(str(real / "sRC" / "New")) == str(real / "Src" / "New")


def test_operations_are_seen_from_the_folder_of_who_asks(real: Path) -> None:
    here = str(real)
    claim = ClaimScope(rules=["Src", ScopeRule("../link/x", "read", False)]).resolved(here, canonical)
    assert as_rules(claim.rules) == [ScopeRule(f"{here}/Src"), ScopeRule(f"{here}/x", "read", False)]
    assert ReleaseScope(paths=["Src"]).resolved(here, canonical).paths == [f"{here}/Src"]
    assert WhoOwns(path="Src/a").resolved(here, canonical).path == f"{here}/Src/a"
    spawn = SpawnAgent(name="k", client="c", task="t", scope=["Src"])
    assert as_rules(spawn.resolved(here, canonical).scope or ()) == [ScopeRule(f"{here}/Src")]
    assert spawn.resolved(here, canonical).cwd == here
    below = SpawnAgent(name="k", client="c", task="t", cwd="Src")
    assert below.resolved(here, canonical).cwd == f"{here}/Src"
    other = ListAgents()
    assert other.resolved(here, canonical) is other
