"""The broker may die at any moment."""

import sys
from asyncio import create_subprocess_exec, subprocess, timeout

import pytest

from tests.integration.world import ROOT, Home


@pytest.mark.requirement("NET-6", "NET-9")
async def test_thirty_kills_under_load_lose_double_and_reorder_nothing(home: Home) -> None:
    command = (sys.executable, "-m", "tests.integration.kills", "--kills", "30", "--home", str(home.path))
    process = await create_subprocess_exec(
        *command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        async with timeout(250):
            said = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said
    assert "30 kills, 10 clients" in said
