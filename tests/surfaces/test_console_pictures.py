"""The console's screens are those that are stored: eight of them at three sizes, light, plain and in ASCII.

`TELLWIRE_WRITE_GOLDEN=1` writes them anew; `make screenshots` writes those that people see.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.console_pictures import FOLDER, LOOKS, SHOWN, VIEWS, Look, take

GOLDEN = Path(__file__).parent / "golden_console"


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.requirement("HUM-7", stage="console")
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
async def test_each_screen_is_the_stored_one(look: Look) -> None:
    taken = await take(look)
    assert list(taken) == list(VIEWS)
    for name, (text, svg) in taken.items():
        path = GOLDEN / f"{name}-{look.name}.txt"
        if os.environ.get("TELLWIRE_WRITE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path.name}:\n{text}"
        assert "Needs you" in text
        assert "font-face" not in svg
        assert not any(word in svg for word in ("http://cdn", "https://"))
        if look.ascii:
            assert text.isascii()
        if look.plain:
            styles = text.rstrip().rpartition("\n\n")[2]
            colours = {part for part in styles.split() if part.startswith("#")}
            assert all(len({each[1:3], each[3:5], each[5:7]}) == 1 for each in colours), colours
        if SHOWN.get(look.name) == name:
            stored = (FOLDER / f"{name}-{look.name}.svg").read_text(encoding="utf-8")
            assert stored == svg, "run make screenshots"
