"""What a rule is about, and when two of them meet; checked against the simplest account there is."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.children.scopes import (
    check_path,
    check_rules,
    covers,
    covers_path,
    first_conflict,
    overlaps,
)
from tellwire.protocol.operations.scopes import ScopeRule
from tests.unit.family import rule
from tests.unit.mesh import refused

SMALL = ["/", *("/" + "/".join(parts) for n in (1, 2, 3, 4) for parts in itertools.product("ab", repeat=n))]
"""Every path of four layers; rules are made of those of three, so that what is beneath them is in it too."""
RULES = [rule(path, recursive=deep) for path in SMALL if path.count("/") <= 2 for deep in (True, False)]


def paths_of(one: ScopeRule) -> set[str]:
    """The paths that a rule is about, by trying all: what it names, and its entries or all beneath it."""
    found = {one.path}
    for path in SMALL:
        layers = path.split("/") if path != "/" else [""]
        own = one.path.split("/") if one.path != "/" else [""]
        beneath = layers[: len(own)] == own and len(layers) > len(own)
        if beneath and (one.recursive or len(layers) == len(own) + 1):
            found.add(path)
    return found


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_rule_covers_what_it_names_and_its_entries_or_all_beneath() -> None:
    for one in RULES:
        assert {path for path in SMALL if covers_path(one, path)} == paths_of(one), one


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_write_overlap_has_four_cases_by_the_recursive_flags() -> None:
    """Row of the table: the overlap test has four cases by recursive flags."""
    for one, other in itertools.product(RULES, RULES):
        assert overlaps(one, other) == bool(paths_of(one) & paths_of(other)), (one, other)


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_rule_within_another_is_about_nothing_else() -> None:
    for outer, inner in itertools.product(RULES, RULES):
        if covers(outer, inner):
            assert paths_of(inner) <= paths_of(outer), (outer, inner)
    assert covers(rule("/a"), rule("/a/b/a", recursive=False))
    assert not covers(rule("/a", recursive=False), rule("/a/b", recursive=False)), (
        "what is in /a/b is not in it"
    )
    assert covers(rule("/a", recursive=False), rule("/a", recursive=False))


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_a_rule_non_recursive_covers_the_target_and_its_direct_children() -> None:
    one = rule("/a", recursive=False)
    assert [covers_path(one, path) for path in ("/a", "/a/b", "/a/b/a", "/ab", "/")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.requirement("CHILD-2", stage="lineage")
def test_only_write_is_exclusive() -> None:
    assert first_conflict(rule("/a"), [rule("/a", "read")]) is None
    assert first_conflict(rule("/a", "read"), [rule("/a")]) is None
    assert first_conflict(rule("/a"), [rule("/b"), rule("/a/b"), rule("/")]) == rule("/a/b")
    assert covers(rule("/a"), rule("/a", "read")), "what may be written may be read"
    assert not covers(rule("/a", "read"), rule("/a"))


def test_names_that_only_begin_alike_are_different() -> None:
    assert not overlaps(rule("/a/src"), rule("/a/src-2"))
    assert overlaps(rule("/"), rule("/a"))
    assert overlaps(rule("/", recursive=False), rule("/a"))
    assert not overlaps(rule("/", recursive=False), rule("/a/b"))


@pytest.mark.requirement("CHILD-2", stage="lineage")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "./a",
        "../a",
        "~/a",
        "/a/",
        "//a",
        "/a//b",
        "/a/./b",
        "/a/..",
        "/..",
        "/a\0b",
        "/" + "x" * 5000,
    ],
)
def test_what_is_not_a_plain_absolute_path_is_refused(path: str) -> None:
    with refused("path_invalid"):
        check_path(path)
    with refused("path_invalid"):
        check_rules([rule("/ok"), rule(path)], 10)


@pytest.mark.parametrize("path", ["/", "/a", "/a/..b", "/a/...", "/a b/ü/😀", "/a\n"])
def test_odd_names_are_names(path: str) -> None:
    assert check_path(path) == path


def test_rules_have_a_bound() -> None:
    with refused("limit_exceeded"):
        check_rules([rule(f"/{number}") for number in range(11)], 10)


@given(st.text(max_size=30))
def test_no_text_makes_the_check_fail_otherwise(text: str) -> None:
    plain = text.startswith("/") and "\0" not in text and "/" not in (text[-1:], text[1:2])
    if not plain:
        with refused("path_invalid") if text != "/" else nullcontext():
            check_path(text)
    elif not {"", ".", ".."} & set(text[1:].split("/")):
        assert check_path(text) == text
