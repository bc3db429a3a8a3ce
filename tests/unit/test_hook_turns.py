"""One agent's turns and its session, event by event: who began a turn, when it is over, and what was said."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.clients.claude.facts import CLAUDE
from tellwire.clients.events import HookEvent, Outcome, What
from tellwire.clients.gemini.facts import GEMINI
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.core.mail.waking import CONTINUATIONS_MAX
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.turns import TEXT_BYTES_MAX, Ending, TurnLog, clean_text
from tests.clients import requests_of

FRAME = "[tellwire: 1 message.]\n<peer-message id=m4f2k from=alice age=2s>\nhello\n</peer-message>"
WAKE_LINE = "Please read your tellwire mail."


def names() -> Callable[[], str]:
    """t1, t2 and so on."""
    numbers = count(1)
    return lambda: f"t{next(numbers)}"


class Clock:
    """Time that the test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> TurnLog:
    return TurnLog(names(), wake_line=WAKE_LINE, clock=clock)


def event(what: What, turn: str = "", **fields: Any) -> HookEvent:
    typed = fields.pop("typed", what == "prompt")
    return HookEvent(what=what, name=what, session="s", turn=turn, typed=typed, **fields)


def told(endings: list[Ending]) -> list[tuple[str, str, str]]:
    return [(ending.id, ending.outcome, ending.text) for ending in endings]


def session_of(kind: Any = CLAUDE) -> ClientSession:
    return ClientSession("a1", kind, names(), wake_line=WAKE_LINE)


# -- turns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "typed", "human"),
    [
        ("Fix the parser.", True, True),
        (FRAME, True, False),
        (f"  {FRAME}", True, False),
        ("[tellwire: notice id=m2 of the broker]", True, False),
        (f"<task-notification>\n{FRAME}", False, False),
        ("<task-notification>done", False, False),
        (f" {WAKE_LINE}\n", True, False),
        (f"{WAKE_LINE} And then fix it.", True, True),
        ("What does <peer-message> mean?", True, True),
        ("", True, True),
    ],
)
def test_a_prompt_is_a_humans_unless_it_is_ours_or_the_clients(
    turns: TurnLog, prompt: str, typed: bool, human: bool
) -> None:
    turns.see(event("prompt", prompt=prompt, typed=typed))
    assert turns.current is not None
    assert turns.current.human is human


def test_what_is_typed_into_a_turn_belongs_to_it(turns: TurnLog) -> None:
    turns.see(event("prompt", "p1", prompt=FRAME))
    assert turns.see(event("prompt", "p1", prompt="Stop that.")) == []
    assert told(turns.end("ended", "Done.")) == [("t1", "ended", "Done.")]


def test_another_turn_of_the_client_ends_the_one_before(turns: TurnLog) -> None:
    turns.see(event("prompt", "p1", prompt="One."))
    assert told(turns.see(event("tool_used", "p2"))) == [("t1", "interrupted", "")]
    assert turns.current is not None
    assert (turns.current.id, turns.current.client_id) == ("t2", "p2")


def test_a_prompt_that_begins_a_turn_for_certain_ends_the_one_before_unless_it_is_ours(
    turns: TurnLog,
) -> None:
    turns.see(event("prompt", prompt="One.", begins=True))
    assert turns.see(event("prompt", prompt=FRAME, begins=True)) == [], "mail that kept the turn going"
    assert told(turns.see(event("prompt", prompt="Two.", begins=True))) == [("t1", "interrupted", "")]


def test_a_prompt_that_is_told_late_still_says_who_began_the_turn(turns: TurnLog, clock: Clock) -> None:
    turns.see(event("tool_wanted"))
    turns.see(event("prompt", prompt="Work."))
    assert turns.current is not None
    assert turns.current.human
    turns.end("ended")
    turns.see(event("tool_wanted"))
    clock.now += 60
    turns.see(event("prompt", prompt="What is this?"))
    assert not turns.current.human, "a message began it, a minute ago"


def test_a_hook_that_is_registered_twice_ends_one_turn(turns: TurnLog, clock: Clock) -> None:
    for _ in range(2):
        turns.see(event("turn_ended", "p1", final_text="Done."))
        clock.now += 0.1
        first = turns.end("ended", "Done.")
        assert len(first) <= 1
    assert turns.current is None
    clock.now += 60
    turns.see(event("turn_ended", "p1", final_text="Done."))
    assert told(turns.end("ended", "Done.")) == [("t2", "ended", "Done.")], "kept going by somebody else"


def test_a_session_that_ends_behind_a_whole_answer_ended_its_turn(turns: TurnLog) -> None:
    turns.see(event("prompt", prompt="Work."))
    turns.see(event("other", continues=True, final_text="Done.", ending="e1"))
    assert told(turns.end_session()) == [("e1", "ended", "Done.")], "as the client itself will call this end"
    assert turns.end_session() == []


@pytest.mark.parametrize("what", ["tool_wanted", "tool_used"])
def test_what_is_said_before_a_tool_is_no_answer(turns: TurnLog, what: What) -> None:
    turns.see(event("prompt", prompt="Work."))
    turns.see(event("other", continues=True, final_text="I look at it."))
    turns.see(event(what))
    assert told(turns.see(event("session_ended"))) == [("t1", "interrupted", "")]


def test_an_answer_that_mail_followed_is_not_the_end(turns: TurnLog) -> None:
    turns.see(event("prompt", prompt="Work."))
    turns.see(event("other", continues=True, final_text="Done."))
    turns.keep_going()
    assert told(turns.end_session()) == [("t1", "interrupted", "")]


def test_waiting_is_told_once_for_each_time(turns: TurnLog) -> None:
    turns.see(event("prompt", prompt="Work."))
    assert told(turns.see(event("waiting", final_text="May I?"))) == [("t1.w1", "waiting", "May I?")]
    assert turns.see(event("waiting", final_text="May I?")) == []
    turns.see(event("tool_used"))
    assert told(turns.see(event("waiting", final_text="And now?"))) == [("t1.w2", "waiting", "And now?")]
    assert told(turns.end("ended", "Done.")) == [("t1", "ended", "Done.")]
    assert turns.see(event("waiting")) == [], "no turn waits"


@pytest.mark.parametrize(
    ("what", "source", "ends"),
    [
        ("session_started", "startup", True),
        ("session_started", "clear", True),
        ("session_started", "compact", False),
        ("session_ended", "", True),
        ("other", "", False),
    ],
)
def test_a_session_that_changes_ends_its_turn(turns: TurnLog, what: What, source: str, ends: bool) -> None:
    turns.see(event("prompt", prompt="Work."))
    assert bool(turns.see(event(what, source=source))) is ends


def test_a_checkpoint_is_the_next_turn_and_no_other(turns: TurnLog) -> None:
    turns.checkpoint_next = True
    for wanted in (True, False):
        turns.see(event("prompt", prompt="Write down where you are."))
        (ending,) = turns.end("ended", "Here.")
        assert ending.turn.checkpoint is wanted


WHATS: tuple[What, ...] = get_args(What)


@given(st.lists(st.tuples(st.sampled_from(WHATS), st.sampled_from(["", "p1", "p2", "p3"])), max_size=30))
def test_whatever_comes_no_turn_ends_twice(seen: list[tuple[What, str]]) -> None:
    session = session_of()
    ended: list[str] = []
    for what, turn in seen:
        happened = event(what, turn, prompt="Work.")
        ended += [each.id for each in (*session.note(happened), *session.close(happened))]
    assert len(ended) == len(set(ended))
    assert session.state in {"", "idle", "busy", "waiting", "errored"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Plain text,\n\twith lines.", "Plain text,\n\twith lines."),
        ("\x1b[1;31mred\x1b[0m and \x1b]8;;http://x\x07link\x1b]8;;\x07", "red and link"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("a\x00b\x07c\x9bd", "abcd"),
        ("\x1bPsixel", ""),
        ("ends with \x1b", "ends with "),
    ],
)
def test_a_final_text_has_no_terminal_control(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_a_final_text_is_bounded() -> None:
    assert clean_text("é" * TEXT_BYTES_MAX) == "é" * (TEXT_BYTES_MAX // 2)
    assert clean_text("x" + "é" * TEXT_BYTES_MAX) == "x" + "é" * (TEXT_BYTES_MAX // 2 - 1), "no half letter"


# -- the session -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "state"),
    [
        (["session_started"], "idle"),
        (["prompt"], "busy"),
        (["prompt", "waiting"], "waiting"),
        (["prompt", "waiting", "tool_used"], "busy"),
        (["prompt", "turn_ended"], "idle"),
        (["prompt", "interrupted"], "idle"),
        (["prompt", "errored"], "errored"),
        (["prompt", "errored", "idle"], "errored"),
        (["prompt", "idle"], "idle"),
        (["prompt", "turn_ended", "session_ended"], ""),
        (["prompt", "other"], "busy"),
    ],
)
def test_a_book_tells_what_its_agent_does(events: list[What], state: str) -> None:
    session = session_of()
    for what in events:
        happened = event(what)
        session.note(happened)
        session.close(happened)
    assert session.state == state
    assert session.heard == len(events)


def test_a_part_of_a_turn_is_told_once_and_its_end_only_if_it_went_on() -> None:
    session = session_of()
    stop = event("turn_ended", final_text="First.")
    session.note(event("prompt", prompt="Work."))
    session.note(stop)
    assert told(session.turns.part(stop.final_text)) == [("t1.c1", "ended", "First.")]
    assert (told(session.close(stop)), session.state) == ([], "idle"), (
        "nothing kept it going: that was its end"
    )
    session.note(event("prompt", prompt="Work."))
    session.note(stop)
    (part,) = session.turns.part(stop.final_text)
    session.keep_going()
    assert (part.id, part.turn.human, session.state) == ("t2.c1", True, "busy")
    assert (session.close(stop), session.state) == ([], "busy"), "registered twice"
    last = event("turn_ended", final_text="Second.")
    session.note(last)
    (ending,) = session.close(last)
    assert (ending.id, ending.text, ending.turn.human, session.state) == ("t2", "Second.", False, "idle")


def test_an_end_that_two_brokers_are_told_of_is_one_and_the_same() -> None:
    last = event("turn_ended", final_text="Done.", ending="e7")
    for events in ([event("prompt", prompt="Work."), last], [last]):
        session = session_of()
        for each in events:
            session.note(each)
        assert told(session.close(last)) == [("e7", "ended", "Done.")]


def failed_wake(session: ClientSession) -> None:
    session.note(event("prompt", "w", prompt=FRAME))
    session.wakes.is_woken = True
    session.finish("errored")


@pytest.mark.requirement("WAKE-3", stage="clients")
def test_failed_wakes_are_counted_until_a_human_speaks_or_a_turn_succeeds() -> None:
    session = session_of()
    for failures in (1, 2):
        failed_wake(session)
        assert session.standing.failures == failures
        assert session.standing.failed_at > 0
    session.note(event("prompt", "p", prompt="I am back."))
    assert session.standing.failures == 0
    failed_wake(session)
    session.note(event("prompt", "w2", prompt=FRAME))
    session.finish("ended", "Done.")
    assert session.standing.failures == 0


@pytest.mark.parametrize("outcome", ["errored", "ended"])
def test_what_goes_wrong_in_a_humans_turn_forbids_no_wake(outcome: Outcome) -> None:
    session = session_of()
    session.note(event("prompt", "p", prompt="Work."))
    session.finish(outcome)
    assert not session.standing.failures


def test_what_was_done_in_between_lets_mail_keep_a_turn_going_again() -> None:
    session = session_of()
    session.wakes.continuations = CONTINUATIONS_MAX
    session.note(event("other"))
    assert session.wakes.continuations == CONTINUATIONS_MAX
    session.note(event("tool_used"))
    assert session.wakes.continuations == 0


def gemini(name: str, tool: str = "", **fields: Any) -> HookEvent:
    payload = {"session_id": "s", "hook_event_name": name, "tool_name": tool, **fields}
    return GEMINI.hooks.parse(payload)


def test_no_tool_of_a_sub_agent_of_gemini_takes_text() -> None:
    session = session_of(GEMINI)

    def takes(name: str, tool: str) -> bool:
        happened = gemini(name, tool)
        session.note(happened)
        return session.takes(happened)

    session.note(gemini("BeforeAgent", prompt="Work."))
    assert takes("AfterTool", "read_file")
    assert not takes("BeforeTool", "invoke_agent")
    assert not takes("AfterTool", "read_file")
    assert not takes("BeforeTool", "invoke_agent"), "two at once"
    assert not takes("AfterTool", "invoke_agent")
    assert not takes("AfterTool", "read_file")
    assert takes("AfterTool", "invoke_agent")
    assert takes("AfterTool", "read_file")


@pytest.mark.parametrize("name", ["BeforeAgent", "AfterAgent", "SessionStart", "SessionEnd"])
def test_a_lost_end_of_a_sub_agent_counts_only_for_its_turn(name: str) -> None:
    session = session_of(GEMINI)
    session.note(gemini("BeforeTool", "invoke_agent"))
    assert not session.takes(gemini("AfterTool", "read_file"))
    session.note(gemini(name, prompt="Next."))
    session.note(gemini("AfterTool", "invoke_agent"))
    assert session.takes(gemini("AfterTool", "read_file"))


def test_what_was_handed_over_names_its_way_when_it_is_read() -> None:
    client = OPENCODE.opened()
    session = session_of(client)
    session.note(event("prompt", prompt="Work."))
    session.leases.add("hook:1:1", ["peer-message id=m1 from="], path="mid-turn")
    requests_of(client).take(
        event("tool_used"), {"requests": [{"age_ms": 0, "marks": ["peer-message id=m1 from="]}]}
    )
    assert session.judge() == (["hook:1:1"], [])
    assert list(session.leases.worked) == ["mid-turn"]
    assert session.open == {}


def test_what_a_client_wants_of_its_human_is_known_while_it_waits(turns: TurnLog) -> None:
    turns.wait("Bash: rm -rf build")
    turns.wait("Claude needs your permission")
    assert turns.wants == "Bash: rm -rf build", "the second word says less"
