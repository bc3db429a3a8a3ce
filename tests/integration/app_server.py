"""Stands in for Codex's app-server: one process with several sessions, each with a shim and a terminal.

It speaks JSON-RPC in WebSocket frames on the socket in its folder, as the real one does, or as badly as a
test wants. `test_threads` runs it, with the words `NAME app-server MANNER`; commands are as in `stand_in`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

from tellwire.clients.codex.app_server import PLACE
from tests.integration.stand_in import StandIn, main

LONG = 1 << 40
TEXT = 0x81


class AppServer(StandIn):
    """One app-server."""

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self._manner = sys.argv[3]
        self._threads: dict[str, tuple[Any, socket.socket]] = {}
        self._lock = threading.RLock()
        self._asked = 0
        self._parents: dict[str, str] = {}
        self._looked: set[str] = set()
        self._queues: dict[str, list[dict[str, Any]]] = {}
        self._started: list[str] = []
        place = Path(os.environ["CODEX_HOME"]) / PLACE
        place.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    # -- what a test has it do ------------------------------------------------------------------------

    def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """Ask a shim, one question at a time."""
        with self._lock:
            return super().rpc(method, params)

    def begin(self, thread: str, name: str, cwd: str | None = None) -> Any:
        """A terminal begins a session, or resumes one: that is loaded anew, with a shim of its own."""
        with self._lock:
            before = self._threads.get(thread)
            if before is not None:
                before[0].kill()
                before[0].wait()
            answer = self.join(name, cwd)
            port = socket.create_server(("127.0.0.1", 0))
            self._threads[thread] = self._shim, port
            return answer

    def clear(self, thread: str, anew: str, parent: str = "") -> Any:
        """The terminal of a session begins another one, whose shim has not started yet."""
        self._parents[anew] = parent
        self._threads[anew] = None, self._threads[thread][1]
        return True

    def looked(self) -> Any:
        """The threads whose terminal was asked for."""
        return sorted(self._looked)

    def close(self, thread: str) -> Any:
        """The terminal of a session is closed; the session goes on."""
        self._threads[thread][1].close()
        return True

    def asked(self) -> Any:
        """How often it was asked on its socket."""
        return self._asked

    def queued(self, thread: str) -> Any:
        """What lies in a session's queue."""
        return self._queues.get(thread, [])

    def started(self) -> Any:
        """The texts that it was told to start."""
        return self._started

    def take(self, thread: str) -> Any:
        """The first text of a queue is taken up, or lost."""
        return self._queues[thread].pop(0)

    # -- what it is asked on its socket ---------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            self._asked += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self._manner == "shut":
            return connection.close()
        file = connection.makefile("rb")
        while (line := file.readline()) not in (b"\r\n", b""):
            del line
        if self._manner == "garbage":
            connection.sendall(b"\xff" * 2_000)
            return connection.close()
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        while head := file.read(2):
            data = _unmask(file, head[1] & 0x7F)
            asked: dict[str, Any] = json.loads(data) if head[0] == TEXT else {}
            is_heard = self._manner != "mute" or asked.get("method") == "initialize"
            if "id" in asked and self._manner != "silent" and is_heard:
                self._answer(connection, asked)
        return None

    def _answer(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        if self._manner == "nonsense":
            return connection.sendall(_frame(b'{"id": 1, "result": '))
        if self._manner == "long":
            return connection.sendall(b"\x81\x7f" + struct.pack(">Q", LONG))
        if self._manner == "talkative":
            connection.sendall(b"\x89\x02hi" + _frame({"method": "thread/status/changed", "params": {}}))
        answer = {"id": asked["id"], **self._reply(asked["method"], asked.get("params", {}))}
        if self._manner in ("forgetful", "curt") and asked["method"] == "thread/queue/add":
            self._manner = "good"  # from now on
            return connection.shutdown(socket.SHUT_RDWR)
        frame = _frame(answer)
        if self._manner == "talkative":  # in two pieces, with something in between
            data = json.dumps(answer).encode()
            frame = b"\x01" + bytes([5]) + data[:5] + b"\x89\x00" + _frame(data[5:], head=0x80)
        return connection.sendall(frame)

    def _reply(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        thread = params.get("threadId", "")
        if method == "initialize":
            return {"result": {"codexHome": os.environ["CODEX_HOME"]}}
        if self._manner == "refusing":
            return {"error": {"code": -32601, "message": "unknown method"}}
        if self._manner == "odd":
            return {"result": {"data": [7, None, {"httpOrigin": "http://[::1"}] if thread else 7}}
        if method == "thread/loaded/list":
            return {"result": {"data": ["title-thread", *self._threads]}}
        if thread not in self._threads:
            return {"error": {"code": -32600, "message": "no such thread"}}
        if method == "mcpServer/tool/call":
            return self._call(thread, params)
        return self._tell(method, thread, params)

    def _tell(self, method: str, thread: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "thread/read":
            path = str(Path(os.environ["CODEX_HOME"]) / "rollout.jsonl")
            told = {"id": thread, "status": {"type": "idle"}, "path": path}
            return {"result": {"thread": {**told, "parentThreadId": self._parents.get(thread) or None}}}
        if method.startswith("thread/queue/"):
            return self._queue(method.rpartition("/")[2], self._queues.setdefault(thread, []), params)
        self._looked.add(thread)
        port = self._threads[thread][1]
        origin = f"http://127.0.0.1:{port.getsockname()[1]}" if port.fileno() >= 0 else "http://127.0.0.1:1"
        return {"result": {"data": [{"name": "codex_tui", "httpOrigin": origin}]}}

    def _queue(self, word: str, queue: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
        if self._manner == "old":
            return {"error": {"code": -32600, "message": "Invalid request: unknown variant"}}
        if word == "list":
            return {"result": {"data": queue, "nextCursor": None}}
        if word == "start":
            self._started += [each["id"] for each in queue if each["id"] == params["queuedSubmissionId"]]
            return {"result": {"turn": {}}}
        added = {
            "id": f"q{len(queue)}",
            "input": params["input"],
            "clientUserMessageId": params["clientUserMessageId"],
        }
        if self._manner != "forgetful":
            queue.append(added)
        return {"result": {"queuedSubmission": added}}

    def _call(self, thread: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._threads[thread][0] is None:
            return {"error": {"code": -32600, "message": "no such server"}}
        with self._lock:
            now, self._shim = self._shim, self._threads[thread][0]
            meta = {**params["_meta"], "threadId": thread}
            said = self.rpc("tools/call", {"name": params["tool"], "arguments": {}, "_meta": meta})
            self._shim = now
        return {"error": said["error"]} if "error" in said else {"result": said["result"]}


def _unmask(file: Any, size: int) -> bytes:
    if size == 126:
        (size,) = struct.unpack(">H", file.read(2))
    mask = file.read(4)
    return bytes(byte ^ mask[place % 4] for place, byte in enumerate(file.read(size)))


def _frame(message: Any, head: int = TEXT) -> bytes:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return bytes([head, 126]) + struct.pack(">H", len(data)) + data


if __name__ == "__main__":
    main(AppServer)
