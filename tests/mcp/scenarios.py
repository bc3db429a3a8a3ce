"""Which scenarios of the pinned conformance suite apply to a server that has only tools.

Data for ``test_conformance.py``, which fails if the suite has a scenario that is not in here, and if a
reason given here is not true of the server.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Why(Enum):
    """Why a scenario does not apply."""

    TOOL = "calls this tool of the reference server, which ours does not have"
    CAPABILITY = "needs this capability, which ours does not declare"
    HTTP = "tests this part of the HTTP transport, which is the bridge's and not ours"


class Exempt(NamedTuple):
    """A scenario that does not apply."""

    scenario: str
    why: Why
    what: str


APPLY = (
    "server-initialize",
    "ping",
    "tools-list",
    # Three requests at once in one session; the bridge answers each when the server has.
    "server-sse-multiple-streams",
)

EXEMPT = (
    Exempt("logging-set-level", Why.CAPABILITY, "logging"),
    Exempt("completion-complete", Why.CAPABILITY, "completions"),
    Exempt("tools-call-simple-text", Why.TOOL, "test_simple_text"),
    Exempt("tools-call-image", Why.TOOL, "test_image_content"),
    Exempt("tools-call-audio", Why.TOOL, "test_audio_content"),
    Exempt("tools-call-embedded-resource", Why.TOOL, "test_embedded_resource"),
    Exempt("tools-call-mixed-content", Why.TOOL, "test_multiple_content_types"),
    Exempt("tools-call-with-logging", Why.TOOL, "test_tool_with_logging"),
    Exempt("tools-call-error", Why.TOOL, "test_error_handling"),
    Exempt("tools-call-with-progress", Why.TOOL, "test_tool_with_progress"),
    Exempt("tools-call-sampling", Why.TOOL, "test_sampling"),
    Exempt("tools-call-elicitation", Why.TOOL, "test_elicitation"),
    Exempt("json-schema-2020-12", Why.TOOL, "json_schema_2020_12_tool"),
    Exempt("elicitation-sep1034-defaults", Why.TOOL, "test_elicitation_sep1034_defaults"),
    Exempt("elicitation-sep1330-enums", Why.TOOL, "test_elicitation_sep1330_enums"),
    Exempt("server-sse-polling", Why.TOOL, "test_reconnection"),
    Exempt("resources-list", Why.CAPABILITY, "resources"),
    Exempt("resources-read-text", Why.CAPABILITY, "resources"),
    Exempt("resources-read-binary", Why.CAPABILITY, "resources"),
    Exempt("resources-templates-read", Why.CAPABILITY, "resources"),
    Exempt("resources-subscribe", Why.CAPABILITY, "resources"),
    Exempt("resources-unsubscribe", Why.CAPABILITY, "resources"),
    Exempt("prompts-list", Why.CAPABILITY, "prompts"),
    Exempt("prompts-get-simple", Why.CAPABILITY, "prompts"),
    Exempt("prompts-get-with-args", Why.CAPABILITY, "prompts"),
    Exempt("prompts-get-embedded-resource", Why.CAPABILITY, "prompts"),
    Exempt("prompts-get-with-image", Why.CAPABILITY, "prompts"),
    Exempt("dns-rebinding-protection", Why.HTTP, "Host and Origin headers"),
)

# The newest version the suite knows; a later one needs scenarios, and a bridge, for its era.
VERSIONS = {"2025-06-18", "2025-11-25"}
