"""Settings: default < file < environment < flag; what is wrong is refused by name."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tellwire.core.limits import Limits
from tellwire.paths import SOCKET_PATH_BYTES_MAX
from tellwire.settings import NAMES, Settings, broker_environment, load_settings
from tests.unit.mesh import refused


def load(home: Path, environment: dict[str, str] | None = None, **flags: Any) -> Settings:
    return load_settings(home=home, environment=environment or {}, flags=flags)


def test_without_anything_set_all_is_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.home, settings.socket, settings.origins) == (tmp_path, tmp_path / "socket", {})
    assert (settings.heartbeat_s, settings.offline_after_s, settings.limits) == (30.0, 90.0, Limits())
    folder = {path.parent for path in (settings.database, settings.log, settings.lock, settings.start_lock)}
    assert folder == {tmp_path}


def test_each_layer_goes_before_the_one_below_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("beat_s = 2\nttl_s = 2\nheartbeat_s = 2\n")
    environment = {"TELLWIRE_TTL_S": "3", "TELLWIRE_HEARTBEAT_S": "3"}
    settings = load(tmp_path, environment, heartbeat_s=4.0)
    assert (settings.beat_s, settings.limits.ttl_s, settings.heartbeat_s) == (2.0, 3.0, 4.0)
    assert settings.origins == {"beat_s": "file", "ttl_s": "environment", "heartbeat_s": "flag"}


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_can_be_set_by_the_environment(tmp_path: Path, name: str) -> None:
    value = {"log_level": "debug", "typing": "true", "quiet": "22:00-07:30"}.get(name, "7")
    settings = load(tmp_path, {f"TELLWIRE_{name.upper()}": value})
    found = getattr(settings, name, None) or getattr(settings.limits, name)
    assert str(found).removesuffix(".0").lower() == value
    assert settings.origins == {name: "environment"}


@pytest.mark.parametrize(
    ("word", "expected"), [("0", False), ("false", False), ("FALSE", False), ("1", True), ("true", True)]
)
def test_a_switch_is_on_or_off(tmp_path: Path, word: str, expected: bool) -> None:
    assert load(tmp_path, {"TELLWIRE_TYPING": word}).typing is expected
    with refused("bad_request"):
        load(tmp_path, {"TELLWIRE_TYPING": f"{word}?"})


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttl_s", "soon"),
        ("ttl_s", "-1"),
        ("ttl_s", "nan"),
        ("ttl_s", "inf"),
        ("ttl_s", "0"),
        ("ttl_s", ""),
        ("beat_s", "0"),
        ("heartbeat_s", "0"),
        ("connections_max", "1.5"),
        ("connections_max", "0"),
        ("mailbox_messages_max", "-5"),
        ("store_bytes_max", "-1"),
        ("log_level", "banana"),
    ],
)
def test_a_bad_value_is_refused_and_names_the_setting_and_where_it_stands(
    tmp_path: Path, name: str, value: str
) -> None:
    with refused("bad_request") as caught:
        load(tmp_path, {f"TELLWIRE_{name.upper()}": value})
    assert f"'{name}'" in caught.value.message
    assert "environment" in caught.value.message


def test_an_unknown_name_in_the_file_or_a_flag_is_refused(tmp_path: Path) -> None:
    with refused("bad_request") as caught:
        load(tmp_path, beet_s=1.0)
    assert "'beet_s'" in caught.value.message
    (tmp_path / "config.toml").write_text("home = '/elsewhere'\n")
    with refused("bad_request"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"beat_s = ", b"\xff\xfe", b"[beat_s]\nx = 1\n", b"beat_s = true\n"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with refused("bad_request"):
        load(tmp_path)


def test_a_file_in_the_way_is_refused_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with refused("bad_request"):
        load(tmp_path)


# -- places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "home", "socket"),
    [
        ({"TELLWIRE_HOME": "/h"}, "/h", "/h/socket"),
        ({"TELLWIRE_HOME": "/h", "XDG_RUNTIME_DIR": "/run/u"}, "/h", "/h/socket"),
        ({"XDG_STATE_HOME": "/s"}, "/s/tellwire", "/s/tellwire/socket"),
        ({"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/run/u"}, "/s/tellwire", "/run/u/tellwire/socket"),
        ({"TELLWIRE_HOME": "", "XDG_STATE_HOME": "/s"}, "/s/tellwire", "/s/tellwire/socket"),
    ],
)
def test_the_home_and_the_socket_follow_the_environment(
    environment: dict[str, str], home: str, socket: str
) -> None:
    settings = load_settings(environment=environment)
    assert (str(settings.home), str(settings.socket)) == (home, socket)


def test_without_any_word_the_home_is_in_the_users_own_folder() -> None:
    settings = load_settings(environment={})
    assert settings.home.is_relative_to(Path.home())
    assert settings.home.name == "tellwire"


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(Path("here")).home == tmp_path / "here"


def test_a_home_too_long_for_a_socket_gets_a_short_one_of_its_own(tmp_path: Path) -> None:
    first, second = (tmp_path / ("deep" * 30) / name for name in "ab")
    short, other = load(first).socket, load(second).socket
    assert len(os.fsencode(short)) <= SOCKET_PATH_BYTES_MAX
    assert short != other
    assert load(first).socket == short, "every client finds the same one"
    assert short.parent.name.startswith(f"tellwire-{os.getuid()}-")


# -- a broker started for a client --------------------------------------------------------------------

SECRETS = {
    "OPENAI_API_KEY": "k",
    "AWS_SECRET_ACCESS_KEY": "k",
    "GITHUB_TOKEN": "k",
    "PYTHONPATH": "/p",
    "LD_PRELOAD": "x",
}


def test_a_broker_started_for_a_client_inherits_no_keys(tmp_path: Path) -> None:
    kept = {"HOME": "/h", "PATH": "/bin", "LANG": "C", "XDG_STATE_HOME": "/s", "TELLWIRE_BEAT_S": "2"}
    settings = load(tmp_path)
    environment = broker_environment(settings, {**SECRETS, **kept})
    assert environment == {**kept, "TELLWIRE_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/h"},
        {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1"},
        {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1", "TELLWIRE_HOME": "/data"},
        {"HOME": "/h", "XDG_STATE_HOME": "/s", "TELLWIRE_HOME": "", "TELLWIRE_TTL_S": "5"},
    ],
)
def test_a_broker_started_for_a_client_listens_where_the_client_looks(environment: dict[str, str]) -> None:
    mine = load_settings(environment=environment)
    its = load_settings(environment=broker_environment(mine, environment))
    assert (its.home, its.socket, its.limits) == (mine.home, mine.socket, mine.limits)


def test_the_settings_read_nothing_but_their_file(tmp_path: Path) -> None:
    load(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    assert stat.S_ISDIR(tmp_path.stat().st_mode)
