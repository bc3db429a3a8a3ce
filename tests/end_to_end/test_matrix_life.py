"""The delivery matrix: what it costs a headless run that palaver is there, and how it goes again."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.end_to_end.clients import Client, run
from tests.end_to_end.conftest import PROGRAMS
from tests.end_to_end.matrix import cell
from tests.end_to_end.script import say
from tests.end_to_end.stage import PROMPT, Stage, install, last_words

RUNS = 5
RATIO_MAX = 1.5
MORE_S = 0.3
SAID = "Nothing to do."


@cell("headless speed", "claude", "codex", "gemini")
async def test_a_headless_run_ends_as_fast_as_without_palaver(stage: Stage) -> None:
    bare = PROGRAMS[stage.row](stage.folder / "bare", stage.folder / "shop", stage.model.url("bare"))
    bare.configure()
    times: dict[str, list[float]] = {"bare": [], stage.row: []}
    for _ in range(RUNS):
        for name, client in (("bare", bare), (stage.row, stage.client)):
            stage.model.play(name, say(SAID))
            times[name].append(await time_of(client))
    ours, theirs = median(times[stage.row]), median(times["bare"])
    assert ours <= theirs * RATIO_MAX + MORE_S, f"{ours:.2f} s with palaver, {theirs:.2f} s without"
    assert not any("peer-message" in request.text for request in stage.requests)


async def time_of(client: Client) -> float:
    """How long a run takes in which the model answers at once."""
    ran = await run(client, PROMPT)
    assert (ran.code, ran.text) == (0, SAID), last_words(ran)
    return ran.took_s


@cell("uninstall", "claude", "codex", "gemini")
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
