"""A journal whose end is lost: operator, log, doctor and the proof tell it until a person acknowledges it."""

from __future__ import annotations

import json
import os

import pytest

import tellwire
from tellwire.store.chain import load_head
from tests.integration.world import Home, OpenRaw, until
from tests.surfaces.cli_world import run_at_terminal


async def lose(home: Home, how: str) -> None:
    """Six messages, a killed broker, and a file that lacks some or all of them."""
    home.up(beat_s=0.2)
    run_at_terminal(home, "inbox")  # so that there is an operator
    async with tellwire.connect("alice", home=home.path, autostart=False) as alice:
        async with tellwire.connect("bob", home=home.path, autostart=False):
            pass
        for number in range(6):
            await alice.send("bob", f"message {number}")
        written = home.status()["sequence"]
        await until(lambda: (head := load_head(home.settings.database)) is not None and head.seq >= written)
    home.end()
    if how == "cut":
        with open(f"{home.settings.database}-wal", "r+b") as log:  # noqa: ASYNC230 - nothing else runs
            log.truncate(log.seek(0, os.SEEK_END) // 2)
    else:
        for path in home.path.glob("tellwire.db*"):
            path.unlink()


@pytest.mark.requirement("NET-11", "NET-9")
@pytest.mark.parametrize("how", ["cut", "removed"])
async def test_a_lost_end_is_told_everywhere_until_a_person_acknowledges_it(
    home: Home, raw: OpenRaw, how: str
) -> None:
    await lose(home, how)
    home.up(beat_s=0.2)
    (words,) = home.status()["lost"]
    assert ("the last" if how == "cut" else "all of them are lost") in words
    assert words in home.log
    told = await until(lambda: told if words[:40] in (told := " ".join(read_inbox(home).split())) else "")
    assert "tellwire audit --acknowledge" in told
    doctor = home.tellwire("doctor")
    assert (doctor.returncode, words in " ".join(doctor.stdout.split())) == (74, True)
    verdict = home.tellwire("audit", "--verify", "--json")
    assert verdict.returncode == 74
    assert "lost" in {finding["kind"] for finding in json.loads(verdict.stdout)["findings"]}
    agent = await raw()
    await agent.register("mallory")
    assert (await agent.call("acknowledge_losses"))["error"]["code"] == "forbidden"
    assert home.tellwire("audit", "--acknowledge").returncode == 77, "a script is no person"
    home.end()
    home.up(beat_s=0.2)
    assert home.status()["lost"] == [words], "a restart alone ends nothing"
    done = run_at_terminal(home, "audit", "--acknowledge")
    assert (done.code, "Acknowledged." in done.out) == (0, True)
    assert home.status()["lost"] == []
    assert home.tellwire("audit", "--verify").returncode == 0
    assert home.tellwire("doctor").returncode == 0


def read_inbox(home: Home) -> str:
    """What the operator sees."""
    return run_at_terminal(home, "inbox", columns=400).out
