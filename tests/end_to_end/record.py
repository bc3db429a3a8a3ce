"""Record what real clients tell their hooks and write into their transcripts: tests/samples/<client>/.

    python -m tests.end_to_end.record [claude] [codex] [gemini] [opencode] [pi]

`headless.json` and `terminal.json` hold every call of a hook, in order and with the answer it gave.
`transcript*.jsonl` is the client's own file afterwards; of OpenCode, which has a database, what it exports.
`requests.json` tells which of the injected texts the model saw, request by request: what is true.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import tellwire
from tellwire.cli.commands.setup.mcp import shim_command
from tests.end_to_end.claude import Claude
from tests.end_to_end.clients import Client, run
from tests.end_to_end.codex import Codex
from tests.end_to_end.gemini import Gemini
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.opencode import OpenCode
from tests.end_to_end.pi import Pi
from tests.end_to_end.samples import Cleaner, load_lines, save
from tests.end_to_end.script import Call, Step, call, say
from tests.end_to_end.terminal import Terminal
from tests.integration.world import Home, until

PROMPT = "Look at the note and tell me what it says."
TASK = "Count the lines of the note."
NOTIFICATION_S = 90.0


class Plan(NamedTuple):
    """How one client is recorded."""

    program: type[Client]
    read: Call
    """Its own tool, reading a file."""
    replies: dict[str, list[Any]]
    in_terminal: dict[str, list[Any]] = {}
    """The answers of hooks there."""
    compact: str = ""
    """The command that compacts, in a terminal."""
    plugin: str = ""
    """Instead of a command as a hook."""
    mesh: bool = True
    """It takes tellwire's MCP server."""
    waits_for: str = ""
    """An event that comes late, by itself."""
    delegates: bool = False


def mark(name: str) -> str:
    """A text to inject; each place has its own."""
    return f"<peer-message id={name} from=alice age=0s>\ninjected by {name}\n</peer-message>"


def context(event: str) -> dict[str, Any]:
    """The answer of a hook that adds to the context."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": mark(event)}}


PLANS = {
    "claude": Plan(
        Claude,
        Call("Read", {"file_path": "note.txt"}),
        {event: [context(event)] for event in ("SessionStart", "UserPromptSubmit", "PostToolBatch", "Stop")},
        compact="/compact",
        waits_for="Notification",
        delegates=True,
    ),
    "codex": Plan(
        Codex,
        Call("exec_command", {"cmd": "cat note.txt"}),
        {
            **{event: [context(event)] for event in ("SessionStart", "UserPromptSubmit", "PostToolUse")},
            "Stop": [{"decision": "block", "reason": mark("Stop")}],
        },
        compact="/compact",
    ),
    "gemini": Plan(
        Gemini,
        Call("read_file", {"file_path": "note.txt"}),
        {
            **{event: [context(event)] for event in ("SessionStart", "BeforeAgent", "AfterTool")},
            "AfterAgent": [{"decision": "deny", "reason": mark("AfterAgent")}],
        },
        compact="/compress",
    ),
    "opencode": Plan(
        OpenCode,
        Call("read", {"filePath": "note.txt"}),
        {"tool.execute.after": [mark("tool.execute.after")]},
        in_terminal={"session.idle": [mark("session.idle")]},
        plugin="recorder.js",
    ),
    "pi": Plan(
        Pi,
        Call("read", {"path": "note.txt"}),
        {
            "before_agent_start": [{"how": "return", "text": mark("before_agent_start")}],
            "tool_call": [{"how": "steer", "text": mark("tool_call")}],
            "turn_end": [None, {"how": "followUp", "text": mark("turn_end")}],
        },
        in_terminal={"agent_settled": [{"how": "followUp", "text": mark("agent_settled")}]},
        plugin="recorder.ts",
        mesh=False,
    ),
}


class Recording:
    """One client, set up to be recorded."""

    def __init__(self, name: str, model: Model, mesh: Home) -> None:
        self.name = name
        self.plan = PLANS[name]
        self.model = model
        self.home = Path(tempfile.mkdtemp(prefix="tlw-"))
        self.client = self.plan.program(self.home, self.home / "project", model.url(name))
        server = shim_command(home=str(mesh.path), name="worker") if self.plan.mesh else []
        plugin = Path(__file__).parent / "plugins" / self.plan.plugin
        hook = plugin.read_text("utf-8") if self.plan.plugin else str(self.home / "hook")
        self.client.configure(server, hook)
        self._cleaner = Cleaner(self.home)
        program = Path(__file__).with_name("hook.py").read_text("utf-8")
        self.client.write("hook", f"#!{sys.executable} -I\n{program}")
        (self.home / "hook").chmod(0o755)
        (self.client.project / "note.txt").write_text("The parser is finished.\n", encoding="utf-8")

    def events(self) -> list[str]:
        """The hook events so far."""
        log = self.home / "hook.log"
        return [line["event"] for line in load_lines(log)] if log.exists() else []

    def take(self, scenario: str, transcript: str) -> None:
        """Keep what a scenario left behind, and be ready for the next."""
        log = self.home / "hook.log"
        lines = load_lines(log)
        log.unlink()
        self._save(f"{scenario}.json", lines)
        for name, rows in transcripts(self, lines).items():
            self._save(f"{transcript}{name}.jsonl", rows)

    def take_requests(self) -> None:
        """Keep which marks were in which request."""
        rows: list[Any] = []
        marks = (*self.plan.replies, *self.plan.in_terminal)
        for request in self.model.requests(self.name):
            seen = {event: request.where(f"injected by {event}") for event in marks}
            last = request.turns[-1]
            rows.append({"turns": len(request.turns), "seen": seen, "last": [last.role, last.text[:200]]})
        self._save("requests.json", rows)

    def _save(self, name: str, rows: list[Any]) -> None:
        path = save(self.name, name, [self._cleaner.clean(row) for row in rows])
        sys.stdout.write(f"{path.relative_to(path.parents[3])}: {len(rows)}\n")


async def record_headless(it: Recording, alice: tellwire.Agent) -> None:
    """Text before a call, a fetched message, a sub-agent, and texts injected after a tool and at the end."""
    it.client.write("hook.replies", json.dumps(it.plan.replies))
    read = it.plan.read._replace(
        arguments={key: absolute(it, value) for key, value in it.plan.read.arguments.items()}
    )
    steps = [Step(text="I look at the note first.", calls=(read,))]
    if it.plan.mesh:
        steps.append(call("get_messages", wait_s=25))
    if it.plan.delegates:
        words = {"description": "count lines", "prompt": TASK, "subagent_type": "general-purpose"}
        steps.append(call("Agent", **words))
    steps += [say("The first final text."), say("The second final text."), say("The third final text.")]
    own = [step._replace(when=PROMPT) for step in steps]
    sub = [Step(text="The helper counts.", calls=(read,)), say("The helper is done: one line.")]
    it.model.play(it.name, *own, *(sub if it.plan.delegates else ()), unlisted=it.client.unlisted)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(it.client, PROMPT))
        if it.plan.mesh:
            await until_known(alice, "worker")
            await alice.send("worker", "A message that is fetched.")
    assert running.result().code == 0, running.result()
    it.take("headless", "transcript")


async def record_terminal(it: Recording) -> None:
    """A turn, one that is interrupted, compaction, and the end."""
    it.client.write("hook.replies", json.dumps(it.plan.in_terminal))
    hello = [say("Hello to you."), *([say("Woken up.")] if it.plan.in_terminal else [])]
    it.model.play(it.name, *hello, say("never said")._replace(hold=asyncio.Event()))
    before = len(it.model.requests(it.name))
    async with Terminal.open(it.client) as terminal:
        await terminal.shows(it.client.ready_mark)
        await terminal.type("Say hello.")
        await terminal.shows("Woken up." if it.plan.in_terminal else "Hello to you.")
        await terminal.idle()
        if it.plan.waits_for:
            await until(
                lambda: it.plan.waits_for in it.events(), within_s=NOTIFICATION_S, what=it.plan.waits_for
            )
        await terminal.type("Think about it.")
        await it.model.request(it.name, index=before + len(hello))
        await terminal.interrupt()
        if it.plan.compact:
            await terminal.type(it.plan.compact)
            compacted = {"PreCompact", "PreCompress"}
            await until(lambda: compacted & set(it.events()), within_s=30, what="compaction")
            await terminal.idle()
        await terminal.type("/quit" if it.name != "opencode" else "/exit")
        await terminal.ended()
    it.take("terminal", "transcript-terminal")
    it.take_requests()


def transcripts(it: Recording, lines: list[Any]) -> dict[str, list[Any]]:
    """What the client wrote of the session that the lines tell of; of sub-agents too, under more names."""
    if it.name == "opencode":
        session = next(each["payload"]["info"]["id"] for each in lines if each["event"] == "session.created")
        command = [*it.client.program(), "export", session]
        done = subprocess.run(
            command,
            env=it.client.environment(),
            cwd=it.client.project,
            capture_output=True,
            check=True,
            timeout=60,
        )
        return {"": json.loads(done.stdout)["messages"]}
    if it.name == "pi":
        session = lines[0]["payload"]["session"]["id"]
        (path,) = it.home.glob(f".pi/agent/sessions/*/*{session}.jsonl")
        return {"": load_lines(path)}
    written = Path(lines[0]["payload"]["transcript_path"])
    more = sorted(written.with_suffix("").glob("subagents/*.jsonl"))
    found = {f"-subagent{index}": load_lines(path) for index, path in enumerate(more, 1)}
    return {"": load_lines(written), **found}


def absolute(it: Recording, value: str) -> str:
    """A path in the project, where the tool needs a whole one."""
    return str(it.client.project / value) if value == "note.txt" else value


async def record(name: str) -> None:
    """Record one client."""
    mesh = Home(Path(tempfile.mkdtemp(prefix="tlw-")))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, mesh.path, ignore_errors=True)
        stack.callback(mesh.end)
        model = await stack.enter_async_context(Model.open())
        alice = await stack.enter_async_context(tellwire.connect("alice", home=mesh.path))
        it = Recording(name, model, mesh)
        stack.callback(shutil.rmtree, it.home, ignore_errors=True)
        await record_headless(it, alice)
        await record_terminal(it)


async def main(names: list[str]) -> None:
    """Record the named clients, or all."""
    for name in names or PLANS:
        await record(name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
