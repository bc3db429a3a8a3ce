"""Pairing machines with the real commands where something is wrong: each has its reason and exit code."""

from __future__ import annotations

import pytest

import tellwire
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.machines import MachineCard
from tests.integration.daemons import Sshd
from tests.integration.machines_world import Computer, computers, inviting, pair_over_redis, prepare_ssh
from tests.integration.redis_server import RedisServer
from tests.integration.world import until
from tests.surfaces.cli_world import run


async def test_an_invite_is_used_once_and_a_withdrawn_or_damaged_one_is_refused(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    async with computers("third") as (third,):
        async with inviting(laptop, server.url) as (shell, invite):
            joined = await desk.at_terminal("machine", "join", invite, "--me", "desk", "--yes")
            assert joined.code == 0, (joined, shell.screen)
        used = await third.at_terminal("machine", "join", invite, "--yes")
        assert (used.code, "invite_used" in used.out or "has used" in used.out) == (65, True), used
        async with inviting(laptop, server.url) as (shell, withdrawn):
            shell.type("\x03")
            await until(lambda: shell.process.poll() is not None, what="it has ended")
        refused = await third.at_terminal("machine", "join", withdrawn, "--yes")
        assert refused.code == 65, refused
        assert "withdrawn" in refused.out
        for damaged in (invite[:-3], invite.replace("2", "3", 1), "tellwire1.", "hello"):
            assert (await third.at_terminal("machine", "join", damaged, "--yes")).code == 65
        assert await third.machines() == {}


async def test_a_label_that_is_taken_is_refused_before_anything_is_stored(
    pair: tuple[Computer, Computer], server: RedisServer
) -> None:
    laptop, desk = pair
    async with computers("third") as (third,):
        await pair_over_redis(laptop, desk, server.url)
        async with inviting(laptop, server.url) as (shell, invite):
            taken = await third.at_terminal("machine", "join", invite, "--me", "desk", "--yes")
            assert taken.code == 75, (taken, shell.screen)
            assert "--me desk-2" in taken.out
            assert await third.machines() == {}
            joined = await third.at_terminal("machine", "join", invite, "--me", "desk-2", "--yes")
            assert joined.code == 0, (joined, shell.screen)
        assert {"desk", "desk-2"} <= set(await laptop.machines())


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("redis://:wrong@127.0.0.1:{port}/0", 69, "password"),
        ("redis://127.0.0.1:1/0", 69, "onnect"),
        ("redis+sentinel://127.0.0.1:{port}/main", 64, "Sentinel"),
        ("redis+cluster://127.0.0.1:{port}", 64, "Cluster"),
        ("http://127.0.0.1:{port}", 64, "not the address of a Redis"),
    ],
)
async def test_a_redis_that_cannot_be_used_is_told_with_the_reason(
    pair: tuple[Computer, Computer], server: RedisServer, url: str, code: int, words: str
) -> None:
    laptop, _desk = pair
    done = await laptop.at_terminal("machine", "invite", "--carrier", url.format(port=server.port))
    assert done.code == code, done
    assert words in done.out
    assert "wrong" not in done.out.replace("WRONGPASS", "").replace("wrong p", ""), "no password is shown"


async def test_ssh_that_fails_is_told_in_its_own_words(pair: tuple[Computer, Computer], sshd: Sshd) -> None:
    laptop, desk = pair
    program = prepare_ssh(laptop, desk, sshd)
    nowhere = await laptop.at_terminal("machine", "add", "nowhere.invalid")
    assert nowhere.code == 69, nowhere
    assert "Could not resolve" in nowhere.out
    missing = await laptop.at_terminal("machine", "add", "here", "--program", "/nowhere/tellwire")
    assert missing.code == 69, missing
    assert "/nowhere/tellwire" in missing.out
    assert "--program" in missing.out
    program.write_text("#!/bin/sh\necho \"Error: No such command 'machine'.\" >&2; exit 64\n")
    old = await laptop.at_terminal("machine", "add", "here", "--program", str(program))
    assert old.code == 76, old
    assert (await laptop.at_terminal("machine", "add", "--", "-oProxyCommand=true")).code == 64


@pytest.mark.requirement("SEC-1")
async def test_only_the_operator_pairs_machines(pair: tuple[Computer, Computer]) -> None:
    laptop, _desk = pair
    for words in (
        ("invite", "--carrier", "redis://127.0.0.1:1/0"),
        ("acl",),
        ("renew", "--yes"),
        ("add", "x"),
    ):
        assert run(laptop, "machine", *words).code == 77, words
    async with tellwire.connect("alice", home=laptop.path) as alice:
        with pytest.raises(TellwireError) as refused:
            await alice.call(MachineCard())
    assert refused.value.code == "forbidden"
    assert not (laptop.path / "machine.key").exists()
