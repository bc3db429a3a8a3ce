"""Every client that tellwire can be installed into, and those for which it knows that it cannot."""

from __future__ import annotations

from tellwire.integrations.install.claude import CLAUDE
from tellwire.integrations.install.codex import CODEX
from tellwire.integrations.install.gemini import GEMINI
from tellwire.integrations.install.opencode import OPENCODE
from tellwire.integrations.install.pi import PI
from tellwire.integrations.install.spec import ClientSpec
from tellwire.protocol.errors import TellwireError

CLIENTS: dict[str, ClientSpec] = {each.word: each for each in (CLAUDE, CODEX, GEMINI, OPENCODE, PI)}
UNSUPPORTED: dict[str, str] = {}
"""Why not."""
WORDS = (*CLIENTS, *UNSUPPORTED)


def client_named(word: str) -> ClientSpec:
    """The client behind a word.

    Raises:
        TellwireError: `bad_request`: it is known, but not supported.
    """
    if word in UNSUPPORTED:
        advice = "`tellwire send` and `tellwire inbox` work in its shell."
        raise TellwireError("bad_request", UNSUPPORTED[word], advice)
    return CLIENTS[word]
