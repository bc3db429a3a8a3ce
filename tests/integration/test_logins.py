"""Who speaks through the real sshd, sudo and cron: a person, a script, or an agent that tries to be more."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tellwire
from tests.integration import daemons
from tests.integration.attacks import Captive, Ended, Shell, at_work, command, open_gate
from tests.integration.daemons import Sshd
from tests.integration.test_attacks import AS_CAROL, INBOX, SEND, senders, waits
from tests.integration.world import Home, Join, take, until
from tests.surfaces.cli_world import run, run_at_terminal

NIGHTLY = command("send", "bob", "mark", "--as", "nightly")
DOWN = command("down")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For one daemon and its files. Where the programs cannot be had, the end of the run tells so."""
    if reason := daemons.missing():
        pytest.skip(f"there is no real sshd, sudo and cron: {reason}")
    made = tmp_path / "daemon"
    made.mkdir()
    return made


@pytest.fixture
async def sshd(folder: Path) -> AsyncIterator[Sshd]:
    """A server that is older than the agents; nothing listens when the test is over."""
    server = Sshd(folder)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
    with socket.socket() as line:
        assert line.connect_ex(("127.0.0.1", server.port)) != 0, "something listens still"


@pytest.fixture
async def world(
    request: pytest.FixtureRequest, home: Home, join: Join, tmp_path: Path
) -> AsyncIterator[tuple[Shell, Captive, tellwire.Agent]]:
    """An agent at work in a person's shell; bob listens, and carol is away and has mail."""
    if "sshd" in request.fixturenames:
        request.getfixturevalue("sshd")
    bob = await join("bob")
    run(home, "register", "carol")
    await bob.send("carol", "private")
    async with at_work(home, tmp_path) as (shell, captive):
        yield shell, captive, bob


def over_ssh(home: Home, server: Sshd, words: str, *options: str) -> list[str]:
    """The command line of a command on the other end."""
    return server.ssh(*options, "here", f"TELLWIRE_HOME={home.path} {words}")


async def done(words: list[str]) -> Ended:
    """Run a program without a terminal, to its end."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    out, _ = await process.communicate()
    return Ended(process.returncode or 0, out.decode())


# -- ssh --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1")
async def test_a_person_who_logs_in_by_ssh_is_the_operator(
    sshd: Sshd, world: tuple[Shell, Captive, tellwire.Agent], home: Home, tmp_path: Path
) -> None:
    _shell, _captive, bob = world
    assert daemons.listeners(sshd.pid) == [f"0100007F:{sshd.port:04X}"]
    far = tmp_path / "far"
    far.mkdir()
    login = Shell(home, far, *sshd.ssh("-tt", "here"))
    try:
        await until(lambda: login.screen, what="the prompt")
        login.type(f"export TELLWIRE_HOME={home.path}\n")
        sent = await login.run(SEND)
        assert sent.code == 0, sent
        assert [message.sender for message in await take(bob, 1)] == ["operator"]
        background = await login.run(f"{{ {SEND} & wait $!; }}")
        assert background.code != 0, background
    finally:
        await login.close()
    assert await senders(bob) == set()


@pytest.mark.requirement("SEC-1")
async def test_a_command_over_ssh_is_the_operator_with_a_terminal_and_a_script_without(
    sshd: Sshd, world: tuple[Shell, Captive, tellwire.Agent], home: Home
) -> None:
    _shell, _captive, bob = world
    at_terminal = await done(over_ssh(home, sshd, SEND, "-tt"))
    assert at_terminal.code == 0, (at_terminal, sshd.log)
    assert [message.sender for message in await take(bob, 1)] == ["operator"]
    for words in (SEND, command("policy", "peers")):
        refused = await done(over_ssh(home, sshd, words))
        assert refused.code not in (0, 255), refused
    for _ in range(2):
        assert (await done(over_ssh(home, sshd, NIGHTLY))).code == 0
    assert [message.sender for message in await take(bob, 2)] == ["nightly", "nightly"]


@pytest.mark.requirement("SEC-1")
async def test_an_agent_with_a_key_of_its_user_logs_in_as_the_user_and_the_audit_has_it(
    sshd: Sshd, world: tuple[Shell, Captive, tellwire.Agent], home: Home
) -> None:
    """A gap that docs/security.md names: what sshd lets in is whom sshd says."""
    _shell, captive, bob = world
    sent = await captive.run(shlex.join(over_ssh(home, sshd, SEND, "-tt")))
    assert sent.code == 0, sent
    assert [message.sender for message in await take(bob, 1)] == ["operator"]
    assert (await captive.run(shlex.join(over_ssh(home, sshd, SEND)))).code != 0
    told = json.loads(run_at_terminal(home, "audit", "--json").out)["rows"]
    spoke = [row["detail"] for row in told if (row["type"], row["who"]) == ("session_started", "operator")]
    assert spoke[-1]["process"], "who spoke as the operator is on record"


@pytest.mark.requirement("SEC-1")
async def test_an_sshd_that_an_agent_starts_gives_it_nothing(
    world: tuple[Shell, Captive, tellwire.Agent], home: Home, folder: Path
) -> None:
    _shell, captive, bob = world
    server = Sshd(folder)
    server.prepare()
    try:
        await captive.run(f"setsid -f {shlex.join(server.words())} > /dev/null 2>&1")
        await server.listens()
        for words in (SEND, AS_CAROL, INBOX, DOWN):
            for options in (("-tt",), ()):
                ended = await captive.run(shlex.join(over_ssh(home, server, words, *options)))
                assert ended.code not in (0, 255), (words, ended, server.log)
                assert "private" not in ended.out
                if options:
                    assert (await done(over_ssh(home, server, words, *options))).code not in (0, 255)
        assert await senders(bob) == set()
        assert await waits(bob) == 1
    finally:
        await server.stop()


# -- sudo -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("use_pty", [True, False])
async def test_a_person_is_the_operator_through_sudo(
    world: tuple[Shell, Captive, tellwire.Agent], folder: Path, use_pty: bool
) -> None:
    shell, _captive, bob = world
    shell.type("\x1a")
    ended = await shell.run(daemons.sudo(folder, SEND, use_pty=use_pty))
    assert ended.code == 0, ended
    assert [message.sender for message in await take(bob, 1)] == ["operator"]


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("use_pty", [True, False])
async def test_an_agent_is_itself_through_sudo(
    world: tuple[Shell, Captive, tellwire.Agent], folder: Path, use_pty: bool
) -> None:
    _shell, captive, bob = world
    assert (await captive.run(daemons.sudo(folder, SEND, use_pty=use_pty))).code == 0
    assert [message.sender for message in await take(bob, 1)] == ["coder"]
    for words in (SEND, AS_CAROL, INBOX, DOWN):
        by_sudo = daemons.sudo(folder, words, use_pty=use_pty)
        if words != SEND:
            assert (await captive.run(by_sudo)).code != 0
        for around in ("setsid -f {}", "setsid -f script -qec {!r} /dev/null"):
            ended = await captive.leave_behind(by_sudo, around)
            assert ended.code != 0, (words, ended)
            assert "private" not in ended.out
    assert await senders(bob) == set()
    assert await waits(bob) == 1


# -- cron -------------------------------------------------------------------------------------------------

JOB = """
read go < {folder}/gate
{send}
echo $? > {folder}/as-nobody
{nightly}
echo $? > {folder}/as-nightly
script -qec {inbox} /dev/null > {folder}/as-carol
echo done > {folder}/done
"""


def job(folder: Path) -> str:
    """What a planned script tries, once its gate is open."""
    os.mkfifo(folder / "gate")
    return JOB.format(send=SEND, nightly=NIGHTLY, inbox=shlex.quote(INBOX), folder=folder)


async def let_run(folder: Path) -> None:
    """Open the gate before the job, and wait for its end."""
    await open_gate(folder / "gate")
    await until((folder / "done").exists, what="cron runs the job")


@pytest.mark.requirement("SEC-1")
async def test_what_cron_runs_is_a_script(home: Home, join: Join, folder: Path, tmp_path: Path) -> None:
    bob = await join("bob")
    run(home, "register", "carol")
    try:
        assert (await done(daemons.cron(home, folder, job(folder)))).code == 0
        async with at_work(home, tmp_path):
            await let_run(folder)
        assert (folder / "as-nobody").read_text() != "0\n"
        assert (folder / "as-nightly").read_text() == "0\n"
        assert [message.sender for message in await take(bob, 1)] == ["nightly"]
    finally:
        await daemons.end(folder / "cron.pid")


@pytest.mark.requirement("SEC-1")
async def test_a_cron_that_an_agent_starts_gives_it_no_more_than_a_fresh_name(
    world: tuple[Shell, Captive, tellwire.Agent], home: Home, folder: Path
) -> None:
    _shell, captive, bob = world
    words = daemons.cron(home, folder, job(folder))
    try:
        await captive.run(f"{shlex.join(words)} > /dev/null 2>&1")
        await let_run(folder)
        assert (folder / "as-nobody").read_text() != "0\n"
        assert "private" not in (folder / "as-carol").read_text()
        assert await senders(bob) == {"nightly"}
        assert await waits(bob) == 1
    finally:
        await daemons.end(folder / "cron.pid")
