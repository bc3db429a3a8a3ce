"""A broker's life: one at a time, started by anybody, stopped by nobody's accident, private."""

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack

import pytest

import tellwire
from tests.integration.program import StartProgram
from tests.integration.world import (
    ROOT,
    WITHIN_S,
    Home,
    Join,
    OpenRaw,
    open_files,
    pass_time,
    read_proc,
    tellwire_command,
    until,
)


def starts(home: Home) -> int:
    """How many brokers ever began to serve in this home."""
    return home.log.count(" runs, pid ")


@pytest.mark.requirement("NET-9")
async def test_many_clients_at_once_start_one_broker(home: Home, program: StartProgram) -> None:
    programs = [await program() for _ in range(3)]
    for number, child in enumerate(programs):
        child.ask("join", f"program-{number}")
    async with AsyncExitStack() as stack:
        agents = [tellwire.connect(f"task-{number}", home=home.path) for number in range(8)]
        await asyncio.gather(*(stack.enter_async_context(agent) for agent in agents))
        names = [(await child.answer())["name"] for child in programs]
        assert names == ["program-0", "program-1", "program-2"]
        assert len(await agents[0].peers()) == 10
        assert (home.brokers(), starts(home)) == ([home.pid], 1)


async def test_a_program_that_leaves_right_after_a_kill_frees_its_name(home: Home) -> None:
    async with tellwire.connect("alice", home=home.path):
        home.signal(signal.SIGKILL)
    async with tellwire.connect("alice", home=home.path) as again:
        assert (again.name, again.note) == ("alice", "")


@pytest.mark.requirement("NET-9")
async def test_two_commands_up_at_once_start_one_broker(home: Home) -> None:
    rivals = [
        await asyncio.create_subprocess_exec(
            *tellwire_command("up", "--detach"),
            env=home.environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    async with asyncio.timeout(WITHIN_S):
        said = [await rival.communicate() for rival in rivals]
    codes = [rival.returncode for rival in rivals]
    assert 0 in codes, said
    assert set(codes) <= {0, 75}, said
    assert (home.brokers(), starts(home)) == ([home.pid], 1)


@pytest.mark.requirement("NET-9")
async def test_a_client_that_joins_while_a_command_starts_the_broker_gets_in(home: Home) -> None:
    for _ in range(3):
        command = await asyncio.create_subprocess_exec(
            *tellwire_command("up", "--detach"), env=home.environment(), cwd=ROOT, stdout=subprocess.DEVNULL
        )
        await until(lambda: home.pid and (home.starters() or home.brokers()))
        async with tellwire.connect("alice", home=home.path) as alice:
            assert alice.name == "alice"
        await command.wait()
        assert len(home.brokers()) == 1
        assert home.tellwire("down").returncode == 0


@pytest.mark.requirement("NET-9")
async def test_a_client_that_is_killed_while_it_starts_the_broker_stands_in_nobodys_way(
    home: Home, program: StartProgram
) -> None:
    for number in range(3):
        starter = await program()
        starter.ask("join", f"starter-{number}")
        await until(home.starters)
        await starter.kill()
        async with tellwire.connect("alice", home=home.path) as alice:
            assert alice.name == "alice"
            assert home.brokers() == [home.pid]
        home.end()


@pytest.mark.requirement("NET-9")
async def test_a_stale_socket_file_is_nobody_and_does_not_stand_in_the_way(home: Home) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(home.settings.socket))
    stale.close()
    assert home.tellwire("status").returncode == 69
    async with tellwire.connect("alice", home=home.path) as alice:
        assert await alice.peers() == []


@pytest.mark.requirement("NET-9")
async def test_a_stopped_broker_is_not_resurrected_by_idle_clients_but_by_the_next_call(
    home: Home, join: Join
) -> None:
    alice, bob = await join("alice"), await join("bob")
    waiting = asyncio.ensure_future(bob.messages(wait_s=30))
    await alice.send("bob", "before")
    await bob.confirm(await waiting)
    waiting = asyncio.ensure_future(bob.messages(wait_s=30))
    assert home.tellwire("down").returncode == 0
    await pass_time(1.5)
    assert (home.starters(), home.brokers()) == ([], [])
    assert not waiting.done()
    assert (await alice.send("bob", "after")).status in ("received", "queued")
    assert [message.body for message in await waiting] == ["after"]
    assert [peer.name for peer in await alice.peers()] == ["bob"]


@pytest.mark.requirement("NET-9", "NET-6")
async def test_replacing_a_broker_under_load_loses_and_doubles_nothing(home: Home, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob")
    got: list[int] = []
    sent = 0
    for _ in range(3):
        before = home.pid
        replacing = await asyncio.create_subprocess_exec(
            *tellwire_command("up", "--detach", "--replace"),
            env=home.environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        done = asyncio.ensure_future(replacing.communicate())
        while not done.done():
            await alice.send("bob", sent)
            sent += 1
            part = await bob.messages()
            got += [message.body for message in part]
            await bob.confirm(part)
        assert replacing.returncode == 0, (await done)[1]
        assert home.pid != before
    while len(got) < sent:
        got += [message.body for message in await bob.messages(wait_s=5)]
    assert got == list(range(sent))
    assert home.brokers() == [home.pid]


@pytest.mark.requirement("NET-9")
async def test_newcomers_get_in_while_the_broker_is_being_replaced(home: Home, join: Join) -> None:
    await join("alice")
    replacing = await asyncio.create_subprocess_exec(
        *tellwire_command("up", "--detach", "--replace"), env=home.environment(), stdout=subprocess.DEVNULL
    )
    done = asyncio.ensure_future(replacing.wait())
    count = 0
    while not done.done():
        async with tellwire.connect(f"newcomer-{count}", home=home.path) as newcomer:
            assert (await newcomer.peer("alice")).name == "alice"
        count += 1
    assert (replacing.returncode, count > 0) == (0, True)


# -- private ------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1")
async def test_folders_and_files_belong_to_the_owner_alone(home: Home) -> None:
    shutil.rmtree(home.path)
    home.path.mkdir(mode=0o755)
    loose = os.umask(0)
    try:
        async with tellwire.connect("alice", home=home.path) as alice:
            await alice.send("alice-to-be", "x")
            found = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in home.path.rglob("*")}
    finally:
        os.umask(loose)
    assert {"tellwire.db", "broker.log", "broker.lock", "socket", "start.lock"} <= set(found)
    assert set(found.values()) == {0o600}, found
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


@pytest.mark.requirement("SEC-3", "SEC-1")
async def test_a_log_that_grew_too_long_is_put_aside_and_stays_private(home: Home) -> None:
    home.up()
    home.tellwire("down")
    with home.settings.log.open("ab") as log:
        log.write(b"x" * (6 << 20))
    home.up()
    home.tellwire("down")
    logs = {path.name: path.stat() for path in home.path.glob("broker.log*")}
    assert set(logs) == {"broker.log", "broker.log.1"}
    assert logs["broker.log"].st_size < 1 << 20 < logs["broker.log.1"].st_size
    assert {stat.S_IMODE(status.st_mode) for status in logs.values()} == {0o600}


@pytest.mark.requirement("SEC-1")
async def test_a_broker_that_a_client_starts_has_nothing_of_the_client(
    home: Home, join_cold: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GH_TOKEN", "PYTHONPATH", "LD_PRELOAD_NOTE"):
        monkeypatch.setenv(name, "very-secret-word")
    with tempfile.NamedTemporaryFile() as opened:
        os.set_inheritable(opened.fileno(), True)
        await join_cold("alice")
        pid = home.pid
        assert opened.name not in open_files(pid)
        assert not any(name.startswith(("/dev/pts", "/dev/tty")) for name in open_files(pid))
    environment = read_proc(pid, "environ")
    assert b"very-secret-word" not in environment
    assert f"TELLWIRE_HOME={home.path}".encode() in environment.split(b"\0")
    fields = read_proc(pid, "stat").rpartition(b") ")[2].split()
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert parent != os.getpid()
    assert (session, terminal) == (pid, 0)


@pytest.mark.requirement("SEC-3")
async def test_a_home_whose_path_is_too_long_for_a_socket_works_all_the_same(home: Home) -> None:
    deep = Home(home.path / ("a-very-long-name-" * 4) / ("and-another-one-" * 4))
    path = deep.settings.socket
    try:
        async with tellwire.connect("alice", home=deep.path) as alice:
            assert len(os.fsencode(path)) <= 100
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert await alice.peers() == []
        assert deep.tellwire("status").returncode == 0
        assert deep.tellwire("down").returncode == 0
        assert not path.exists()
    finally:
        deep.end()
        shutil.rmtree(path.parent, ignore_errors=True)


@pytest.mark.requirement("SEC-1")
async def test_a_folder_of_another_user_is_not_used(home: Home) -> None:
    """The folder of the socket may lie in a place where everybody can write."""
    deep = Home(home.path / ("b-very-long-name-" * 4) / ("and-another-one-" * 4))
    trap = deep.settings.socket.parent
    trap.mkdir(mode=0o700)
    try:
        if os.getuid() == 0:
            os.chown(trap, 65534, 65534)
        else:
            trap.rmdir()
            trap.symlink_to("/")
        done = deep.tellwire("up", "--detach")
        assert done.returncode in (74, 77), done.stderr
        assert "is not a folder that belongs to you" in done.stderr
        assert not deep.brokers()
    finally:
        deep.end()
        trap.unlink() if trap.is_symlink() else shutil.rmtree(trap)


@pytest.mark.requirement("NET-9")
async def test_a_client_without_autostart_says_that_no_broker_runs(home: Home) -> None:
    with pytest.raises(tellwire.TellwireError) as refused:
        await tellwire.connect("alice", home=home.path, autostart=False).__aenter__()
    assert refused.value.code == "unreachable"
    assert "tellwire up" in refused.value.advice
    assert not home.starters()


GIVES_UP = """
import asyncio, glob, pathlib, tellwire

def children():
    return any(pathlib.Path(path).read_text() for path in glob.glob("/proc/self/task/*/children"))

async def main():
    joining = asyncio.create_task(tellwire.connect("alice").__aenter__())
    while not children():
        await asyncio.sleep(0)
    joining.cancel()
    await asyncio.wait({joining})
    assert joining.cancelled()

asyncio.run(main())
"""


@pytest.mark.requirement("NET-9")
async def test_a_client_that_is_cancelled_while_it_starts_a_broker_leaves_nothing_open(home: Home) -> None:
    words = (sys.executable, "-W", "always", "-c", GIVES_UP)
    done = await asyncio.to_thread(
        subprocess.run, words, env=home.environment(), cwd=ROOT, capture_output=True, timeout=2 * WITHIN_S
    )
    assert (done.returncode, done.stderr) == (0, b"")
    await until(home.brokers, what="the start goes on without it")
    assert home.tellwire("list").returncode == 0


@pytest.mark.requirement("NET-9")
async def test_a_foreground_broker_tells_how_to_join_and_ends_at_a_signal(home: Home, raw: OpenRaw) -> None:
    broker = await asyncio.create_subprocess_exec(
        *tellwire_command("up"), env=home.environment(), stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert broker.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            said = b"".join([await broker.stdout.readline() for _ in range(6)]).decode()
        assert str(home.settings.socket) in said
        assert "Run two agents" in said
        assert "ok" in await (await raw("alice")).call("list_agents")
        assert home.tellwire("up").returncode == 75
        broker.terminate()
        async with asyncio.timeout(WITHIN_S):
            assert await broker.wait() == 0
        assert not home.settings.socket.exists()
    finally:
        if broker.returncode is None:
            broker.kill()
            await broker.wait()
