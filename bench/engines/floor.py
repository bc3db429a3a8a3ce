"""The floor as an engine: tellwire's own clients, and a broker that does the least one can do."""

import sys
from pathlib import Path

from bench import floor_broker
from bench.engine import Client
from bench.engines.child import ChildEngine
from bench.engines.tellwire_broker import TellwireClient, join_as
from tellwire.settings import load_settings


class FloorEngine(ChildEngine):
    """`bench/floor_broker.py` in a process of its own, where clients look for tellwire's broker."""

    name = "floor"

    def __init__(self) -> None:
        super().__init__()
        self._home = Path()

    def start(self, folder: Path) -> None:
        self._home = folder / "home"
        self._home.mkdir(exist_ok=True, mode=0o700)
        socket = load_settings(home=self._home).socket
        command = [sys.executable, floor_broker.__file__, str(socket), str(folder / "floor.journal")]
        self.serve(command, folder / "floor.log", socket)

    async def client(self, number: int) -> Client:
        agent: TellwireClient = await join_as(f"agent-{number}", self._home)
        return agent
