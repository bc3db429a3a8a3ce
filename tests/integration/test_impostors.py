"""Another user in the broker's place: no client says a word to it, and none believes it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tellwire
from tellwire import TellwireError
from tellwire.paths import StrangerError, check_folder, check_peer
from tellwire.relay.waiter import wait
from tests.integration.world import ROOT, WITHIN_S, Home

NOBODY = 65_534
IS_ROOT = os.geteuid() == 0
# Who is not root cannot be somebody else: a folder that others may write to stands for theirs.
PLACES = (
    ["their-folder", "their-link", "open-folder", "their-listener"] if IS_ROOT else ["open-folder", "link"]
)
SECRET = "the launch code is 1234"


class Scene:
    """A home with a path so long that its socket is in the temporary directory, and who got there first."""

    def __init__(self, base: Path) -> None:
        self.home = Home(base / ("long-" * 25))
        self.home.path.mkdir(mode=0o700)
        self.socket = self.home.settings.socket
        self.folder = self.socket.parent
        self.heard = base / "heard"
        self.heard.touch()
        self.impostor: subprocess.Popen[bytes] | None = None

    def take(self, place: str) -> None:
        """Be in the broker's place before it is."""
        uid, when = NOBODY if IS_ROOT else -1, "bind"
        if place.endswith("link"):
            there = self.folder.with_name(f"{self.folder.name}-there")
            there.mkdir()
            self.folder.symlink_to(there)
        else:
            there = self.folder
            there.mkdir(mode=0o700)
        if place.startswith("their-") and place != "their-listener":
            os.chown(there, uid, -1)
            os.chown(self.folder, uid, -1, follow_symlinks=False)
        elif place == "their-listener":
            when = "listen"
        if place in ("open-folder", "link"):
            there.chmod(0o777)
        words = [sys.executable, "-m", "tests.integration.impostor", str(self.socket), str(self.heard)]
        self.impostor = subprocess.Popen([*words, str(uid), when], cwd=ROOT, stdout=subprocess.PIPE)
        assert self.impostor.stdout is not None
        assert self.impostor.stdout.readline() == b"ready\n"

    def check_silence(self) -> None:
        """The impostor was there, and has not heard a word."""
        assert self.impostor is not None
        assert self.impostor.poll() is None
        assert self.heard.read_bytes() == b""

    def end(self) -> None:
        """Leave nothing behind."""
        if self.impostor is not None:
            self.impostor.kill()
            self.impostor.communicate()
        self.home.end()
        there = self.folder.with_name(f"{self.folder.name}-there")
        if self.folder.is_symlink():
            self.folder.unlink()
        for folder in (self.folder, there):
            shutil.rmtree(folder, ignore_errors=True)

    def relay(self, program: str, *words: str) -> list[str]:
        """The command line of a program that runs inside a client."""
        return [sys.executable, "-I", "-S", str(ROOT / "src" / "tellwire" / "relay" / program), *words]


@pytest.fixture
def scene() -> Iterator[Scene]:
    base = Path(tempfile.mkdtemp(prefix="tlw-"))
    base.chmod(0o755)
    made = Scene(base)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(base, ignore_errors=True)


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("words", [("send", "bob", SECRET), ("list",), ("status",), ("inbox",)])
def test_the_command_line_refuses_an_impostor_and_says_what_to_do(
    scene: Scene, place: str, words: tuple[str, ...]
) -> None:
    scene.take(place)
    done = scene.home.tellwire(*words)
    scene.check_silence()
    assert done.returncode == 77, done
    assert "received" not in done.stdout
    assert str(scene.folder) in done.stderr or "belongs to another user" in done.stderr


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("place", PLACES)
async def test_the_sdk_refuses_an_impostor(scene: Scene, place: str) -> None:
    scene.take(place)
    with pytest.raises(TellwireError) as refused:
        async with tellwire.connect("alice", home=scene.home.path) as alice:
            await alice.send("bob", SECRET)
    assert refused.value.code == "forbidden"
    scene.check_silence()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "SessionStart"])
def test_a_hook_prints_nothing_of_what_an_impostor_says(scene: Scene, place: str, event: str) -> None:
    scene.take(place)
    payload = {
        "hook_event_name": event,
        "session_id": "s",
        "cwd": "/",
        "prompt": SECRET,
        "tool_name": "Write",
    }
    done = subprocess.run(
        scene.relay("hook.py", "claude-code"),
        input=json.dumps(payload).encode(),
        env=scene.home.environment(),
        capture_output=True,
        timeout=WITHIN_S,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    scene.check_silence()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("place", PLACES)
def test_a_waiter_says_nothing_to_an_impostor(scene: Scene, place: str) -> None:
    scene.take(place)
    with pytest.raises(StrangerError):
        wait(str(scene.socket), SECRET.encode(), os.getppid())
    scene.check_silence()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("place", PLACES)
async def test_a_shim_answers_its_client_without_a_word_to_the_impostor(scene: Scene, place: str) -> None:
    scene.take(place)
    shim = await asyncio.create_subprocess_exec(
        *scene.relay("mcp_shim.py"),
        env=scene.home.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert shim.stdin is not None
    assert shim.stdout is not None
    shim.stdin.write(b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
    async with asyncio.timeout(WITHIN_S):
        answer = json.loads(await shim.stdout.readline())
    assert answer["id"] == 7, "by a broker of our own, or by a refusal"
    shim.stdin.close()
    await shim.wait()
    assert scene.heard.read_bytes() == b""


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize(
    "place", [place for place in PLACES if place.startswith("their-f") or "link" in place]
)
def test_a_broker_does_not_move_into_a_folder_that_is_not_its_own(scene: Scene, place: str) -> None:
    scene.take(place)
    done = scene.home.tellwire("up", "--detach")
    if IS_ROOT:
        assert done.returncode == 77
        assert "shorter path" in done.stderr
    else:  # its own link, to a folder of its own that it closes to others
        assert done.returncode == 0
        assert stat.S_IMODE(scene.folder.stat().st_mode) == 0o700


@pytest.mark.requirement("SEC-1")
def test_a_long_home_has_its_socket_in_a_folder_that_is_closed_to_others(scene: Scene) -> None:
    scene.home.up()
    assert stat.S_IMODE(scene.folder.lstat().st_mode) == 0o700
    assert scene.home.tellwire("list").returncode == 0


@pytest.mark.requirement("SEC-1")
def test_a_listener_is_known_by_its_user(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        path = tempfile.mkdtemp(prefix="tlw-")
        try:
            listener.bind(f"{path}/socket")
            listener.listen()
            client.connect(f"{path}/socket")
            check_peer(client)
            with pytest.raises(StrangerError):
                check_peer(client, os.geteuid() + 1)
        finally:
            shutil.rmtree(path)


@pytest.mark.requirement("SEC-1")
def test_a_loose_folder_is_refused_only_once_somebody_may_have_used_it(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0o775)
    check_folder(str(folder / "socket"))
    (folder / "socket").touch()
    with pytest.raises(StrangerError, match="chmod 700"):
        check_folder(str(folder / "socket"))
    folder.chmod(0o755)
    check_folder(str(folder / "socket"))
    (tmp_path / "link").symlink_to(folder)
    check_folder(str(tmp_path / "link" / "socket"))
    with pytest.raises(FileNotFoundError):
        check_folder(str(tmp_path / "none" / "socket"))
    with pytest.raises(StrangerError):
        check_folder(str(folder / "socket" / "socket"))
