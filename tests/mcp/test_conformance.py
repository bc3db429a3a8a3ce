"""The official conformance suite, as far as it is for a server with tools and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.mcp.bridge import bridged
from tests.mcp.node import Conformance
from tests.mcp.scenarios import APPLY, EXEMPT, VERSIONS, Why


def failed(checks: list[dict[str, Any]]) -> list[str]:
    """What is wrong; a scenario that has found nothing right has not found out anything."""
    wrong = [check for check in checks if check["status"] not in ("SUCCESS", "INFO")]
    if not any(check["status"] == "SUCCESS" for check in checks):
        return ["nothing was checked", *map(str, checks)]
    return [f"{check['id']}: {check.get('errorMessage')}" for check in wrong]


async def test_every_scenario_of_the_suite_applies_or_says_why_not(conformance: Conformance) -> None:
    listed = await conformance.list_scenarios()
    known = Counter([*APPLY, *(exempt.scenario for exempt in EXEMPT)])
    assert known == Counter(listed.keys())
    assert {version for versions in listed.values() for version in versions} == VERSIONS


async def test_the_reasons_are_true_of_the_server(server_command: tuple[str, ...]) -> None:
    transport = stdio_client(StdioServerParameters(command=server_command[0], args=list(server_command[1:])))
    async with Client(transport, mode="legacy") as client:
        declared = {name for name, value in client.server_capabilities if value is not None}
        tools = {tool.name for tool in (await client.list_tools()).tools}
    has = {Why.CAPABILITY: declared, Why.TOOL: tools, Why.HTTP: set[str]()}
    assert "tools" in declared
    assert not [exempt for exempt in EXEMPT if exempt.what in has[exempt.why]]


@pytest.mark.parametrize("scenario", APPLY)
async def test_the_server_conforms(
    conformance: Conformance, server_command: tuple[str, ...], scenario: str
) -> None:
    async with bridged(server_command) as bridge:
        checks = await conformance.check(scenario, bridge.url)
    assert not failed(checks)
    assert not bridge.faults
    assert bridge.pids


async def test_a_server_at_fault_does_not_conform(
    conformance: Conformance, parrot_command: tuple[str, ...]
) -> None:
    """The parrot's tool has no description: the suite sees the server's own words."""
    async with bridged(parrot_command) as bridge:
        checks = await conformance.check("tools-list", bridge.url)
    assert "Tool 0: missing description" in str(failed(checks))


async def test_a_server_that_does_not_start_does_not_conform(conformance: Conformance) -> None:
    async with bridged(("false",)) as bridge:
        checks = await conformance.check("ping", bridge.url)
    assert failed(checks)
    assert bridge.faults
