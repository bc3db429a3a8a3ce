"""Which programs are taken for a person's way in: by who runs them, not by what they are called."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import pytest

from tellwire.broker.origins import SEEN_MAX, Origins
from tellwire.core.state import Agent, State
from tellwire.system.processes import read_process

NOBODY = 65534
SET_NAME = 15
ROOT, MINE, SET_USER = (0, 0), (NOBODY, NOBODY), (NOBODY, 0)
"""The real and the effective user of a process, for a broker that `NOBODY` runs."""


@contextmanager
def running(name: str, *users: tuple[int, int]) -> Generator[int]:
    """Processes above each other of one name, each of a real and an effective user; the pid of the lowest."""
    reader, writer = os.pipe()
    first = os.fork()
    if first == 0:
        try:
            os.setpgid(0, 0)
            _pretend(name, users, writer)
        finally:
            os._exit(1)
    try:
        os.close(writer)
        yield int(os.read(reader, 100))
    finally:
        os.close(reader)
        os.killpg(first, signal.SIGKILL)
        os.waitpid(first, 0)


def _pretend(name: str, users: Sequence[tuple[int, int]], writer: int) -> None:
    ctypes.CDLL(None).prctl(SET_NAME, name.encode(), 0, 0, 0)
    (real, effective), *below = users
    if below and os.fork() == 0:
        _pretend(name, below, writer)
    os.setresuid(real, effective, effective)
    if not below:
        os.write(writer, b"%d" % os.getpid())
    while True:
        signal.pause()


def as_user(user: int, look: Callable[[], bool]) -> bool:
    """What a broker of that user would find."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os._exit(look())
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1)
    return bool(code)


def shows(pid: int) -> bool:
    """Whether a process is taken for such a program."""
    found = read_process(pid)
    assert found is not None
    return Origins(State).shows(found)


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize(
    ("name", "users", "expected"),
    [
        ("sshd", [ROOT], True),
        ("sshd", [ROOT, MINE], True),
        ("cron", [ROOT, MINE], True),
        ("sshd", [MINE], False),
        ("sshd", [MINE, MINE], False),
        ("sshd", [SET_USER], False),
        ("cron", [MINE], False),
        ("xterm", [MINE], False),
        ("xterm", [SET_USER], False),
        ("bash", [ROOT], False),
    ],
)
def test_a_service_is_one_if_root_runs_it_whatever_an_agent_calls_its_own(
    name: str, users: list[tuple[int, int]], expected: bool
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can play two users")
    with running(name, *users) as pid:
        assert as_user(NOBODY, lambda: shows(pid)) == expected


@pytest.mark.requirement("SEC-1")
def test_a_broker_of_root_takes_no_service_for_granted() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can be root")
    with running("sshd", ROOT) as pid:
        assert not shows(pid)


def test_an_owner_that_is_gone_is_looked_at_once_however_many_there_are() -> None:
    """After a restart most agents of the state are of sessions that have ended."""
    state = State()
    for number in range(SEEN_MAX + 10):
        agent = Agent(id=f"a{number}", name=f"n{number}", kind="codex", session="s", owner=f"{number}.1")
        state.agents[agent.id] = agent
    looks: list[str] = []

    def is_alive(owner: str) -> bool:
        looks.append(owner)
        return False

    origins = Origins(lambda: state, alive=is_alive)
    owners = origins.known().owners
    assert len(owners) == SEEN_MAX + 10
    assert sorted(looks) == sorted(owners)
    assert origins.known().owners == owners
    assert len(looks) == len(owners), "looked at again"
