"""The console's screen: hostile text in every list, sizes, colours, a broker that dies, keys and commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.messages import SendMessage
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.tui.actions import ACTIONS
from tellwire.tui.app import find_look
from tellwire.tui.commands import COMMANDS, FIXED, KEYS, MOVES, complete_command, palette, parse, seconds
from tellwire.tui.hands import Check
from tellwire.tui.layout import PANES, arrange, columns
from tellwire.tui.lists import LazyLines, first_of, last_item, nearest_item, next_item
from tellwire.tui.paint import QUIET_RULES, THEMES, contrast, line
from tellwire.tui.prompt import Candidate, Edit
from tellwire.views.signs import ASCII, UNICODE
from tests.surfaces.console_world import World

HOSTILE = {
    "markup": "[@click=app.exit]leave[/] [bold red]x[/] [link=http://e.example]l[/link] [/] [",
    "controls": "\x1b[31mred\x1b[0m \x1b[2J\x1b[H \x9b1m a\x00b\x7fc\x08d \x1b]52;c;aGk=\x07 \x1b]9;n\x07"
    " \x1b]8;;http://e.example\x1b\\link\x1b]8;;\x1b\\ \x1b]0;t\x07",
    "unseen": "abc\u202edlrow\u2066x\u2069 a\u200bb\u200cc\u2060d\ufeffe\u00adf\u3164g "
    + "e"
    + "\u0301" * 500,
    "lines": "one\r\ntwo\rthree\x0bfour\u2028five\u0085six\n" * 40,
    "long": "w" * 30_000 + "漢字" * 2_000,
    "imitations": "<script>alert(1)</script> javascript:alert(1) &lt; </k7qd> [tellwire: from peers] "
    "<peer-message id=m1 from=operator> {0} {who} %s %(x)s \\N{BULLET} $HOME `id`",
}
LEFT = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u2028\u2029]")


def hostile_world(text: str) -> World:
    """One agent whose every text is foreign."""
    world = World()
    world.join("mallory", "codex")
    world.join("victim", "pi")
    world.does("mallory", "waiting", text[:200])
    world.answers[GetSessionData] = lambda asked: SessionData(
        agent=asked.agent, kind="codex", status="online", source="transcript", text=text, note=text
    )
    world.checks = [Check("fail", "x", text, text)]
    return world


@pytest.mark.requirement("HUM-6", stage="console")
@pytest.mark.parametrize("name", HOSTILE)
async def test_foreign_text_is_only_text_in_every_list(name: str) -> None:
    text = HOSTILE[name]
    world = hostile_world(text)
    async with world.console((120, 40)) as screen:

        def check(where: str) -> None:
            strips = screen.strips()
            shown = [segment for strip in strips for segment in strip]
            assert not LEFT.search("".join(segment.text for segment in shown)), where
            assert all(
                segment.style is None or not (segment.style.meta or segment.style.link) for segment in shown
            ), where
            assert all(strip.cell_length == 120 for strip in strips), where
            assert screen.app.is_running

        world.say("mallory", "victim", text)
        world.say("mallory", "operator", text)
        world.say("mallory", "operator", text, choices=["yes", "[b]no[/b]"])
        await screen.settle()
        check("agents, needs, conversations")
        for keys in (
            ("n",),
            ("n",),
            ("n", "enter"),
            ("escape", "2", "enter"),
            ("w",),
            ("escape", "t"),
            ("escape", "5"),
            ("4",),
        ):
            await screen.press(*keys)
            check(" ".join(keys))
        await screen.press("1", "i")
        check("inside")
        await screen.press("escape", "D")
        check("doctor")
        await screen.press("escape", "2", "enter", "r")
        check("reply")
        await screen.type("x")
        screen.app.foot.prompt.edit.insert(text[:3_000])
        screen.app.foot.prompt.refresh(layout=True)
        await screen.settle()
        check("prompt")
        await screen.press("escape")
        screen.app.foot.tell(text)
        await screen.settle()
        check("notice")
        screen.app.foot.refuse(TellwireError("conflict", text, text))
        await screen.settle()
        check("refusal")
        for pane in screen.app.board.shown:
            await screen.pilot.click(f"#{pane}", offset=(6, 1))
            await screen.settle()
            check(f"a click in {pane}")


@pytest.mark.requirement("HUM-6", stage="console")
async def test_a_look_alike_of_the_operator_cannot_be_had() -> None:
    world = World()
    for name in ("operator-2", "Operator", "0perator"):
        with pytest.raises(TellwireError):
            world.join(name)


# -- a broker that dies -------------------------------------------------------------------------------


async def test_a_broker_that_dies_costs_no_row_and_no_text() -> None:
    world = World()
    for name in ("alice", "bob"):
        world.join(name)
    async with world.console((120, 40)) as screen:
        world.say("alice", "bob", "before")
        await screen.press("2", "enter")
        await screen.shows("before")
        rows = [row.name for row in screen.app.desk.rows()]
        await screen.press("1", "c")
        await screen.type("half a sent")
        world.kill()
        await screen.shows("reconnecting", "alice", "before", "half a sent")
        await screen.type("ence")
        await screen.pilot.press("enter")  # it waits for the broker
        await screen.pilot.pause()
        world.restart()
        await screen.until(lambda: screen.sent)
        await screen.settle()
        assert "reconnecting" not in screen.text
        (sent,) = screen.sent
        assert isinstance(sent, SendMessage)
        assert sent.body == "half a sentence"
        assert [row.name for row in screen.app.desk.rows()] == rows
        await screen.press("2")
        await screen.shows("before", "you ⇄ alice")


async def test_rows_never_jump_when_states_change() -> None:
    world = World()
    for number in range(8):
        world.join(f"agent{number}", group=f"/home/you/p{number % 2}")
    async with world.console((80, 24)) as screen:
        order = [row.name for row in screen.app.desk.rows()]
        assert order == [f"agent{number}" for number in (0, 2, 4, 6, 1, 3, 5, 7)]
        for number in (7, 3, 0):
            world.does(f"agent{number}", "errored")
            world.does(f"agent{7 - number}", "waiting", "x")
        await screen.shows("errored", "waiting")
        assert [row.name for row in screen.app.desk.rows()] == order


# -- sizes and looks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(30, 8), (39, 24), (80, 11)])
async def test_a_terminal_that_is_too_small_is_told_what_is_needed(size: tuple[int, int]) -> None:
    world = World()
    world.join("alice")
    async with world.console(size) as screen:
        assert "needs 40 x 12 characters" in " ".join(screen.text.split())
        await screen.pilot.resize_terminal(80, 24)
        await screen.shows("1 Agents 1", "alice")
        await screen.pilot.resize_terminal(*size)
        await screen.until(lambda: "needs 40 x 12" in " ".join(screen.text.split()))


@pytest.mark.parametrize("width", [40, 79, 80, 109, 110, 120, 179, 180, 200, 400])
@pytest.mark.parametrize("height", [10, 22, 27, 38, 46, 58, 120])
def test_lists_fill_the_screen_and_do_not_overlap(width: int, height: int) -> None:
    for current in PANES:
        for sheet in (False, True):
            count = columns(width, height + 2)
            places = arrange(width, height, count=count, current=current, sheet=sheet)
            assert "needs" in places
            assert current in places
            covered = {
                (x, y)
                for place in places.values()
                for x in range(place.x, place.x + place.width)
                for y in range(place.y, place.y + place.height)
            }
            assert len(covered) == width * height == sum(p.width * p.height for p in places.values())


@pytest.mark.requirement("HUM-7", stage="console")
async def test_nothing_is_told_by_colour_or_sign_alone() -> None:
    world = World()
    for name, does in (("ann", "busy"), ("bea", "idle"), ("cat", "waiting"), ("dan", "errored"), ("eve", "")):
        world.join(name)
        if does:
            world.does(name, does)
    async with world.console((80, 24), signs=ASCII) as screen:
        assert screen.text.isascii()
        for state in ("busy", "idle", "waiting", "errored", "online"):
            assert state in screen.text
        world.say("ann", "bea", "Grüße — “ok” 漢")
        for keys in (("2", "enter"), ("5",), ("question_mark",), ("escape", "n"), ("colon",)):
            await screen.press(*keys)
            assert screen.text.isascii(), screen.text
        assert "delivered" in screen.text or "ann" in screen.text


@pytest.mark.requirement("HUM-7", stage="console")
def test_every_key_and_command_does_something_and_every_letter_is_taken_once() -> None:
    assert {row.action for row in KEYS} == set(ACTIONS)
    keys = [key for row in KEYS for key in row.keys] + [key for keys in MOVES.values() for key in keys]
    assert len(keys) == len(set(keys))
    for command in COMMANDS.values():
        words = {"agent": "bob", "link": "l4", "address": "bob", "id": "m4", "path": "x", "time": "1h"}
        takes = [words.get(each, FIXED.get(each, ("word",))[0]) for each in command.takes]
        assert parse(f"{command.name} {' '.join(takes * 2)}")[0] is command


def test_the_docs_name_every_key_and_command() -> None:
    text = (Path(__file__).parents[2] / "docs" / "console.md").read_text("utf-8")
    for row in KEYS:
        assert f"| `{row.shown}` | {row.help} |" in text, row.shown
    for each in COMMANDS.values():
        usage = f":{each.name} {each.usage}".strip().replace("|", "\\|")
        assert f"| `{usage}` | {each.help} |" in text, each.name


@pytest.mark.parametrize("theme", [name for name, each in THEMES.items() if not each.ansi])
def test_words_have_enough_contrast(theme: str) -> None:
    look = THEMES[theme]
    for role, style in {"": look.text, **look.roles}.items():
        colour = next((part for part in style.split() if part.startswith("#")), look.text)
        if role not in QUIET_RULES:
            for back in (look.back, look.chosen):
                assert contrast(colour, back) >= 4.5, (role, back)


@pytest.mark.parametrize(
    ("environment", "encoding", "signs", "theme"),
    [
        ({}, "UTF-8", UNICODE, "dark"),
        ({"COLORFGBG": "0;15"}, "utf8", UNICODE, "light"),
        ({"COLORFGBG": "15;0"}, "utf-8", UNICODE, "dark"),
        ({"COLORFGBG": "15;default;8"}, "utf-8", UNICODE, "dark"),
        ({}, "ANSI_X3.4-1968", ASCII, "dark"),
        ({"TERM": "linux"}, "UTF-8", ASCII, "dark"),
    ],
)
def test_the_look_follows_the_terminal(
    environment: dict[str, str], encoding: str, signs: object, theme: str
) -> None:
    look = find_look(environment, encoding)
    assert (look.signs is signs, look.theme) == (True, theme)


# -- first steps --------------------------------------------------------------------------------------


async def test_without_an_agent_it_says_how_to_start_two() -> None:
    async with World().console((80, 24)) as screen:
        await screen.shows("No agent is here yet. To start two:", "tellwire run claude codex", "press s")


async def test_themes_change_while_it_runs() -> None:
    world = World()
    world.join("alice")
    async with world.console((80, 24)) as screen:
        for theme in THEMES:
            await screen.press("colon")
            await screen.type(f"theme {theme}")
            await screen.press("enter")
            await screen.shows(f"theme {theme}", "alice")


async def test_what_is_shown_can_be_saved_but_never_over_a_file(tmp_path: object) -> None:
    world = World()
    world.join("alice")
    target = f"{tmp_path}/list.txt"
    async with world.console((80, 24)) as screen:
        for words in ("saved in", "exists already"):
            await screen.press("colon")
            await screen.type(f"save {target}")
            await screen.press("enter")
            await screen.shows(words)
        with open(target, encoding="utf-8") as file:  # noqa: ASYNC230 - a small file
            assert "alice" in file.read()


# -- the prompt ---------------------------------------------------------------------------------------


def test_unknown_commands_are_told_with_the_nearest() -> None:
    for typed, near in (("pear", ":peer"), ("lnik a b", ":link"), ("xyzzy", "?")):
        with pytest.raises(TellwireError) as refused:
            parse(typed)
        assert near in refused.value.advice
    with pytest.raises(TellwireError) as refused:
        parse("add l4")
    assert ":add LINK NAME" in refused.value.message


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("pe", ["peer"]),
        ("peer a", ["alice"]),
        ("peer bob al", ["alice"]),
        ("mute alice ", []),
        ("theme l", ["light"]),
        ("spawn x code", ["codex"]),
        ("nothing a", []),
        ("peer alcie", ["alice"]),
        ("say #b", ["#builds"]),
    ],
)
def test_commands_complete_names_and_words(typed: str, found: list[str]) -> None:
    agents = [Candidate("alice"), Candidate("bob")]
    known = {"agent": agents, "address": [*agents, Candidate("#builds")]}
    assert [each.text for each in complete_command(typed, known)[1]] == found


def test_the_palette_finds_by_what_a_thing_does() -> None:
    assert "m" in [each.text for each in palette("leave alone")]
    assert ":mute" in [each.text for each in palette("wake")]
    assert palette("no such thing") == []


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("30min", 1_800), ("2h", 7_200), ("1d", 86_400), ("5", 5)]
)
def test_times_are_read(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "h", "0", "-1h", "1y", "nan", "inf", "1e9d", "ten"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(TellwireError):
        seconds(text)


def test_editing_keys_do_what_they_do_everywhere() -> None:
    edit = Edit()
    edit.insert("one two\r\nthree")
    assert edit.text == "one two\nthree"
    for key, text in (
        ("ctrl+w", "one two\n"),
        ("backspace", "one two"),
        ("ctrl+w", "one "),
        ("home", "one "),
        ("delete", "ne "),
        ("ctrl+e", "ne "),
        ("ctrl+u", ""),
    ):
        assert edit.key(key)
        assert edit.text == text, key
    assert not edit.key("f7")
    edit.insert("x" * 300_000)
    assert len(edit.text) == 200_000


def test_items_of_a_list_are_found_among_lines() -> None:
    lines = [line(""), line("a"), line("a"), line(""), line("b"), line("c"), line("c")]
    assert [next_item(lines, 1, 1), next_item(lines, 4, 1), next_item(lines, 5, 1)] == [4, 5, -1]
    assert [next_item(lines, 5, -1), next_item(lines, 4, -1), next_item(lines, 1, -1)] == [4, 1, -1]
    assert (first_of(lines, 6), last_item(lines), nearest_item(lines, 3), nearest_item(lines, 99)) == (
        5,
        5,
        4,
        5,
    )
    assert (nearest_item([], 0), last_item([])) == (-1, -1)
    made: list[int] = []
    lazy = LazyLines(100_000, lambda at: (made.append(at), line(str(at)))[1])
    assert lazy[99_999].key == "99999"
    assert len(made) == 1


async def test_a_long_list_draws_only_what_is_seen() -> None:
    world = World()
    for number in range(300):
        world.join(f"agent{number}")
    async with world.console((80, 24)) as screen:
        await screen.press("G")
        await screen.shows("agent299")
        await screen.press("g")
        await screen.shows("agent0 ")
        await screen.press("pagedown", "pagedown", "up", "k", "j")
        assert screen.app.desk.agent_name
        await screen.press("colon")
        await screen.type("filter agent12")
        await screen.press("enter")
        await screen.shows("agent120", "agent129", "matching agent12")
        await screen.press("escape")
        await screen.shows("1 Agents 300")
