"""`go`: to the tmux pane of an agent, from outside and from inside the same tmux."""

from __future__ import annotations

import json
import sys

from tests.integration.tmux import Tmux
from tests.integration.world import Home, Join, tellwire_command, until
from tests.surfaces.cli_world import run, run_program

PROGRAM = (
    "import asyncio, tellwire\n"
    "async def main():\n"
    "    async with tellwire.connect('worker', kind='agent-cli'):\n"
    "        await asyncio.Event().wait()\n"
    "asyncio.run(main())\n"
)


async def test_go_opens_the_pane_of_an_agent(home: Home, join: Join) -> None:
    alice = await join("alice")
    async with Tmux.open(sys.executable, "-c", PROGRAM, environment=home.environment()) as tmux:

        async def is_there() -> bool:
            return any(peer.name == "worker" for peer in await alice.peers(all=True))

        await until(is_there, what="the worker joined")
        socket = str(tmux.folder / "socket")
        pane = (await tmux.run("display-message", "-p", "-t", "0.0", "#{pane_id}")).strip()
        session = (await tmux.run("display-message", "-p", "-t", "0.0", "#{session_id}")).strip()
        for command in ("go", "attach"):
            words = json.loads(run(home, command, "worker", "--json").out)["command"]
            assert words[:3] == ["tmux", "-S", socket]
            assert pane in words
            assert words[-3:] == ["attach-session", "-t", session]
        inside = run_program(home, tellwire_command("go", "worker", "--json"), TMUX=f"{socket},1,0")
        assert json.loads(inside.out)["command"][-3:] == ["switch-client", "-t", session]
        await tmux.run(*words[3:-4])
    refused = run(home, "go", "alice")
    assert (refused.code, "not running in tmux" in refused.err) == (65, True)
    assert run(home, "go", "nobody").code == 68
