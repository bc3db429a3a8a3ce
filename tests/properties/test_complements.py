"""Patterns for everything but a scope: whatever is beneath it is left out, and all else is matched."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.claude.deny_rules import complement, is_plain

NAMES = st.text("abcAB01._- ", min_size=1, max_size=4).filter(
    lambda name: name[0] not in " -" and name.strip(".")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
STRANGE = st.text("abc[]^!()*?~#é😀-. ", min_size=1, max_size=3).filter(lambda name: name.strip("."))
CLOSED = "\\]*"


def reads(pattern: str, path: str) -> bool:
    """As Claude Code reads a pattern: a folder stands for all beneath it, and case does not count."""
    start, bracket, kind = pattern.partition("[")
    if bracket:
        text = f"{re.escape(start)}[{kind.removesuffix('*')}[^/]*"
    elif pattern.endswith(CLOSED):
        text = f"{re.escape(pattern.removesuffix(CLOSED))}\\][^/]*"
    else:
        text = re.escape(pattern)
    halves = "".join(letter if letter < "\U00010000" else "\ud83d\ude00" for letter in path)
    return re.match(f"{text}(?:/|$)", halves, re.IGNORECASE | re.ASCII) is not None


def is_beneath(path: str, roots: list[str]) -> bool:
    lower = path.lower()
    return any(lower == root.lower() or lower.startswith(f"{root.lower()}/") for root in roots)


@given(st.lists(PATHS, min_size=1, max_size=3), PATHS, st.lists(st.one_of(NAMES, STRANGE), max_size=2))
def test_all_but_the_scope_is_matched(roots: list[str], path: str, more: list[str]) -> None:
    path = "/".join([path, *more])
    patterns = complement(roots)
    above = any(root.lower().startswith(f"{path.lower()}/") for root in roots)
    matched = any(reads(pattern, path) for pattern in patterns)
    assert matched == (not is_beneath(path, roots) and not above), (patterns, path)


@given(st.lists(PATHS, min_size=1, max_size=3), st.data())
def test_what_is_beneath_the_scope_is_never_matched(roots: list[str], data: st.DataObject) -> None:
    root = data.draw(st.sampled_from(roots))
    path = "/".join([root, *data.draw(st.lists(STRANGE, max_size=2))])
    assert not any(reads(pattern, path) for pattern in complement(roots))


@given(STRANGE)
def test_names_that_a_pattern_could_misread_are_known(name: str) -> None:
    assert is_plain(f"/a/{name}") == (re.fullmatch(r"[a-c.][a-c. -]*", name) is not None)


@pytest.mark.parametrize("root", ["/src/my-lib", "/a b/c.d_e", "/x"])
def test_every_near_miss_of_a_name_is_matched(root: str) -> None:
    patterns = complement([root])
    near = {
        root[:at] + letter + root[at:] for at in range(1, len(root) + 1) for letter in "z0._-[]^!()*?~#é😀 @"
    }
    near |= {
        root[:at] + letter + root[at + 1 :] for at in range(1, len(root)) for letter in "z0._-[]^!(é😀 @"
    }
    near |= {root[:at] + root[at + 1 :] for at in range(1, len(root))}
    for path in sorted(each for each in near if "//" not in each and not each.endswith("/")):
        above = root.startswith(f"{path}/")
        assert any(reads(pattern, path) for pattern in patterns) == (path != root and not above), path
