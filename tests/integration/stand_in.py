"""Stands in for an agent CLI: a process of its own with tellwire's shim, hooks and waiter beneath itself.

It takes commands as JSON lines on stdin and answers each with a line. Not a test; `test_hook_doors` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, cast

RELAY = Path(__file__).parent.parent.parent / "src" / "tellwire" / "relay"
PYTHON = [sys.executable, "-I", "-S"]
HOOK = str(RELAY / "hook.py")
PATIENT = f"""\
import os, sys
package = sys.modules["tellwire"] = type(sys)("tellwire")
package.__path__ = [{str(RELAY.parent)!r}]
from tellwire.relay import carrier
carrier.ANSWER_S = 60.0
carrier.main()
os._exit(0)
"""
"""The program of a hook that does not give up after two seconds, which a busy machine may need."""


class StandIn:
    """One client process."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._number = 0
        self._hook = [HOOK]
        self._shim: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []
        self._waiters: list[subprocess.Popen[bytes]] = []

    def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the shim."""
        assert self._shim is not None
        self._number += 1
        line = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        stdin, stdout = cast("IO[bytes]", self._shim.stdin), cast("IO[bytes]", self._shim.stdout)
        stdin.write(json.dumps(line).encode() + b"\n")
        stdin.flush()
        return json.loads(stdout.readline())

    def join(self, name: str, cwd: str | None = None) -> Any:
        """Start a shim and shake hands; the last one is asked from then on."""
        command = [*PYTHON, str(RELAY / "mcp_shim.py"), f"--name={name}"]
        if self._shim is not None:
            self._others.append(self._shim)
        self._shim = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        info = {"name": self._client, "version": "1"}
        return self.rpc(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        )

    def be_patient(self) -> Any:
        """Have the hooks wait for the broker as long as it takes, from now on."""
        self._hook = ["-c", PATIENT]
        return True

    def who(self) -> Any:
        """Its process."""
        return {"pid": os.getpid()}

    def tool(self, name: str, **arguments: Any) -> Any:
        """Call a tool."""
        return self.rpc("tools/call", {"name": name, "arguments": arguments})["result"]

    def hook(self, client: str, payload: str, marks: str = "", home: str = "") -> Any:
        """Run a hook as the client does; with `marks`, behind the gate; with `home`, for another broker."""
        command = [*PYTHON, *self._hook, client]
        if marks:
            command = ["/bin/sh", str(RELAY / "gate.sh"), client, sys.executable, marks]
        command += [f"--home={home}"] if home else []
        done = subprocess.run(command, input=payload.encode(), capture_output=True, check=False, timeout=60)
        return {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

    def say(self, path: str, data: str) -> str:
        """Have a child say something to the broker, as a hook does; what it answers."""
        script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
        script += "; s.sendall(sys.argv[2].encode()); sys.stdout.write(s.recv(65536).decode())"
        command = [sys.executable, "-c", script, path, data]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()

    def shell(self, command: str, payload: str) -> Any:
        """Run a hook's command line as a client does."""
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=payload.encode(), capture_output=True, check=False, timeout=60
        )
        return {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

    def tellwire(self, words: list[str]) -> Any:
        """Run a command of tellwire, as a model does with its shell."""
        command = [str(Path(sys.executable).parent / "tellwire"), *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        return {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

    def wait(self, client: str, payload: str = "") -> Any:
        """Start a waiter in the background, with what the client tells it."""
        command = [*PYTHON, str(RELAY / "waiter.py"), client]
        waiter = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        cast("IO[bytes]", waiter.stdin).write(payload.encode())
        cast("IO[bytes]", waiter.stdin).close()
        waiter.stdin = None
        self._waiters.append(waiter)
        return waiter.pid

    def woken(self, within_s: float, index: int = -1) -> Any:
        """How a waiter ended, the last one by default, and what it said."""
        waiter = self._waiters[index]
        try:
            _, err = waiter.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            return {"code": None, "err": ""}
        return {"code": waiter.returncode, "err": err.decode()}

    def end(self) -> None:
        """Leave no process behind."""
        for process in (self._shim, *self._waiters, *self._others):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def main(kind: type[StandIn] = StandIn) -> None:
    """Serve until stdin ends."""
    stand_in = kind(sys.argv[1])
    try:
        for line in sys.stdin:
            command = json.loads(line)
            answer = getattr(stand_in, command.pop("do"))(**command)
            print(json.dumps(answer), flush=True)
    finally:
        stand_in.end()


if __name__ == "__main__":
    main()
