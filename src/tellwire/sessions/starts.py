"""What clients' programs say of a session: payloads, and notes about starts that no broker was there to hear.

`relay/starts.py` writes the notes. One is read once and removed; one about a process that is gone, or that
makes no sense, is only removed.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tellwire.relay.payloads import read
from tellwire.system.files import read_bounded
from tellwire.system.processes import ancestry

log = logging.getLogger("tellwire.hooks")

NOTE_BYTES_MAX = 1 << 17
NOTES_MAX = 1_000
_NAME = re.compile(r"(\d{1,10})\.([^.]*)\.\d+")


class Start(NamedTuple):
    """A session that started while no broker answered."""

    client: str
    payload: dict[str, Any]
    processes: list[str]
    """The processes above its hook, which itself is gone."""
    at: float
    """When it started, in seconds of the wall clock."""


class _Head(msgspec.Struct):
    client: str
    cut: bool = False


class Starts:
    """The folder of notes about sessions that started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self) -> Iterator[Start]:
        """All notes, the oldest first; they are removed."""
        with suppress(FileNotFoundError):
            found = [entry for entry in os.scandir(self._folder) if _NAME.fullmatch(entry.name)]
            times = {entry.path: entry.stat(follow_symlinks=False).st_mtime for entry in found[:NOTES_MAX]}
            for path, at in sorted(times.items(), key=lambda item: item[1]):
                start = self._read(Path(path), at)
                with suppress(OSError):
                    os.unlink(path)
                if start is not None:
                    yield start

    def _read(self, path: Path, at: float) -> Start | None:
        pid, began, _ = path.name.split(".")
        chain = ancestry(int(pid))
        if not chain or (began and chain[0].start != began):
            return None
        try:
            head, _, data = read_bounded(path, NOTE_BYTES_MAX).partition(b"\n")
            about = msgspec.json.decode(head, type=_Head)
            payload = read_payload(data, cut=about.cut)
        except (OSError, ValueError) as error:
            log.warning("the note of a session's start could not be read: %s", str(error)[:200])
            return None
        return Start(about.client, payload, ["", *(process.key for process in chain)], at)


def read_payload(data: bytes, *, cut: bool) -> dict[str, Any]:
    """A hook's payload; of one that cannot be read whole, its plain fields.

    Raises:
        ValueError: it has none.
    """
    if not cut:
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except (ValueError, RecursionError):
            pass  # such as half a surrogate pair in a text, which is no reason to withhold mail
    return read(data, cut=cut)
