"""The floor as an engine: palaver's own clients, and a broker that does the least one can do."""

import sys
from pathlib import Path

from bench import floor_broker
from bench.engine import Client
from bench.engines.palaver_broker import PalaverClient, join_as
from bench.process import Child
from palaver.settings import load_settings


class FloorEngine:
    """`bench/floor_broker.py` in a process of its own, where clients look for palaver's broker."""

    name = "floor"

    def __init__(self) -> None:
        self._child: Child | None = None
        self._home = Path()

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def start(self, folder: Path) -> None:
        self._home = folder / "home"
        self._home.mkdir(exist_ok=True, mode=0o700)
        socket = load_settings(home=self._home).socket
        command = [sys.executable, floor_broker.__file__, str(socket), str(folder / "floor.journal")]
        self._child = Child(command, folder / "floor.log")
        self._child.wait_for_socket(socket)

    async def client(self, number: int) -> Client:
        agent: PalaverClient = await join_as(f"agent-{number}", self._home)
        return agent

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None
