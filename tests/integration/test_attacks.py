"""Ways in which an agent could try to be somebody else, and what has to stay possible beside them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tellwire
from tests.integration.attacks import ORPHANED, Captive, Shell, at_work, command, mcp_session, open_gate
from tests.integration.mcp_world import open_shims
from tests.integration.tmux import Tmux
from tests.integration.world import Home, Join, take, until
from tests.surfaces.cli_world import run, run_at_terminal

SEND = command("send", "bob", "mark")
AS_CAROL = command("send", "bob", "mark", "--as", "carol")
INBOX = command("inbox", "--as", "carol")
PTY = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))"
SDK = """
import sys, tellwire
with tellwire.connect_sync("carol", kind=sys.argv[1]) as me:
    print("I am", me.name, [each.body for each in me.messages(wait_s=0)], flush=True)
    me.send("bob", "mark")
"""
HANDED = """
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
opener = os.getpid()
if os.fork():
    os._exit(0)
while os.path.exists(f"/proc/{opener}"):
    pass
join = {"op": "register_agent", "name": "carol", "session": "mine", "kind": "script", "exact": True}
send = {"op": "send_message", "to": "bob", "body": "mark"}
calls = [{"tellwire": 1}, {"n": 1, "do": join}, {"n": 2, "do": send}]
line.sendall(b"".join(json.dumps(call).encode() + b"\\n" for call in calls))
seen = b""
while b'"n":2' not in seen:
    seen += line.recv(65536)
print(seen.decode())
"""
NEST = 'if [ "$1" = 0 ]; then {}; else bash "$0" $(($1 - 1)); true; fi\n'

DETACHED = {
    "background": ORPHANED,
    "nohup": "nohup {} < /dev/null > /dev/null 2>&1 &",
    "setsid": "setsid -f {}",
    "setsid-clean": 'setsid -f env -i PATH="$PATH" HOME="$HOME" TELLWIRE_HOME="$TELLWIRE_HOME" {}',
    "script": "setsid -f script -qec {!r} /dev/null",
    "script-background": ORPHANED.format("script -qec {!r} /dev/null < /dev/null"),
    "pty": f"setsid -f {sys.executable} -c {shlex.quote(PTY)} {{}}",
}
"""How a command gets out from beneath an agent; all but `nohup` lose their parent."""


@pytest.fixture
async def world(
    home: Home, join: Join, tmp_path: Path
) -> AsyncIterator[tuple[Shell, Captive, tellwire.Agent]]:
    """An agent at work in a person's shell; bob listens, and carol is away and has mail."""
    bob = await join("bob")
    run(home, "register", "carol")
    await bob.send("carol", "private")
    async with at_work(home, tmp_path) as (shell, captive):
        yield shell, captive, bob


async def senders(bob: tellwire.Agent) -> set[str]:
    """Whose messages have come to bob."""
    return {message.sender for message in await bob.messages(wait_s=0)}


async def waits(bob: tellwire.Agent) -> int:
    """How many messages wait for carol."""
    return (await bob.peer("carol")).pending


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("how", DETACHED)
async def test_a_detached_command_is_neither_the_operator_nor_another_agent(
    world: tuple[Shell, Captive, tellwire.Agent], how: str
) -> None:
    _shell, captive, bob = world
    for words in (SEND, AS_CAROL, INBOX, command("down"), command("policy", "peers")):
        ended = await captive.leave_behind(words, DETACHED[how])
        assert ended.code != 0 or words == SEND, (words, ended)
        assert "private" not in ended.out
    assert await senders(bob) <= {"coder"}
    assert await waits(bob) == 1


@pytest.mark.requirement("SEC-1")
async def test_a_detached_command_may_bear_a_fresh_name(world: tuple[Shell, Captive, tellwire.Agent]) -> None:
    _shell, captive, bob = world
    ended = await captive.leave_behind(command("send", "bob", "x", "--as", "dave"), DETACHED["setsid"])
    assert ended.code == 0, ended
    assert await senders(bob) == {"dave"}


@pytest.mark.requirement("SEC-1")
async def test_what_an_agent_leaves_behind_when_it_ends_is_no_more_than_it_was(
    world: tuple[Shell, Captive, tellwire.Agent], tmp_path: Path
) -> None:
    _shell, captive, bob = world
    gate, out, code = tmp_path / "gate", tmp_path / "late", tmp_path / "late-code"
    os.mkfifo(gate)
    inner = f"read < {gate}; script -qec {shlex.quote(SEND)} /dev/null; {AS_CAROL}; echo $? > {code}"
    await captive.run(f"setsid -f bash -c {shlex.quote(inner)} > {out} 2>&1")
    await captive.quit()
    await open_gate(gate)
    await until(lambda: code.exists() and code.read_text(), what="it has spoken")
    assert code.read_text() != "0\n", out.read_text()
    assert await senders(bob) == set()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("watched", ["alone", "attached-by-the-agent"])
async def test_a_tmux_server_of_an_agents_own_gives_nothing(
    world: tuple[Shell, Captive, tellwire.Agent], tmp_path: Path, watched: str
) -> None:
    _shell, captive, bob = world
    tmux = f"tmux -f /dev/null -S {tmp_path / 'socket'}"
    try:
        await captive.run(f"{tmux} new-session -d -s mine 'exec sleep 1000'")
        if watched != "alone":
            await captive.run(
                f"setsid -f script -qec {shlex.quote(f'{tmux} attach -t mine')} /dev/null > /dev/null 2>&1"
            )
            await until(lambda: _lines(captive, f"{tmux} list-clients"), what="a client is attached")
        for words in (SEND, AS_CAROL, INBOX):
            ended = await captive.leave_behind(words, f"{tmux} new-window -t mine {{!r}}")
            assert ended.code != 0, ended
        assert await senders(bob) == set()
        assert await waits(bob) == 1
    finally:
        await captive.run(f"{tmux} kill-server")


async def _lines(captive: Captive, words: str) -> str:
    return (await captive.run(words)).out.strip()


@pytest.mark.requirement("SEC-1")
async def test_many_shells_above_each_other_hide_no_agent(
    world: tuple[Shell, Captive, tellwire.Agent], tmp_path: Path
) -> None:
    _shell, captive, bob = world
    (tmp_path / "nest").write_text(NEST.format(SEND))
    await captive.run(f"bash {tmp_path / 'nest'} 100")
    assert await senders(bob) == {"coder"}


@pytest.mark.requirement("SEC-1")
async def test_a_connection_whose_opener_has_gone_is_nobodys(
    world: tuple[Shell, Captive, tellwire.Agent], home: Home, tmp_path: Path
) -> None:
    _shell, captive, bob = world
    script = shlex.join([sys.executable, "-c", HANDED, str(home.settings.socket)])
    for number, around in enumerate(("{}", "setsid -f {}")):
        out = tmp_path / f"handed-{number}"
        await captive.run(around.format(f"bash -c {shlex.quote(f'{script} > {out}')}"))
        await until(lambda out=out: out.exists() and '"n":2' in out.read_text(), what="it was answered")
        assert "forbidden" in out.read_text()
    assert await senders(bob) == set()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("kind", ["script", "agent-cli"])
async def test_a_program_of_the_sdk_that_is_left_behind_is_not_another_agent(
    world: tuple[Shell, Captive, tellwire.Agent], kind: str
) -> None:
    _shell, captive, bob = world
    words = shlex.join([sys.executable, "-c", SDK, kind])
    ended = await captive.leave_behind(words, "setsid -f {}")
    assert (ended.code, "private" in ended.out) == (0, False), ended
    assert "I am carol-2" in ended.out
    assert await senders(bob) == {"carol-2"}


@pytest.mark.requirement("SEC-1", "NET-2")
@pytest.mark.parametrize("how", ["plain", "setsid", "setsid-clean", "background"])
async def test_a_shim_beneath_an_agent_bears_a_fresh_name_only(
    home: Home, join: Join, tmp_path: Path, how: str
) -> None:
    bob = await join("bob")
    async with open_shims(home) as shims:
        carol = await shims.open("carol")
        await carol.call("list_peers")
        carol.close()
        await carol.ended()
        await until(lambda: _is_away(bob, "carol"), what="carol has gone")
        await bob.send("carol", "private")
        async with at_work(home, tmp_path) as (_shell, captive):
            session = mcp_session("carol")
            if how == "plain":
                ended = await captive.run(session)
            else:
                ended = await captive.leave_behind(session, DETACHED[how])
            assert "private" not in ended.out
            assert await senders(bob) == {"carol-2"}, ended
            assert await waits(bob) == 1


async def _is_away(bob: tellwire.Agent, name: str) -> bool:
    return (await bob.peer(name)).status == "offline"


@pytest.mark.requirement("SEC-1")
async def test_a_command_in_an_agents_own_terminal_is_the_agents(
    world: tuple[Shell, Captive, tellwire.Agent],
) -> None:
    _shell, captive, bob = world
    for words in (SEND, f"script -qec {shlex.quote(SEND)} /dev/null", f"setsid -w {SEND}"):
        assert (await captive.run(words)).code == 0
        assert [message.sender for message in await take(bob, 1)] == ["coder"]
    assert (await captive.run(AS_CAROL)).code == 77


# -- what stays possible ----------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1")
async def test_the_person_in_the_agents_terminal_is_the_operator_when_it_is_suspended_and_when_it_has_quit(
    world: tuple[Shell, Captive, tellwire.Agent],
) -> None:
    shell, captive, bob = world
    shell.type("\x1a")
    suspended = await shell.run(SEND)
    assert suspended.code == 0, suspended
    assert [message.sender for message in await take(bob, 1)] == ["operator"]
    piped = await shell.run(f"( echo piped | {command('send', 'bob', '-')} )")
    assert piped.code == 0, piped
    assert [(message.sender, message.body) for message in await take(bob, 1)] == [("operator", "piped")]
    shell.type("fg\n")
    await captive.quit()
    assert (await shell.run(SEND)).code == 0
    assert [message.sender for message in await take(bob, 1)] == ["operator"]


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize(
    "around",
    [
        "bash -c {!r}",
        "env -i PATH=$PATH HOME=$HOME TELLWIRE_HOME=$TELLWIRE_HOME {}",
        "script -qec {!r} /dev/null",
        f"{sys.executable} -c {shlex.quote(PTY)} {{}}",
        "setpriv --reuid=$(id -u) {}" if os.getuid() == 0 else "nice {}",
        "su --pty $(id -un) -s /bin/bash -c {!r}" if os.getuid() == 0 else "nice {}",
    ],
    ids=["shell", "clean", "script", "editor", "setpriv", "su-with-a-terminal"],
)
async def test_programs_between_a_person_and_the_command_change_nothing(
    world: tuple[Shell, Captive, tellwire.Agent], around: str
) -> None:
    shell, _captive, bob = world
    shell.type("\x1a")
    ended = await shell.run(around.format(SEND))
    assert ended.code == 0, ended
    assert [message.sender for message in await take(bob, 1)] == ["operator"]


@pytest.mark.requirement("SEC-1")
async def test_a_second_terminal_and_a_script_work_beside_an_agent(
    world: tuple[Shell, Captive, tellwire.Agent], home: Home
) -> None:
    _shell, _captive, bob = world
    assert run_at_terminal(home, "send", "bob", "from the other terminal").code == 0
    for _ in range(2):
        done = run(home, "send", "bob", "planned", "--as", "nightly")
        assert done.code == 0, done
    told = [(message.sender, message.body) for message in await take(bob, 3)]
    assert told == [("operator", "from the other terminal"), ("nightly", "planned"), ("nightly", "planned")]


@pytest.mark.requirement("SEC-1")
async def test_a_daemon_that_is_older_than_the_agent_runs_scripts_and_opens_terminals(
    home: Home, join: Join, tmp_path: Path
) -> None:
    """As cron and sshd do: nobody is above them but init."""
    bob = await join("bob")
    gate, code = tmp_path / "gate", tmp_path / "code"
    os.mkfifo(gate)
    planned = command("send", "bob", "planned", "--as", "nightly")
    login = f"script -qec {shlex.quote(command('send', 'bob', 'login'))} /dev/null"
    daemon = f"read < {gate}; {planned} && {planned} && {login}; echo $? > {code}"
    environment = home.environment()
    started = await asyncio.create_subprocess_exec(
        *("setsid", "-f", "bash", "-c", daemon), env=environment, stdin=asyncio.subprocess.DEVNULL
    )
    await started.wait()
    folder = tmp_path / "agent"
    folder.mkdir()
    async with at_work(home, folder):
        await open_gate(gate)
        await until(lambda: code.exists() and code.read_text(), what="the daemon has done its work")
        assert code.read_text() == "0\n"
        assert [message.sender for message in await take(bob, 3)] == ["nightly", "nightly", "operator"]


@pytest.mark.requirement("SEC-1")
async def test_a_person_who_is_attached_to_tmux_is_the_operator_and_one_who_is_not_is_nobody(
    world: tuple[Shell, Captive, tellwire.Agent], home: Home, tmp_path: Path
) -> None:
    _shell, _captive, bob = world
    environment = {**home.environment(), "PS1": ""}
    async with Tmux.open("bash", "--noprofile", "--norc", "-i", environment=environment) as tmux:
        for number, attached in enumerate((False, True, False)):
            if attached:
                tmux.attach()
            else:
                tmux.leave()
            await until(lambda on=attached: _is_attached(tmux, on), what="who is attached")
            code = tmp_path / f"tmux-{number}"
            await tmux.run("send-keys", "-t", "0.0", f"{SEND}; echo $? > {code}", "Enter")
            await until(lambda code=code: code.exists() and code.read_text(), what="it is sent")
            assert (code.read_text() == "0\n") == attached, await tmux.screen()
    assert await senders(bob) == {"operator"}


async def _is_attached(tmux: Tmux, on: bool) -> bool:
    return bool((await tmux.run("list-clients")).strip()) == on


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-1", "NET-3")
async def test_an_agent_that_announces_an_absent_agents_name_gets_a_conflict_and_the_operator_does_not(
    home: Home, join: Join
) -> None:
    bob = await join("bob")
    async with open_shims(home) as shims:
        carol = await shims.open("carol")
        await carol.call("list_peers")
        carol.close()
        await carol.ended()
        await until(lambda: _is_away(bob, "carol"), what="carol has gone")
        await bob.send("carol", "private")
        mallory = await shims.open("mallory")
        told = await mallory.call("announce", {"name": "carol"})
        assert told.failed, told
        assert told.data["error"]["code"] == "conflict"
        assert "private" not in (await mallory.call("get_messages")).text
        registry = await shims.open("", "--dialect=f2")
        asked: dict[str, Any] = {"name": "carol", "type": "tester", "capabilities": []}
        await registry.call("list_agents")
        assert (await registry.call("register_agent", asked)).data["name"] == "carol-2"
        done = run_at_terminal(home, "update", "mallory", "--name", "carol")
        assert done.code == 0, done
        assert "private" in (await mallory.call("get_messages")).text
        assert (await mallory.call("agent_send", {"to": "bob", "body": "I am back"})).data["id"]
        assert [message.sender for message in await take(bob, 1)] == ["carol"]
    refused = run(home, "update", "carol", "--name", "bob-2")
    assert (refused.code, "operator" in refused.err) == (77, True)


@pytest.mark.requirement("NET-2", "NET-3")
async def test_an_id_is_not_a_name(home: Home, join: Join) -> None:
    bob, alice = await join("bob"), await join("alice")
    number = (await alice.peer("bob")).id
    assert (await alice.send(number, "x")).status == "denied"
    assert (await alice.send(f"id:{number}", "by id")).status == "received"
    impostor = await join(number)
    await alice.send(number, "by name")
    assert [message.body for message in await take(bob, 1)] == ["by id"]
    assert [message.body for message in await take(impostor, 1)] == ["by name"]
    told = json.loads(run(home, "history", "--agent", number, "--json").out)
    assert [each["body"] for each in told["messages"]] == ["by name"]
