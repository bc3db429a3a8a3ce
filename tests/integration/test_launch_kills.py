"""Children and a broker that is killed, or told to stop them, at the worst moment of a start or an end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tellwire
from tellwire.children.environments import plain_of
from tellwire.children.leftovers import clear_leftovers
from tellwire.relay import child as gate
from tests.integration.test_spawning import SLEEP, end_children, none_left, processes_of, spawn, tmux
from tests.integration.world import Home, Join, read_proc, until

TMUX = """#!/bin/sh
{real} "$@"
code=$?
case "$*" in
  *new-session*) if rm {flag}; then {then}; fi ;;
esac
exit $code
"""
"""A tmux that does something once, right after it has opened a window and before anybody hears so."""


@pytest.fixture
async def boss(home: Home, join: Join) -> AsyncIterator[tellwire.Agent]:
    """An agent that has children; whatever it started ends with the test."""
    try:
        yield await join("boss")
    finally:
        home.end()
        await asyncio.to_thread(tmux, home, "kill-server")
        end_children(home)


@pytest.fixture
def flag(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Beside it `then` says what tmux does once while this file is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    flag, then = tmp_path / "flag", tmp_path / "then"
    script = folder / "tmux"
    script.write_text(TMUX.format(real=shutil.which("tmux"), flag=flag, then=f". {then}"))
    script.chmod(0o700)
    home.end()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    home.up()
    return flag


def raise_flag(flag: Path, then: str) -> None:
    flag.with_name("then").write_text(then)
    flag.touch()


@pytest.mark.requirement("CHILD-3", "CHILD-6", stage="lineage")
async def test_a_window_left_by_a_broker_that_was_killed_takes_no_name(
    home: Home, flag: Path, boss: tellwire.Agent
) -> None:
    raise_flag(flag, f"kill -9 $(cat {home.path / 'broker.lock'})")
    with pytest.raises(tellwire.TellwireError) as caught:
        await spawn(boss, "kid", *SLEEP, headless=False)
    await until(lambda: not flag.exists(), what="the broker was killed")
    assert "request id" not in caught.value.message, caught.value
    assert (await spawn(boss, "kid", *SLEEP, headless=False)).status == "running"
    assert tmux(home, "list-sessions", "-F", "#{session_name}") == "kid\n"
    (server,) = tmux(home, "display-message", "-p", "#{pid}").split()
    assert b"TELLWIRE_CHILD" not in read_proc(int(server), "environ"), "it outlives the child"


@pytest.mark.requirement("CHILD-3", "CHILD-4", stage="lineage")
async def test_a_child_that_is_being_started_is_stopped_at_once(
    home: Home, flag: Path, boss: tellwire.Agent
) -> None:
    raise_flag(flag, "sleep 4")
    call = asyncio.ensure_future(spawn(boss, "kid", *SLEEP, headless=False))
    await until(lambda: not flag.exists(), what="it is being started")
    began = time.monotonic()
    assert (await boss.children.stop("kid")).status == "stopping"
    with pytest.raises(tellwire.TellwireError) as caught:
        await call
    assert time.monotonic() - began < 3, "it waits for what is not wanted any more"
    assert caught.value.message == "'kid' did not start: It was stopped before it was started."
    assert await boss.children.all() == []
    await until(lambda: not tmux(home, "list-sessions"), what="its window is gone")
    await none_left(home)


@pytest.mark.requirement("CHILD-3", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("die", [True, False], ids=["processes die", "processes live"])
async def test_a_child_asked_of_a_broker_that_has_just_begun_comes_up(
    home: Home, boss: tellwire.Agent, die: bool
) -> None:
    await asyncio.gather(*(spawn(boss, f"kid{number}", *SLEEP) for number in range(4)))
    for number in range(3):
        old = processes_of(home)
        home.signal(Home.KILL)
        for pid in old if die else ():
            os.kill(pid, signal.SIGKILL)
        assert (await spawn(boss, f"new{number}", *SLEEP)).status == "running"


@pytest.mark.requirement("CHILD-3", "CHILD-6", stage="lineage")
async def test_a_client_that_was_being_ended_when_the_broker_was_killed_is_ended_by_the_next(
    home: Home, boss: tellwire.Agent, tmp_path: Path
) -> None:
    stranger = await asyncio.create_subprocess_exec(
        *SLEEP, env={**os.environ, "TELLWIRE_HOME": str(tmp_path)}
    )
    words = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    asked = asyncio.ensure_future(boss.children.ask("command", "What?", command=words))
    await until(lambda: processes_of(home), what="it runs")
    await until(lambda: has_begun(home), what="it will not end when it is asked to")
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await until(lambda: is_childless(boss), what="it is no child any more")
    home.signal(Home.KILL)
    assert processes_of(home), "it was ended too early for this test"
    assert await boss.children.all() == []
    await none_left(home)
    assert stranger.returncode is None
    stranger.kill()
    await stranger.wait()


def test_only_what_was_a_child_of_this_home_is_ended(tmp_path: Path) -> None:
    home, folder = str(tmp_path / "home"), tmp_path / "children"
    mine = {"TELLWIRE_HOME": home, "TELLWIRE_CHILD": "c"}
    given = {
        "a1": mine,
        "a2": mine,
        "a3": {**mine, "TELLWIRE_HOME": f"{home}2"},
        "a4": {"TELLWIRE_HOME": home},
    }
    started = {
        name: subprocess.Popen(SLEEP, env={"PATH": os.environ["PATH"], **env}, start_new_session=True)
        for name, env in given.items()
    }
    try:
        for name, process in started.items():
            (folder / name).mkdir(parents=True)
            (folder / name / "process").write_text(f"{process.pid}.1")
        for name, garbage in (("b1", b"\xff\0"), ("b2", b"9" * 5_000), ("b3", b"-1.5"), ("b4", b"")):
            (folder / name).mkdir()
            (folder / name / "process").write_bytes(garbage)
        (folder / "b5").mkdir()
        os.mkfifo(folder / "b5" / "process")
        clear_leftovers(folder, {"a2": ""}, home)
        assert [each.name for each in folder.iterdir()] == ["a2"]
        assert started["a1"].wait(5) == -signal.SIGTERM
        assert [name for name, process in started.items() if process.poll() is None] == ["a2", "a3", "a4"]
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def has_begun(home: Home) -> bool:
    return any(b"sleep" in read_proc(pid, "cmdline").partition(b"\0")[0] for pid in processes_of(home))


async def is_childless(boss: tellwire.Agent) -> bool:
    return await boss.children.all() == []


def test_who_gives_up_waiting_for_leave_leaves_no_key_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = tmp_path / "launch.json"
    launch.write_text('{"argv": ["true"], "env": {"OPENAI_API_KEY": "k"}, "cwd": "/"}')
    monkeypatch.setattr(gate, "WAIT_S", 0.0)
    assert gate.main(str(tmp_path)) == gate.EXIT_GIVEN_UP
    assert not launch.exists()


def test_what_outlives_a_child_gets_none_of_its_keys() -> None:
    given = {"PATH": "/bin", "XDG_RUNTIME_DIR": "/run", "OPENAI_API_KEY": "k", "TELLWIRE_CHILD": "c"}
    assert plain_of(given) == {"PATH": "/bin", "XDG_RUNTIME_DIR": "/run"}
