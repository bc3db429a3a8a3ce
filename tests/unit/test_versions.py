"""Which versions of a client are known to work, and which sessions are named because theirs is not."""

from __future__ import annotations

import pytest

from tellwire.clients import BY_NAME
from tellwire.clients.versions import judge_version, parse_version


@pytest.mark.requirement("INST-4")
@pytest.mark.parametrize(
    ("client", "version", "level"),
    [
        ("opencode", "1.18.33", "known"),
        ("opencode", "1.18.34", "untested"),
        ("opencode", "1.17.9", "old"),
        ("opencode", "2.0.0", "unsupported"),
        ("opencode", "2.0.0-beta.3", "unsupported"),
        ("opencode", "v2.0.15", "unsupported"),
        ("pi", "1.5.0", "doubtful"),
        ("codex", "0.170.0", "untested"),
        ("claude", "2.1", "old"),
        ("claude", "", "known"),
        ("claude", "latest", "known"),
        ("claude", "1", "known"),
        ("claude", "9" * 40, "known"),
    ],
)
def test_a_version_is_judged_by_the_lowest_and_the_highest_known(
    client: str, version: str, level: str
) -> None:
    judged = judge_version(BY_NAME[client], version)
    assert judged.level == level
    assert bool(judged.words) == (level != "known")


def test_numbers_are_read_whatever_follows_them() -> None:
    assert parse_version("v1.2.3-rc.1+build") == (1, 2, 3)
    assert parse_version("1..2") == ()
