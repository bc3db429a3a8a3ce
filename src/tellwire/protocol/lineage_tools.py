"""The tools for peers, scopes and children."""

from __future__ import annotations

from typing import Any

from tellwire.protocol.operations.asking import AskAgent
from tellwire.protocol.operations.children import ListChildren, SpawnAgent, StopAgent
from tellwire.protocol.operations.peers import RegisterPeer, RemovePeer, SendToPeer
from tellwire.protocol.operations.scopes import ClaimScope, ListScopes, ReleaseScope, WhoOwns
from tellwire.protocol.tool import ALL, ANY_CLIENT, TEXT, TEXT_OR_OBJECT, Argument, Tool

_PATHS: dict[str, Any] = {"type": "array", "items": TEXT}

LINEAGE_TOOLS = (
    Tool(
        "register_peer",
        RegisterPeer,
        "Shake hands with an agent: each is then a peer of the other.",
        (Argument("name"),),
        repeatable=True,
    ),
    Tool(
        "spawn_agent",
        SpawnAgent,
        "Start an agent as your child. It gets the task; what it says comes back to you.",
        (
            Argument("name", "A new, short name."),
            Argument("client", f"{ANY_CLIENT}, or command."),
            Argument("task", "Complete in itself."),
            Argument("scope", "Paths it alone may write; default: any unclaimed.", schema=_PATHS),
            Argument("cwd", "Default: yours."),
            Argument("command", "For client=command: the program and its arguments."),
            Argument("headless", "Without a window."),
        ),
    ),
    Tool(
        "stop_agent", StopAgent, "End a child of yours.", (Argument("name"),), repeatable=True, destroys=True
    ),
    Tool("remove_peer", RemovePeer, "Be peers no longer.", (Argument("name"),), repeatable=True, set=ALL),
    Tool(
        "send_to_peer",
        SendToPeer,
        "Send to a peer you shook hands with, and to nobody else.",
        (
            Argument("to", "The peer's name."),
            Argument("body", schema=TEXT_OR_OBJECT),
            Argument("re", "The id you answer."),
        ),
        set=ALL,
    ),
    Tool(
        "claim_scope",
        ClaimScope,
        "Claim files or folders, so that no other agent writes there; all or none.",
        (
            Argument("rules", "Of what to claim, with all beneath.", name="paths", schema=_PATHS),
            Argument("for_s", "Seconds; default 4 hours. Claim again to go on."),
        ),
        repeatable=True,
        set=ALL,
    ),
    Tool(
        "release_scope",
        ReleaseScope,
        "Give claims back.",
        (Argument("paths", "Left out: all."),),
        repeatable=True,
        set=ALL,
    ),
    Tool(
        "who_owns",
        WhoOwns,
        "Whose a path is, and whether you may write there.",
        (Argument("path"),),
        reads=True,
        set=ALL,
    ),
    Tool("list_scopes", ListScopes, "Who may write where.", reads=True, set=ALL),
    Tool(
        "ask_agent",
        AskAgent,
        "Ask a fresh agent one question and get its answer; it may not write, and is gone then.",
        (
            Argument("client", f"{ANY_CLIENT}, or command."),
            Argument("question", "Complete in itself."),
            Argument("cwd", "Default: yours."),
            Argument("command", "For client=command: the program and its arguments."),
            Argument("timeout_s", "Default 300, at most 3600."),
        ),
        set=ALL,
    ),
    Tool("list_children", ListChildren, "Your children and theirs.", reads=True, set=ALL),
)
