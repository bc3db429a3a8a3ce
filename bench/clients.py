"""The real agent CLIs in the bench: installed or not, each on a stage of its own, led step by step.

The stage is the end-to-end tests' one: a broker, a scripted model on loopback, a client in a home of its own
with tellwire installed as a person would. The model answers when the bench lets it, so what passes between an
answer and the next request is the client's own time: the tool call, the hooks on it, the next request.
"""

import asyncio
import gc
import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar, cast

from bench.engine import Missing, RoundFailed
from tests.end_to_end.clients import ROOT, Client, started
from tests.end_to_end.model import Model
from tests.end_to_end.programs import PROGRAMS
from tests.end_to_end.script import Call, Step
from tests.end_to_end.stage import Stage, open_stage

PACKAGES = {
    "claude": ("Claude Code", "@anthropic-ai/claude-code"),
    "codex": ("Codex", "@openai/codex"),
    "gemini": ("Gemini CLI", "@google/gemini-cli"),
    "opencode": ("OpenCode", "opencode-ai"),
    "pi": ("Pi", "@earendil-works/pi-coding-agent"),
}
NOT_INSTALLED = "not installed: run `make client-setup`"
PROMPT = "Read the notes, one after the other."
REQUEST_S = 60.0
WORDS_MAX = 200

Result = TypeVar("Result")


def title_of(short: str) -> str:
    """A client's name, with the version that is pinned."""
    title, package = PACKAGES[short]
    wanted = json.loads((ROOT / "requirements/clients.json").read_text("utf-8"))
    return f"{title} {wanted['dependencies'][package]}"


def check_installed(short: str) -> None:
    """Raises Missing, with the command that installs it, unless the client's program is there."""
    nowhere = Path(tempfile.mkdtemp(prefix="tlw-"))
    try:
        program = PROGRAMS[short](nowhere, nowhere, "").program()
    except (AssertionError, ValueError) as error:
        raise Missing(NOT_INSTALLED) from error
    finally:
        shutil.rmtree(nowhere, ignore_errors=True)
    if not os.access(program[0], os.X_OK):
        raise Missing(NOT_INSTALLED)


def note(number: int) -> str:
    """A file for each call: the same ones again and again are a loop to some clients, which ends the turn."""
    return f"note-{number}.txt"


def reading(short: str, number: int, project: Path) -> Call:
    """A client's own tool on a small file: no process where the client can do without."""
    name = note(number)
    calls: Mapping[str, tuple[str, Mapping[str, Any]]] = {
        "claude": ("Read", {"file_path": str(project / name)}),
        "codex": ("exec_command", {"cmd": f"cat {name}"}),
        "gemini": ("read_file", {"file_path": name}),
        "opencode": ("read", {"filePath": str(project / name)}),
        "pi": ("read", {"path": name}),
    }
    return Call(*calls[short])


def allow_long_turns(client: Client) -> None:
    """Gemini CLI asks a model, after thirty calls in a turn, whether it goes round in circles: not here."""
    path = client.home / ".gemini/settings.json"
    if path.exists():
        settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**settings, "model": {"disableLoopDetection": True}}), encoding="utf-8")


class Gate(asyncio.Event):
    """Holds an answer of the model back, and tells when the request came that it is for."""

    def __init__(self) -> None:
        super().__init__()
        self._came: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def wait(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Called by the model when the request is there."""
        if not self._came.done():
            self._came.set_result(perf_counter())
        return await super().wait()

    async def came(self, within_s: float = REQUEST_S) -> float:
        """Wait for the request; the moment it was read."""
        async with asyncio.timeout(within_s):
            return await asyncio.shield(self._came)


class Led:
    """A headless run whose model answers only when it is told to: so many tool calls, then the end."""

    def __init__(self, name: str, client: Client, model: Model, calls: int) -> None:
        self.name = name
        self._model = model
        allow_long_turns(client)
        self._gates = [Gate() for _ in range(calls + 1)]
        for number in range(calls):
            (client.project / note(number)).write_text(f"This is note {number}.\n", encoding="utf-8")
        steps = [
            Step(calls=(reading(client.short, number, client.project),), hold=gate)
            for number, gate in enumerate(self._gates[:-1])
        ]
        model.play(name, *steps, Step(text="That is all.", hold=self._gates[-1]), unlisted=client.unlisted)
        self._at = 0

    async def begun(self) -> None:
        """Wait for the first request."""
        await self._gates[0].came()

    async def call_s(self) -> float:
        """Have the model ask for one call; seconds until its next request is there."""
        began = perf_counter()
        return await self.call() - began

    async def call(self) -> float:
        """The same; the moment the next request was there."""
        self._gates[self._at].set()
        self._at += 1
        try:
            return await self._gates[self._at].came()
        except TimeoutError:
            raise RoundFailed(f"{self.name} asked nothing more after {self._at} calls") from None

    @property
    def context(self) -> str:
        """What stands in the last request."""
        return self._model.requests(self.name)[-1].text

    def finish(self) -> None:
        """Let the turn end, with the calls that are left."""
        for gate in self._gates:
            gate.set()


@asynccontextmanager
async def leading(clients: Mapping[str, Client], model: Model, calls: int) -> AsyncGenerator[Sequence[Led]]:
    """Headless runs side by side, each at its first request; at the end of the block their turns end."""
    async with AsyncExitStack() as stack:
        runs = [Led(name, client, model, calls) for name, client in clients.items()]
        processes = [await stack.enter_async_context(started(client, PROMPT)) for client in clients.values()]
        # Read from the beginning: a pipe that is full would stop the client.
        ends = [asyncio.create_task(process.communicate()) for process in processes]
        for run, process, end in zip(runs, processes, ends, strict=True):
            try:
                await run.begun()
            except TimeoutError:
                process.kill()
                _, err = await end
                raise RoundFailed(f"{run.name} asked nothing: {err.decode()}") from None
        yield runs
        for run in runs:
            run.finish()
        await asyncio.wait(ends, timeout=REQUEST_S)


@asynccontextmanager
async def staged(short: str, folder: Path) -> AsyncGenerator[Stage]:
    """A stage for one client; what its parts assert and what does not come in time is a failed round.

    Raises:
        Missing: the client is not installed here.
    """
    check_installed(short)
    with failing_as_rounds():
        async with open_stage(short, folder) as stage:
            yield stage


@contextmanager
def failing_as_rounds() -> Generator[None]:
    """What goes wrong in the block is a failed round, or something that is missing."""
    try:
        yield
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
        if isinstance(cause, (Missing, RoundFailed)):
            raise cause from error
        raise RoundFailed(_words_of(cause)) from error


def _words_of(error: BaseException) -> str:
    """What went wrong in one line, for the table."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}…"


def play(work: Coroutine[Any, Any, Result]) -> Result:
    """Run on asyncio's own loop: under uvloop's, waiting for a tmux that has just started never ends."""
    gc.collect()
    return asyncio.run(work)
