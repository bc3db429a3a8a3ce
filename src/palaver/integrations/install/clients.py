"""Every client that palaver can be installed into, and those for which it knows that it cannot."""

from __future__ import annotations

from palaver.integrations.install.claude import CLAUDE
from palaver.integrations.install.codex import CODEX
from palaver.integrations.install.gemini import GEMINI
from palaver.integrations.install.opencode import OPENCODE
from palaver.integrations.install.pi import PI
from palaver.integrations.install.spec import ClientSpec
from palaver.protocol.errors import PalaverError

CLIENTS: dict[str, ClientSpec] = {each.word: each for each in (CLAUDE, CODEX, GEMINI, OPENCODE, PI)}
UNSUPPORTED: dict[str, str] = {}
"""Why not."""
WORDS = (*CLIENTS, *UNSUPPORTED)


def client_named(word: str) -> ClientSpec:
    """The client behind a word.

    Raises:
        PalaverError: `bad_request`: it is known, but not supported.
    """
    if word in UNSUPPORTED:
        advice = "`palaver send` and `palaver inbox` work in its shell."
        raise PalaverError("bad_request", UNSUPPORTED[word], advice)
    return CLIENTS[word]
