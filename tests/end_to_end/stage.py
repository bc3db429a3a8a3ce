"""All that one cell of the delivery matrix needs: a broker, a scripted model, a peer, and a client."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import tellwire
from tellwire import Agent
from tellwire.install.endpoint import peek_endpoint
from tests.end_to_end.clients import Client, Ran, run
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import Request, Step, call, say
from tests.integration.world import Home, read_proc, until

PROMPT = "Look around in the shop."
QUESTION = "Is the parser finished?"
FINAL = "That is all."
LARGE = "".join(f"row {number:04} of the report".ljust(63, ".") + "\n" for number in range(1_024))
"""As much as a body may have: 64 KiB."""
LOOK = call("list_peers")
END = say(FINAL)
INSTALL_S = 60.0
READ_S = 90.0
REQUEST_S = 90.0
ENDING_S = 30.0
WAKE_RETRY_S = 2
"""Instead of a minute, after a woken turn that failed."""


class Stage:
    """One client, or the place for a plain MCP client, and alice, who writes to it."""

    def __init__(self, row: str, home: Home, model: Model, folder: Path) -> None:
        self.row = row
        self.home = home
        self.model = model
        self.folder = folder
        self.agent = f"shop-{row}"
        self.alice: Agent
        self.client: Client

    def play(self, *steps: Step) -> None:
        """What the client's model says next."""
        self.model.play(self.row, *steps, unlisted=self.client.unlisted)

    async def request(self, containing: str = "", *, index: int = 0) -> Request:
        """Wait for a request of the client's model."""
        return await self.model.request(self.row, containing, index=index, within_s=REQUEST_S)

    @property
    def requests(self) -> list[Request]:
        """The requests so far."""
        return self.model.requests(self.row)

    async def send(self, *texts: str) -> list[str]:
        """Alice writes, as soon as the client is there; the ids."""
        await until_known(self.alice, self.agent)
        return [(await self.alice.send(self.agent, text)).id for text in texts]

    async def during_turn(self, texts: Sequence[str], *steps: Step) -> tuple[Ran, list[str]]:
        """A headless run in which mail comes before the model has given its first answer."""
        release = asyncio.Event()
        self.play(steps[0]._replace(hold=release), *steps[1:])
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run(self.client, PROMPT))
            await self.request()
            ids = await self.send(*texts)
            release.set()
        ran = running.result()
        assert (ran.code, ran.text.endswith(FINAL)) == (0, True), last_words(ran)
        return ran, ids

    async def state(self, message: str) -> tuple[str, str]:
        """A receipt: how far, and by what evidence."""
        (seen,) = (await self.alice.status(message)).recipients
        return seen.state, seen.evidence

    async def until_read(self, *messages: str, or_by: str = "") -> None:
        """Wait until receipts say that the client's own record proves it, or something else does."""
        evidence = self.client.evidence
        for message in messages:
            last = ("", "")

            async def read(message: str = message) -> bool:
                nonlocal last
                last = await self.state(message)
                return last in {("read", evidence), ("read", or_by)}

            try:
                await until(read, within_s=READ_S)
            except AssertionError:
                raise AssertionError(f"{message} is {last}, not read by {evidence}") from None


def once(request: Request, text: str = QUESTION) -> None:
    """A text is in a request's context exactly once."""
    where = request.where(text)
    assert len(where) == 1, f"{text[:40]!r} is {len(where)} times in the context: {where}"


def last_words(ran: Ran) -> str:
    """How a run ended, for a note: the end is what tells."""
    return f"exit code {ran.code}, text {ran.text[-80:]!r}, {ran.err[-300:]!r}"


def frames(request: Request, message: str) -> tuple[int, int]:
    """How often a message stands in the context: as new, and as one that may have been there before."""
    # Gemini writes what a hook says with entities.
    heads = re.findall(rf"peer-message id={message} from=[^&>]*(?:&gt;|>)", request.text)
    repeated = sum("repeat=maybe" in head for head in heads)
    return len(heads) - repeated, repeated


@asynccontextmanager
async def open_stage(row: str, folder: Path, *, broker: bool = True) -> AsyncGenerator[Stage]:
    """A stage of its own for one play, by default with a broker and alice; no process outlives it."""
    home = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    try:
        async with Model.open() as model:
            stage = Stage(row, home, model, folder)
            if row in PROGRAMS:
                stage.client = equip(home, model, folder, row)
            (home.path / "config.toml").write_text(f"wake_retry_s = {WAKE_RETRY_S}\n", "utf-8")
            if not broker:
                yield stage
            else:
                home.up()
                if row in PROGRAMS:
                    await until(lambda: is_served(home), what="hooks over HTTP")
                async with tellwire.connect("alice", home=home.path) as stage.alice:
                    yield stage
    except BaseException:
        with suppress(AssertionError):  # what went wrong first is what counts
            await nothing_runs(home, folder)
        raise
    else:
        await nothing_runs(home, folder)
    finally:
        shutil.rmtree(home.path, ignore_errors=True)


def equip(home: Home, model: Model, folder: Path, short: str) -> Client:
    """A client with tellwire, at work in the shop."""
    client = PROGRAMS[short](folder / short, folder / "shop", model.url(short))
    client.configure()
    install(home, client)
    client.wait_for_tools()
    return client


async def nothing_runs(home: Home, folder: Path) -> None:
    """End the broker; whatever else was started here has to end by itself."""
    places = (str(home.path).encode(), str(folder).encode())
    left: dict[int, bytes] = {}

    def look() -> bool:
        nonlocal left
        home.end()  # again and again: a shim that lives a little longer starts a new one
        left = processes_of(*places)
        return not left

    try:
        await until(look, within_s=ENDING_S)
    except AssertionError:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"processes were left behind: {left}") from None


def processes_of(*places: bytes) -> dict[int, bytes]:
    """The processes whose words or environment name a place, and their words."""
    found: dict[int, bytes] = {}
    for pid in (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()):
        words = read_proc(pid, "cmdline")
        environment = words and read_proc(pid, "environ")
        if pid != os.getpid() and any(place in words or place in environment for place in places):
            found[pid] = words[:200]
    return found


def install(home: Home, client: Client, command: str = "install") -> None:
    """Install tellwire into a client's own settings, as a person would; or take it out again."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "tellwire"), command, client.short, "--user", "--yes"],
        env={**client.environment(), "TELLWIRE_HOME": str(home.path), "PATH": os.environ["PATH"]},
        cwd=client.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def is_served(home: Home) -> bool:
    """Whether the broker listens for hooks."""
    endpoint = peek_endpoint(str(home.path))
    assert endpoint is not None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", endpoint.port)) == 0
