"""What engines have in common whose server is a process that we start and end."""

from collections.abc import Sequence
from pathlib import Path

from bench.process import Child


class ChildEngine:
    """One server process, started afresh for each round."""

    def __init__(self) -> None:
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The server's process, while it runs."""
        assert self._child is not None
        return self._child.pid

    def serve(self, command: Sequence[str], log: Path, socket: Path) -> None:
        """Start it and return when it accepts connections."""
        self._child = Child(command, log)
        self._child.wait_for_socket(socket)

    def stop(self) -> None:
        """End it; harmless if it does not run."""
        if self._child is not None:
            self._child.stop()
            self._child = None
