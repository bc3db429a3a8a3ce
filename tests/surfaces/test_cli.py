"""The command line: up, down and status, for people and for programs."""

import json
import re

import pytest

import tellwire
from tellwire.version import VERSION
from tests.integration.world import Home, Join


def test_without_a_broker_status_says_so_and_down_has_nothing_to_do(home: Home) -> None:
    status = home.tellwire("status")
    assert (status.returncode, status.stdout) == (69, "")
    assert "No broker is running" in status.stderr
    assert "tellwire up" in status.stderr
    assert home.tellwire("status", "--json").returncode == 69
    down = home.tellwire("down")
    assert (down.returncode, down.stdout) == (0, "No broker is running.\n")
    assert not home.starters()


def test_up_returns_when_the_broker_listens_and_again_is_harmless(home: Home) -> None:
    first = home.tellwire("up", "--detach")
    assert (first.returncode, first.stderr) == (0, "")
    assert str(home.settings.socket) in first.stdout
    pid = home.pid
    second = home.tellwire("up", "--detach")
    assert (second.returncode, home.pid) == (0, pid)
    assert f"pid {pid}" in second.stdout
    down = home.tellwire("down")
    assert down.returncode == 0
    assert down.stdout.startswith("The broker has stopped. ")
    assert "next agent session or tellwire command restarts it" in down.stdout
    assert home.brokers() == []
    assert not home.settings.socket.exists()


async def test_status_tells_people_and_programs_how_the_broker_is(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with tellwire.connect("bob", home=home.path):
        pass
    for number in range(3):
        await alice.send("bob", number)
    told = json.loads(home.tellwire("status", "--json").stdout)
    assert (told["pid"], told["version"], told["home"]) == (home.pid, VERSION, str(home.path))
    assert (told["agents"], told["online"], told["pending"], told["storage"]) == (2, 1, 3, "ok")
    assert 0 < told["uptime_s"] < 60
    assert told["sequence"] >= 6
    text = home.tellwire("status").stdout
    assert re.search(rf"broker +{re.escape(VERSION)}, pid {home.pid}, up \d+ s", text)
    assert re.search(r"agents +1 online, 2 known", text)
    assert re.search(r"messages +3 unread", text)


async def test_replace_starts_another_broker_with_the_same_mail(home: Home) -> None:
    async with tellwire.connect("bob", home=home.path):
        pass
    async with tellwire.connect("alice", home=home.path) as alice:
        await alice.send("bob", "kept")
    before = home.pid
    assert home.tellwire("up", "--detach", "--replace").returncode == 0
    assert home.pid != before
    assert home.brokers() == [home.pid]
    async with tellwire.connect("bob", home=home.path) as bob:
        assert [message.body for message in await bob.messages(wait_s=5)] == ["kept"]


def test_replace_without_a_broker_just_starts_one(home: Home) -> None:
    assert home.tellwire("up", "--detach", "--replace").returncode == 0
    assert home.brokers() == [home.pid]


def test_the_version_is_told(home: Home) -> None:
    assert VERSION in home.tellwire("--version").stdout


@pytest.mark.parametrize("arguments", [("upp",), ("up", "--fast"), ("status", "extra")])
def test_a_wrong_command_line_is_refused_with_a_hint(home: Home, arguments: tuple[str, ...]) -> None:
    done = home.tellwire(*arguments)
    assert done.returncode != 0
    assert "Usage:" in done.stderr
    assert not home.starters()


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beat_s": "soon"}, "beat_s"),
        ({"heartbeat_s": "-1"}, "heartbeat_s"),
        ({"log_level": "loud"}, "log_level"),
        ({"beat_s": "0"}, "beat_s"),
        ({"connections_max": "0"}, "connections_max"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(
    home: Home, settings: dict[str, str], words: str
) -> None:
    done = home.tellwire("up", "--detach", **settings)
    assert (done.returncode, words in done.stderr) == (64, True), done.stderr
    assert "Traceback" not in done.stderr
    assert home.brokers() == []


@pytest.mark.requirement("SEC-3")
def test_a_mistake_in_the_file_of_settings_is_told_and_the_default_used(home: Home) -> None:
    (home.path / "config.toml").write_text("hartbeat_s = 3\nbeat_s = 0.5\n")
    done = home.tellwire("up", "--detach")
    assert (done.returncode, "hartbeat_s" in done.stderr, "Did you mean heartbeat_s" in done.stderr) == (
        0,
        True,
        True,
    )
    assert "hartbeat_s" in home.log
    told = home.tellwire("settings", "--json")
    found = json.loads(told.stdout)
    assert (found["heartbeat_s"]["value"], found["beat_s"]["value"]) == (30.0, 0.5)
    assert "hartbeat_s" in told.stderr
    (home.path / "config.toml").write_text("heartbeat_s = \n")
    for words in (("needs",), ("doctor",)):
        done = home.tellwire(*words)
        assert "config.toml is not used" in done.stderr + done.stdout, done
        assert "line 1" in done.stderr + done.stdout
        assert "Traceback" not in done.stderr
