"""Children as real processes: windows, output, signals, a broker that is killed; nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tellwire.children.environments import environment_of
from tests.integration.world import ROOT, Home, Join, read_proc, take, tellwire_command, until
from tests.surfaces.cli_world import run

SLEEP = ["sleep", "300"]
ANSWERING = """
import asyncio, tellwire
async def main():
    async with tellwire.connect("whoever") as me:
        (task,) = await me.messages(wait_s=30)
        await me.confirm([task])
        await me.send(task.sender, f"{me.name} did {task.body}", re=task.id)
        await asyncio.Event().wait()
asyncio.run(main())
"""


SHIMMING = f"""
import json, subprocess, sys, time
shim = subprocess.Popen([sys.executable, "-I", "-S", {str(ROOT / "src/tellwire/relay/mcp_shim.py")!r}],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(**words):
    shim.stdin.write(json.dumps({{"jsonrpc": "2.0", **words}}) + "\\n")
    shim.stdin.flush()
def ask(n, method, **params):
    say(id=n, method=method, params=params)
    while json.loads(shim.stdout.readline()).get("id") != n:
        pass
ask(1, "initialize", protocolVersion="2025-11-25", capabilities={{}},
    clientInfo={{"name": "codex-mcp-client", "version": "1"}})
say(method="notifications/initialized")
ask(2, "tools/call", name="agent_send", arguments={{"to": "boss", "body": "by my tools"}})
time.sleep(300)
"""


def processes_of(home: Home) -> list[int]:
    """Living processes that were started as children in this home."""
    mark = f"TELLWIRE_HOME={home.path}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            pid = int(entry.name)
            words = read_proc(pid, "environ").split(b"\0")
            child = any(word.startswith(b"TELLWIRE_CHILD=") for word in words)
            if mark in words and child and read_proc(pid, "cmdline"):
                found.append(pid)
    return found


def end_children(home: Home) -> None:
    """End what is left of them; some end by themselves meanwhile."""
    for pid in processes_of(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tmux(home: Home, *words: str) -> str:
    """What a command to the home's own tmux says; nothing if it does not run."""
    command = ["tmux", "-S", str(home.path / "children" / "tmux"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture
async def boss(home: Home, join: Join) -> AsyncIterator[tellwire.Agent]:
    """An agent that has children; whatever it started ends with the test."""
    try:
        yield await join("boss")
    finally:
        home.end()
        await asyncio.to_thread(tmux, home, "kill-server")
        end_children(home)


async def spawn(boss: tellwire.Agent, name: str, *words: str, **options: Any) -> Any:
    given: dict[str, Any] = {"headless": True, **options}
    return await boss.children.spawn(name, "command", "the task", command=words, **given)


async def none_left(home: Home) -> None:
    await until(lambda: not processes_of(home), what="a child's process is left")
    folder = home.path / "children"
    await until(lambda: not list(folder.glob("a*")), what="a child's folder is left")


async def refused(boss: tellwire.Agent, name: str, *words: str, **options: Any) -> str:
    with pytest.raises(tellwire.TellwireError) as caught:
        await spawn(boss, name, *words, **options)
    assert caught.value.code == "child_failed", caught.value
    return caught.value.message


# -- coming up ----------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-1", "CHILD-3", "CHILD-4", stage="lineage")
async def test_any_program_is_started_gets_its_task_and_its_last_words_come_back(
    home: Home, boss: tellwire.Agent
) -> None:
    record = await spawn(boss, "kid", "sh", "-c", "echo working; sleep 3; echo the result")
    assert (record.status, record.parent) == ("running", "boss")
    assert [each.name for each in await boss.children.all()] == ["kid"]
    assert (await boss.peer("kid")).reason == "child"
    assert (await boss.peer("kid")).pending == 1, "its task waits"
    (ending,) = await take(boss, 1)
    assert ending.body == "Your child kid has ended. It said last:\nworking\nthe result"
    await none_left(home)
    assert await boss.children.all() == []
    shown = run(home, "children").out
    assert shown.startswith("No children are running.\nkid (command of boss) has ended, ")


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_a_child_that_speaks_is_that_child_whatever_it_calls_itself(
    home: Home, boss: tellwire.Agent
) -> None:
    await spawn(boss, "kid", sys.executable, "-c", ANSWERING, cwd=str(ROOT))
    (answer,) = await take(boss, 1)
    assert (answer.sender, answer.body) == ("kid", "kid did the task")
    assert (await boss.peer("kid")).status == "online"


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_a_command_that_a_child_runs_speaks_as_the_child(home: Home, boss: tellwire.Agent) -> None:
    program = f"{shlex.join(tellwire_command('send', 'boss', 'from below'))}; exec sleep 300"
    await spawn(boss, "kid", "sh", "-c", program, cwd=str(ROOT))
    (message,) = await take(boss, 1)
    assert (message.sender, message.body) == ("kid", "from below")


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_the_tools_of_a_childs_client_speak_as_the_child(home: Home, boss: tellwire.Agent) -> None:
    await spawn(boss, "kid", sys.executable, "-c", SHIMMING, cwd=str(ROOT))
    (message,) = await take(boss, 1)
    assert (message.sender, message.body) == ("kid", "by my tools")
    assert (await boss.peer("kid")).status == "online"
    home.signal(Home.KILL)
    await until(lambda: is_online(boss, "kid"), what="the child's tools came back as the child")


async def is_online(boss: tellwire.Agent, name: str) -> bool:
    return (await boss.peer(name)).status == "online"


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_a_child_has_a_window_that_can_be_looked_at(home: Home, boss: tellwire.Agent) -> None:
    assert shutil.which("tmux"), "the suite needs tmux"
    record = await spawn(boss, "kid.1", "sh", "-c", "echo shown; exec sleep 300", headless=False)
    assert record.place == "tmux window kid.1"
    words = json.loads(run(home, "attach", "kid.1", "--json").out)["command"]
    assert str(home.path / "children" / "tmux") in words
    window = f"{words[-1]}:"

    await until(lambda: "shown" in tmux(home, "capture-pane", "-p", "-t", window))
    await boss.children.stop("kid.1")
    (ending,) = await take(boss, 1)
    assert "was ended" in str(ending.body)
    await none_left(home)


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_without_tmux_a_child_has_no_window_and_tells_its_last_words(
    home: Home, join: Join, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home.end()
    monkeypatch.setenv("PATH", str(tmp_path))  # where the broker finds nothing
    home.up()
    boss = await join("boss")
    record = await spawn(boss, "kid", "/bin/sh", "-c", "/bin/sleep 3; echo the result", headless=False)
    assert record.place == str(home.path / "children" / record.id / "output")
    (ending,) = await take(boss, 1)
    assert ending.body == "Your child kid has ended. It said last:\nthe result"
    await none_left(home)


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_the_window_of_a_child_that_took_another_name_is_found_and_ends_with_it(
    home: Home, boss: tellwire.Agent
) -> None:
    sending = 'name="agent_send", arguments={"to": "boss", "body": "by my tools"}'
    assert sending in SHIMMING
    program = SHIMMING.replace(sending, 'name="announce", arguments={"name": "other"}')
    await spawn(boss, "kid", sys.executable, "-c", program, cwd=str(ROOT), headless=False)
    await until(lambda: knows(boss, "other"), what="the other name")
    words = json.loads((await asyncio.to_thread(run, home, "attach", "other", "--json")).out)["command"]
    assert words[-1] == "=kid"
    await boss.children.stop("other")
    (ending,) = await take(boss, 1)
    assert "Your child other was ended." in str(ending.body)
    await none_left(home)
    assert not tmux(home, "list-sessions")


async def knows(boss: tellwire.Agent, child: str) -> bool:
    return [each.name for each in await boss.children.all()] == [child]


@pytest.mark.requirement("CHILD-3", stage="lineage")
@pytest.mark.parametrize("headless", [True, False], ids=["headless", "window"])
async def test_a_program_that_exits_at_once_is_refused_with_its_own_words(
    home: Home, boss: tellwire.Agent, tmp_path: Path, headless: bool
) -> None:
    told = await refused(
        boss, "kid", "sh", "-c", "echo no key found >&2; exit 3", headless=headless, scope=[str(tmp_path)]
    )
    assert "'kid' did not start: It ended before it was ready." in told
    assert "no key found" in told
    await none_left(home)
    assert await boss.children.all() == []
    assert await boss.scopes.all() == [], "a reservation is left"
    assert not [each for each in await boss.peers(all=True) if each.name == "kid"], "its name is free"
    await spawn(boss, "kid", *SLEEP, scope=[str(tmp_path)])


@pytest.mark.requirement("CHILD-3", stage="lineage")
async def test_what_cannot_be_started_is_told_and_leaves_nothing(home: Home, boss: tellwire.Agent) -> None:
    assert "is not installed" in await refused(boss, "a", "no-such-program-anywhere")
    assert "There is no folder" in await refused(boss, "b", *SLEEP, cwd="/no/such/folder")
    assert "No command was given" in await refused(boss, "c")
    with pytest.raises(tellwire.TellwireError) as caught:
        await boss.children.spawn("d", "no-such-client", "t")
    assert "Use one of claude-code" in caught.value.message
    await none_left(home)


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_a_child_begins_with_a_clean_environment(
    home: Home, boss: tellwire.Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spawn(boss, "kid", *SLEEP)
    (pid,) = processes_of(home)
    words = {word.partition(b"=")[0] for word in read_proc(pid, "environ").split(b"\0") if word}
    assert {b"PATH", b"TELLWIRE_HOME", b"TELLWIRE_CHILD"} <= words
    assert not [name for name in words if b"KEY" in name or b"TOKEN" in name or b"PYTEST" in name]
    given = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "o",
        "ANTHROPIC_API_KEY": "a",
        "TELLWIRE_CHILD": "mine",
        "X": "x",
    }
    assert environment_of("codex", given, {"TELLWIRE_CHILD": "own"}) == {
        "PATH": "/bin",
        "OPENAI_API_KEY": "o",
        "TELLWIRE_CHILD": "own",
        "TERM": "xterm-256color",
    }
    assert "OPENAI_API_KEY" not in environment_of("command", given, {})


# -- the end ------------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_stop_ends_the_whole_process_group_also_one_that_will_not(
    home: Home, boss: tellwire.Agent
) -> None:
    program = "trap '' TERM; sleep 300 & sleep 300 & while :; do wait; done"
    await spawn(boss, "kid", "sh", "-c", program)
    await until(lambda: len(processes_of(home)) >= 3)
    assert (await boss.children.stop("kid")).status == "stopping"
    assert (await boss.children.stop("kid")).status == "stopping"
    (ending,) = await take(boss, 1)
    assert str(ending.body).startswith("Your child kid was ended.")
    await none_left(home)


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_what_a_child_leaves_running_in_its_group_ends_with_it(
    home: Home, boss: tellwire.Agent
) -> None:
    await spawn(boss, "kid", "sh", "-c", "sh -c 'trap \"\" TERM; sleep 300' & sleep 1.3; echo done")
    (ending,) = await take(boss, 1)
    assert str(ending.body).endswith("It said last:\ndone")
    await none_left(home)


@pytest.mark.requirement("CHILD-4", stage="lineage")
async def test_a_child_that_is_killed_is_noticed_at_once(
    home: Home, boss: tellwire.Agent, tmp_path: Path
) -> None:
    await spawn(boss, "kid", *SLEEP, scope=[str(tmp_path)])
    (pid,) = processes_of(home)
    os.kill(pid, signal.SIGKILL)
    (ending,) = await take(boss, 1)
    assert str(ending.body).startswith("Your child kid was killed. Its scope is yours again.")
    assert await boss.scopes.all() == []


@pytest.mark.requirement("CHILD-6", stage="lineage")
async def test_a_child_outlives_the_broker_and_is_watched_again(home: Home, boss: tellwire.Agent) -> None:
    await spawn(boss, "kid", *SLEEP)
    (pid,) = processes_of(home)
    home.signal(Home.KILL)
    assert [each.status for each in await boss.children.all()] == ["running"]
    assert processes_of(home) == [pid]
    os.kill(pid, signal.SIGKILL)
    (ending,) = await take(boss, 1)
    assert str(ending.body).startswith("Your child kid has ended.")
    await none_left(home)


@pytest.mark.requirement("CHILD-6", stage="lineage")
async def test_what_died_together_with_the_broker_is_told_to_a_parent_that_comes_back(
    home: Home, boss: tellwire.Agent
) -> None:
    await spawn(boss, "kid", *SLEEP)
    (pid,) = processes_of(home)
    home.signal(Home.STOP)
    os.kill(pid, signal.SIGKILL)
    home.signal(Home.KILL)
    (ending,) = await take(boss, 1)
    assert str(ending.body).startswith("Your child kid has ended.")


@pytest.mark.requirement("CHILD-4", "CHILD-6", stage="lineage")
async def test_what_a_child_said_last_while_no_broker_ran_is_told(home: Home, boss: tellwire.Agent) -> None:
    await spawn(boss, "kid", "sh", "-c", "sleep 2.5; echo the result")
    home.signal(Home.STOP)
    await until(lambda: not is_alive(home), what="the end of the child")
    home.signal(Home.KILL)
    (ending,) = await take(boss, 1)
    assert ending.body == "Your child kid has ended. It said last:\nthe result"
    await none_left(home)


def is_alive(home: Home) -> bool:
    """Whether a child of this home is more than a process that nobody has buried."""
    return any(b"Z" not in read_proc(pid, "stat").rpartition(b")")[2][:3] for pid in processes_of(home))


@pytest.mark.requirement("CHILD-3", "CHILD-6", stage="lineage")
@pytest.mark.parametrize("seed", range(6))
async def test_a_broker_killed_while_a_child_is_started_leaves_a_child_or_nothing(
    home: Home, boss: tellwire.Agent, seed: int
) -> None:
    """The call is sent again to the next broker under the same request id: one child, or a refusal."""
    chance = random.Random(seed)
    call = asyncio.ensure_future(spawn(boss, "kid", *SLEEP))
    began = asyncio.get_running_loop().time()
    moment = chance.uniform(0.0, 1.4)  # from before it is reserved until after it is up
    await until(lambda: asyncio.get_running_loop().time() - began > moment)
    home.signal(Home.KILL)
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    came_up = not isinstance(outcome, BaseException)
    assert came_up or getattr(outcome, "code", "") in ("child_failed", "conflict"), outcome
    children = await boss.children.all()
    assert len(children) == 1 or not came_up
    if children:
        assert [each.status for each in children] in (["running"], ["started"])
        await until(lambda: len(processes_of(home)) == 1)
        await boss.children.stop("kid")
        (ending,) = await take(boss, 1)
        assert "kid was ended" in str(ending.body)
    await none_left(home)


# -- through the other doors --------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-1", stage="lineage")
async def test_the_command_line_starts_lists_and_stops(home: Home, boss: tellwire.Agent) -> None:
    command = ("spawn", "kid", "command", "--task", "t", "--headless", "--as", "mia", "--", *SLEEP)
    done = await asyncio.to_thread(run, home, *command)
    assert done.code == 0, done
    assert done.out.startswith("kid is up:")
    assert "kid   mia     running" in run(home, "children").out
    refused_attach = run(home, "attach", "kid")
    assert refused_attach.code == 65
    assert "has no window" in refused_attach.err
    assert run(home, "attach", "nobody").code == 68
    assert run(home, "stop", "kid", "--as", "stranger").code == 77
    assert run(home, "stop", "kid", "--as", "mia").out == "kid is being stopped.\n"
    await none_left(home)
    failed = run(home, "spawn", "bad", "command", "--task", "t", "--headless", "--as", "mia", "--", "false")
    assert failed.code == 75
    assert "did not start" in failed.err
