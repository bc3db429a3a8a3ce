"""Free space on the disk, looked at each beat. Below a floor only receipts and the operator's mail are taken.

The rule itself is in `core/record/space`.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from tellwire.broker.engine import Engine
from tellwire.protocol.errors import TellwireError

log = logging.getLogger("tellwire.daemon")

SHARE_MAX = 0.05
"""Of a small disk no more than this is kept free."""
AGAIN = 1.1
"""So many times the floor must be free before all is taken again."""
ADVICE = (
    "Free disk space, or delete delivered messages with `tellwire purge --older-than 1d`. Mail can still be "
    "read and confirmed. Nothing was stored."
)


class Space:
    """The floor of one broker's disk."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        free_bytes_min: int,
        look: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._free_bytes_min = free_bytes_min
        self._look = look

    def beat(self) -> None:
        """Look once."""
        try:
            total, _, free = self._look(self._folder)
        except OSError:
            return
        engine, low = self._engine, self._engine.low is not None
        floor = min(self._free_bytes_min, int(SHARE_MAX * total))
        if free < floor * (AGAIN if low else 1):
            words = f"The disk of {self._folder} is nearly full: {free >> 20} MiB are free."
            if not low:
                log.error("the disk is low: %s", words)
            engine.low = TellwireError("storage_full", words, ADVICE)
        elif low:
            log.warning("the disk has room again")
            engine.low = None
