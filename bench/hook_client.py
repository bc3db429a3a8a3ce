"""The bench's side of `bench.hook_runner`: an agent CLI of our own, to which hooks are processes."""

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engine import RoundFailed
from bench.engines.tellwire_broker import TellwireEngine

ROOT = Path(__file__).parent.parent
END_S = 10.0


class HookClient:
    """A running client; each method returns when the hook has ended."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        known = self._answer()
        self.hook: Sequence[str] = known["hook"]
        """The words that an installation writes down for a hook."""
        self.gate: Sequence[str] = known["gate"]
        self.mark = Path(known["mark"])
        """There while mail waits."""

    def run(
        self, command: Sequence[str], payload: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> tuple[float, str]:
        """Run a hook: how many milliseconds it took, and what it said."""
        known = None if environment is None else dict(environment)
        self._ask({"command": list(command), "payload": json.dumps(payload), "environment": known})
        answer = self._answer()
        return answer["ms"], answer["said"]

    def reply(self, message: str) -> None:
        """Answer a message, by which it is settled."""
        self._ask({"reply_to": message})
        self._answer()

    def _ask(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RoundFailed("the client that runs the hooks has ended")
        return json.loads(line)


@contextmanager
def opened_client(engine: TellwireEngine, name: str) -> Generator[HookClient, None, None]:
    """A client that has joined under a name; ended afterwards whatever happened."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.hook_runner", name],
        env=engine.environment(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield HookClient(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
