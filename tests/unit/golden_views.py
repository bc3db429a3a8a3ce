"""Rows of the views as files; `TELLWIRE_GOLDEN=write pytest tests/unit` writes them again: look at them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tellwire.views.signs import ASCII, UNICODE, Signs
from tellwire.views.words import width_of

FOLDER = Path(__file__).parent / "golden_views"
WIDTHS = (40, 80, 120)


def check(name: str, lines_at: Callable[[int, Signs], list[str]]) -> None:
    """Compare the lines at each width, and in ASCII at 80, with the file; none may be too wide."""
    blocks: list[str] = []
    for width, signs, title in [*((width, UNICODE, "") for width in WIDTHS), (80, ASCII, " ASCII")]:
        lines = lines_at(width, signs)
        assert all(width_of(line) <= width for line in lines), width
        assert signs is UNICODE or all(line.isascii() for line in lines)
        blocks.append("\n".join([f"== {width}{title}", *(line.rstrip() for line in lines)]))
    path, text = FOLDER / f"{name}.txt", "\n".join(blocks) + "\n"
    if os.environ.get("TELLWIRE_GOLDEN") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text
