"""Who is speaking: the rule, on processes as the kernel may tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.core.agents.speaking import Identity, Known, ProcessInfo, judge

PERSON, SCRIPT, STRAY = Identity("operator"), Identity("script"), Identity("script", adrift=True)


class Process(NamedTuple):
    """One process; its pid is its key."""

    pid: int
    parent: int
    name: str = "bash"
    session: int = 0
    group: int = 0
    terminal: int = 0
    foreground: int = 0

    @property
    def key(self) -> str:
        return str(self.pid)


class Facts:
    """What is looked up: programs that show terminals, tmux clients, and processes younger than an agent."""

    def __init__(
        self, *, shows: Sequence[str] = (), clients: Sequence[list[Process]] = (), suspect: Sequence[int] = ()
    ) -> None:
        self._shows, self._clients, self._suspect = shows, clients, suspect

    def shows(self, process: ProcessInfo, /) -> bool:
        return process.name in self._shows

    def watching(self, server: ProcessInfo, leader: ProcessInfo, /) -> Sequence[list[Process]]:
        del server, leader
        return self._clients

    def follows_agent(self, process: ProcessInfo, /) -> bool:
        return process.pid in self._suspect


def at_terminal(top: Process, *, tty: int = 5, base: int = 100, front: bool = True) -> list[Process]:
    """A command in a shell in a terminal that `top` has opened."""
    shell, command = base, base + 1
    ahead = command if front else shell
    return [
        Process(command, shell, "tellwire", shell, command, tty, ahead),
        Process(shell, top.pid, "bash", shell, shell, tty, ahead),
        top,
        *([] if top.pid == 1 else [Process(1, 0, "init")]),
    ]


def test_who_is_followed_to_what_opened_the_terminal_is_a_person() -> None:
    for top in (Process(50, 1, "xterm"), Process(50, 1, "sshd"), Process(1, 0, "init"), Process(50, 0, "x")):
        assert judge(at_terminal(top), Known({}), Facts()) == PERSON


def test_a_terminal_of_a_suspect_is_a_persons_only_if_it_shows_one() -> None:
    chain = at_terminal(Process(50, 1, "xterm"))
    assert judge(chain, Known({}), Facts(suspect=[50])) == STRAY
    assert judge(chain, Known({}), Facts(suspect=[50], shows=["xterm"])) == PERSON


def test_who_is_in_the_background_is_a_script() -> None:
    assert judge(at_terminal(Process(50, 1, "xterm"), front=False), Known({}), Facts()) == SCRIPT


def test_who_has_lost_its_parent_is_a_script_though_its_terminal_lives() -> None:
    chain = [Process(101, 1, "tellwire", 100, 101, 5, 101), Process(1, 0, "init")]
    assert judge(chain, Known({}), Facts()) == SCRIPT
    assert judge(chain, Known({}), Facts(suspect=[101])) == STRAY


def test_a_terminal_within_a_terminal_is_followed_to_the_outer_one() -> None:
    outer = at_terminal(Process(50, 1, "xterm"))
    inner = [
        Process(202, 201, "tellwire", 201, 202, 6, 202),
        Process(201, 101, "sh", 201, 201, 6, 202),
        outer[0]._replace(name="script"),
        *outer[1:],
    ]
    assert judge(inner, Known({}), Facts()) == PERSON
    orphaned = [*inner[:2], Process(101, 1, "script", 100, 101, 5, 101), Process(1, 0, "init")]
    assert judge(orphaned, Known({}), Facts()) == SCRIPT, "the leader of its terminal is not above it"


@pytest.mark.parametrize("reaper", [Process(1, 0, "init"), Process(40, 1, "systemd")])
def test_whoever_adopts_is_no_parent(reaper: Process) -> None:
    chain = [Process(101, reaper.pid, "tellwire"), reaper]
    assert judge(chain, Known({}), Facts(suspect=[101])) == STRAY


def test_an_agent_above_counts_before_all_else() -> None:
    chain = at_terminal(Process(50, 1, "xterm"))
    for process in chain:
        assert judge(chain, Known({process.key: "a1"}), Facts()) == Identity("agent", "a1")
    for process in chain[1:]:
        assert judge(chain, Known({}, [process.key]), Facts()) == STRAY
    assert judge(chain, Known({}, [chain[0].key]), Facts()) == SCRIPT, "an agent that has left, itself"
    assert judge([], Known({}), Facts()) == STRAY


def test_a_tmux_session_is_a_persons_if_one_is_attached() -> None:
    chain = at_terminal(Process(50, 1, "tmux: server"))
    client = [
        each._replace(name="tmux: client") for each in at_terminal(Process(60, 1, "xterm"), base=300)[:1]
    ]
    client += at_terminal(Process(60, 1, "xterm"), base=300)[1:]
    assert judge(chain, Known({}), Facts(suspect=[50])) == STRAY
    assert judge(chain, Known({}), Facts()) == SCRIPT
    assert judge(chain, Known({}), Facts(suspect=[50], clients=[client])) == PERSON
    for key in ("301", "300", "60"):
        assert judge(chain, Known({key: "a1"}), Facts(suspect=[50], clients=[client])) == STRAY
        assert judge(chain, Known({}, [key]), Facts(suspect=[50], clients=[client])) == STRAY
    assert judge(chain, Known({}), Facts(suspect=[50, 60], clients=[client])) == STRAY
    pipe = [client[0]._replace(terminal=0), *client[1:]]
    assert judge(chain, Known({}), Facts(suspect=[50], clients=[pipe])) == STRAY
    behind = judge(
        [*at_terminal(Process(50, 1, "tmux: server"), front=False)], Known({}), Facts(clients=[client])
    )
    assert behind == SCRIPT


def test_tmux_clients_in_a_circle_end() -> None:
    chain = at_terminal(Process(50, 1, "tmux: server"))
    assert judge(chain, Known({}), Facts(suspect=[50], clients=[chain])) == STRAY


@pytest.mark.requirement("SEC-1")
def test_a_tmux_client_within_its_own_server_is_looked_at_a_bounded_number_of_times() -> None:
    server = Process(50, 1, "tmux: server")
    detached = Process(55, 50, "bash")
    client = [Process(60, 55, "tmux: client", 60, 1, 1, 1), detached, server, Process(1, 0, "init")]
    facts = Facts(clients=[client], suspect=[50])
    assert judge(client, Known({}), facts).kind != "operator", "nobody is seen to look at it"


@st.composite
def chains(draw: st.DrawFn) -> list[Process]:
    """Processes above one another, up to init or to where they are hidden."""
    count = draw(st.integers(1, 6))
    pids = [100 - at for at in range(count)]
    small = st.integers(0, 3)
    chain = [
        Process(
            pid,
            pids[at + 1] if at + 1 < count else draw(st.sampled_from([0, 1, 7])),
            draw(st.sampled_from(["bash", "tmux: server", "xterm", "systemd"])),
            draw(st.sampled_from(pids)),
            draw(small),
            draw(small),
            draw(small),
        )
        for at, pid in enumerate(pids)
    ]
    return [*chain, Process(1, 0, "init")] if chain[-1].parent == 1 else chain


@pytest.mark.requirement("SEC-1")
@given(chains(), st.data())
def test_beneath_an_agent_nobody_is_anybody_else_and_a_person_is_always_in_front(
    chain: list[Process], data: st.DataObject
) -> None:
    pids = [each.pid for each in chain]
    facts = Facts(
        shows=data.draw(st.sampled_from([[], ["xterm"]])),
        suspect=data.draw(st.lists(st.sampled_from(pids))),
        clients=data.draw(st.lists(chains(), max_size=2)),
    )
    verdict = judge(chain, Known({}), facts)
    if verdict.kind == "operator":
        assert chain[0].terminal
        assert chain[0].group == chain[0].foreground
        assert chain[0].session in pids
    owner = data.draw(st.sampled_from(chain))
    assert judge(chain, Known({owner.key: "a1"}), facts) == Identity("agent", "a1")
    above = data.draw(st.sampled_from([*chain[1:], chain[-1]]))
    assert judge(chain, Known({}, [above.key]), facts).kind != "operator"
