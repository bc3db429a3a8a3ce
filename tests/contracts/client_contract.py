"""What every client's record has to hold, checked against its recorded samples: each fault is a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tellwire.clients.client import Client, InstallPlace, Programs, Target
from tellwire.clients.entries import Hooks
from tellwire.clients.events import HookEvent, Verdict
from tellwire.clients.plugin import HOOKS, PluginTranscript
from tellwire.clients.said import read_entries
from tellwire.install.entries import find_lacks
from tellwire.install.formats.file_format import format_of
from tellwire.relay.guard import REASON
from tellwire.relay.writes import written_paths
from tellwire.sessions.gate_files import facts_of
from tellwire.system.screens import Shown, read_input

MARK = "id=m4f2k from=backend"
PROGRAMS = Programs(
    server=("/usr/bin/python3", "-I", "-S", "/lib/tellwire/relay/mcp_shim.py"),
    python="/usr/bin/python3",
    relay="/lib/tellwire/relay",
    marks="/home/user/.tellwire/marks",
)
NEEDED = ("session_started", "prompt", "turn_ended")
"""What has to be told by hooks that are commands; of tools, `tool_used`, where text can be given."""


class Samples(NamedTuple):
    """What was recorded of one client."""

    folder: Path
    screens: Path

    def payloads(self) -> list[dict[str, Any]]:
        """What its hooks really send."""
        return [
            json.loads(line) for line in (self.folder / "reader_payloads.jsonl").read_bytes().splitlines()
        ]

    def writes(self) -> list[dict[str, Any]]:
        """What it tells before a tool writes."""
        return [row["payload"] for row in json.loads((self.folder / "writes.json").read_bytes())]


def faults(client: Client, samples: Samples, others: Sequence[Client]) -> list[str]:
    """What is missing or wrong, in a sentence each that says where to put it right."""
    found: list[str] = list(_is_its_own(client, others))
    for check in CHECKS:
        try:
            found += check(client, samples)
        except FileNotFoundError as error:
            found.append(f"{client.name}: record the sample {Path(str(error.filename)).name}.")
    return [f"{client.kind}: {each}" for each in found]


def _is_its_own(client: Client, others: Sequence[Client]) -> Iterator[str]:
    for field in ("kind", "name", "title", "program", "npm"):
        if not getattr(client, field):
            yield f"`{field}` is empty: give it in facts.py."
    for other in others:
        for field in ("kind", "name"):
            if getattr(client, field) == getattr(other, field):
                yield f"`{field}` is that of {other.title} as well."
        if client.mcp.info == other.mcp.info:
            yield f"`mcp.info` is that of {other.title} as well: its agents would get the wrong kind."
    if not client.mcp.info or not client.mcp.short:
        yield "`mcp` lacks the name it gives itself, or the short one: its agents would be unnamed."
    if not client.lowest or client.lowest > client.highest_known:
        yield "`lowest` has to be a version, and no later than `highest_known`."


def _hooks(client: Client, samples: Samples) -> Iterator[str]:
    events = list(_events(client, samples))
    if client.hooks.room.chars <= 0:
        yield "`hooks.room` leaves no room for text."
    if lacking := [what for what in NEEDED if what not in {each.what for each in events}]:
        yield f"no recorded hook means {', '.join(lacking)}: see the table in hooks.py."
    if not any(each.takes_text for each in events):
        yield "no hook takes text: mail could never enter a turn."
    for event in events:
        if event.takes_text and "the text" not in json.dumps(client.hooks.answer(event, "the text")):
            yield f"`hooks.answer` at {event.name} does not give the text."
    wanted = HookEvent(what="tool_wanted", name=client.writes.event, session="s")
    if "the reason" not in json.dumps(client.hooks.deny(wanted, "the reason")):
        yield "`hooks.deny` does not tell the reason."


def _events(client: Client, samples: Samples) -> Iterator[HookEvent]:
    if isinstance(client.transcript, PluginTranscript):
        payloads = [{"hook_event_name": name, "session_id": "s"} for name in HOOKS]
    else:
        payloads = samples.payloads()
    return (client.hooks.parse(payload) for payload in payloads)


def _transcript(client: Client, samples: Samples) -> Iterator[str]:
    opened = client.opened().transcript
    if opened.evidence not in ("request", "transcript"):
        yield "`transcript.evidence` has to be `request` or `transcript`."
    event = HookEvent(what="prompt", name="x", session="s", transcript=str(samples.folder / "missing"))
    reader = opened.reader(event)
    reader.expect(MARK)
    if reader.judge([MARK]) != {MARK: Verdict.OPEN}:
        yield "its reader tells a verdict of a file that is not there."
    said = {each.who for each in opened.entries(read_entries(str(samples.folder / "transcript.jsonl")))}
    if not isinstance(opened, PluginTranscript):
        cases = json.loads((samples.folder / "reader_cases.json").read_bytes())
        if not any(text["verdict"] == "read" for texts in cases.values() for text in texts):
            yield "reader_cases.json has no text that was read: record one."
    if not said >= {"user", "agent"}:
        yield "`transcript.entries` finds no words of the user, or of the agent, in transcript.jsonl."


def _launch(client: Client, samples: Samples) -> Iterator[str]:
    del samples
    if not client.launch.ask or not client.launch.ask_headless:
        yield "`launch` does not say what introduces the first prompt."
    if not client.environment.keys:
        yield "`environment.keys` is empty: a child would have no key for its model."


def _screen(client: Client, samples: Samples) -> Iterator[str]:
    for case in json.loads(samples.screens.read_bytes()):
        shown = Shown(case["lines"], case["x"], case["y"])
        if read_input(shown, client.screen.prompt) != case["input"]:
            yield f"`screen.prompt` reads the recorded screen {case['name']!r} wrong."


def _writes(client: Client, samples: Samples) -> Iterator[str]:
    if not client.writes.event or not client.writes.tools:
        yield "`writes` names no event or no tool: its writes could not be kept to a scope."
    if json.dumps(client.writes.refusal).count(REASON) != 1:
        yield f"`writes.refusal` has to have {REASON} in one place."
    asked = HookEvent(what="tool_wanted", name=client.writes.event, session="s")
    if client.hooks.deny(asked, REASON) != client.writes.refusal:
        yield "`hooks.deny` and `writes.refusal` differ: a hook without a broker would refuse otherwise."
    recorded = samples.writes()
    if client.writes.gated and not any(written_paths(facts_of(client), each) for each in recorded):
        yield "`writes` finds no path in what was recorded in writes.json."


def _install(client: Client, samples: Samples) -> Iterator[str]:
    del samples
    for scope in ("user", "project"):
        place = InstallPlace(home="/home/user", project="/home/user/project", scope=scope, env={})
        targets = client.targets(place, PROGRAMS)
        if "mcp_shim.py" not in json.dumps([str(each.entries) for each in targets]):
            yield f"`targets` for a {scope} does not start tellwire's MCP server."
        for target in targets:
            yield from _target(target)
        hooks = [each for target in targets for each in target.entries if isinstance(each, Hooks)]
        events = {each.event for each in hooks}
        if client.writes.gated and client.writes.event not in events:
            yield f"`targets` for a {scope} installs no hook at {client.writes.event}, before a write."


def _target(target: Target) -> Iterator[str]:
    dialect = format_of(target)
    text = dialect.apply("", target.entries)
    if find_lacks(dialect.load(text), target.entries):
        yield f"an empty {Path(target.path).name} lacks some entries after an installation."
    if not target.path.startswith("/home/user/"):
        yield f"{target.path} is neither in the home nor in the project."


CHECKS: tuple[Callable[[Client, Samples], Iterator[str]], ...] = (
    _hooks,
    _transcript,
    _launch,
    _screen,
    _writes,
    _install,
)
