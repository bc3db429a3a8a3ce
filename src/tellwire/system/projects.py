"""The project that a folder belongs to. Agents of one project see each other."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1024)
def group_of(cwd: str) -> str:
    """The project of a folder: where its git common directory is, so that worktrees share it; else itself."""
    if not cwd or not os.path.isabs(cwd):
        return ""
    folder = Path(os.path.realpath(cwd))
    for candidate in (folder, *folder.parents):
        marker = candidate / ".git"
        if marker.is_dir():
            return str(candidate)
        if marker.is_file():
            return str(_common_folder(candidate, marker))
    return str(folder)


def _common_folder(worktree: Path, marker: Path) -> Path:
    """Follow a worktree's `.git` file to the folder of the main checkout."""
    try:
        line = marker.read_text(encoding="utf-8", errors="replace").strip()
        git_dir = (worktree / line.removeprefix("gitdir:").strip()).resolve()
        common = git_dir / "commondir"
        if not common.is_file():
            return worktree  # a submodule is a project of its own
        shared = (git_dir / common.read_text(encoding="utf-8", errors="replace").strip()).resolve()
    except OSError:
        return worktree
    return shared.parent if shared.name == ".git" else shared
