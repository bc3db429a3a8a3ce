"""Installing and taking out again, on real files: byte for byte, and nothing foreign is touched."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tellwire.clients import BY_NAME
from tellwire.clients.client import InstallPlace, Programs, Scope, Target
from tellwire.install.apply import carry_out
from tellwire.install.diffs import render_diff
from tellwire.install.endpoint import load_endpoint, peek_endpoint
from tellwire.install.entries import find_lacks
from tellwire.install.formats import jsonc
from tellwire.install.formats.file_format import format_of
from tellwire.install.plan import Change, plan_install, plan_uninstall
from tellwire.install.records import load_records
from tellwire.protocol.errors import TellwireError
from tests.unit.test_install_jsonc import texts as json_texts
from tests.unit.test_install_toml import texts as toml_texts

QUIET = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
WORDS = sorted(BY_NAME)


class Desk:
    """A person's home folder with a broker's home in it."""

    def __init__(self, root: Path, *, scope: Scope = "user", env: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.home = str(root / "tellwire-home")
        project = root / "project"
        project.mkdir(exist_ok=True)
        self.place = InstallPlace(home=str(root), project=str(project), scope=scope, env=env or {})
        self.programs = self.at("/opt/tellwire")

    def at(self, folder: str) -> Programs:
        """The programs of an installation at another place."""
        relay = f"{folder}/tellwire/relay"
        return Programs(
            server=("/usr/bin/python3", "-I", "-S", f"{relay}/mcp_shim.py"),
            python="/usr/bin/python3",
            relay=relay,
            marks=f"{self.home}/marks",
        )

    def targets(self, word: str) -> list[Target]:
        return BY_NAME[word].targets(self.place, self.programs)

    def install(self, word: str) -> list[Change]:
        changes = plan_install(BY_NAME[word], self.place, self.targets(word), load_records(self.home))
        carry_out(changes, self.home)
        return changes

    def uninstall(self, word: str) -> list[Change]:
        changes = plan_uninstall(BY_NAME[word], self.targets(word), load_records(self.home))
        carry_out(changes, self.home)
        return changes

    def files(self) -> dict[str, bytes]:
        """Everything but the broker's home."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and "tellwire-home" not in path.parts
        }


@contextmanager
def desk(scope: Scope = "user") -> Generator[Desk]:
    """One for an example; a fixture would be shared by all of them."""
    with tempfile.TemporaryDirectory() as folder:
        yield Desk(Path(folder), scope=scope)


@pytest.fixture
def here(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def write(path: str, data: str | bytes) -> None:
    """Write a file of a client."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(data if isinstance(data, bytes) else data.encode())


def meaning(target: Target) -> Any:
    """What the file says now."""
    return format_of(target).load(Path(target.path).read_text("utf-8"))


def is_sane(text: str) -> bool:
    """Whether no random key is in our way."""
    return not {"hooks", "mcp", "mcpServers", "permission", "permissions"} & set(jsonc.parse(text).value)


def is_whole(target: Target) -> bool:
    """Whether a file is ours as a whole, a plugin."""
    return target.format == "whole"


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("word", WORDS)
def test_a_file_that_was_not_there_comes_and_goes_with_its_folders(
    tmp_path: Path, word: str, scope: Scope
) -> None:
    desk = Desk(tmp_path, scope=scope)
    before = sorted(tmp_path.rglob("*"))
    changes = desk.install(word)
    assert all(change.seen.data is None and not change.backup for change in changes)
    for target in desk.targets(word):
        assert not find_lacks(meaning(target), target.entries)
        assert os.stat(target.path).st_mode & 0o777 == (0o600 if scope == "user" else 0o644)
    assert desk.install(word) == []
    desk.uninstall(word)
    shutil.rmtree(desk.home)
    assert sorted(tmp_path.rglob("*")) == before


@QUIET
@given(st.sampled_from(["claude", "gemini", "opencode"]), st.data())
def test_any_json_file_is_restored_byte_for_byte(word: str, data: st.DataObject) -> None:
    text = data.draw(json_texts(comments=word != "claude", commas=word == "opencode"))
    assume(is_sane(text))
    with desk() as here:
        edited = [target for target in here.targets(word) if not is_whole(target)]
        for target in edited:
            write(target.path, text)
        before = here.files()
        here.install(word)
        for target in edited:
            assert not find_lacks(meaning(target), target.entries)
            kept = {key: value for key, value in meaning(target).items() if key in jsonc.parse(text).value}
            assert kept == jsonc.parse(text).value
        assert here.install(word) == []
        here.uninstall(word)
        assert here.files() == before


@QUIET
@given(toml_texts(), st.booleans())
def test_any_toml_file_is_restored_byte_for_byte(text: str, whole: bool) -> None:
    text = text if whole else text.rstrip("\r\n")
    with desk() as here:
        (target,) = here.targets("codex")
        write(target.path, text)
        before = here.files()
        here.install("codex")
        assert here.files() != before
        assert here.install("codex") == []
        here.uninstall("codex")
        assert here.files() == before


@QUIET
@given(st.sampled_from(["gemini", "opencode"]), st.booleans(), json_texts(), st.data())
def test_what_others_write_in_the_meantime_is_kept(
    word: str, recorded: bool, more: str, data: st.DataObject
) -> None:
    text = data.draw(json_texts(commas=word == "opencode"))
    assume(is_sane(text) and "later" not in jsonc.parse(text).value)
    with desk() as here:
        target, *_ = here.targets(word)
        write(target.path, text)
        here.install(word)
        if not recorded:
            os.unlink(os.path.join(here.home, "installed.json"))
        changed = jsonc.insert(Path(target.path).read_bytes().decode(), ("later",), jsonc.parse(more).value)
        write(target.path, changed)
        here.uninstall(word)
        wanted = {**jsonc.parse(text).value, "later": jsonc.parse(more).value}
        assert meaning(target) == wanted
        if jsonc.parse(text).value:
            left = Path(target.path).read_bytes().decode()
            assert jsonc.remove(left, ("later",)) == text


@pytest.mark.parametrize("word", WORDS)
def test_a_move_of_tellwire_is_set_right_and_still_undone(here: Desk, word: str) -> None:
    for target in [each for each in here.targets(word) if not is_whole(each)]:
        write(target.path, "" if target.path.endswith(".toml") else '{\n  "mine": 1\n}\n')
    before = here.files()
    here.install(word)
    here.programs = here.at("/elsewhere/lib")
    assert all(
        lack.outdated for target in here.targets(word) for lack in find_lacks(meaning(target), target.entries)
    )
    assert here.install(word)
    texts = [Path(target.path).read_text("utf-8") for target in here.targets(word)]
    assert not any("/opt/tellwire" in text for text in texts)
    assert here.install(word) == []
    here.uninstall(word)
    assert here.files() == before


def test_an_upgrade_leaves_the_command_lines_as_they_are(here: Desk) -> None:
    """Codex hashes them: another word, and its human has to trust them again."""
    programs = here.at("/opt/my tools")
    hook = "'/opt/my tools/tellwire/relay/hook.py'"
    run = f"[ -x /usr/bin/python3 ] && [ -f {hook} ] && exec /usr/bin/python3 -I -S {hook} codex; exit 0"
    assert programs.hook("codex") == run
    home = here.home
    assert programs.gate("codex") == f"[ -e {home}/marks/$PPID ] && [ ! -e {home}/stalled/$PPID ] && {run}"
    assert programs.guard("codex") == f"[ -e {home}/guards/$PPID ] && {run}"
    assert programs.waiter("claude-code") == (
        run.replace("hook.py", "waiter.py").replace(" codex;", " claude-code;")
    )


def test_a_server_of_our_name_that_was_there_before_comes_back(here: Desk) -> None:
    (target,) = here.targets("gemini")
    mine = '{"mcpServers": {"tellwire": {"command": "tellwire", "args": ["mcp"]}}, "x": 1}'
    write(target.path, mine)
    here.install("gemini")
    changed = Path(target.path).read_text("utf-8").replace('"x": 1', '"x": 2')
    write(target.path, changed)
    here.uninstall("gemini")
    assert Path(target.path).read_text("utf-8") == mine.replace('"x": 1', '"x": 2')


def test_a_codex_server_of_our_name_that_was_there_before_comes_back(here: Desk) -> None:
    (target,) = here.targets("codex")
    mine = '[mcp_servers.tellwire]\ncommand = "tellwire" # mine\nargs = ["mcp"]\n\n[other]\nx = 1\n'
    write(target.path, mine)
    here.install("codex")
    write(target.path, Path(target.path).read_text("utf-8").replace("x = 1", "x = 2"))
    here.uninstall("codex")
    assert Path(target.path).read_text("utf-8") == mine.replace("x = 1", "x = 2")


def test_a_permission_that_was_there_before_stays(here: Desk) -> None:
    _, settings_file = here.targets("claude")
    mine = '{\n  "permissions": {"allow": ["mcp__tellwire__*"]}\n}\n'
    write(settings_file.path, mine)
    here.install("claude")
    write(settings_file.path, Path(settings_file.path).read_text("utf-8") + "\n")
    here.uninstall("claude")
    assert Path(settings_file.path).read_text("utf-8") == mine + "\n"


def test_a_foreign_hook_in_our_group_stays(here: Desk) -> None:
    _, settings_file = here.targets("claude")
    here.install("claude")
    document = copy.deepcopy(meaning(settings_file))
    document["hooks"]["Stop"][0]["hooks"].insert(1, {"type": "command", "command": "mine"})
    write(settings_file.path, json.dumps(document))
    here.uninstall("claude")
    left = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert meaning(settings_file) == left


def test_one_word_for_all_permissions_becomes_a_rule_and_a_word_again(here: Desk) -> None:
    target, *_ = here.targets("opencode")
    write(target.path, '{"permission": "ask"}')
    here.install("opencode")
    assert meaning(target)["permission"] == {"*": "ask", "tellwire_*": "allow"}
    write(target.path, Path(target.path).read_text("utf-8") + "\n")
    here.uninstall("opencode")
    assert Path(target.path).read_text("utf-8") == '{"permission": "ask"}\n'


def test_where_everything_is_allowed_no_rule_is_needed(here: Desk) -> None:
    target, *_ = here.targets("opencode")
    write(target.path, '{"permission": "allow"}')
    here.install("opencode")
    assert meaning(target)["permission"] == "allow"


def test_opencode_s_screen_gets_a_file_that_does_not_keep_it_from_moving_older_settings(here: Desk) -> None:
    _, _, screen, plugin = here.targets("opencode")
    here.install("opencode")
    folder = here.root / ".config" / "opencode"
    assert meaning(screen)["plugin"] == ["./tellwire/screen.js"]
    assert (folder / "tui.jsonc", folder / "tellwire/screen.js") == (Path(screen.path), Path(plugin.path))
    assert not (folder / "tui.json").exists()
    here.uninstall("opencode")
    write(str(folder / "tui.json"), '{"plugin": ["mine"]}')
    here.install("opencode")
    assert json.loads((folder / "tui.json").read_text())["plugin"] == ["mine", "./tellwire/screen.js"]


def test_opencode_keeps_the_name_of_its_file(here: Desk) -> None:
    folder = here.root / ".config" / "opencode"
    write(str(folder / "opencode.jsonc"), "{\n  // mine\n}\n")
    here.install("opencode")
    assert not (folder / "opencode.json").exists()
    write(str(folder / "opencode.json"), "{}\n")
    here.uninstall("opencode")
    assert (folder / "opencode.jsonc").read_text("utf-8") == "{\n  // mine\n}\n"


def test_a_byte_order_mark_and_windows_lines_stay(here: Desk) -> None:
    (target,) = here.targets("gemini")
    write(target.path, b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')
    here.install("gemini")
    data = Path(target.path).read_bytes()
    assert data.startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n')
    assert data.count(b"\n") == data.count(b"\r\n")


def test_half_an_emoji_and_other_oddities_of_foreign_settings_are_no_trouble(here: Desk) -> None:
    state, _ = here.targets("claude")
    odd = '{"history": ["cut \\ud83d", 1e400, 123456789012345678901234567890, "\\u0000"], "": {}}'
    write(state.path, odd)
    here.install("claude")
    write(state.path, Path(state.path).read_text("utf-8") + "\n")
    here.uninstall("claude")
    assert Path(state.path).read_text("utf-8") == odd + "\n"


def test_numbers_that_are_none_are_no_trouble_in_toml(here: Desk) -> None:
    (target,) = here.targets("codex")
    write(target.path, "x = [nan, inf, 07:32:00, 1979-05-27]\n")
    here.install("codex")
    write(target.path, Path(target.path).read_text("utf-8") + "\n")
    here.uninstall("codex")
    assert Path(target.path).read_text("utf-8") == "x = [nan, inf, 07:32:00, 1979-05-27]\n\n"


def test_variables_of_the_clients_are_followed(tmp_path: Path) -> None:
    env = {
        "CODEX_HOME": "/c",
        "CLAUDE_CONFIG_DIR": "/d",
        "XDG_CONFIG_HOME": "/x",
        "GEMINI_CLI_HOME": "/g",
        "PI_CODING_AGENT_DIR": "/p",
    }
    desk = Desk(tmp_path, env=env)
    paths = [target.path for word in WORDS for target in desk.targets(word)]
    assert paths == [
        "/d/.claude.json",
        "/d/settings.json",
        "/c/config.toml",
        "/g/.gemini/settings.json",
        "/x/opencode/opencode.json",
        "/x/opencode/plugins/tellwire.js",
        "/x/opencode/tui.jsonc",
        "/x/opencode/tellwire/screen.js",
        "/p/extensions/tellwire.ts",
    ]


@pytest.mark.parametrize("word", WORDS)
def test_no_token_is_in_a_client_s_file(here: Desk, word: str) -> None:
    here.install(word)
    assert not [
        name for name, data in here.files().items() if b"Bearer" in data and not name.endswith((".js", ".ts"))
    ]


@pytest.mark.parametrize(
    "text",
    ['{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"permissions": {"allow": "all"}}', "[]", '{"hooks": 1}'],
)
def test_something_else_in_our_place_is_refused_and_stays(here: Desk, text: str) -> None:
    _, settings_file = here.targets("claude")
    write(settings_file.path, text)
    before = here.files()
    with pytest.raises(TellwireError, match="line 1, column") as caught:
        here.install("claude")
    assert (caught.value.code, here.files()) == ("bad_request", before)


@pytest.mark.parametrize("text", ["hooks = {}\n", "[hooks]\nStop = []\n", "mcp_servers = {}\n"])
def test_toml_that_cannot_hold_our_tables_is_refused_and_stays(here: Desk, text: str) -> None:
    (target,) = here.targets("codex")
    write(target.path, text)
    assert tomllib.loads(text) is not None
    with pytest.raises(TellwireError, match=r"config\.toml, line 1, column"):
        here.install("codex")
    assert Path(target.path).read_text("utf-8") == text


def test_a_change_in_the_meantime_is_not_overwritten(here: Desk) -> None:
    (target,) = here.targets("gemini")
    write(target.path, "{}")
    changes = plan_install(BY_NAME["gemini"], here.place, here.targets("gemini"), load_records(here.home))
    write(target.path, '{"new": 1}')
    with pytest.raises(TellwireError) as caught:
        carry_out(changes, here.home)
    assert caught.value.code == "conflict"
    assert Path(target.path).read_text("utf-8") == '{"new": 1}'


def test_when_the_second_file_fails_the_first_is_as_before(here: Desk) -> None:
    state, settings_file = here.targets("claude")
    write(state.path, "{}")
    write(settings_file.path, "{}")
    before = here.files()
    changes = plan_install(BY_NAME["claude"], here.place, [state, settings_file], load_records(here.home))
    changes[1] = msgspec.structs.replace(changes[1], backup=str(here.root / "no such folder" / "copy"))
    with pytest.raises(TellwireError) as caught:
        carry_out(changes, here.home)
    assert caught.value.code == "forbidden"
    assert here.files() == before
    assert load_records(here.home).files == ()


def test_a_diff_tells_of_a_missing_newline(here: Desk) -> None:
    (target,) = here.targets("codex")
    write(target.path, "a = 1")
    (change,) = plan_install(BY_NAME["codex"], here.place, here.targets("codex"), load_records(here.home))
    diff = render_diff(change, home=str(here.root))
    assert diff.startswith("--- ~/.codex/config.toml\n+++ ~/.codex/config.toml\n")
    assert "-a = 1\n\\ No newline at end of file\n+a = 1\n" in diff


def test_the_endpoint_is_chosen_once_and_kept_private(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert peek_endpoint(home) is None
    first = load_endpoint(home)
    assert load_endpoint(home) == first == peek_endpoint(home)
    assert len(bytes.fromhex(first.token)) == 32
    assert 20_000 <= first.port < 32_768
    assert os.stat(tmp_path / "home" / "hooks.json").st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", '{"port": 0, "token": "a"}', '{"port": 80, "token": "a b"}'])
def test_a_damaged_endpoint_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "hooks.json").write_text(text)
    with pytest.raises(TellwireError, match=r"hooks\.json"):
        load_endpoint(str(tmp_path))
