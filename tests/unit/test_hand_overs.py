"""Open hand-overs of one agent's session: each has a verdict of its own, and none stays open for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tellwire.clients.claude import transcript as claude_code
from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.codex.facts import CODEX
from tellwire.clients.events import HookEvent, What
from tellwire.clients.gemini.facts import GEMINI
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.plugin import RequestReader
from tellwire.core.state import Agent
from tellwire.sessions.client_session import ClientSession, EvidenceTimes, mark_of
from tellwire.sessions.remembered import RememberedSession, RememberedSessions
from tests.clients import requests_of
from tests.unit.test_claude_reader import answer, blob, hook_text, queued, request, user
from tests.unit.transcripts import write

MARK = mark_of("m4f2k", notice=False)
TEXT = f"[tellwire: 1 message.]\n<{MARK}backend age=2s>\nhello\n</peer-message>"
SESSION = "0199a1b2"


def names() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"t{next(numbers)}"


TIMES = EvidenceTimes()


def at(entry: dict[str, Any], moment: float) -> dict[str, Any]:
    """An entry of a transcript, written at a time of the wall clock."""
    told = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {**entry, "timestamp": told}


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_wake_is_not_judged_by_what_became_of_the_hand_over_before_it(tmp_path: Path) -> None:
    """Mail with a prompt, Esc before the answer, another prompt; then the mail wakes the client."""
    path = tmp_path / "session.jsonl"
    path.touch()
    session = ClientSession("a1", CLAUDE, names())

    def note(what: What) -> None:
        session.note(
            HookEvent(what=what, name=what, session=SESSION, transcript=str(path), typed=what == "prompt")
        )

    note("prompt")
    now = time.time()
    session.leases.add("hook:1:1", [MARK], at=now - 20)
    dropped = [at(hook_text(0, TEXT), now - 19.9), blob("b1", TEXT), at(request("r1", 0, ["b1"]), now - 19.8)]
    other = [at(user(0, "something else"), now - 10), at(request("r2", 0, ["a0"]), now - 9.9)]
    write(path, *dropped, *other, at(answer("r2"), now - 9))
    assert session.judge() == ([], ["hook:1:1"])
    session.leases.add("wake:1:2", [MARK])
    assert session.judge() == ([], []), "nothing has happened to the second hand-over"
    write(path, at(user(0, TEXT), now + 1), blob("b2", TEXT), at(request("r3", 0, ["b2"]), now + 2))
    assert session.judge() == ([], [])
    write(path, at(answer("r3"), now + 3))
    assert session.judge() == (["wake:1:2"], [])


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 1_794_800_000.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


class Room:
    """A client's session, its transcript, and what happens to both."""

    def __init__(self, kind: Any, path: Path) -> None:
        self.clock = Clock()
        self.path = path
        self.session = ClientSession("a1", kind, names(), clock=self.clock)

    def tell(self, what: What, session: str = SESSION, source: str = "") -> None:
        """A hook, which nothing keeps from ending its turn."""
        event = HookEvent(
            what=what,
            name=what,
            session=session,
            transcript=str(self.path),
            typed=what == "prompt",
            source=source,
        )
        self.session.note(event)
        self.session.close(event)

    def write(self, *entries: dict[str, Any]) -> None:
        """Lines of the transcript, written now."""
        write(self.path, *(at(entry, self.clock()) for entry in entries))

    def look_after(self, seconds: float) -> tuple[list[str], list[str]]:
        """What the session says then."""
        self.clock.now += seconds
        return self.session.judge()


@pytest.fixture
def claude(tmp_path: Path) -> Room:
    room = Room(CLAUDE, tmp_path / "session.jsonl")
    room.tell("prompt")
    return room


LOST: tuple[list[str], list[str]] = ([], ["hook:1:1"])
OPEN: tuple[list[str], list[str]] = ([], [])


@pytest.mark.requirement("REC-2", stage="clients")
def test_what_a_turn_ended_without_is_given_back_once_the_client_rests(claude: Room) -> None:
    claude.write(user(0, "Work."), request("r1", 0, ["a0"]))
    claude.session.leases.add("hook:1:1", [MARK], path="mid-turn")
    assert claude.look_after(100) == OPEN, "the turn goes on"
    claude.write(answer("r1"))
    claude.tell("turn_ended")
    assert claude.session.judge() == OPEN, "it may still be writing"
    assert claude.look_after(TIMES.settled_s) == LOST


@pytest.mark.requirement("REC-2", stage="clients")
@pytest.mark.parametrize("lines", [[hook_text(0, TEXT), user(0, "[Request interrupted by user]")], []])
def test_what_the_client_has_taken_up_or_nobody_can_know_stays(
    claude: Room, lines: list[dict[str, Any]]
) -> None:
    if lines:
        claude.write(user(0, "Work."))
    claude.session.leases.add("hook:1:1", [MARK])
    claude.write(*lines)
    claude.tell("interrupted")
    assert claude.look_after(1_000) == OPEN


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_prompt_that_is_back_in_the_input_line_has_taken_its_mail_along(claude: Room) -> None:
    claude.session.leases.add("hook:1:1", [MARK])
    claude.write(user(0, "Work."), hook_text(0, TEXT), blob("b1", TEXT), request("r1", 0, ["b1"]))
    assert claude.look_after(100) == OPEN
    claude.tell("interrupted")
    assert claude.look_after(TIMES.settled_s) == LOST
    assert claude.session.leases.reader is not None
    assert claude.session.leases.reader.may_return(MARK), "a resume goes by the file"


def test_a_second_prompt_that_is_taken_back_too_leaves_the_mail_of_the_first_lost(claude: Room) -> None:
    claude.session.leases.add("hook:1:1", [MARK])
    claude.write(user(0, "Work."), hook_text(0, TEXT), blob("b1", TEXT), request("r1", 0, ["b1"]))
    claude.clock.now += 5
    claude.write(user(5, "Rather this."), request("r2", 5, ["a0"]))
    claude.tell("interrupted")
    assert claude.look_after(TIMES.settled_s) == LOST


def test_a_prompt_that_waits_for_the_turns_end_keeps_its_mail(claude: Room) -> None:
    """Typed during a turn: its turn begins without a hook, and the client seems to rest."""
    claude.session.leases.add("hook:1:1", [MARK])
    claude.write(queued(0, "enqueue", "typed"))
    claude.tell("turn_ended")
    assert claude.look_after(100) == OPEN
    claude.write(queued(0, "dequeue"), user(0, "typed"), hook_text(0, TEXT))
    assert claude.look_after(100) == OPEN


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_wake_that_began_no_turn_is_given_back(claude: Room) -> None:
    claude.write(user(0, "Work."), answer("r1"))
    claude.tell("turn_ended")
    claude.session.leases.add("wake:1:1", [MARK])
    assert claude.look_after(TIMES.unbegun_s - 1) == OPEN
    assert claude.look_after(2) == ([], ["wake:1:1"])
    claude.session.leases.add("wake:1:2", [MARK])
    claude.write(queued(0, "enqueue", TEXT))
    assert claude.look_after(100) == OPEN, "the client has it"


def test_a_wake_in_the_clients_queue_is_not_doubted_by_a_prompt(claude: Room) -> None:
    claude.session.leases.add("wake:1:1", [MARK])
    claude.write(queued(0, "enqueue", TEXT))
    claude.clock.now += 60
    claude.tell("prompt")
    claude.write(request("r1", 0, ["a0"]), answer("r1"))
    assert claude.session.judge() == OPEN


@pytest.mark.requirement("REC-2", stage="clients")
def test_what_went_to_a_conversation_that_its_human_left_is_given_back(claude: Room, tmp_path: Path) -> None:
    claude.session.leases.add("hook:1:1", [MARK])
    claude.write(user(0, "Work."), hook_text(0, TEXT), user(0, "[Request interrupted by user]"))
    claude.tell("interrupted")
    claude.path = tmp_path / "other.jsonl"
    claude.tell("session_started", "0199ffff")
    assert claude.session.judge() == OPEN
    assert claude.look_after(TIMES.settled_s) == LOST


@pytest.mark.parametrize("what", ["idle", "session_started"])
def test_what_is_given_at_a_sessions_start_waits_for_its_first_turn(tmp_path: Path, what: What) -> None:
    room = Room(CLAUDE, tmp_path / "session.jsonl")
    room.tell("session_started")
    room.session.leases.add("hook:1:1", [MARK])
    room.tell(what)
    room.write(user(0, "x"))
    assert room.look_after(1_000) == OPEN


@pytest.mark.requirement("REC-2", stage="clients")
def test_what_a_compaction_dropped_before_the_first_turn_is_given_back(tmp_path: Path) -> None:
    room = Room(CLAUDE, tmp_path / "session.jsonl")
    room.tell("session_started")
    room.session.leases.add("hook:1:1", [MARK])
    room.write(user(0, "x"), hook_text(0, TEXT))
    assert room.look_after(100) == OPEN
    room.write({"type": "system", "subtype": "compact_boundary"})
    room.tell("session_started", source="compact")
    assert room.look_after(TIMES.settled_s) == LOST


def test_nothing_is_woken_between_two_sessions(claude: Room) -> None:
    claude.tell("turn_ended")
    claude.tell("session_ended", "0199ffff")
    assert not claude.session.standing.has_ended, "one that was left long ago was deleted"
    claude.tell("session_ended")
    assert claude.session.standing.has_ended
    claude.tell("session_started", "0199ffff")
    assert not claude.session.standing.has_ended


def keep(room: Room, folder: Path) -> RememberedSession:
    """What the next broker knows."""
    agent = Agent(id="a1", name="worker", kind=room.session.client.kind, session="s1")
    RememberedSessions(folder).save(agent, room.session)
    binding = RememberedSessions(folder).load(agent)
    assert binding is not None
    return binding


@pytest.mark.requirement("REC-2", stage="clients")
def test_the_next_broker_knows_which_conversation_a_hand_over_went_to(tmp_path: Path) -> None:
    room = Room(CODEX, tmp_path / "session.jsonl")
    room.tell("prompt")
    room.session.leases.add("queue:1:1", [MARK])
    left = room.session.leases.place
    room.path = tmp_path / "other.jsonl"
    room.tell("prompt", "0199ffff")
    binding = keep(room, tmp_path / "bindings")
    assert binding.left == {"queue:1:1": left}
    session = ClientSession("a1", CODEX, names(), clock=room.clock)
    session.leases.move_to((binding.session, binding.transcript))
    session.leases.changed_at = binding.changed_at
    session.leases.add("queue:1:1", [MARK], at=binding.handed["queue:1:1"], left=left)
    room.clock.now += TIMES.left_s
    assert session.judge() == ([], ["queue:1:1"])


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_verdict_that_is_not_in_the_journal_can_be_found_again(tmp_path: Path) -> None:
    room = Room(CODEX, tmp_path / "session.jsonl")
    room.tell("prompt")
    room.session.leases.add("queue:1:1", [MARK])
    handed = room.session.open["queue:1:1"].at
    room.write(of_codex(TEXT), {"type": "response_item", "payload": {"type": "function_call"}})
    room.write({"type": "token_usage_record", "payload": {}})
    assert room.session.judge() == (["queue:1:1"], [])
    assert keep(room, tmp_path / "bindings").handed == {"queue:1:1": handed}
    room.session.leases.drop_settled({})
    assert keep(room, tmp_path / "bindings").handed == {}


def of_codex(text: str) -> dict[str, Any]:
    content = [{"text": text}]
    return {"type": "response_item", "payload": {"type": "message", "role": "developer", "content": content}}


def of_gemini(text: str) -> dict[str, Any]:
    return {"id": "u1", "type": "user", "content": [{"text": text}]}


@pytest.mark.requirement("REC-2", stage="clients")
@pytest.mark.parametrize(("kind", "item"), [(CODEX, of_codex), (GEMINI, of_gemini)])
@pytest.mark.parametrize(("text", "verdict"), [("", LOST), (TEXT, OPEN)])
def test_codex_and_gemini_give_back_what_their_files_do_not_have(
    tmp_path: Path, kind: Any, item: Any, text: str, verdict: Any
) -> None:
    room = Room(kind, tmp_path / "session")
    room.tell("prompt")
    room.write(item("Work."))
    room.session.leases.add("hook:1:1", [MARK])
    room.write(item(text))
    room.tell("interrupted")
    assert room.look_after(100) == verdict


def test_a_plugin_tells_what_its_session_holds() -> None:
    client = OPENCODE.opened()
    room = Room(client, Path())
    room.path = Path("none")
    room.tell("prompt")
    event = HookEvent(what="turn_ended", name="turn_ended", session=SESSION)
    room.session.leases.add("hook:1:1", [MARK])
    room.tell("turn_ended")
    assert room.look_after(100) == OPEN, "an older plugin tells nothing"
    requests_of(client).take(event, {"held": [MARK]})
    assert room.look_after(100) == OPEN
    requests_of(client).take(event, {"held": []})
    assert room.look_after(100) == LOST
    requests_of(client).take(event, {"held": [MARK]})
    assert room.session.leases.reader is not None
    assert room.session.leases.reader.is_present(MARK)


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_plugins_session_that_was_left_is_waited_for_only_so_long() -> None:
    now = 1_000.0
    reader = RequestReader(clock=lambda: now)
    reader.expect(MARK)
    now += 1.0
    reader.hold([MARK])
    assert not reader.lacks(MARK, left=True), "its turn may go on"
    now += TIMES.left_s
    assert not reader.lacks(MARK), "it stands there, and its human may go on"
    assert reader.lacks(MARK, left=True)


@pytest.mark.requirement("REC-2", stage="clients")
def test_a_new_broker_knows_what_a_resume_brings_back(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    write(path, user(0, TEXT))
    assert claude_code.ClaudeReader(str(path)).may_return(MARK)


def test_the_next_broker_knows_that_its_human_stopped_it(claude: Room, tmp_path: Path) -> None:
    claude.tell("interrupted")
    assert keep(claude, tmp_path / "bindings").interrupted_at == claude.session.interrupted_at > 0
    claude.tell("prompt")
    assert keep(claude, tmp_path / "bindings").interrupted_at == 0


def test_a_turn_that_mail_was_to_keep_going_ends_if_the_plugin_says_so() -> None:
    room = Room(OPENCODE.opened(), Path("none"))
    room.tell("prompt")
    end = HookEvent(what="turn_ended", name="turn_ended", session=SESSION, final_text="done", ending="e1")
    room.session.turns.part(end.final_text)
    room.session.keep_going()
    room.session.close(end)
    assert room.session.state == "idle"
