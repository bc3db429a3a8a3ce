"""The line by which a human sees who wrote to an agent (FIRST-5)."""

from __future__ import annotations

from typing import Any

import pytest

from tellwire.core.mail.framing import WORDS_CHARS_MAX, render_preview
from tellwire.protocol.operations.messages import MessageRecord

pytestmark = pytest.mark.requirement("FIRST-5", stage="contact")


def message(body: Any, sender: str = "bob") -> MessageRecord:
    """A message to an agent."""
    return MessageRecord("m1", sender, "alice", body, 0.0)


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([], ""),
        ([message("Could you look?")], "tellwire: bob: Could you look?"),
        ([message("a\nb\t c")], "tellwire: bob: a b c"),
        ([message("one"), message("two"), message("three")], "tellwire: bob: one (and 2 more)"),
        ([message({"n": 1})], 'tellwire: bob: {"n":1}'),
        ([message("\x1b]0;x\x07\x9b2J\u202egood")], "tellwire: bob: ]0;x 2J good"),
        ([message("The disk is full.", sender="")], "tellwire: The disk is full."),
    ],
)
def test_it_tells_who_and_the_first_words_in_one_harmless_line(
    messages: list[MessageRecord], line: str
) -> None:
    assert render_preview(messages) == line


def test_it_is_short_whatever_the_message() -> None:
    for body in ("x" * 70_000, "word " * 20_000, "\n" * 70_000 + "end"):
        line = render_preview([message(body)])
        assert len(line) <= WORDS_CHARS_MAX + len("tellwire: bob: ")
        assert line.endswith("…")


def test_of_a_large_message_it_tells_who() -> None:
    assert render_preview([], large=[message("70000")]) == "tellwire: bob: a large message"
