"""Several clients at once, each in a terminal of its own with tellwire installed, and alice who looks on."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import tellwire
from tellwire import Agent
from tests.end_to_end.clients import Client
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.script import Request, Step, say
from tests.end_to_end.stage import equip, is_served, nothing_runs
from tests.end_to_end.terminal import Terminal
from tests.integration.world import Home, until

GREETING = "Get ready."
READY = "Ready for it."
REQUEST_S = 90.0


class Company:
    """Who sits where."""

    def __init__(self, home: Home, model: Model) -> None:
        self.home = home
        self.model = model
        self.alice: Agent
        self.clients: dict[str, Client] = {}
        self.terminals: dict[str, Terminal] = {}

    def play(self, short: str, *steps: Step) -> None:
        """What a client's model says, each when its time has come."""
        self.model.play(short, *steps, unlisted=self.clients[short].unlisted)

    async def request(self, short: str, containing: str) -> Request:
        """Wait for what a client's model is asked."""
        return await self.model.request(short, containing, within_s=REQUEST_S)

    async def settle(self, short: str) -> None:
        """A first turn, to its end: then the session is known, and idle."""
        terminal = self.terminals[short]
        self.play(short, say(READY)._replace(when=GREETING))
        await terminal.shows(self.clients[short].ready_mark)
        await terminal.type(GREETING)
        await terminal.shows(READY)
        await terminal.idle()
        await until_known(self.alice, f"shop-{short}")


@asynccontextmanager
async def open_company(folder: Path, *shorts: str) -> AsyncGenerator[Company]:
    """Clients in terminals, all idle; no process outlives the block."""
    home = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        async with Model.open() as model, AsyncExitStack() as stack:
            company = Company(home, model)
            for short in shorts:
                company.clients[short] = await asyncio.to_thread(equip, home, model, folder, short)
            home.up()
            await until(lambda: is_served(home), what="hooks over HTTP")
            company.alice = await stack.enter_async_context(tellwire.connect("alice", home=home.path))
            for short in shorts:  # one after the other: a start is what they need the processor for
                opened = Terminal.open(company.clients[short])
                company.terminals[short] = await stack.enter_async_context(opened)
                await company.settle(short)
            yield company
    except BaseException:
        with suppress(AssertionError):  # what went wrong first is what counts
            await nothing_runs(home, folder)
        raise
    else:
        await nothing_runs(home, folder)
    finally:
        shutil.rmtree(home.path, ignore_errors=True)
