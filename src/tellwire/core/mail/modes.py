"""The four modes of a message: what the recipient is asked to do, and how much context may come along.

The policy: whoever shall object or build further needs the grounds (16 KiB), whoever shall deduce reasons
from stated facts only (4 KiB), and a text to agree to must stand on its own (1 KiB). A message without a
mode is not narrowed: it may bring 16 KiB. Who exceeds it is refused elsewhere; here stand the numbers.
"""

from __future__ import annotations

from typing import NamedTuple


class ModeRule(NamedTuple):
    """What one mode means for its recipient and for its sender."""

    framing: str
    """The line its recipient reads above the text; few words, because every message pays for them."""
    context_bytes_max: int


MODES: dict[str, ModeRule] = {
    "challenge": ModeRule("Object with grounds, or say it holds.", 16 * 1024),
    "agree": ModeRule("Accept, or name the change you need.", 1024),
    "collaborate": ModeRule("Build on this; add what is missing.", 16 * 1024),
    "deduce": ModeRule("Reason from stated facts only; name gaps.", 4 * 1024),
}
NO_MODE = ModeRule("", 16 * 1024)


def mode_rule(mode: str | None) -> ModeRule:
    """The rule of a mode; of no mode, or of one that is not known here, no line and the widest context."""
    return MODES.get(mode, NO_MODE) if mode else NO_MODE
