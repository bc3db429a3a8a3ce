"""What the mesh looks like from outside, for tests with clients."""

from __future__ import annotations

import json
import re

from tellwire import Agent
from tests.end_to_end.script import Request
from tests.integration.world import Home, until

SENT = re.compile(r'(m[0-9a-z]+)"?,?\s*(?:"status":\s*")?(?:received|queued)')


def statuses(home: Home) -> dict[str, str]:
    """Who is known, and how, as `tellwire list` tells."""
    done = home.tellwire("list", "--all", "--json")
    assert done.returncode == 0, done.stderr
    return {agent["name"]: agent["status"] for agent in json.loads(done.stdout)["agents"]}


async def until_status(home: Home, name: str, status: str) -> None:
    """Wait until an agent is listed so."""
    await until(lambda: statuses(home).get(name) == status, what=f"{name} {status}")


async def until_known(observer: Agent, name: str) -> None:
    """Wait until an agent is online, as another one sees it."""

    seen: dict[str, str] = {}

    async def online() -> bool:
        seen.clear()
        seen.update({peer.name: peer.status for peer in await observer.peers(all=True)})
        return seen.get(name) == "online"

    try:
        await until(online, what=f"{name} online")
    except AssertionError as fault:
        raise AssertionError(f"{fault}; there are {seen}") from None


def sent_id(request: Request) -> str:
    """As an argument: the id of the first message that this agent sent."""
    return SENT.findall(request.text)[0]
