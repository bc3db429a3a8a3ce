"""Clients whose plugin is ours: they speak in our own words, and tell themselves what the model has read.

A plugin names the marks in each request that the model answered. What was handed over is `read` with such a
request; it is absent if a request that began well after the hand-over was answered without it. While its
session rests, the plugin also names all marks that are in it (`held`): what is not there was lost.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tellwire.clients.client import ENDPOINT, Programs, Target, TextLimit
from tellwire.clients.entries import PLUGIN_PATH, MemberEntry
from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState, Verdict
from tellwire.clients.payloads import Hook, parse_payload, require_text_taken, require_tool_wanted
from tellwire.clients.reader import listed, mapping, string
from tellwire.relay.guard import REASON, filled
from tellwire.system.bounded import BoundedDict

HOOKS = {
    "session_started": Hook("session_started"),
    "prompt": Hook("prompt", takes_text=True),
    "busy": Hook("tool_wanted"),
    "write_wanted": Hook("tool_wanted"),
    "tool_used": Hook("tool_used", takes_text=True),
    "answered": Hook("other", takes_text=True, continues=True),
    "turn_ended": Hook("turn_ended"),
    "errored": Hook("errored"),
    "interrupted": Hook("interrupted"),
    "waiting": Hook("waiting"),
    "session_ended": Hook("session_ended"),
}
"""`answered`: the model's text is whole, and the turn ends here unless there is mail."""
GRACE_S = 3.0
"""A plugin gives up waiting, or has put the text in, well within this; a request may be reported as late."""
LEFT_S = 90.0
"""How long to wait for a text in a session that its human has left since."""
MARKS_MAX = 10_000
SESSIONS_MAX = 1_000
REQUESTS_MAX = 100
MS_MAX = 1e15
"""No request is older, and no clock tells more."""
ENDING_LENGTH_MAX = 64
EVENT = "write_wanted"
"""What a plugin reports before a tool writes."""
REFUSAL: dict[str, Any] = {"deny": REASON}
"""What keeps it from running; the plugin knows how to refuse."""
PLACEHOLDER = "__SETTINGS__"


class RequestReader:
    """What the plugin of one session reports about its requests."""

    evidence = "request"

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.monotonic
        self._seen: BoundedDict[str, None] = BoundedDict(MARKS_MAX)
        """Marks in requests that the model has answered."""
        self._expected: BoundedDict[str, float] = BoundedDict(MARKS_MAX)
        """From each mark that a request should have to when it was handed over."""
        self._absent: BoundedDict[str, None] = BoundedDict(MARKS_MAX)
        self._held: set[str] = set()
        """Marks that were in the session at the plugin's last report."""
        self._held_at = 0.0
        self._missed: BoundedDict[str, None] = BoundedDict(MARKS_MAX)
        """Marks that were in no request although they should have been; whatever the session holds."""

    def expect(self, mark: str, at: float | None = None, *, deferred: bool = False) -> None:
        """A text with this mark is put in now; of what was put in before, the next requests tell as well."""
        del at, deferred
        self._absent.pop(mark, None)
        self._expected[mark] = self._clock()

    def take(self, requests: Sequence[Any]) -> None:
        """Requests that the model has answered; each with its age, and the marks in it."""
        now = self._clock()
        for request in map(mapping, requests[:REQUESTS_MAX]):
            age_ms = request.get("age_ms")
            if not isinstance(age_ms, int | float) or abs(age_ms) > MS_MAX:
                continue
            for mark in map(string, listed(request.get("marks"))):
                self._seen[mark] = None
                self._expected.pop(mark, None)
            late = now - age_ms / 1_000 - GRACE_S
            self._give_up([mark for mark, put_in in self._expected.items() if put_in < late])

    def hold(self, marks: Sequence[Any]) -> None:
        """All the marks in the session, which is idle."""
        self._held, self._held_at = set(map(string, marks[:MARKS_MAX])), self._clock()

    def doubt(self, mark: str) -> None:
        """Nothing is deferred: the plugin puts a text in at once."""

    def lacks(self, mark: str, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """The plugin reported what is in the session after the hand-over, without this mark.

        A session that was left may still be in a turn, and tell of its requests.
        """
        del unbegun, stopped  # an interrupt leaves a text where it is
        put_in = self._expected.get(mark)
        if put_in is None:
            return False
        if left and self._clock() - put_in > LEFT_S:
            return True
        return put_in < self._held_at and mark not in self._held

    def is_present(self, mark: str) -> bool:
        """Whether the plugin reported it last."""
        return mark in self._held and mark not in self._missed

    def may_return(self, mark: str) -> bool:
        """What a session has dropped stays away."""
        del mark
        return False

    def end(self) -> None:
        """The session is over: what was not read in it will not be."""
        self._give_up(list(self._expected))

    def judge(self, marks: Sequence[str]) -> dict[str, Verdict]:
        """What is known now; of a text that went to another session, nothing."""
        return {mark: self._judge(mark) for mark in marks}

    def _judge(self, mark: str) -> Verdict:
        if mark in self._seen:
            return Verdict.READ
        return Verdict.ABSENT if mark in self._absent else Verdict.OPEN

    def _give_up(self, marks: Sequence[str]) -> None:
        for mark in marks:
            del self._expected[mark]
            self._absent[mark] = self._missed[mark] = None


class PluginHooks:
    """The messages from and to our plugins."""

    def __init__(self, chars_max: int) -> None:
        self.room = TextLimit(chars_max)

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """Parse a report of a plugin."""
        event = parse_payload(payload, HOOKS)
        return msgspec.structs.replace(event, ending=string(payload.get("ending"))[:ENDING_LENGTH_MAX])

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """The text; the plugin knows how to put it in."""
        require_text_taken(event)
        return {"text": text}

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """Nothing: what the plugin puts in is on the screen already."""
        del line
        return answer

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """The reason; the plugin knows how to refuse."""
        require_tool_wanted(event)
        return filled(REFUSAL, reason)


class PluginTranscript:
    """What a client's plugin reports about the requests of its sessions."""

    evidence = "request"

    def __init__(self, parse_entries: Callable[[Iterable[dict[str, Any]]], Iterator[Said]]) -> None:
        self._parse_entries = parse_entries
        self._readers: BoundedDict[str, RequestReader] = BoundedDict(SESSIONS_MAX)
        """By session: a client may have several at once."""

    def opened(self) -> PluginTranscript:
        """A fresh one, without sessions."""
        return PluginTranscript(self._parse_entries)

    def reader(self, event: HookEvent) -> RequestReader:
        """The reader of one session, created on first use."""
        reader = self._readers.get(event.session) or RequestReader()
        self._readers.renew(event.session, reader)
        return reader

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """Nothing: the plugin is inside, and tells how each turn ended."""
        del turn
        return None

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """As the client has its messages."""
        return self._parse_entries(lines)

    def take(self, event: HookEvent, payload: Mapping[str, Any]) -> None:
        """Record what a plugin reports: requests, and the end of a session."""
        reader = self.reader(event)
        reader.take(listed(payload.get("requests")))
        if isinstance(held := payload.get("held"), list):
            reader.hold(listed(held))
        if event.what == "session_ended":
            reader.end()


def plugin_text(asset: Path, programs: Programs) -> str:
    """A plugin; it finds the broker's port and token where they are kept."""
    home = os.path.dirname(programs.marks)
    settings = {
        "endpoint": os.path.join(home, ENDPOINT),
        "server": list(programs.server),
        "source": "install",
    }
    return asset.read_text(encoding="utf-8").replace(PLACEHOLDER, json.dumps(settings))


def plugin_target(path: str, asset: Path, programs: Programs) -> Target:
    """A plugin as a file of the client's."""
    entry = MemberEntry(PLUGIN_PATH, {"text": plugin_text(asset, programs)})
    return Target(path=path, format="whole", entries=(entry,))
