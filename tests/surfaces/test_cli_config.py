"""`tellwire config`: settings with meaning and unit, and a file that stays as its owner wrote it."""

from __future__ import annotations

import json
import tomllib

import pytest

from tellwire.cli.commands.setup.config import describe_settings, render_settings
from tellwire.cli.screen import Screen, as_sent
from tellwire.settings import FIVE, NAMES, load_settings, unit_of
from tests.integration.world import Home
from tests.surfaces.cli_world import check_golden, run, run_at_terminal

FILE = """\
# mine
ttl_s = 60  # a minute

  beat_s   =   2.0
# the end of it
"""


def test_the_five_that_people_change_come_first_and_each_has_a_meaning(home: Home) -> None:
    shown = run(home, "config").out
    names = [line.split()[0] for line in shown.splitlines()[1:] if not line.startswith(" ")]
    assert names[:7] == ["home", "socket", *FIVE]
    assert shown.endswith(" more: tellwire config list --all\n")
    whole = json.loads(run(home, "config", "list", "--json").out)
    assert set(whole) == {"home", "socket", *NAMES}
    assert [name for name, each in whole.items() if not each["description"]] == []
    assert (whole["ttl_s"]["unit"], whole["body_bytes_max"]["unit"]) == ("seconds", "bytes")
    assert (unit_of("sends_per_s_max"), unit_of("agents_max"), unit_of("ask_s_max")) == ("", "", "seconds")
    assert not home.starters()


def test_what_people_see_of_the_settings(home: Home) -> None:
    (home.path / "config.toml").write_text("typing = false\n")
    settings = load_settings(home=home.path, environment={})
    rows = [each for each in describe_settings(settings) if each.name in FIVE]
    check_golden("config.narrow.txt", render_settings(rows, Screen(60, person=True)))
    coloured = render_settings(rows, Screen(80, colour=True, person=True))
    check_golden("config.colour.txt", as_sent(coloured, is_terminal=True))


def test_the_former_name_still_works(home: Home) -> None:
    assert run(home, "settings").out == run(home, "config").out
    assert json.loads(run(home, "settings", "--json", ttl_s=60).out)["ttl_s"]["origin"] == "environment"


def test_a_value_alone_is_for_scripts_and_more_is_for_people(home: Home) -> None:
    assert run(home, "config", "get", "ttl_s").out == "3600\n"
    shown = run_at_terminal(home, "config", "get", "ttl_s").out
    assert "3600 seconds" in shown
    assert "How long a message waits" in shown
    told = json.loads(run(home, "config", "get", "ttl_s", "--json", ttl_s=5).out)
    assert (told["value"], told["default"], told["origin"]) == (5.0, 3600.0, "environment")


def test_the_file_keeps_comments_and_order(home: Home) -> None:
    file = home.path / "config.toml"
    file.write_text(FILE)
    assert run(home, "config", "set", "ttl_s", "2h").code == 0
    assert run(home, "config", "set", "typing", "off").code == 0
    assert run(home, "config", "set", "beat_s", "0.5").code == 0
    assert file.read_text() == (
        "# mine\nttl_s = 7200  # a minute\n\n  beat_s = 0.5\ntyping = false\n# the end of it\n"
    )
    assert run(home, "config", "unset", "typing").code == 0
    assert run(home, "config", "set", "ttl_s", "60").code == 0
    assert file.read_text() == FILE.replace("beat_s   =   2.0", "beat_s = 0.5")
    again = run(home, "config", "set", "ttl_s", "60")
    assert "already" in again.out


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("ttl_s", "1h30m", 5400),
        ("ttl_s", "90", 90),
        ("store_bytes_max", "2GB", 2_000_000_000),
        ("body_bytes_max", "64KiB", 65_536),
        ("store_bytes_max", "0", 0),
        ("typing", "on", True),
        ("log_level", "debug", "debug"),
        ("checkpoint_prompt", 'say "so" \\ #', 'say "so" \\ #'),
        ("chain_turns_max", "7", 7),
    ],
)
def test_values_are_given_as_people_write_them(home: Home, name: str, value: str, stored: object) -> None:
    done = run(home, "config", "set", name, value)
    assert done.code == 0, done.err
    assert tomllib.loads((home.path / "config.toml").read_text()) == {name: stored}
    assert (home.path / "config.toml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "tttl_s", "1"), "Did you mean ttl_s"),
        (("get", "tttl_s"), "Did you mean ttl_s"),
        (("set", "xyzzy", "1"), "tellwire config list --all"),
        (("set", "ttl_s", "soon"), "is not a duration"),
        (("set", "ttl_s", "0"), "must be a number above 0"),
        (("set", "store_bytes_max", "much"), "is not a size"),
        (("set", "typing", "perhaps"), "typing"),
        (("set", "log_level", "loud"), "must be one of"),
        (("set", "home", "/x"), "Set TELLWIRE_HOME"),
    ],
)
def test_a_mistake_is_refused_and_changes_nothing(home: Home, words: tuple[str, ...], told: str) -> None:
    done = run(home, "config", *words)
    assert (done.code, told in done.err) == (64, True), done
    assert not (home.path / "config.toml").exists()


def test_a_wrong_key_in_the_file_is_named_with_the_nearest_and_can_be_removed(home: Home) -> None:
    file = home.path / "config.toml"
    file.write_text("ttls = 5\nttl_s = 5\n")
    wrong = run(home, "config")
    assert (wrong.code, "Did you mean ttl_s" in wrong.err) == (0, True)
    assert run(home, "config", "unset", "ttls").code == 0
    assert file.read_text() == "ttl_s = 5\n"
    file.write_text("ttl_s = [\n")
    broken = run(home, "config", "set", "ttl_s", "5")
    assert (broken.code, file.read_text()) == (64, "ttl_s = [\n")


def test_it_says_when_the_change_counts(home: Home) -> None:
    assert "takes effect when the broker starts" in run(home, "config", "set", "ttl_s", "5").out
    home.up()
    running = run(home, "config", "set", "ttl_s", "6")
    assert "keeps its old value until `tellwire up --replace --detach`" in running.out
    assert json.loads(run(home, "config", "set", "ttl_s", "7", "--json").out)["restart"] is True
    shadowed = run(home, "config", "set", "ttl_s", "8", ttl_s=9)
    assert "TELLWIRE_TTL_S in the environment overrides" in shadowed.err
