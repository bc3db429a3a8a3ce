"""Commands that people look for: help, man pages, other names, version, upgrade, logs, service."""

from __future__ import annotations

import asyncio
import configparser
import json
import plistlib
import re
import shlex
from pathlib import Path

import click
import pytest

from tellwire.cli.app import cli
from tellwire.cli.commands.setup.logs import parse_log
from tellwire.cli.local.manpage import render_page, render_program_page
from tellwire.cli.local.service_files import render_plist, render_unit
from tellwire.cli.table import ALIASES, COMMON, ROWS, all_sections
from tellwire.version import VERSION
from tests.integration.warm_cli import WARM_CLI
from tests.integration.world import WITHIN_S, Home, Join
from tests.surfaces.cli_world import Done, check_golden, environment, run, run_at_terminal

ROWS_OF_A_SCREEN = 24
COLUMNS = 80


# -- help ---------------------------------------------------------------------------------------------


def test_help_is_one_screen_and_names_every_command(home: Home) -> None:
    shown = run(home, "help")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == run(home, "--help").out
    lines = shown.out.splitlines()
    assert len(lines) <= ROWS_OF_A_SCREEN
    assert max(map(len, lines)) <= COLUMNS
    words = set(re.findall(r"[a-z-]+", shown.out))
    assert set(ROWS) <= words, set(ROWS) - words
    first = [line.split()[0] for line in lines if line.startswith("  ")][: len(COMMON)]
    assert [name for name in COMMON if name in ROWS] == first[: sum(name in ROWS for name in COMMON)]
    assert not home.starters()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_help_of_a_command_fits_eighty_columns(home: Home, name: str) -> None:
    shown = run(home, "help", name)
    assert shown.code == 0, shown.err
    assert shown.out == run(home, name, "--help").out
    assert [line for line in shown.out.splitlines() if len(line) > COLUMNS] == []


def test_the_whole_help_explains_every_command_and_the_exit_codes(home: Home) -> None:
    shown = run(home, "help", "--all").out
    for row in ROWS.values():
        assert row.name in shown
    assert "Exit codes:" in shown
    assert [line for line in shown.splitlines() if len(line) > COLUMNS] == []


def test_help_knows_subcommands_other_names_and_mistakes(home: Home) -> None:
    assert "tellwire link open" in run(home, "help", "link", "open").out
    assert "tellwire config" in run(home, "help", "settings").out
    wrong = run(home, "help", "sned")
    assert (wrong.code, "Did you mean send" in wrong.err) == (64, True)
    told = json.loads(run(home, "help", "--json").out)
    assert {each["name"] for each in told["commands"]} == set(ROWS)
    told = json.loads(run(home, "help", "send", "--json").out)
    assert ["--as"] in [each["names"] for each in told["options"]]


@pytest.mark.parametrize("alias", ["ls", "ps"])
def test_other_names_of_list_do_what_it_does(home: Home, alias: str) -> None:
    home.up()
    assert run(home, "register", "bob").code == 0
    for words in (["--all"], ["--all", "--json"], ["--capability", "x"]):
        expected, found = run(home, "list", *words), run(home, alias, *words)
        assert (found.code, blurred(found.out)) == (expected.code, blurred(expected.out))
    assert ALIASES[alias] == "list"


def blurred(text: str) -> str:
    """Without what time changes."""
    return re.sub(r"\d+(\.\d+)?( s ago)?|now", "#", text)


# -- man pages ----------------------------------------------------------------------------------------


def test_man_pages_have_all_of_the_help(home: Home) -> None:
    page = render_program_page(cli, all_sections(), version=VERSION)
    assert page.startswith('.TH "TELLWIRE" 1 "" "tellwire')
    for name in ROWS:
        assert f"\\fBtellwire {name.replace('-', chr(92) + '-')}\\fR" in page
    assert page == run(home, "help", "--man").out
    check_golden("send.1", render_page(["send"], cli.commands["send"], version="0"))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_man_page_is_troff_that_says_no_more_than_text(name: str) -> None:
    command = cli.commands[name]
    page = render_page([name], command, version=VERSION)
    requests = {line.split()[0] for line in page.splitlines() if line.startswith(".")}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi"}
    assert page.splitlines().count(".nf") == page.splitlines().count(".fi")
    assert not re.search(r"\\(?![-e&]|f[BIR])", page), "every backslash is one of ours"
    assert not [line for line in page.splitlines() if line.startswith("'")]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert all(name.replace("-", "\\-") in page for name in option.opts)


# -- version and upgrade ------------------------------------------------------------------------------


def test_version_tells_both_and_starts_no_broker(home: Home) -> None:
    told = json.loads(run(home, "version", "--json").out)
    assert (told["version"], told["broker"], home.starters()) == (VERSION, None, [])
    assert re.search(r"broker +not running", run(home, "version").out)
    home.up()
    assert json.loads(run(home, "version", "--json").out)["broker"] == VERSION


def test_upgrade_says_how_and_that_nothing_is_lost(home: Home) -> None:
    done = run(home, "upgrade")
    assert done.code == 0, done.err
    assert f"tellwire {VERSION} was installed from the clone " in done.out
    assert "git pull && make setup\n  tellwire upgrade --restart\n" in done.out
    assert "Nothing is lost: messages are on disk. Open agent sessions need no restart" in done.out
    assert not home.starters()


async def test_upgrade_restarts_the_broker_and_shows_that_everybody_is_back(home: Home, join: Join) -> None:
    alice = await join("alice")
    assert run(home, "register", "bob").code == 0
    sent = await alice.send("bob", "Keep this.")
    before = json.loads(run(home, "status", "--json").out)
    done = await asyncio.to_thread(run, home, "upgrade", "--restart")
    assert done.code == 0, done
    assert "2 agents known, 1 online, 1 unread message\n" in done.out
    assert done.out.count("1 unread message\n") == 2
    assert "Every session is back.\n" in done.out
    after = json.loads(run(home, "status", "--json").out)
    assert after["pid"] != before["pid"]
    assert (await alice.status(sent.id)).recipients[0].state == "pending"
    told = json.loads((await asyncio.to_thread(run, home, "upgrade", "--restart", "--json")).out)
    assert (told["before"], told["restarted"]) == (told["after"], True)


def test_without_a_broker_a_restart_has_nothing_to_do(home: Home) -> None:
    done = run(home, "upgrade", "--restart")
    assert (done.code, "No broker was running" in done.out, home.starters()) == (0, True, [])


# -- logs ---------------------------------------------------------------------------------------------

LOG = """\
2026-03-01 10:00:00,123 INFO tellwire.daemon: broker 0.1.0 runs, pid 7, socket /s
2026-03-01 10:00:01,000 WARNING tellwire.x: odd
Traceback (most recent call last):
  File "x"
2026-03-01 10:00:02,000 ERROR tellwire.y: bad\x1b[2J
"""


def test_the_log_is_shown_without_a_broker(home: Home) -> None:
    absent = run(home, "logs")
    assert (absent.code, "There is no log yet" in absent.err, home.starters()) == (69, True, [])
    (home.path / "broker.log.1").write_text("2026-02-28 10:00:00,000 INFO tellwire.daemon: older\n")
    (home.path / "broker.log").write_text(LOG)
    shown = run(home, "logs").out
    heads = [line.split("  ")[-1].strip() for line in shown.splitlines() if not line.startswith(" ")]
    assert heads[:3] == [
        "tellwire.daemon: older",
        "tellwire.daemon: broker 0.1.0 runs, pid 7, socket /s",
        "tellwire.x: odd",
    ]
    assert "\x1b" not in shown, "a log may have anything in it"
    assert "    Traceback (most recent call last):\n" in shown
    entries = [
        json.loads(line) for line in run(home, "logs", "--json", "--level", "warning").out.splitlines()
    ]
    assert [(each["level"], each["logger"]) for each in entries] == [
        ("warning", "tellwire.x"),
        ("error", "tellwire.y"),
    ]
    assert "odd" in run(home, "logs", "-n", "2").out
    assert "older" not in run(home, "logs", "--since", "2026-03-01").out


def test_the_log_is_followed_through_its_rotation(home: Home) -> None:
    home.up()
    shown = run_at_terminal(home, "logs", "-f", enough=b"broker")
    assert shown.code == 130
    assert "tellwire.daemon: broker" in shown.out


def test_lines_that_are_no_entries_belong_to_the_one_before() -> None:
    found = list(parse_log(LOG))
    assert [each["level"] for each in found] == ["info", "warning", "error"]
    assert found[1]["message"].endswith('  File "x"')
    assert next(parse_log("garbage\n"))["message"] == "garbage"


# -- the service --------------------------------------------------------------------------------------

ODD = ["/opt/a b/tell%wire", "--x=$HOME", 'quote"d', "back\\slash"]


def test_the_unit_parses_and_starts_exactly_the_command() -> None:
    text = render_unit([*ODD, "up"], {"TELLWIRE_HOME": "/home/a b"})
    unit = configparser.ConfigParser(interpolation=None, strict=True, comment_prefixes="#")
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    words = shlex.split(unit["Service"]["ExecStart"].replace("$$", "$"), posix=True)
    assert [word.replace("%%", "%") for word in words] == [*ODD, "up"]
    assert shlex.split(unit["Service"]["Environment"]) == ["TELLWIRE_HOME=/home/a b"]
    assert unit["Install"]["WantedBy"] == "default.target"


def test_the_launch_agent_parses_and_starts_exactly_the_command() -> None:
    facts = plistlib.loads(render_plist([*ODD, "up"], {"TELLWIRE_HOME": "/home/a b"}).encode())
    assert facts["ProgramArguments"] == [*ODD, "up"]
    assert facts["EnvironmentVariables"] == {"TELLWIRE_HOME": "/home/a b"}
    assert (facts["Label"], facts["RunAtLoad"]) == ("tellwire", True)


@pytest.mark.parametrize("manager", ["systemd", "launchd"])
def test_the_service_is_written_once_and_removed_without_a_trace(
    home: Home, tmp_path: Path, manager: str
) -> None:
    words = ["--manager", manager]
    settings = {"HOME": str(tmp_path)}
    done = run_in(home, settings, "service", "install", *words)
    assert done.code == 0, done.err
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert f"Wrote {file}\n" in done.out
    assert f"it has not been tested with {manager} itself" in done.out
    assert "Nothing to do" in run_in(home, settings, "service", "install", *words).out
    assert json.loads(run_in(home, settings, "service", "--json", *words).out)["state"] == "installed"
    gone = run_in(home, settings, "service", "remove", *words)
    assert (gone.code, file.exists()) == (0, False)
    file.write_text("mine")
    for verb in ("install", "remove"):
        refused = run_in(home, settings, "service", verb, *words)
        assert (refused.code, file.read_text()) == (65, "mine")


def run_in(home: Home, variables: dict[str, str], *words: str) -> Done:
    """Run a command with other variables."""
    ended = WARM_CLI.run([*words], {**environment(home), **variables}, within_s=WITHIN_S)
    return Done(ended.code, ended.out.decode(), ended.err.decode())
