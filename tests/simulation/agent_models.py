"""Agent CLIs as models: what each writes down, what it asks its model with, and what an Esc makes of both.

Each was written after recorded sessions of the real program (`tests/samples`), and is compared with them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Hook: TypeAlias = Callable[..., Awaitable[str]]
"""Tells the broker of an event; the text that its answer puts into the context."""
PID = 4_194_000
MARK = re.compile(r"peer-message id=\S{1,80} from=|tellwire: notice id=\S{1,80} ")


class Entry(NamedTuple):
    """One piece of a conversation; `copy` numbers the texts that the broker handed over."""

    role: str
    text: str
    copy: int = 0


class Model:
    """What all clients have: a conversation, a request under way, and what the model has answered."""

    kind: str
    path: str
    """By which door an idle one is woken; empty: by a typed line."""
    resumes_whole = True
    drops_start = False

    def __init__(self, folder: Path, hook: Hook) -> None:
        self.folder = folder
        self.hook = hook
        self.lives = 0
        self.numbers = count(1)
        self.entries: list[Entry] = []
        self.turn: list[Entry] | None = None
        """What the turn under way has added; None while it rests."""
        self.answered: list[list[Entry]] = []
        self.begun: list[Entry] = []
        self.is_asked = False
        self.has_waiter = True
        self.start()

    def start(self) -> None:
        """A new session."""
        self.lives += 1
        self.session = f"0199a1b2-0000-7000-8000-{self.lives:012}"
        self.file = self.folder / "projects" / "shop" / f"{self.session}.jsonl"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.entries, self.turn, self.is_asked = [], None, False

    def write(self, *lines: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps({"timestamp": stamp(), **line}) + "\n")

    def given(self, text: str, role: str = "hook") -> list[Entry]:
        return [Entry(role, text, next(self.numbers))] if text else []

    def add(self, entries: list[Entry]) -> None:
        assert self.turn is not None
        self.turn += entries
        self.entries += entries

    def ask(self) -> None:
        """A request to the model."""
        self.is_asked = True
        self.asked = list(self.entries)

    def reply(self) -> None:
        """The model has answered it."""
        assert self.is_asked
        self.is_asked = False
        self.answered.append(self.asked)

    # -- what a human or the model does

    async def prompt(self, text: str, copy: bool = False) -> None: ...
    async def tool(self) -> None: ...
    async def final(self) -> None: ...
    async def esc(self) -> None: ...
    async def compact(self) -> None: ...

    async def clear(self) -> None:
        """The human begins anew."""
        self.start()

    async def resume(self) -> None:
        """A new process goes on with the session."""
        self.turn, self.is_asked = None, False


def stamp() -> str:
    """Now, as clients write it."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Claude(Model):
    """Claude Code 2.1.325."""

    kind, path = "claude-code", "wake"

    def start(self) -> None:
        self.known: dict[Entry, str] = {}
        self.queue: list[Entry] = []
        self.unwritten: list[dict[str, Any]] = []
        """Of a request that is written down behind its answer."""
        super().start()

    def status(self, word: str) -> None:
        """The file that it keeps of itself."""
        target = self.folder / "sessions" / f"{PID}.json"
        target.parent.mkdir(exist_ok=True)
        told = {"pid": PID, "sessionId": self.session, "status": word, "statusUpdatedAt": time.time() * 1_000}
        target.write_text(json.dumps(told), encoding="utf-8")

    def log(self, entry: Entry, event: str = "") -> None:
        if entry.role == "hook":
            about = {"type": "hook_additional_context", "content": [entry.text], "hookEvent": event}
            self.write({"type": "attachment", "attachment": about})
        else:
            self.write({"type": "user", "message": {"role": "user", "content": entry.text}})

    def ask(self) -> None:
        super().ask()
        self.catch_up()
        tail: list[str] = []
        for entry in self.entries:
            if entry not in self.known:
                self.known[entry] = f"h{self.lives}.{len(self.known)}"
                message = {"role": "user", "content": [{"type": "text", "text": entry.text}]}
                self.unwritten.append(
                    {"type": "api-request-blob", "hash": self.known[entry], "message": message}
                )
            tail.append(self.known[entry])
        number = next(self.numbers)
        self.name = f"r{number}"
        request = {"type": "api-request", "id": self.name, "keep": 0, "tail": tail, "timestamp": stamp()}
        self.unwritten.append(request)
        if number % 3:
            self.catch_up()

    def catch_up(self) -> None:
        """Write a request down; a busy machine has the answer in the file before it."""
        self.write(*self.unwritten)
        self.unwritten.clear()

    def say(self, part: dict[str, Any]) -> None:
        self.reply()
        said = {"id": f"msg_{self.name}", "role": "assistant", "model": "m", "content": [part]}
        self.write({"type": "assistant", "message": said, "requestRef": self.name})
        self.catch_up()
        self.add([Entry("model", f"said {self.name}")])

    async def prompt(self, text: str, copy: bool = False) -> None:
        self.turn = []
        entry = Entry("user", text, next(self.numbers) if copy else 0)
        self.status("busy")
        added = self.given(
            await self.hook("UserPromptSubmit", prompt=text, prompt_id=f"p{next(self.numbers)}")
        )
        self.log(entry)
        for each in added:
            self.log(each, "UserPromptSubmit")
        self.add([entry, *added])
        self.ask()

    async def enqueue(self, text: str) -> None:
        """A wake that comes during a turn waits for its next boundary."""
        self.queue.append(Entry("user", text, next(self.numbers)))
        self.write({"type": "queue-operation", "operation": "enqueue", "content": text})

    async def tool(self) -> None:
        self.say({"type": "tool_use", "id": "t", "name": "Bash", "input": {}})
        result = [{"type": "tool_result", "tool_use_id": "t", "content": f"a{next(self.numbers)}"}]
        self.write({"type": "user", "message": {"role": "user", "content": result}})
        added = self.given(await self.hook("PostToolBatch"))
        for each in added:
            self.log(each, "PostToolBatch")
        taken, self.queue = self.queue, []
        for each in taken:
            self.write({"type": "queue-operation", "operation": "remove", "content": each.text})
            self.write({"type": "attachment", "attachment": {"type": "queued_command", "prompt": each.text}})
        self.add([*added, *taken])
        self.ask()

    async def final(self) -> None:
        self.say({"type": "text", "text": "done"})
        added = self.given(await self.hook("Stop", last_assistant_message="done"))
        if added:
            self.log(added[0], "Stop")
            self.add(added)
            self.ask()
            return
        self.turn = None
        self.has_waiter = True
        self.status("idle")
        await self.go_on()

    async def go_on(self) -> None:
        """What was queued is the next prompt."""
        taken, self.queue = self.queue[:1], self.queue[1:]
        for each in taken:
            self.write({"type": "queue-operation", "operation": "dequeue", "content": each.text})
            self.turn = []
            self.status("busy")
            self.log(each)
            self.add([each])
            self.ask()

    async def esc(self) -> None:
        assert self.turn is not None
        if any(entry.role == "model" for entry in self.turn):
            entry = Entry("user", "[Request interrupted by user]")
            self.write(
                {
                    "type": "user",
                    "message": {"role": "user", "content": [{"type": "text", "text": entry.text}]},
                }
            )
            self.entries.append(entry)
        else:  # the prompt is back in the input line
            self.begun += self.turn
            for entry in self.turn:
                self.entries.remove(entry)
        self.turn, self.is_asked = None, False
        self.status("idle")
        await self.go_on()

    async def compact(self) -> None:
        self.write({"type": "system", "subtype": "compact_boundary"})
        self.entries = [Entry("user", f"summary {next(self.numbers)}")]
        self.begun.clear()
        self.log(self.entries[0])
        await self.hook("SessionStart", source="compact")

    async def clear(self) -> None:
        await self.hook("SessionEnd", reason="clear")
        self.start()
        self.begun.clear()
        added = self.given(await self.hook("SessionStart", source="clear"))
        self.entries += added

    async def resume(self) -> None:
        self.entries = [*self.begun, *self.entries]  # the file still has what an Esc has dropped
        self.begun.clear()
        self.queue.clear()
        await super().resume()
        self.has_waiter = True
        self.status("idle")
        added = self.given(await self.hook("SessionStart", source="resume"))
        for each in added:
            self.log(each, "SessionStart")
        self.entries += added


class Codex(Model):
    """Codex 0.166.0."""

    kind, path = "codex", "queue"

    def start(self) -> None:
        self.is_new = True
        self.word = ""
        super().start()

    def log(self, entry: Entry) -> None:
        role = {"hook": "developer", "model": "assistant"}.get(entry.role, "user")
        self.item(type="message", role=role, content=[{"type": "input_text", "text": entry.text}])

    def item(self, **payload: Any) -> None:
        self.write({"type": "response_item", "payload": payload})

    def event(self, kind: str, **payload: Any) -> None:
        self.write({"type": "event_msg", "payload": {"type": kind, "turn_id": self.word, **payload}})

    async def tell(self, event: str, **fields: Any) -> list[Entry]:
        return self.given(await self.hook(event, turn_id=self.word, **fields))

    async def prompt(self, text: str, copy: bool = False) -> None:
        self.turn, self.word = [], f"turn{next(self.numbers)}"
        self.event("task_started")
        started = await self.tell("SessionStart", source="startup") if self.is_new else []
        self.is_new = False
        entry = Entry("user", text, next(self.numbers) if copy else 0)
        added = [*started, entry, *await self.tell("UserPromptSubmit", prompt=text)]
        for each in added:
            self.log(each)
        self.add(added)
        self.ask()

    async def tool(self) -> None:
        self.reply()
        self.item(type="function_call", name="exec_command", call_id="c")
        self.write({"type": "token_usage_record", "payload": {}})
        added = await self.tell("PostToolUse", tool_name="Bash", tool_input={})
        for each in added:
            self.log(each)
        self.item(type="function_call_output", call_id="c", output=f"a{next(self.numbers)}")
        self.add([*added, Entry("user", "output")])
        self.ask()

    async def final(self) -> None:
        self.reply()
        name = f"msg_{next(self.numbers)}"
        self.event("item_completed", item={"type": "AgentMessage", "id": name})
        self.item(
            type="message", role="assistant", id=name, content=[{"type": "output_text", "text": "done"}]
        )
        self.write({"type": "token_usage_record", "payload": {}})
        self.add([Entry("model", "done")])
        added = await self.tell("Stop", last_assistant_message="done")
        if added:
            entry = added[0]._replace(role="user")
            self.log(entry)
            self.add([entry])
            self.ask()
            return
        self.event("task_complete", last_agent_message="done")
        self.turn = None

    async def esc(self) -> None:
        self.turn, self.is_asked = None, False
        entry = Entry("user", "<turn_aborted>")
        self.log(entry)
        self.entries.append(entry)
        self.event("turn_aborted")
        await self.tell("Interrupt")

    async def compact(self) -> None:
        summary = Entry("user", f"summary {next(self.numbers)}")
        self.item(
            type="message", role="assistant", id="sum", content=[{"type": "output_text", "text": "sum"}]
        )
        self.write({"type": "token_usage_record", "payload": {}})
        kept = [each for each in self.entries if each.role == "user"]
        self.entries = [*kept, summary]
        history = [
            {"type": "message", "role": "user", "content": [{"text": each.text}]} for each in self.entries
        ]
        self.write({"type": "compacted", "payload": {"message": "sum", "replacement_history": history}})

    async def resume(self) -> None:
        await super().resume()
        self.is_new = True


class Gemini(Model):
    """Gemini CLI 0.61.0."""

    kind, path = "gemini-cli", ""
    drops_start = True

    def start(self) -> None:
        super().start()
        self.write({"kind": "main"})
        about = {"id": f"i{next(self.numbers)}", "type": "user", "content": [{"text": "<session_context>"}]}
        self.replace([(about, [])])

    def message(self, kind: str, parts: Any, entries: list[Entry]) -> None:
        line = {"id": f"i{next(self.numbers)}", "type": kind, "content": parts, "timestamp": stamp()}
        self.write(line)
        self.history.append((line, entries))

    def replace(self, history: list[tuple[dict[str, Any], list[Entry]]]) -> None:
        self.history = history
        self.write({"$set": {"messages": [line for line, _ in history]}})
        self.entries = [each for _, entries in history for each in entries]

    async def prompt(self, text: str, copy: bool = False) -> None:
        self.before = list(self.history)
        self.turn = []
        entry = Entry("user", text)
        added = self.given(await self.hook("BeforeAgent", prompt=text))
        parts = [{"text": text}, *[{"text": f"<hook_context>{each.text}</hook_context>"} for each in added]]
        self.message("user", parts, [entry, *added])
        self.add([entry, *added])
        self.ask()

    async def tool(self) -> None:
        self.reply()
        self.message("gemini", "", [])
        added = self.given(await self.hook("AfterTool", tool_name="run_shell_command"))
        text = "\n".join(["a", *[f"<hook_context>{each.text}</hook_context>" for each in added]])
        answer = {"functionResponse": {"name": "run_shell_command", "response": {"output": text}}}
        self.message("user", [answer], added)
        self.add(added)
        self.ask()

    async def final(self) -> None:
        self.reply()
        self.message("gemini", "done", [Entry("model", "done")])
        self.add([Entry("model", "done")])
        added = self.given(await self.hook("AfterAgent", prompt_response="done"))
        if added:
            self.message("user", [{"text": added[0].text}], added)
            self.add(added)
            self.ask()
            return
        self.turn = None

    async def esc(self) -> None:
        self.is_asked = False
        self.write({"id": f"i{next(self.numbers)}", "type": "info", "content": "Request cancelled."})
        self.replace(self.before)
        self.turn = None
        await self.hook("AfterAgent", prompt_response="")

    async def compact(self) -> None:
        entry = Entry("user", f"summary {next(self.numbers)}")
        line = {"id": f"i{next(self.numbers)}", "type": "user", "content": [{"text": entry.text}]}
        self.replace([(line, [entry])])

    async def clear(self) -> None:
        await self.hook("SessionEnd", reason="clear")
        self.start()
        await self.hook("SessionStart", source="clear")

    async def resume(self) -> None:
        await super().resume()
        self.write({"kind": "main"})
        self.replace(list(self.history))
        await self.hook("SessionStart", source="resume")


class Plugin(Model):
    """OpenCode 1.18.33 and Pi 0.87.1, with the plugin of ours inside."""

    path = "plugin"

    def __init__(self, folder: Path, hook: Hook, kind: str) -> None:
        self.kind = kind
        self.untold: list[tuple[float, list[Entry]]] = []
        super().__init__(folder, hook)

    def start(self) -> None:
        self.untold = []
        self.is_left = False
        """Its human looks at a new session, in which nothing was said yet; a wake goes into the old one."""
        super().start()

    def ask(self) -> None:
        super().ask()
        self.asked_at = time.monotonic()

    def reply(self) -> None:
        super().reply()
        self.untold.append((self.asked_at, self.asked))

    async def tell(self, event: str, *, rests: bool = False, **fields: Any) -> list[Entry]:
        now = time.monotonic()
        requests = [{"age_ms": (now - at) * 1_000, "marks": marks_of(asked)} for at, asked in self.untold]
        held = {"held": marks_of(self.entries)} if rests else {}
        told = self.untold
        text = await self.hook(event, requests=requests, **held, **fields)
        self.untold = [each for each in self.untold if each not in told]
        return self.given(text)

    async def prompt(self, text: str, copy: bool = False) -> None:
        is_new = self.is_left and not copy
        if is_new:
            self.start()
        self.turn = []
        entry = Entry("user", text, next(self.numbers) if copy else 0)
        if copy:
            self.entries.append(entry)  # it is in the session before the plugin hears of the turn
            await self.tell("busy")
            self.turn.append(entry)
        else:
            is_new |= not self.has_waiter
            self.has_waiter = True
            self.add([entry, *await self.tell("prompt", rests=is_new, prompt=text)])
        self.ask()

    async def tool(self) -> None:
        self.reply()
        self.add(await self.tell("tool_used"))
        self.ask()

    async def final(self) -> None:
        self.reply()
        self.add([Entry("model", "done")])
        added = await self.tell("answered", last_assistant_message="done") if self.kind == "pi" else []
        if added:
            self.add(added)
            self.ask()
            return
        self.turn = None
        ending = f"end{next(self.numbers)}"
        await self.tell("turn_ended", rests=True, last_assistant_message="done", ending=ending)

    async def esc(self) -> None:
        self.turn, self.is_asked = None, False
        await self.tell("interrupted", rests=True)

    async def compact(self) -> None:
        self.entries = [Entry("user", f"summary {next(self.numbers)}")]

    async def clear(self) -> None:
        if self.kind == "opencode":
            self.is_left = True  # nothing tells of a new session before its first prompt
            return
        await self.tell("session_ended")
        self.start()
        await self.tell("session_started", rests=True)

    async def resume(self) -> None:
        await super().resume()
        self.untold = []
        if self.kind == "opencode":
            self.is_left = self.has_waiter = False  # nor of one that goes on
            return
        await self.tell("session_started", rests=True)


def marks_of(entries: list[Entry]) -> list[str]:
    """The marks in what a model is asked with, as a plugin finds them."""
    return MARK.findall("\n".join(entry.text for entry in entries))


MODELS: dict[str, Callable[[Path, Hook], Model]] = {
    "claude": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "opencode": lambda folder, hook: Plugin(folder, hook, "opencode"),
    "pi": lambda folder, hook: Plugin(folder, hook, "pi"),
}
