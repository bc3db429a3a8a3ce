"""The delivery matrix: what it costs a headless run that tellwire is there, and how it goes again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellwire.core.mail.drafts import digest_of
from tests.end_to_end.clients import Client, run
from tests.end_to_end.matrix import cell
from tests.end_to_end.programs import PROGRAMS, REAL
from tests.end_to_end.script import Step, say
from tests.end_to_end.stage import END, FINAL, LOOK, PROMPT, Stage, install, last_words
from tests.end_to_end.trust import Cautious, trust
from tests.integration.world import until

RUNS = 5
ENOUGH = RUNS // 2 + 1
"""So many pairs on one side decide where the median lies."""
RATIO_MAX = 2.0
"""A run that waits for something of ours takes many times as long; a busy machine makes some of this."""
SAID = "Nothing to do."


@pytest.mark.requirement("WAKE-3", stage="clients")
@cell("headless speed", *REAL)
async def test_a_headless_run_ends_as_fast_as_without_tellwire(stage: Stage) -> None:
    shop, program = stage.folder / "shop", type(stage.client)
    bare = program(stage.folder / "bare", shop, stage.model.url("bare"))
    ours = program(stage.folder / "ours", shop, stage.model.url("ours"))
    for client in (bare, ours):
        client.configure()
    install(stage.home, ours)
    if isinstance(ours, Cautious):
        await trust(stage.home, ours, stage.agent)
    ratios: list[float] = []
    told: list[str] = []
    while (fast := sum(each <= RATIO_MAX for each in ratios)) < ENOUGH and len(ratios) - fast < ENOUGH:
        # In pairs, for the machine gets slower and faster meanwhile; and by turns first, for the same reason.
        pair = [("bare", bare), ("ours", ours)]
        times: dict[str, float] = {}
        for name, client in pair if len(ratios) % 2 else reversed(pair):
            stage.model.play(name, say(SAID))
            times[name] = await time_of(client)
        ratios.append(times["ours"] / times["bare"])
        told.append(f"{times['ours']:.2f} s, {times['bare']:.2f} s without")
    assert fast == ENOUGH, f"it takes more than {RATIO_MAX} times as long with tellwire: {told}"
    assert not any("<peer-message id=" in request.text for request in stage.model.requests("ours"))


async def time_of(client: Client) -> float:
    """How long a run takes in which the model answers at once."""
    ran = await run(client, PROMPT)
    assert (ran.code, ran.text) == (0, SAID), last_words(ran)
    return ran.took_s


@pytest.mark.requirement("SC-12", stage="clients")
@cell("final text", *REAL)
async def test_the_end_of_a_turn_is_noted_once_with_its_final_answer_alone(stage: Stage) -> None:
    before = Step(text="I look around first.", calls=LOOK.calls)
    stage.play(before, END)
    ran = await run(stage.client, PROMPT)
    assert ran.code == 0, last_words(ran)
    await until(lambda: turns(stage), what="the end of a turn in the journal")
    assert turns(stage) == [("ended", len(FINAL), digest_of("", FINAL))]


def turns(stage: Stage) -> list[tuple[str, int, str]]:
    """The turns that ended, as the journal has them."""
    done = stage.home.tellwire("audit", "--json", "--limit", "1000")
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["rows"] if row["type"] == "turn_ended"]
    return [(row["detail"]["outcome"], row["detail"]["size"], row["detail"]["digest"]) for row in rows]


@cell("uninstall", *REAL)
async def test_uninstalling_leaves_every_file_as_it_was(stage: Stage) -> None:
    client = PROGRAMS[stage.row](stage.folder / "fresh", stage.folder / "yard", stage.model.url(stage.row))
    client.configure()
    before = contents(client.home, client.project)
    install(stage.home, client)
    assert contents(client.home, client.project) != before
    install(stage.home, client, "uninstall")
    after = contents(client.home, client.project)
    assert after.keys() == before.keys(), after.keys() ^ before.keys()
    changed = [path for path, data in after.items() if data != before[path]]
    assert not changed, changed


def contents(*folders: Path) -> dict[str, bytes]:
    """All files, and the folders without any, by path."""
    found = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in found}
