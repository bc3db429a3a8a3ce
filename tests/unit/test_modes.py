"""The modes of a message: a short line for the recipient, and how much context may come along."""

from __future__ import annotations

from typing import get_args

import pytest

from tellwire.core.limits import Limits
from tellwire.core.mail.framing import MODES, mode_rule
from tellwire.protocol.operations.messages import Mode


def test_every_mode_of_the_protocol_has_its_rule_and_no_other() -> None:
    assert set(MODES) == set(get_args(Mode))


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_mode_tells_its_recipient_what_to_do_in_few_words(mode: str) -> None:
    framing = mode_rule(mode).framing
    assert framing == framing.strip()
    assert framing.endswith(".")
    assert 3 <= len(framing.split()) <= 20
    assert not set(framing) & set("<>[]\n")


def test_the_lines_of_two_modes_differ() -> None:
    assert len({rule.framing for rule in MODES.values()}) == len(MODES)


@pytest.mark.parametrize(
    ("mode", "kib"), [("challenge", 16), ("collaborate", 16), ("deduce", 4), ("agree", 1), (None, 16)]
)
def test_the_context_that_may_come_along_depends_on_the_mode(mode: str | None, kib: int) -> None:
    assert mode_rule(mode).context_bytes_max == kib * 1024


def test_no_mode_allows_more_context_than_the_broker_takes() -> None:
    assert all(rule.context_bytes_max <= Limits().context_bytes_max for rule in MODES.values())


@pytest.mark.parametrize("mode", [None, "", "shout"])
def test_without_a_known_mode_there_is_no_line(mode: str | None) -> None:
    assert mode_rule(mode).framing == ""
