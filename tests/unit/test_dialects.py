"""The tables of tools: nothing in them may drift from the operations, nor cost a model more than it must."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from tellwire.core.mail.framing import MODES
from tellwire.mcp.bootstrap import describe
from tellwire.mcp.dialects import DIALECTS
from tellwire.mcp.dialects.agent_network import AGENT_NETWORK
from tellwire.mcp.dialects.f2 import F2
from tellwire.mcp.dialects.tellwire import TELLWIRE
from tellwire.mcp.dialects.tool import Dialect, Tool, tools_of
from tellwire.mcp.forms import WAIT, form_of
from tellwire.mcp.instructions import instructions
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.agents import RegisterAgent
from tellwire.protocol.operations.base import MCP, Operation
from tellwire.protocol.operations.children import StopAgent
from tellwire.protocol.operations.messages import SendMessage
from tellwire.protocol.relay import ALL, CORE, DIALECT_NAMES

EVERY_TOOL = [
    pytest.param(tool, id=f"{dialect.name}-{tool.name}")
    for dialect in DIALECTS.values()
    for tool in tools_of(dialect, ALL).values()
]
EVERY_DIALECT = [pytest.param(dialect, id=name) for name, dialect in DIALECTS.items()]
F2_TOOLS = [
    "register_agent",
    "unregister_agent",
    "heartbeat",
    "list_agents",
    "get_agent_info",
    "query_capabilities",
    "send_message",
    "broadcast",
    "get_messages",
    "subscribe",
]
MESH_TOOLS = ["list_peers", "agent_send", "get_messages", "agent_request"]

# What the documents that the dialects imitate, and our own instructions, call.
DOCUMENTED: list[tuple[Dialect, str, dict[str, Any]]] = [
    (TELLWIRE, "list_peers", {}),
    (TELLWIRE, "list_peers", {"all": True, "capability": "rust"}),
    (TELLWIRE, "agent_send", {"to": "bob", "body": "hello"}),
    (TELLWIRE, "agent_send", {"to": ["bob", "carol"], "body": "hello", "re": "m4", "ttl_s": 60}),
    (TELLWIRE, "agent_send", {"to": "#build", "body": "x", "mode": "challenge", "context": {"a": 1}}),
    (TELLWIRE, "agent_send", {"to": "backend", "body": {"q": "JWT shape?"}}),
    (TELLWIRE, "send_to_peer", {"to": "backend", "body": {"q": "JWT shape?"}}),
    (F2, "send_message", {"agent_id": "a2", "message": {"q": "JWT shape?"}}),
    (F2, "broadcast", {"message": {"done": True}}),
    (TELLWIRE, "agent_send", {"to": "broadcast", "body": "x", "confirm": True}),
    (TELLWIRE, "get_messages", {}),
    (TELLWIRE, "get_messages", {"wait_s": 300}),
    (TELLWIRE, "get_messages", {"id": "m4", "offset": 24000}),
    (TELLWIRE, "message_status", {"id": "m4"}),
    (TELLWIRE, "announce", {"name": "bob", "capabilities": ["rust"], "metadata": {"model": "x"}}),
    (TELLWIRE, "subscribe", {"topic": "#build"}),
    (TELLWIRE, "read_history", {"peer": "bob", "since": 0, "limit": 5}),
    (TELLWIRE, "search_messages", {"query": '"a phrase" wor*', "before": "m9"}),
    (TELLWIRE, "leave", {"forget": True}),
    (F2, "register_agent", {"name": "a", "type": "claude-code", "capabilities": ["bash", "mcp"]}),
    (F2, "unregister_agent", {}),
    (F2, "heartbeat", {}),
    (F2, "list_agents", {}),
    (F2, "get_agent_info", {"agent_id": "a2"}),
    (F2, "query_capabilities", {"capability": "gpu_inference"}),
    (F2, "send_message", {"agent_id": "a2", "message": "Review it", "mode": "challenge"}),
    (F2, "broadcast", {"message": "Found a bug", "mode": "collaborate"}),
    (F2, "get_messages", {}),
    (F2, "subscribe", {"topic": "build"}),
    (AGENT_NETWORK, "list_peers", {}),
    (AGENT_NETWORK, "agent_send", {"to": "backend", "body": "text"}),
    (AGENT_NETWORK, "agent_send", {"to": "backend", "body": {"q": "JWT shape?"}}),
    (AGENT_NETWORK, "agent_send", {"to": "casa:agent-1", "body": {"shape": {"sub": "string"}}, "re": "m4"}),
    (AGENT_NETWORK, "agent_send", {"to": ["a", "b"], "body": "wave 2 started"}),
    (AGENT_NETWORK, "get_messages", {}),
    (AGENT_NETWORK, "agent_request", {"to": "backend", "body": {"q": "ETA?"}, "wait_s": 5}),
]


def schema(tool: Tool) -> dict[str, Any]:
    """A tool's schema after the way through JSON."""
    return json.loads(json.dumps(form_of(tool).schema()))


# -- size ---------------------------------------------------------------------------------------------


def test_the_usual_set_has_at_most_12_tools_and_10_kb_of_schema() -> None:
    tools = tools_of(TELLWIRE, CORE)
    listed = [describe(tool) for tool in tools.values()]
    assert len(tools) <= 12
    assert len(json.dumps(listed).encode()) <= 10_000
    assert "send_message" not in tools_of(TELLWIRE, ALL), "models confuse it with a tool of their client"


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
def test_a_dialect_is_taught_in_less_than_400_words_that_name_the_agent(dialect: Dialect) -> None:
    text = instructions(dialect, "alice")
    assert len(text.split()) < 400
    assert "alice" in text
    told = instructions(dialect, "alice-2", "'alice' is in use by a live agent; you are 'alice-2'.")
    assert told.startswith("'alice' is in use")
    assert "grant" in text, "says that peers' words grant no permission"
    assert "user" in text


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
def test_instructions_speak_only_of_tools_that_are_there(dialect: Dialect) -> None:
    text = instructions(dialect, "alice")
    known = {name for each in DIALECTS.values() for name in tools_of(each, ALL)}
    core = tools_of(dialect, CORE)
    assert [
        name for name in sorted(known) if name in text.replace("(", " ").split() and name not in core
    ] == []


@pytest.mark.parametrize("dialect", [TELLWIRE, F2], ids=lambda dialect: dialect.name)
def test_the_modes_are_named_where_a_message_is_sent(dialect: Dialect) -> None:
    sends = [tool for tool in dialect.tools if tool.operation is SendMessage]
    assert all(schema(tool)["properties"]["mode"]["enum"] == sorted(MODES) for tool in sends)
    assert all(mode in instructions(dialect, "alice") for mode in MODES)


def test_a_shim_can_ask_for_every_dialect_and_for_no_other() -> None:
    assert set(DIALECT_NAMES) == set(DIALECTS)


# -- parity with the operations -----------------------------------------------------------------------


@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_every_argument_names_a_field_of_its_operation(tool: Tool) -> None:
    fields = {field.name for field in msgspec.structs.fields(tool.operation)}
    arguments = [argument.field for argument in tool.arguments]
    words = [argument.public_name for argument in tool.arguments]
    assert {*arguments, *tool.fixed} <= fields
    assert len(set(words)) == len(words)
    assert not {*arguments} & {*tool.fixed}
    assert WAIT not in words
    assert set(schema(tool)["properties"]) == {*words, *([WAIT] if tool.waits else [])}


@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_what_an_operation_needs_its_tool_asks_for_or_sets_itself(tool: Tool) -> None:
    needed = {field.name for field in msgspec.structs.fields(tool.operation) if field.required}
    own = {"session"} if tool.operation is RegisterAgent else set[str]()
    asked = {
        argument.field
        for argument in tool.arguments
        if argument.public_name in schema(tool).get("required", [])
    }
    assert needed - own <= asked | {*tool.fixed}


def test_every_operation_that_stands_on_mcp_is_reachable() -> None:
    wanted = {operation for operation in OPERATIONS.values() if MCP in operation.surfaces}
    reached: set[type[Operation[Any]]] = {tool.operation for tool in tools_of(TELLWIRE, ALL).values()}
    assert wanted == reached


def test_what_mcp_does_not_offer_is_in_no_tool_of_ours() -> None:
    assert all(MCP in tool.operation.surfaces for tool in tools_of(TELLWIRE, ALL).values())
    registering = {tool.name for tool in F2.tools if MCP not in tool.operation.surfaces}
    assert registering == {"register_agent"}
    assert all(MCP in tool.operation.surfaces for tool in AGENT_NETWORK.tools)


@pytest.mark.parametrize("dialect", EVERY_DIALECT)
def test_tool_names_are_unique(dialect: Dialect) -> None:
    assert len({tool.name for tool in dialect.tools}) == len(dialect.tools)


@pytest.mark.requirement("F2-1", stage="mcp")
def test_the_registry_has_its_ten_tools() -> None:
    assert list(tools_of(F2, CORE)) == F2_TOOLS
    assert list(tools_of(F2, ALL)) == [*F2_TOOLS, "ask_agent"], "one more on request"


@pytest.mark.requirement("NET-12", stage="mcp")
def test_the_mesh_skill_has_its_four_tools() -> None:
    assert list(tools_of(AGENT_NETWORK, CORE)) == MESH_TOOLS
    assert "DEPRECATED" in tools_of(AGENT_NETWORK, CORE)["agent_request"].doc


# -- schemas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_schemas_are_valid_and_closed(tool: Tool) -> None:
    told = schema(tool)
    jsonschema.Draft202012Validator.check_schema(told)
    assert told["type"] == "object"
    assert told["additionalProperties"] is False
    assert "$ref" not in json.dumps(told)
    assert "$defs" not in told
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"nonsense": 1}, told)


@pytest.mark.parametrize(("dialect", "name", "arguments"), DOCUMENTED)
def test_the_documented_calls_fit_the_schemas_and_are_understood(
    dialect: Dialect, name: str, arguments: dict[str, Any]
) -> None:
    tool = tools_of(dialect, ALL)[name]
    jsonschema.validate(arguments, schema(tool))
    extra = {"session": "word"} if tool.operation is RegisterAgent else {}
    operation, wait_s = form_of(tool).parse(arguments, extra)
    assert isinstance(operation, tool.operation)
    assert wait_s == arguments.get(WAIT)


@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_annotations_tell_what_a_tool_changes(tool: Tool) -> None:
    hints = describe(tool)["annotations"]
    assert hints["readOnlyHint"] is tool.operation.reads
    assert hints["openWorldHint"] is False
    forgets = any(argument.field == "forget" for argument in tool.arguments) or tool.operation is StopAgent
    assert hints["destructiveHint"] is forgets, "only what gives up a name and its mail, or ends a process"
    if tool.operation is SendMessage:
        assert hints["idempotentHint"] is False


@pytest.mark.parametrize("tool", EVERY_TOOL)
def test_every_tool_and_every_argument_that_is_not_plain_has_words(tool: Tool) -> None:
    assert 10 <= len(tool.doc) <= 200
    assert tool.doc.rstrip().endswith((".", ")"))
    assert all(len(argument.doc) <= 100 for argument in tool.arguments)
    units = {"since", "until", "before", "mode", "re", "to", "offset", "ttl_s"}
    assert [each.public_name for each in tool.arguments if each.field in units and not each.doc] == []


# -- what a model did wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "name", "arguments", "words"),
    [
        (TELLWIRE, "agent_send", {"too": "bob", "body": "x"}, ["agent_send", "'too'", "to"]),
        (TELLWIRE, "agent_send", {"body": "x"}, ["`to`"]),
        (TELLWIRE, "agent_send", {"to": "bob", "body": "x", "mode": "fight"}, ["mode", *MODES]),
        (TELLWIRE, "get_messages", {"wait": 3}, ["'wait'", "wait_s"]),
        (TELLWIRE, "get_messages", {"wait_s": 601}, ["wait_s", "600"]),
        (TELLWIRE, "get_messages", {"wait_s": "long"}, ["wait_s", "600"]),
        (TELLWIRE, "get_messages", {"wait_s": True}, ["wait_s", "600"]),
        (F2, "send_message", {"agent_id": 3, "message": "x"}, ["agent_id"]),
        (F2, "send_message", {"agent_id": "a2"}, ["message"]),
        (F2, "query_capabilities", {}, ["capability"]),
        (F2, "query_capabilities", {"capability": None}, ["capability"]),
        (F2, "heartbeat", {"x": 1}, ["'x'", "none"]),
        (AGENT_NETWORK, "agent_send", {"to": "b", "body": "x", "mode": "agree"}, ["'mode'"]),
    ],
)
def test_a_wrong_call_is_refused_in_words_that_correct_it(
    dialect: Dialect, name: str, arguments: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(TellwireError) as refused:
        form_of(tools_of(dialect, ALL)[name]).parse(arguments, {})
    said = f"{refused.value.message} {refused.value.advice}"
    assert refused.value.code == "bad_request"
    assert [word for word in words if word not in said] == [], said


def test_what_a_tool_sets_itself_cannot_be_given() -> None:
    with pytest.raises(TellwireError, match="once_s"):
        form_of(tools_of(AGENT_NETWORK, CORE)["agent_send"]).parse({"to": "b", "body": "", "once_s": 0}, {})
    with pytest.raises(TellwireError, match="key"):
        form_of(tools_of(TELLWIRE, CORE)["agent_send"]).parse({"to": "b", "body": "", "key": "1-a"}, {})


def test_null_means_left_out() -> None:
    tool = tools_of(TELLWIRE, CORE)["agent_send"]
    operation, _ = form_of(tool).parse({"to": "b", "body": "x", "re": None, "mode": None}, {})
    assert operation == SendMessage(to="b", body="x")
