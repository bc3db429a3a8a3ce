"""Plugins of ours: what their requests prove, what they say in our words, and their files."""

import os
from pathlib import Path

import pytest

from tellwire.clients import BY_NAME
from tellwire.clients.client import InstallPlace, Programs
from tellwire.clients.events import Verdict
from tellwire.clients.opencode.facts import OPENCODE
from tellwire.clients.pi.facts import PI
from tellwire.clients.plugin import GRACE_S, HOOKS, RequestReader
from tellwire.install.apply import carry_out
from tellwire.install.plan import plan_install, plan_uninstall
from tellwire.install.records import load_records
from tellwire.protocol.errors import TellwireError
from tellwire.sessions.client_session import frame_opening
from tellwire.sessions.doors.plugin_poll import process_key
from tests.clients import requests_of

MARK = frame_opening("m4", notice=False)
OTHER = frame_opening("m5", notice=False)
PLUGINS = ("opencode", "pi")


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(age_s: float, *marks: str) -> dict[str, object]:
    """A request that was answered."""
    return {"age_ms": age_s * 1_000, "marks": list(marks)}


def test_what_stood_in_an_answered_request_was_read() -> None:
    reader = RequestReader(Clock())
    reader.expect(MARK)
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}
    reader.take([asked(0.1, OTHER, MARK)])
    assert reader.judge([MARK]) == {MARK: Verdict.READ}


def test_what_is_not_in_a_request_that_began_later_is_absent() -> None:
    clock = Clock()
    reader = RequestReader(clock)
    reader.expect(MARK)
    clock.now += GRACE_S + 2.0
    reader.take([asked(1.0, OTHER)])
    assert reader.judge([MARK]) == {MARK: Verdict.ABSENT}


def test_a_request_that_began_before_the_text_was_put_in_says_nothing() -> None:
    clock = Clock()
    reader = RequestReader(clock)
    reader.expect(MARK)
    clock.now += 60.0
    reader.take([asked(60.0 - GRACE_S, OTHER)])
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}


def test_what_was_given_up_can_be_handed_over_again() -> None:
    reader = RequestReader(Clock())
    reader.expect(MARK)
    reader.end()
    assert reader.judge([MARK]) == {MARK: Verdict.ABSENT}
    reader.expect(MARK)
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}
    reader.take([asked(0.0, MARK)])
    assert reader.judge([MARK]) == {MARK: Verdict.READ}


def test_the_end_of_a_session_says_nothing_of_another_ones_mail() -> None:
    reader = RequestReader(Clock())
    reader.end()
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}


@pytest.mark.parametrize("requests", [[None, 3, "x", []], [{"age_ms": "old"}], [{"marks": [1, None, MARK]}]])
def test_nonsense_proves_nothing(requests: list[object]) -> None:
    reader = RequestReader(Clock())
    reader.expect(MARK)
    reader.take(requests)
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}


@pytest.mark.parametrize("name", HOOKS)
def test_a_plugin_speaks_in_our_words(name: str) -> None:
    plugin = OPENCODE.opened()
    event = plugin.hooks.parse({"hook_event_name": name, "session_id": "ses_1", "cwd": "/shop"})
    assert (event.what, event.session) == (HOOKS[name].what, "ses_1")
    if event.takes_text:
        assert plugin.hooks.answer(event, "words") == {"text": "words"}
    else:
        with pytest.raises(ValueError, match="takes no text"):
            plugin.hooks.answer(event, "words")


def test_each_session_has_a_reader_of_its_own() -> None:
    plugin = PI.opened()
    one, two = ({"hook_event_name": "busy", "session_id": each} for each in ("one", "two"))
    reader = plugin.transcript.reader(plugin.hooks.parse(one))
    reader.expect(MARK)
    requests_of(plugin).take(plugin.hooks.parse(two), {**two, "requests": [asked(0.0, MARK)]})
    assert reader.judge([MARK]) == {MARK: Verdict.OPEN}
    requests_of(plugin).take(plugin.hooks.parse(one), {**one, "requests": [asked(0.0, MARK)]})
    assert plugin.transcript.reader(plugin.hooks.parse(one)).judge([MARK]) == {MARK: Verdict.READ}


@pytest.mark.parametrize("pid", [None, "7", 0, -1, True, 1 << 40, 2.0])
def test_a_plugin_has_to_name_a_process(pid: object) -> None:
    with pytest.raises(ValueError, match="number of its process"):
        process_key({"pid": pid} if pid is not True else {})
    assert process_key({"pid": os.getpid()}).startswith(f"{os.getpid()}.")


class World:
    """A person's home, and a broker's."""

    def __init__(self, folder: Path, word: str) -> None:
        self.client = BY_NAME[word]
        self.broker = str(folder / "broker")
        self.place = InstallPlace(home=str(folder / "person"), project=str(folder), scope="user", env={})
        os.mkdir(self.place.home)
        self.programs = Programs(
            server=("/usr/bin/python3", "/lib/tellwire/relay/mcp_shim.py"),
            python="/usr/bin/python3",
            relay="/lib/tellwire/relay",
            marks=f"{self.broker}/marks",
        )

    @property
    def plugin(self) -> Path:
        """Its file."""
        targets = self.client.targets(self.place, self.programs)
        return next(Path(each.path) for each in targets if each.format == "whole")

    def install(self) -> int:
        """How many files it took."""
        targets = self.client.targets(self.place, self.programs)
        changes = plan_install(self.client, self.place, targets, load_records(self.broker))
        carry_out(changes, self.broker)
        return len(changes)

    def uninstall(self) -> None:
        """Take it out again."""
        targets = self.client.targets(self.place, self.programs)
        carry_out(plan_uninstall(self.client, targets, load_records(self.broker)), self.broker)


@pytest.mark.parametrize("word", PLUGINS)
def test_a_plugin_is_written_once_and_taken_out_whole(tmp_path: Path, word: str) -> None:
    world = World(tmp_path, word)
    assert world.install()
    text = world.plugin.read_text("utf-8")
    assert f"{world.broker}/hooks.json" in text
    assert "secret" not in text, "it reads the token where it is kept"
    assert "__SETTINGS__" not in text
    assert world.plugin.stat().st_mode & 0o777 == 0o600
    assert world.install() == 0
    world.uninstall()
    assert not list(Path(world.place.home).rglob("*"))


@pytest.mark.parametrize("word", PLUGINS)
def test_an_older_plugin_is_replaced(tmp_path: Path, word: str) -> None:
    world = World(tmp_path, word)
    world.install()
    text = world.plugin.read_text("utf-8")
    world.plugin.write_text(f"{text}// older\n", encoding="utf-8")
    assert world.install() == 1
    assert world.plugin.read_text("utf-8") == text


@pytest.mark.parametrize("word", PLUGINS)
def test_another_ones_file_in_the_plugins_place_stays(tmp_path: Path, word: str) -> None:
    world = World(tmp_path, word)
    world.plugin.parent.mkdir(parents=True)
    world.plugin.write_text("export default 1\n", encoding="utf-8")
    with pytest.raises(TellwireError, match="not written by tellwire"):
        world.install()
    assert world.plugin.read_text("utf-8") == "export default 1\n"
