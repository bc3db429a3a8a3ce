"""What people do with the console, each by its keys: the operation that is sent, the words that are shown.

The operations are those of the command line (`cli/table`), and the words come from the same `views`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.cli.table import ROWS
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import MuteAgent
from tellwire.protocol.operations.base import Operation
from tellwire.protocol.operations.children import SpawnAgent
from tellwire.protocol.operations.links import OpenLink
from tellwire.protocol.operations.messages import ConfirmMessages, Offer, SendMessage
from tellwire.protocol.operations.needs import AnswerMessage
from tellwire.protocol.operations.peers import RegisterPeer
from tellwire.protocol.operations.scopes import ClaimScope, ScopeRule
from tellwire.tui.asking import ago
from tellwire.tui.hands import Check
from tellwire.views.messages import thread_rows, why_lines
from tests.surfaces.console_world import Screen, World


def small_shop() -> World:
    """Four agents in two projects."""
    world = World()
    for name, kind, project in (
        ("alice", "claude-code", "shop"),
        ("bob", "codex", "shop"),
        ("carol", "gemini-cli", "shop"),
        ("dave", "pi", "api"),
    ):
        world.join(name, kind, group=f"/home/you/{project}")
    return world


def word(operation: Operation[Any]) -> str:
    return type(operation).wire_name()


def is_of(command: str, operation: Operation[Any]) -> bool:
    """Whether an operation is what a command of the command line sends."""
    return word(operation) in ROWS[command].operations


def asked_as(command: str, world: World) -> Any:
    """The last question to the broker that a command of the command line asks as well, and its answer."""
    asked = next(each for each in reversed(world.wire.read) if is_of(command, each))
    return world.wire._ask(asked)  # pyright: ignore[reportPrivateUsage]


async def choose(screen: Screen, name: str) -> None:
    """Choose an agent with the keys."""
    await screen.press("1", "g")
    for _ in range(20):
        if screen.app.desk.agent_name == name:
            return
        await screen.press("down")
    raise AssertionError(f"{name} cannot be chosen:\n{screen.text}")


# -- 1, 2: what needs me, and answering ---------------------------------------------------------------


@pytest.mark.requirement("HUM-2", stage="console")
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_what_needs_the_person_is_on_every_screen_with_reason_age_and_action(size: Any) -> None:
    world = small_shop()
    world.does("bob", "waiting", "Bash: rm -rf build")
    world.say("alice", "operator", "Shall I drop users_old?", choices=["yes", "no"])
    async with world.console(size) as screen:
        world.pass_by(240)
        await screen.press("n")
        await screen.shows("Needs you 1/2", "alice asks: Shall I drop users_old?", "1 yes", "2 no", "4m")
        await screen.press("n")
        await screen.shows(
            "Needs you 2/2", "wants: Bash: rm -rf build", "x hide it until something new happens"
        )
        for pane in "12345":
            await screen.press("1", "escape", pane)
            assert "Needs you" in screen.text
            assert "2 need you" in screen.text


@pytest.mark.requirement("HUM-2", stage="console")
async def test_a_new_need_appears_by_itself_and_goes_when_it_is_over() -> None:
    world = small_shop()
    async with world.console((80, 24)) as screen:
        await screen.shows("Nothing needs you.")
        world.does("bob", "waiting", "Edit: src/parser.py")
        await screen.shows("wants: Edit: src/parser.py", "1 needs you")
        world.does("bob", "busy")
        await screen.shows("Nothing needs you.")


@pytest.mark.parametrize(("keys", "said"), [(("1",), "yes"), (("2",), "not now"), (("y",), "yes")])
async def test_an_offered_choice_is_one_key(keys: tuple[str, ...], said: str) -> None:
    world = small_shop()
    asked = world.say("bob", "operator", "Delete the build folder?", choices=["yes", "not now"])
    async with world.console((80, 24)) as screen:
        await screen.press("n", *keys)
        (sent,) = screen.sent
        assert isinstance(sent, AnswerMessage)
        assert (sent.id, sent.body) == (asked, said)
        assert is_of("answer", sent)
        assert "received  the agent is online" in screen.app.foot.notice  # as `tellwire answer` says it
        await screen.shows("Nothing needs you.")
        answers = [got for _, got in world.ports["bob"].heard if isinstance(got, Offer)]
        (offered,) = answers[-1].messages
        assert (offered.body, offered.re) == (said, asked)


async def test_a_question_is_answered_in_ones_own_words() -> None:
    world = small_shop()
    asked = world.say("bob", "operator", "Which layout?")
    async with world.console() as screen:
        await screen.press("n", "a")
        await screen.shows("bob wrote: Which layout?")
        await screen.type("The second one.")
        await screen.press("enter")
        (sent,) = screen.sent
        assert isinstance(sent, AnswerMessage)
        assert (sent.id, sent.body) == (asked, "The second one.")


async def test_a_wrong_choice_is_refused_with_advice_and_the_text_stays() -> None:
    world = small_shop()
    world.say("bob", "operator", "Delete it?", choices=["yes", "no"])
    async with world.console((80, 24)) as screen:
        await screen.press("n", "a")
        await screen.type("perhaps")
        await screen.press("enter")
        await screen.shows("none of the choices: yes, no", "perhaps")
        assert screen.app.foot.prompt.edit.text == "perhaps"
        await screen.press("ctrl+u")
        assert not screen.app.foot.notice  # a refusal stays until a key
        await screen.type("no")
        await screen.press("enter")
        await screen.shows("Nothing needs you.")


async def test_a_need_is_hidden_until_something_new_happens_to_it() -> None:
    world = small_shop()
    world.does("bob", "waiting", "Bash: ls")
    async with world.console((80, 24)) as screen:
        await screen.press("n", "x")
        await screen.shows("Nothing needs you.")
        world.does("bob", "busy")
        world.pass_by(5)
        world.does("bob", "waiting", "Bash: ls")
        await screen.shows("wants: Bash: ls")


# -- 3: go --------------------------------------------------------------------------------------------


async def test_enter_goes_to_the_terminal_of_the_chosen_agent() -> None:
    world = small_shop()
    world.go = ["true", "switch-client"]
    async with world.console() as screen:
        await choose(screen, "bob")
        await screen.press("enter")
        assert world.went == ["bob"]
        assert "went to bob" in screen.app.foot.notice


async def test_an_agent_without_a_pane_says_so() -> None:
    world = small_shop()
    world.go = TellwireError("conflict", "'bob': it is not running in tmux.", "It runs in pts/4.")
    async with world.console() as screen:
        await choose(screen, "bob")
        await screen.press("enter")
        await screen.shows("it is not running in tmux", "It runs in pts/4.")


# -- 4, 5: conversations and why ----------------------------------------------------------------------


async def test_what_was_said_between_two_stands_with_live_receipts() -> None:
    world = small_shop()
    async with world.console() as screen:
        first = world.say("alice", "bob", "Could you look at the parser?")
        await screen.shows("alice ⇄ bob")
        await screen.press("2", "enter")
        await screen.shows("alice → bob  ✓ delivered", "Could you look at the parser?")
        world.read("bob", first)
        await screen.shows("alice → bob  ✓✓ read (confirm)")
        answer = world.say("bob", "alice", "It is done.", re=first)
        await screen.shows("alice → bob  ↩ answered", "bob → alice  ✓ delivered", "It is done.")
        await screen.press("t")
        told = asked_as("thread", world)
        for row in thread_rows(told, age=ago(screen.app.desk)):
            await screen.shows(*row.body, f"{row.id}  ")
        assert answer in screen.text


async def test_a_hundred_and_twenty_receipts_of_one_event_change_on_screen() -> None:
    world = small_shop()
    async with world.console((200, 60)) as screen:
        ids = [world.say("alice", "bob", f"number {number}") for number in range(120)]
        await screen.press("2", "enter")
        await screen.until(lambda: len(screen.app.desk.talk.messages(screen.app.desk.model)) == 120)  # pyright: ignore[reportOptionalMemberAccess]
        handed = [
            message.id for _, said in world.ports["bob"].heard for message in getattr(said, "messages", [])
        ]
        world.read("bob", *handed)
        talk, model = screen.app.desk.talk, screen.app.desk.model
        assert talk is not None
        read = set(handed)
        await screen.until(
            lambda: {each.id for each in talk.messages(model) if "read" in each.states.values()} == read
        )
        assert read <= set(ids)


async def test_w_tells_why_a_message_has_not_been_read_as_the_command_does() -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "dave")
        await screen.press("m")
        world.ports["dave"].writable = False
        message = world.say("alice", "dave", "Are you there?")
        await screen.shows("alice ⇄ dave")
        await screen.press("w")
        told = asked_as("why", world)
        for text in why_lines(told, age=ago(screen.app.desk)):
            for piece in text.split()[:4]:
                assert piece in screen.text
        assert f"Why {message}" in screen.text


# -- 6: writing ---------------------------------------------------------------------------------------


async def test_a_message_to_the_chosen_agent_and_how_it_will_arrive() -> None:
    world = small_shop()
    world.does("bob", "busy")
    async with world.console() as screen:
        await choose(screen, "bob")
        await screen.press("c")
        await screen.shows("you → bob:", "bob busy: enters at its next tool call")
        await screen.type("Please also check")
        await screen.press("ctrl+j")
        await screen.type("the @al")
        await screen.press("tab", "enter")
        (sent,) = screen.sent
        assert isinstance(sent, SendMessage)
        assert (sent.to, sent.body) == ("bob", "Please also check\nthe @alice ")
        assert is_of("send", sent)
        assert "received  bob is online" in screen.app.foot.notice  # as `tellwire send` says it
        assert screen.app.foot.question is None
        assert screen.app.focused is screen.app.board.pane_of("agents")


async def test_marked_agents_get_one_message_together() -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "alice")
        await screen.press("space", "space", "c")
        await screen.type("Release at noon.")
        await screen.press("enter")
        (sent,) = screen.sent
        assert isinstance(sent, SendMessage)
        assert sent.to == ["alice", "bob"]
        assert "sent  to 2 agents" in screen.app.foot.notice


async def test_a_reply_carries_what_it_answers() -> None:
    world = small_shop()
    async with world.console() as screen:
        said = world.say("alice", "bob", "Done.")
        await screen.shows("alice ⇄ bob")
        await screen.press("2", "enter", "r")
        await screen.type("Thanks.")
        await screen.press("enter")
        (sent,) = screen.sent
        assert isinstance(sent, SendMessage)
        assert (sent.to, sent.re) == ("alice", said)


async def test_an_unknown_recipient_is_refused_with_the_nearest_names() -> None:
    world = small_shop()
    async with world.console() as screen:
        await screen.press("colon")
        await screen.type("say alcie Hello")
        await screen.press("enter")
        await screen.shows("alice")
        assert "denied" in screen.app.foot.notice
        assert screen.app.foot.prompt.edit.text == "say alcie Hello"


# -- 7, 8, 9: looking inside, starting, introducing ---------------------------------------------------


async def test_i_looks_inside_an_agent() -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "bob")
        await screen.press("i")
        await screen.shows(
            "3 bob, inside", "codex, online", "from its client's transcript", "Please also check the lexer."
        )
        asked = [word(each) for each in world.wire.read]
        assert {*ROWS["info"].operations, *ROWS["session"].operations} <= {*asked}
        await screen.press("escape")
        assert "inside" not in screen.app.board.shown


async def test_s_starts_an_agent_with_a_task() -> None:
    world = small_shop()
    async with world.console() as screen:
        await screen.press("s")
        await screen.shows("NAME CLIENT TASK")
        await screen.type("tester cod")
        await screen.press("tab")
        await screen.type("Run the tests.")
        await screen.press("enter")
        (sent,) = screen.sent
        assert isinstance(sent, SpawnAgent)
        assert (sent.name, sent.client, sent.task) == ("tester", "codex", "Run the tests.")
        assert is_of("spawn", sent)
        assert "tester is up: tmux window tester" in screen.app.foot.notice


async def test_l_opens_a_link_between_the_marked_agents() -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "alice")
        await screen.press("space", "space", "l")
        (sent,) = screen.sent
        assert isinstance(sent, OpenLink)
        assert sent.members == ["alice", "bob"]
        assert is_of("link", sent)
        assert "is active" in screen.app.foot.notice
        assert not screen.app.desk.marked


@pytest.mark.requirement("PEER-6", stage="console")
@pytest.mark.parametrize("typed", ["peer bob", "peer alice bob"])
async def test_peer_answers_with_a_notice_and_touches_no_conversation(typed: str) -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "alice")
        heard = {name: list(port.heard) for name, port in world.ports.items()}
        await screen.press("colon")
        await screen.type(typed)
        await screen.press("enter")
        (sent,) = screen.sent
        assert isinstance(sent, RegisterPeer)
        assert {sent.name, sent.other} == {"alice", "bob"}
        assert is_of("peer", sent)
        assert "alice and bob are peers" in screen.app.foot.notice
        assert {name: list(port.heard) for name, port in world.ports.items()} == heard, "somebody was told"
        assert not screen.app.desk.model.messages
        assert "Nothing has been said yet" in screen.text


@pytest.mark.requirement("PEER-6", stage="console")
async def test_peer_is_refused_in_the_middle_of_the_agents_turn() -> None:
    world = small_shop()
    world.does("alice", "busy")
    async with world.console() as screen:
        await choose(screen, "alice")
        await screen.press("colon")
        await screen.type("peer bob")
        await screen.press("enter")
        await screen.shows("alice is in the middle of a turn.", "Try again when the turn has ended.")
        assert not screen.sent


# -- 10 to 14 -----------------------------------------------------------------------------------------


async def test_m_leaves_an_agent_alone_and_lets_it_be_woken_again() -> None:
    world = small_shop()
    async with world.console() as screen:
        await choose(screen, "bob")
        await screen.press("m")
        assert "bob is not woken" in screen.app.foot.notice
        await screen.until(lambda: screen.app.desk.model.agents[screen.app.desk.agent].muted)
        await screen.press("m")
        assert "bob may be woken again" in screen.app.foot.notice
        assert [(word(each), each.off) for each in screen.sent if isinstance(each, MuteAgent)] == [
            ("mute_agent", False),
            ("mute_agent", True),
        ]
        assert is_of("mute", screen.sent[0])


async def test_capital_m_silences_all_for_an_hour() -> None:
    world = small_shop()
    async with world.console() as screen:
        await screen.press("M")
        muted = [each for each in screen.sent if isinstance(each, MuteAgent)]
        assert {each.name for each in muted} == {"alice", "bob", "carol", "dave"}
        assert {each.for_s for each in muted} == {3_600.0}


async def test_slash_finds_what_was_said() -> None:
    world = small_shop()
    said = world.say("alice", "bob", "The lexer is mine until two.")
    async with world.console() as screen:
        await screen.press("slash")
        await screen.type("lexer")
        await screen.press("enter")
        await screen.shows("Search lexer: 1 found", said, "The lexer is mine until two.")
        assert [each.id for each in asked_as("search", world).messages] == [said]


async def test_4_shows_who_may_write_where() -> None:
    world = small_shop()
    world.ask("bob", ClaimScope(rules=[ScopeRule("/home/you/shop/src")]))
    async with world.console((80, 24)) as screen:
        await screen.press("4")
        await screen.shows("4 Files, children", "bob online", "write /home/you/shop/src")
        await screen.press("colon")
        await screen.type("owns /home/you/shop/src/parser.py")
        await screen.press("enter")
        await screen.shows("/home/you/shop/src/parser.py: bob (write /home/you/shop/src)")
        assert asked_as("who-owns", world).owner == "bob"


async def test_capital_t_tells_what_the_last_hour_cost() -> None:
    world = small_shop()
    world.say("alice", "bob", "one")
    world.pass_by(4_000)
    for number in range(3):
        world.say("alice", "bob", f"more {number}")
    async with world.console() as screen:
        await screen.press("T")
        await screen.shows("The last hour", "turns")
        row = next(
            text for text in screen.text.splitlines() if " alice  " in text and "0      3      0" in text
        )
        assert row
        assert asked_as("stats", world).rows


async def test_capital_d_tells_whether_tellwire_is_well() -> None:
    world = small_shop()
    async with world.console() as screen:
        await screen.press("D")
        await screen.shows("Doctor: 1 to look at", "has no hooks", "tellwire install codex")
        world.checks = [Check("ok", "broker", "runs")]
        await screen.press("D")
        await screen.shows("Doctor: all is well")


# -- reading ------------------------------------------------------------------------------------------


async def test_a_message_counts_as_read_once_its_text_was_on_screen_for_a_while() -> None:
    world = small_shop()
    said = world.say("bob", "operator", "The build is green.")
    async with world.console((80, 24)) as screen:
        await screen.shows("bob writes: The build is green.")
        assert not screen.sent  # the line under Needs is not the message
        await screen.press("n", "enter")
        await screen.until(lambda: screen.sent)
        (sent,) = screen.sent
        assert isinstance(sent, ConfirmMessages)
        assert sent.ids == [said]
        await screen.shows("Nothing needs you.")
