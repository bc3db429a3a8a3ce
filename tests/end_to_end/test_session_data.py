"""Looking into the session of a real client, from outside: what it was told, said and called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellwire.protocol.operations.sessions import SessionData
from tests.end_to_end.mesh import until_known
from tests.end_to_end.programs import REAL
from tests.end_to_end.script import say
from tests.end_to_end.stage import FINAL, LOOK, PROMPT, Stage, open_stage
from tests.end_to_end.terminal import Terminal
from tests.integration.world import until


@pytest.mark.requirement("SC-9", stage="links")
@pytest.mark.parametrize("short", REAL)
async def test_the_session_of_a_real_client_is_told_as_markdown(short: str, tmp_path: Path) -> None:
    async with open_stage(short, tmp_path) as stage:
        stage.play(LOOK, say(FINAL))
        async with Terminal.open(stage.client) as terminal:
            await terminal.shows(stage.client.ready_mark)
            await terminal.type(PROMPT)
            await terminal.shows(FINAL)
            await terminal.idle()
            await until_known(stage.alice, stage.agent)
            found = await until(lambda: whole(stage), what="the record of the turn")
    assert found is not None
    assert (found.agent, found.source) == (stage.agent, "transcript")
    assert "list_peers" in found.text
    assert found.text.index(PROMPT) < found.text.index("list_peers") < found.text.index(FINAL)


async def whole(stage: Stage) -> SessionData | None:
    """The session's text, once the turn is in it to its end."""
    found = await stage.alice.turns.transcript(stage.agent)
    return found if found.source == "transcript" and FINAL in found.text else None
