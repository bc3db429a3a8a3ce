"""Two machines: paired by ssh and over Redis with the real programs, and what gets from one to the other."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

import tellwire
from tests.integration import kills_carrier, redis_server
from tests.integration.daemons import Sshd
from tests.integration.machines_world import Computer, computers, inviting, pair_over_redis, prepare_ssh, talk
from tests.integration.redis_server import RedisServer, make_certificate
from tests.integration.world import take, until


@pytest.mark.requirement("FED-1")
async def test_machines_are_paired_over_redis_with_one_command_a_side(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    await talk(laptop, desk)
    shown = await laptop.at_terminal("machine", "show", "desk")
    assert "redis" in shown.out
    assert redis_server.PASSWORD not in shown.out, "no password is shown"
    for home in pair:
        stored = b"".join(file.read_bytes() for file in home.path.glob("tellwire.db*"))
        assert redis_server.PASSWORD.encode() not in stored, "no password is in the journal"


@pytest.mark.requirement("NET-10")
async def test_a_machine_is_added_by_one_ssh_command(pair: tuple[Computer, Computer], sshd: Sshd) -> None:
    laptop, desk = pair
    program = prepare_ssh(laptop, desk, sshd)
    added = await laptop.at_terminal(
        "machine", "add", "here", "--program", str(program), "--as", "desk", "--me", "laptop"
    )
    assert added.code == 0, (added, sshd.log)
    assert "desk  paired  own  by ssh" in added.out
    await laptop.online("desk")
    await desk.online("laptop")
    await talk(laptop, desk)
    inbox = await desk.at_terminal("inbox")
    assert "laptop is paired" in inbox.out, "the operator there is told"


@pytest.mark.requirement("FED-3")
async def test_nothing_is_lost_doubled_or_reordered_while_redis_is_killed_and_comes_back_empty() -> None:
    if reason := redis_server.missing():
        pytest.skip(f"there is no redis-server: {reason}")
    result = await kills_carrier.run(10)
    assert not result.violations
    assert result.messages > 100


@pytest.mark.requirement("FED-3")
async def test_what_is_sent_while_nothing_carries_it_arrives_when_something_does(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    async with (
        tellwire.connect("alice", home=laptop.path) as alice,
        tellwire.connect("bob", home=desk.path) as bob,
    ):
        await until(lambda: _lists(alice, "desk:bob"), what="bob is listed")
        await server.kill()
        for number in range(5):
            await alice.send("desk:bob", f"{number}")
        laptop.signal(laptop.KILL)
        shown = await laptop.at_terminal("machine", "show", "desk")
        assert "5 items" in shown.out or "outbox" in shown.out
        await server.start()
        assert [each.body for each in await take(bob, 5)] == ["0", "1", "2", "3", "4"]


@pytest.mark.requirement("FED-4")
async def test_a_removed_machine_is_out_at_once_and_stays_out(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    async with (
        tellwire.connect("alice", home=laptop.path) as alice,
        tellwire.connect("bob", home=desk.path) as bob,
    ):
        await until(lambda: _lists(alice, "desk:bob"), what="bob is listed")
        await until(lambda: _lists(bob, "laptop:alice"), what="alice is listed")
        removed = await laptop.at_terminal("machine", "remove", "desk", types=b"y\n")
        assert removed.code == 0, removed
        assert (await laptop.machines())["desk"]["status"] == "removed"
        assert not await _lists(alice, "desk:bob")
        await bob.send("laptop:alice", "let me in")
        denied = await alice.send("desk:bob", "still there?")
        assert denied.status == "denied"
        async with inviting(laptop, server.url) as (shell, invite):
            again = await desk.at_terminal("machine", "join", invite, "--yes", "--as", "old")
            assert again.code == 68, (again, shell.screen)
            assert "removed" in again.out
        laptop.signal(laptop.KILL)
        assert (await laptop.machines())["desk"]["status"] == "removed"
        assert await alice.messages() == []


async def _lists(agent: tellwire.Agent, name: str) -> bool:
    return name in {each.name for each in await agent.peers(all=True)}


async def test_a_copied_home_does_not_connect_until_it_has_an_identity_of_its_own(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    assert (await laptop.at_terminal("down")).code == 0
    async with computers() as _none:
        copy = Computer(laptop.path.with_name(laptop.path.name + "-copy"), "copy")
        try:
            shutil.copytree(laptop.path, copy.path, ignore=shutil.ignore_patterns("socket"))
            await asyncio.to_thread(copy.up)
            shown = await until(lambda: _tells(copy, "machine renew"), what="it says what to do")
            assert "was made for" in shown
            renewed = await copy.at_terminal("machine", "renew", "--yes")
            assert renewed.code == 0, renewed
            async with inviting(desk, server.url) as (shell, invite):
                joined = await copy.at_terminal("machine", "join", invite, "--me", "copy", "--yes")
                assert joined.code == 0, (joined, shell.screen)
            await copy.online("desk")
            await asyncio.to_thread(laptop.up)
            await laptop.online("desk")
            assert {"laptop", "copy"} <= set(await desk.machines())
            await talk(copy, desk)
            await talk(laptop, desk)
        finally:
            copy.end()
            for folder in (copy.path, copy.tools):
                shutil.rmtree(folder, ignore_errors=True)


async def test_a_machine_with_a_new_identity_is_paired_again_as_a_new_one(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    before = (await desk.machines())["laptop"]["id"]
    renewed = await laptop.at_terminal("machine", "renew", types=b"y\n")
    assert renewed.code == 0, renewed
    async with inviting(desk, server.url) as (shell, invite):
        joined = await laptop.at_terminal("machine", "join", invite, "--me", "laptop2", "--yes")
        assert joined.code == 0, (joined, shell.screen)
    await desk.online("laptop2")
    laptop.signal(laptop.KILL)
    await laptop.online("desk")
    after = await desk.machines()
    assert after["laptop"]["id"] == before != after["laptop2"]["id"]
    laptop.label = "laptop2"
    await talk(laptop, desk)


async def _tells(home: Computer, words: str) -> str:
    shown = (await home.at_terminal("machine", "show", "desk")).out
    return shown if words in shown else ""


async def test_the_rights_that_acl_prints_are_enough_and_all_others_are_refused(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    async with _owner(server) as owner:
        for home in pair:
            line = (await home.at_terminal("machine", "acl")).out.strip().splitlines()[0]
            words = line.replace(">PASSWORD", ">pw").split()
            await owner.execute_command("ACL", "SETUSER", home.label, *words[3:])
    urls = [f"redis://{home.label}:pw@127.0.0.1:{server.port}/0" for home in pair]
    async with inviting(laptop, urls[0]) as (shell, invite):
        joined = await desk.at_terminal(
            "machine", "join", invite, "--me", "desk", "--yes", "--carrier", urls[1]
        )
        assert joined.code == 0, (joined, shell.screen)
    await laptop.online("desk")
    await desk.online("laptop")
    await talk(laptop, desk)
    other = (await desk.machines())["laptop"]["id"]
    async with _owner(server) as owner, _owner(server, urls[1]) as user:
        theirs = next(key for key in await owner.keys("tellwire:1:{*") if key.endswith(other.encode()))
        for refused in (("FLUSHALL",), ("KEYS", "*"), ("DEL", theirs), ("XTRIM", theirs, "MAXLEN", "0")):
            with pytest.raises(RedisError):
                await user.execute_command(*refused)


async def test_a_machine_that_is_switched_off_gets_its_mail_when_it_is_on_again(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    async with (
        tellwire.connect("alice", home=laptop.path) as alice,
        tellwire.connect("bob", home=desk.path) as bob,
    ):
        await until(lambda: _lists(alice, "desk:bob"), what="bob is listed")
        assert (await laptop.at_terminal("machine", "off", "desk")).code == 0
        await alice.send("desk:bob", "later")
        assert await bob.messages(wait_s=1.0) == []
        assert "off" in (await laptop.at_terminal("machine")).out
        assert (await laptop.at_terminal("machine", "on")).code == 0
        assert [each.body for each in await take(bob, 1)] == ["later"]
        doctor = await laptop.at_terminal("doctor")
        assert "machine desk" in doctor.out


async def test_a_redis_with_a_foreign_certificate_is_refused_and_a_known_one_is_used(
    pair: tuple[Computer, Computer], tmp_path: Path
) -> None:
    if reason := redis_server.missing():
        pytest.skip(f"there is no redis-server: {reason}")
    certificate, key = make_certificate(tmp_path)
    server = RedisServer(tmp_path, certificate=certificate, key=key)
    await server.start()
    try:
        laptop, desk = pair
        foreign = await laptop.at_terminal("machine", "invite", "--carrier", server.url)
        assert foreign.code == 69, foreign
        assert "certificate" in foreign.out
        await pair_over_redis(laptop, desk, f"{server.url}?ssl_ca_certs={certificate}")
        await talk(laptop, desk)
    finally:
        await server.kill()


def test_a_broker_without_machines_loads_neither_pynacl_nor_redis() -> None:
    """Most have one machine: they pay nothing for those who have more."""
    look = (
        "import sys, tellwire.daemon, tellwire.cli.app, tellwire.cli.commands.machines; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "tellwire" in loaded
    assert not loaded & {"nacl", "redis", "hiredis"}


# -- an operator of the Redis who means harm ------------------------------------------------------------


@pytest.mark.requirement("FED-2")
async def test_who_owns_the_redis_can_only_withhold(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    await pair_over_redis(laptop, desk, server.url)
    async with (
        tellwire.connect("alice", home=laptop.path) as alice,
        tellwire.connect("bob", home=desk.path) as bob,
        _owner(server) as owner,
    ):
        await until(lambda: _lists(alice, "desk:bob"), what="bob is listed")
        got: list[str] = []
        for number in range(30):
            await alice.send("desk:bob", f"secret {number}")
            await _do_harm(owner, number)
            messages = await bob.messages(wait_s=0.05)
            got += [str(each.body) for each in messages]
            await bob.confirm([each.id for each in messages])

        async def all_came() -> bool:
            messages = await bob.messages(wait_s=0.2)
            got.extend(str(each.body) for each in messages)
            await bob.confirm([each.id for each in messages])
            return len(got) >= 30

        await until(all_came, what="all that was sent")
        assert got == [f"secret {number}" for number in range(30)]
        assert await bob.messages(wait_s=0.5) == []
        refused = await until(lambda: _refused(desk), what="the audit tells of it")
        assert refused > 20


def _owner(server: RedisServer, url: str = "") -> Any:
    make: Any = Redis
    return make.from_url(url or server.url)


async def _do_harm(owner: Any, number: int) -> None:
    """Alter, replay, swap, truncate, insert, delete: something else each time."""
    streams = [key for key in await owner.keys("tellwire:1:{*") if b"pair" not in key]
    for key, other in zip(streams, reversed(streams), strict=True):
        entries = await owner.xrange(key)
        blobs = [fields[b"p"] for _, fields in entries if b"p" in fields][-8:]
        for blob in blobs:
            changed = bytearray(blob)
            changed[number * 7 % len(blob)] ^= 1
            await owner.xadd(key, {"p": bytes(changed)})  # altered
            await owner.xadd(key, {"p": blob})  # replayed
            await owner.xadd(other, {"p": blob})  # reflected, or of another pair
            await owner.xadd(key, {"p": blob[: len(blob) // 2]})  # truncated
        await owner.xadd(key, {"p": os.urandom(200)})
        await owner.xadd(key, {"x": b"", "y": b"no blob"})
        if number % 5 == 4:
            await owner.delete(key)
        elif number % 5 == 3:
            await owner.xtrim(key, maxlen=0)


async def _refused(home: Computer) -> int:
    done = await home.at_terminal("audit", "--json", "--limit", "1000")
    rows = json.loads(done.out[done.out.index("{") : done.out.rindex("}") + 1])["rows"]
    return sum(row["detail"].get("count", 0) for row in rows if row["type"] == "parcels_refused")
