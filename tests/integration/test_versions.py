"""A session whose client has a version that is not known to work is named in the listing."""

from __future__ import annotations

import json

import pytest

from tests.integration.mcp_world import HANDSHAKE, open_shims
from tests.integration.world import Home


@pytest.mark.requirement("INST-4")
async def test_the_listing_names_a_session_whose_version_is_not_known_to_work(home: Home) -> None:
    words = "OpenCode 2.0.15 is not supported yet: plugins of version 1 do not load there."
    home.up()
    async with open_shims(home) as shims:
        for name, version in (("new", "2.0.15"), ("fine", "1.18.33")):
            shim = await shims.start(name, beneath=True)
            info = {"name": "opencode", "version": version}
            given = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": info}
            assert "result" in await shim.request("initialize", given)
        listed = home.tellwire("list", "--all").stdout
        assert f"new: {words}" in " ".join(listed.split())
        assert "fine: " not in listed
        assert words.partition(":")[0] in home.tellwire("info", "new").stdout
        doubts = {
            each["name"]: each["doubt"]
            for each in json.loads(home.tellwire("list", "--all", "--json").stdout)["agents"]
        }
        assert doubts == {"new": words, "fine": ""}
