"""The documentation: links lead somewhere, every page is found from the index, snippets are Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "market").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
INDEX = ROOT / "docs" / "index.md"


def prose(page: Path) -> str:
    """A page without its code."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return re.sub(r"`[^`\n]*`", lambda found: "x" * len(found[0]), text)


def anchors(page: Path) -> set[str]:
    """As the usual renderers of Markdown make them from headings."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text("utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Links to files: as written, the file, and the place in it."""
    for link in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for link, target, anchor in links(page):
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: {target.name} has no such heading"


def test_every_page_is_found_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [INDEX]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        waiting += [target for _, target, _ in links(page) if target.is_file()]
    decisions = ROOT / "docs" / "decisions"
    lost = [page for page in (ROOT / "docs").rglob("*.md") if page not in seen and page.parent != decisions]
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_snippets_of_a_page_can_be_parsed(page: Path) -> None:
    for indent, language, text in FENCE.findall(page.read_text("utf-8")):
        assert not indent
        if language == "python" and page.name != "python.md":  # that one shows how calls are written
            compile(text, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        if language == "json":
            json.loads(text)


def test_the_checker_finds_what_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c!\n\n[x](other.md) [y](#a-b-c) `[z](no.md)`\n\n```\n[w](no.md)\n```\n", "utf-8")
    found = [(link, target.exists(), anchor) for link, target, anchor in links(page)]
    assert found == [("other.md", False, ""), ("#a-b-c", True, "a-b-c")]
    assert anchors(page) == {"a-b-c"}
