"""The delivery matrix: a woken turn whose model fails is tried again."""

from __future__ import annotations

import pytest

from tests.end_to_end.matrix import cell, impossible
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import fail, say
from tests.end_to_end.stage import END, FINAL, QUESTION, REQUEST_S, Stage, once
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_matrix_idle import READY, settle
from tests.integration.world import until

TRIES = 40
"""More than any client asks a model that refuses."""
impossible("mcp", "failed turn retried", "nothing tells of its turns, and nothing begins one")


@pytest.mark.requirement("WAKE-3", stage="clients")
@cell("failed turn retried", *REAL)
async def test_a_woken_turn_that_failed_is_tried_again(stage: Stage) -> None:
    stage.play(say(READY))
    async with Terminal.open(stage.client) as terminal:
        await settle(stage, terminal)
        stage.play(*[fail(400)] * TRIES)
        (sent,) = await stage.send(QUESTION)
        await stage.request(QUESTION)
        await until(
            lambda: has_failed(stage), within_s=REQUEST_S, what="the listing to tell of a failed wake"
        )
        stage.model.drop(stage.row)
        stage.play(END)
        await terminal.shows(FINAL)
        await stage.until_read(sent)
    once(stage.requests[-1])


async def has_failed(stage: Stage) -> bool:
    """Whether the listing says that the last wake failed, and when the next comes."""
    peer = await stage.alice.peer(stage.agent)
    return any(path.wakes and "its last wake failed; next try in" in path.note for path in peer.paths)
