"""What `system/` owns is done nowhere else: `/proc`, atomic files, background tasks, bounded maps."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "tellwire"
OWNED = {
    # The relay is standard library only and cannot import `system`.
    r"\"/proc\b": ("system/proc.py", "relay/"),
    r"\bos\.replace\(|\b(new|fresh|temporary)\.replace\(|mkstemp|NamedTemporaryFile": ("system/files.py",),
    r"\b(del |pop\()[\w.]*\[?next\(iter\(": ("system/bounded.py",),
    r"ensure_future\(|(?<!\btasks)\.create_task\(": ("system/tasks.py",),  # `tasks` is a TaskGroup
}


@pytest.mark.parametrize("pattern", OWNED)
def test_only_its_owner_does_it(pattern: str) -> None:
    found = {
        path.relative_to(SOURCES).as_posix(): line.strip()
        for path in sorted(SOURCES.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if re.search(pattern, line)
    }
    assert any(name.startswith(OWNED[pattern][0]) for name in found), "the pattern finds its owner"
    assert not {name: line for name, line in found.items() if not name.startswith(OWNED[pattern])}
