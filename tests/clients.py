"""What tests ask of the clients' records, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellwire.clients import BY_KIND, CLIENTS
from tellwire.clients.client import Client
from tellwire.clients.plugin import PluginTranscript
from tellwire.relay import writes
from tellwire.sessions.gate_files import WRITES

PROMPTS = {each.kind: each.screen.prompt for each in CLIENTS}
EVENTS = {each.kind: each.writes.event for each in CLIENTS}
TOOLS = {each.kind: each.writes.tools for each in CLIENTS}
TELLERS = {each.kind: each.transcript.entries for each in CLIENTS}


def written_paths(kind: str, payload: Mapping[str, Any]) -> list[str] | None:
    """What a call of this kind of client would write; one that nobody knows writes nothing."""
    return writes.written_paths(WRITES[kind], payload) if kind in BY_KIND else []


def requests_of(client: Client) -> PluginTranscript:
    """What the plugin of a client has told of its requests."""
    assert isinstance(client.transcript, PluginTranscript)
    return client.transcript
