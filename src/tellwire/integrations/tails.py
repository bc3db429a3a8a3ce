"""The end of a file that a client writes, line by line, backwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from tellwire.integrations.transcripts import open_at_once

TAIL_BYTES_MAX = 16 << 20
"""So far back is looked."""
_BLOCK_BYTES = 64 << 10


def lines_backwards(path: str, bytes_max: int = 0) -> Iterator[bytes]:
    """The lines of a file, the last one first; nothing of a file that cannot be read."""
    if not path:
        return
    with suppress(OSError, ValueError), open(path, "rb", opener=open_at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return
        place, rest = found.st_size, b""
        stop = max(0, place - (bytes_max or TAIL_BYTES_MAX))
        pieces: list[bytes] = []
        while place > stop:
            size = min(_BLOCK_BYTES, place - stop)
            place -= size
            rest = os.pread(file.fileno(), size, place)
            if b"\n" not in rest:
                pieces.append(rest)
                continue
            first, *whole = rest.split(b"\n")
            whole[-1] += b"".join(reversed(pieces))
            yield from reversed(whole)
            pieces = [first]
        if stop == 0:
            yield b"".join(reversed(pieces))
