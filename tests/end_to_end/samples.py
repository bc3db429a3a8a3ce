"""Samples out of recordings: without what belongs to one machine, and without what nobody needs to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from tests.end_to_end.clients import ROOT

FOLDER = ROOT / "tests" / "samples"
TEXT_CHARS_MAX = 300
OURS = re.compile(r"peer-message|\[tellwire")
"""Texts with these stay whole."""
PROMPTS = frozenset(
    {"systemPrompt", "sections", "shape", "tools", "toolsAdded", "addedLines", "base_instructions"}
)
"""What is under these names is the vendor's, if it is long."""
PORT = re.compile(r"127\.0\.0\.1:\d+")
TEMPORARY = re.compile(r"/tmp/tlw-\w+")
KERNEL = re.compile(r"Linux \d[\w.+-]*")
HOME = "/home/user"


class Cleaner:
    """Takes the machine out of what one client wrote."""

    def __init__(self, home: Path) -> None:
        self._words = {
            str(home): HOME,
            str(home).replace("/", "-").replace("_", "-"): HOME.replace("/", "-"),
            str(ROOT): f"{HOME}/tellwire",
        }

    def clean(self, value: Any) -> Any:
        """The same without paths, ports and long texts of vendors."""
        if isinstance(value, str):
            return self._clean_text(value)
        if isinstance(value, list):
            rows = cast("list[Any]", value)
            return [self.clean(each) for each in rows]
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {self._clean_text(key): self._clean_field(key, each) for key, each in fields.items()}
        return value

    def _clean_field(self, key: str, value: Any) -> Any:
        if key in PROMPTS and len(json.dumps(value)) > TEXT_CHARS_MAX:
            return "… cut"
        return self.clean(value)

    def _clean_text(self, text: str) -> str:
        for ours, theirs in self._words.items():
            text = text.replace(ours, theirs)
        text = KERNEL.sub("Linux", TEMPORARY.sub(f"{HOME}/state", PORT.sub("127.0.0.1:8000", text)))
        if len(text) <= TEXT_CHARS_MAX or OURS.search(text):
            return text
        return f"{text[:60]} … cut from {len(text)} characters"


def save(client: str, name: str, rows: Iterable[Any]) -> Path:
    """Write a sample, one row on a line: `.jsonl` as a transcript has it, `.json` as one list."""
    target = FOLDER / client / name
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    text = "\n".join(lines) if name.endswith("l") else "[\n" + ",\n".join(lines) + "\n]"
    target.write_text(text + "\n", encoding="utf-8")
    return target


def load_lines(path: Path) -> list[Any]:
    """The objects of a file with one on each line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
