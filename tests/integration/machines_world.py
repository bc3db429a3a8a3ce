"""Two homes on this computer as two machines, paired by the real commands over a real Redis or sshd."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tellwire
from tests.integration.attacks import Shell
from tests.integration.daemons import Sshd
from tests.integration.world import ROOT, Home, take, tellwire_command, until
from tests.surfaces.cli_world import Done, run_at_terminal

INVITE = re.compile(r"tellwire1\.[a-z2-7]+")


class Computer(Home):
    """A home that is a machine of its own, with its own name and its own way to find `ssh`."""

    def __init__(self, path: Path, label: str) -> None:
        super().__init__(path)
        self.label = label
        self.tools = path.with_name(f"{path.name}-tools")
        self.tools.mkdir()

    def environment(self, **settings: object) -> dict[str, str]:
        """With our own programs first."""
        given = super().environment(**settings)
        return {**given, "PATH": f"{self.tools}{os.pathsep}{given['PATH']}"}

    async def at_terminal(self, *words: str, types: bytes = b"") -> Done:
        """A command of the person at this machine."""
        path = self.environment()["PATH"]
        return await asyncio.to_thread(
            run_at_terminal, self, *words, types=types, columns=200, PATH=path, NO_COLOR="1"
        )

    async def machines(self) -> dict[str, dict[str, Any]]:
        """The other machines, by label."""
        done = await self.at_terminal("machine", "--json")
        assert done.code == 0, done
        text = done.out[done.out.index("{") : done.out.rindex("}") + 1]
        return {each["label"]: each for each in json.loads(text)["machines"]}

    async def online(self, label: str) -> None:
        """Wait until another machine is heard."""

        async def look() -> bool:
            return (await self.machines()).get(label, {}).get("status") == "online"

        await until(look, what=f"{label} is online for {self.label}")


@asynccontextmanager
async def computers(*labels: str) -> AsyncGenerator[list[Computer]]:
    """Homes with running brokers; nothing of them is left."""
    made: list[Computer] = []
    try:
        for label in labels:
            made.append(Computer(Path(tempfile.mkdtemp(prefix=f"tlw-{label}-")), label))
        for each in made:
            await asyncio.to_thread(each.up)
        yield made
    finally:
        for each in made:
            each.end()
            for folder in (each.path, each.tools):
                shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def inviting(host: Computer, url: str, *words: str) -> AsyncGenerator[tuple[Shell, str]]:
    """`machine invite` at a terminal, while it waits; and the invite."""
    command = tellwire_command("machine", "invite", "--carrier", url, "--me", host.label, *words)
    shell = Shell(host, host.tools, *command)
    try:
        await until(
            lambda: INVITE.search(shell.screen) or shell.process.poll() is not None, what=shell.screen
        )
        found = INVITE.search(shell.screen.replace("\r\n", "").replace("\n", ""))
        assert found, shell.screen
        yield shell, found[0]
    finally:
        await shell.close()


async def pair_over_redis(host: Computer, guest: Computer, url: str) -> None:
    """Pair two machines as people do."""
    async with inviting(host, url) as (shell, invite):
        joined = await guest.at_terminal("machine", "join", invite, "--me", guest.label, "--yes")
        assert joined.code == 0, (joined, shell.screen)
        await until(lambda: " paired " in shell.screen, what=shell.screen)
    await host.online(guest.label)
    await guest.online(host.label)


def prepare_ssh(near: Computer, far: Computer, sshd: Sshd) -> Path:
    """Have `ssh here` on one machine log in to the other; where the other's tellwire is."""
    words = ["/usr/bin/ssh" if word == "ssh" else word for word in sshd.ssh()]
    script = " ".join(f"'{word}'" for word in words)
    ssh = near.tools / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {script} "$@"\n')
    ssh.chmod(0o755)
    program = far.tools / "tellwire"
    program.write_text(
        f"#!/bin/sh\necho Welcome to {far.label}!\n"
        f'TELLWIRE_HOME={far.path} exec {ROOT}/.venv/bin/tellwire "$@"\n'
    )
    program.chmod(0o755)
    return program


async def talk(near: Computer, far: Computer) -> None:
    """Both write to each other, and reply to `from` as it stands."""
    async with (
        tellwire.connect("alice", home=near.path) as alice,
        tellwire.connect("bob", home=far.path) as bob,
    ):

        async def known() -> bool:
            names = {each.name for each in await alice.peers(all=True)}
            back = {each.name for each in await bob.peers(all=True)}
            return f"{far.label}:bob" in names and f"{near.label}:alice" in back

        await until(known, what="both are listed")
        for number in range(20):
            sent = await alice.send(f"{far.label}:bob", f"there {number}")
            assert sent.status in ("received", "queued"), sent
        got = await take(bob, 20)
        assert [(each.sender, each.body) for each in got] == [
            (f"{near.label}:alice", f"there {number}") for number in range(20)
        ]
        await bob.confirm([each.id for each in got])
        await bob.send(got[0].sender, "back", re=got[0].id)
        (answer,) = await take(alice, 1)
        assert (answer.sender, answer.body) == (f"{far.label}:bob", "back")
        await alice.confirm([answer.id])
