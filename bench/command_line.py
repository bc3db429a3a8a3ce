"""Messaging by whole processes: one command sends, another waits for what comes."""

import json
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.engine import RoundFailed

LISTEN_S = 20
DRAIN_S = 1
DRAINED_S = 0.9
"""Nothing is left if a listener took so long: it had to wait; or if it says the same thing twice."""
DRAINS_MAX = 100
BLOCKED_AFTER_S = 0.4
"""A listener has been started for this long before the send: it waits by then."""


@dataclass(frozen=True)
class CommandLine:
    """How a tool is asked to send, and to wait for a message, each as an argument list without the body."""

    name: str
    send: Sequence[str]
    listen: Sequence[str]
    environment: Mapping[str, str]

    def send_ms(self, body: str) -> float:
        """From start to end of the sending process."""
        begun = time.perf_counter()
        sent = subprocess.run(
            [*self.send, body],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LISTEN_S,
            check=False,
        )
        took_ms = (time.perf_counter() - begun) * 1000
        if sent.returncode != 0:
            raise RoundFailed(f"{self.name} send: {_last_line(sent.stderr or sent.stdout)}")
        return took_ms

    def send_to_listener_ms(self, body: str) -> float:
        """From the start of the sending process until the blocked listener has printed the message."""
        listener = subprocess.Popen(
            self.listen,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            assert listener.stdout is not None
            ready, _, _ = select.select([listener.stdout], [], [], BLOCKED_AFTER_S)
            if ready:
                raise RoundFailed(f"{self.name} listen did not wait: {_last_line(listener.stdout.read())}")
            begun = time.perf_counter()
            with subprocess.Popen(
                [*self.send, body],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ):
                ready, _, _ = select.select([listener.stdout], [], [], LISTEN_S)
                took_ms = (time.perf_counter() - begun) * 1000
            if not ready or json.dumps(body)[1:-1].encode() not in listener.stdout.read():
                raise RoundFailed(f"{self.name} listen did not print the message")
            return took_ms
        finally:
            listener.kill()
            listener.wait(LISTEN_S)

    def drain(self) -> None:
        """Take what waits, so that the next listener has to wait; a tool may hand over some at a time."""
        before: bytes | None = None
        for _ in range(DRAINS_MAX):
            begun = time.perf_counter()
            taken = subprocess.run(
                [word if word != str(LISTEN_S) else str(DRAIN_S) for word in self.listen],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LISTEN_S,
                check=False,
            )
            if time.perf_counter() - begun >= DRAINED_S or taken.stdout == before:
                return
            before = taken.stdout
        raise RoundFailed(f"{self.name} listen never came to an end of what waited")


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no words"
