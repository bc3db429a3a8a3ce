"""A stdio server for the tests of the bridge: it does by request what a good one would never do.

A request's method says what it gets; ``heard`` is the line as it came, so that a test can compare.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

# Spaces, an escape and an unknown member: what a parser would not bring back as it was.
ODD = '{ "jsonrpc":"2.0",  "id":%s,"result":{"text":"\\u00e4","heard":%s}, "extra" : null}'
INITIALIZED: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
SERVER = {"name": "parrot", "version": "1"}


def main() -> None:
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if "id" in message and "method" in message:
            answer(message, line.removesuffix("\n"))


def answer(message: dict[str, Any], heard: str) -> None:
    match message["method"]:
        case "initialize" if message.get("params", {}).get("refuse"):
            say({"id": message["id"], "error": {"code": -32602, "message": "refused"}})
        case "initialize":
            say({"id": message["id"], "result": {**INITIALIZED, "serverInfo": SERVER}})
        case "tools/list":
            say(
                {
                    "id": message["id"],
                    "result": {"tools": [{"name": "bare", "inputSchema": {"type": "object"}}]},
                }
            )
        case "progress":
            token = message["params"]["_meta"]["progressToken"]
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            say({"id": message["id"], "result": {}})
        case "unasked":
            say({"method": "notifications/message", "params": {"level": "info", "data": "unasked"}})
            say({"id": message["id"], "result": {}})
        case "noise":
            write("this is not JSON")
            say({"id": message["id"], "result": {}})
        case "die":
            sys.exit(3)
        case "pid":
            say({"id": message["id"], "result": {"pid": os.getpid()}})
        case "stay":
            say({"id": message["id"], "result": {}})
            signal.pause()
        case _:
            write(ODD % (json.dumps(message["id"]), json.dumps(heard)))


def say(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def write(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
