"""A hook for any client: keeps what it is told, and answers what it was prepared to. Standard library only.

It stands alone in the home of a client, as `hook`; beside it `hook.log` (a JSON object for each call) and
`hook.replies` (for each event a list of answers, used up one by one).
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

KEPT = ("CLAUDE", "CODEX", "GEMINI_C", "GEMINI_P", "GEMINI_S")
"""Beginnings of variables that tell a hook where it is."""


def main() -> None:
    """One call."""
    here = Path(__file__).parent
    payload: dict[str, Any] = json.loads(sys.stdin.read())
    event = payload["hook_event_name"]
    words = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    with (here / "hook.log").open("a", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        reply = take_reply(here / "hook.replies", event)
        line = {"event": event, "payload": payload, "environment": words, "reply": reply}
        log.write(json.dumps(line) + "\n")
    if reply is not None:
        sys.stdout.write(json.dumps(reply))


def take_reply(path: Path, event: str) -> Any:
    """The next answer to an event, if one is left."""
    replies: dict[str, list[Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    left = replies.get(event) or []
    if not left:
        return None
    reply = left.pop(0)
    path.write_text(json.dumps(replies), encoding="utf-8")
    return reply


if __name__ == "__main__":
    main()
