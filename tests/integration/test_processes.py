"""What is known of real processes: by number and key, above them, of their start, and what they hold."""

import fcntl
import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tellwire.system.proc import Platform, Process, terminal_of
from tellwire.system.processes import (
    ancestry,
    ancestry_of,
    cmdline,
    environ,
    exe,
    find_process,
    find_tmux,
    holder_of,
    in_groups,
    is_alive,
    listening_ports,
    lock_holders,
    peer_credentials,
    pid_in,
    read_process,
    read_variable,
    readers_of,
    started_at,
    uid_of,
)
from tellwire.system.terminals import pane_of
from tests.integration.world import until

NOBODY = 2**22 + 1
"""Beyond the highest number that Linux gives to a process."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that leads its own group and waits for its input to end."""
    env = {"PLAIN": "a=b", "ODD": os.fsdecode(b"\xff"), "EMPTY": ""}
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()", "odd \N{SNOWMAN}"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=env)
    yield child
    child.kill()
    child.communicate()


def key_of(pid: int) -> str:
    process = read_process(pid)
    assert process is not None
    return process.key


def test_a_process_is_found_by_its_key_as_long_as_it_runs(child: subprocess.Popen[bytes]) -> None:
    key = key_of(child.pid)
    found = find_process(key)
    assert found is not None
    assert (found.pid, found.parent, found.group, found.session) == (child.pid, os.getpid(), *[child.pid] * 2)
    assert pid_in(key) == child.pid
    assert is_alive(key)
    assert not is_alive(f"{child.pid}.1"), "another process had that number before"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert find_process(key) is not None, "it is not buried yet"
    assert not is_alive(key)
    child.communicate()
    assert find_process(key) is None
    assert read_process(NOBODY) is None


@pytest.mark.parametrize("key", ["", ".", "x.1", "-1.5", "0.0", "\N{SUPERSCRIPT TWO}.1"])
def test_what_is_no_key_is_nobody(key: str) -> None:
    assert pid_in(key) == 0
    assert not is_alive(key)
    assert ancestry_of(key) == []
    assert pane_of(key) == ""


def test_the_processes_above_come_nearest_first(child: subprocess.Popen[bytes]) -> None:
    chain = ancestry(child.pid)
    assert [each.pid for each in chain[:3]] == [child.pid, os.getpid(), os.getppid()]
    assert all(below.parent == above.pid for below, above in pairwise(chain))
    assert ancestry_of(chain[0].key) == chain
    assert ancestry_of(f"{child.pid}.1") == []
    assert ancestry(NOBODY) == []


async def test_a_process_is_told_by_what_it_was_started_with(child: subprocess.Popen[bytes]) -> None:
    await until(lambda: cmdline(child.pid), what="the kernel has its words: it is told of the exec before")
    assert cmdline(child.pid)[-1] == "odd \N{SNOWMAN}"
    assert cmdline(child.pid)[0] == sys.executable
    assert os.path.samefile(exe(child.pid), sys.executable)  # noqa: ASYNC240 - as quick as the rest
    assert uid_of(child.pid) == os.getuid()
    given = environ(child.pid)
    assert given is not None
    assert (given["PLAIN"], os.fsencode(given["ODD"]), given["EMPTY"]) == ("a=b", b"\xff", "")
    assert read_variable(child.pid, "ODD") == "\N{REPLACEMENT CHARACTER}", "text that can be stored"
    assert read_variable(child.pid, "NONE") == ""
    assert abs(time.time() - started_at(key_of(child.pid))) < 60


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    assert (cmdline(NOBODY), exe(NOBODY), environ(NOBODY), uid_of(NOBODY)) == ([], "", None, None)
    assert read_variable(NOBODY, "HOME") == ""
    assert listening_ports(NOBODY) is None
    assert started_at("nonsense") == 0.0


def test_a_group_has_the_processes_that_have_not_ended(child: subprocess.Popen[bytes]) -> None:
    assert [each.pid for each in in_groups({child.pid})] == [child.pid]
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert in_groups({child.pid}) == []
    assert in_groups(set()) == []


def test_who_holds_and_serves_a_socket_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, inode = server.getsockname()[1], str(os.fstat(server.fileno()).st_ino)
        ports = listening_ports(os.getpid())
        assert ports is not None
        assert ports[port] == inode
        assert holder_of(inode) == key_of(os.getpid())
    assert holder_of(inode) == ""
    left, right = socket.socketpair()
    with left, right:
        assert peer_credentials(left.fileno()) == (os.getpid(), os.getuid())


def test_who_has_a_lock_is_found(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        inode = os.fstat(file.fileno()).st_ino
        assert lock_holders(inode) == set()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holders(inode) == {os.getpid()}


def test_a_terminal_has_its_name_its_leader_and_its_readers() -> None:
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    # The leader of a session gets the first terminal that it opens.
    command = ["/bin/sh", "-c", 'exec <"$0"; echo ready; read line', name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as leader:
        try:
            assert leader.stdout is not None
            assert leader.stdout.readline() == b"ready\n"
            found = read_process(leader.pid)
            assert found is not None
            assert found.terminal == terminal_of(os.stat(name).st_rdev)
            assert found.session == found.group == found.foreground == leader.pid
            assert pane_of(found.key) == f"tty {name.removeprefix('/dev/')} {found.key}"
            assert readers_of(found.terminal, leader.pid) == [leader.pid]
            assert find_tmux([found]) is None
        finally:
            os.write(master, b"\n")
            leader.wait()
            os.close(master)
            os.close(slave)


def test_where_only_ps_works_a_process_and_those_above_are_known_and_no_more() -> None:
    platform = Platform()
    found = platform.process(os.getpid())
    assert found is not None
    assert (found.pid, found.parent) == (os.getpid(), os.getppid())
    assert " " not in found.key
    assert platform.process(NOBODY) is None
    assert (platform.uid(1), platform.exe(1), platform.cmdline(1), platform.environ(1)) == (
        None,
        "",
        b"",
        None,
    )
    assert list(platform.pids()) == list(platform.sockets(1)) == list(platform.unix_listeners(1)) == []
    assert (platform.control_groups(1), platform.started_at("1"), platform.terminal_name(1)) == ("", 0.0, "")
    assert (platform.input_device(1), platform.tcp_listeners(1), platform.lock_holders(1)) == (0, None, None)


@pytest.mark.parametrize(("state", "is_gone", "is_stopped"), [("S", 0, 0), ("T", 0, 1), ("Z", 1, 1)])
def test_a_state_tells_whether_a_process_is_gone_or_stopped(
    state: str, is_gone: int, is_stopped: int
) -> None:
    process = Process(1, "1", 0, 0, state)
    assert (process.is_gone, process.is_stopped) == (bool(is_gone), bool(is_stopped))
