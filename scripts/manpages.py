"""Writes the man pages into a folder, from the help: `tellwire.1`, and one page for each command."""

from __future__ import annotations

import sys
from pathlib import Path

from tellwire.cli.app import cli
from tellwire.cli.local.manpage import render_page, render_program_page
from tellwire.cli.table import all_rows, all_sections
from tellwire.version import VERSION


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"tellwire": render_program_page(cli, all_sections(), version=VERSION)}
    for name in all_rows():
        pages[f"tellwire-{name}"] = render_page([name], cli.commands[name], version=VERSION)
    for name, text in pages.items():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(pages)} pages in {folder}: man -l {folder}/tellwire.1\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/man"))
