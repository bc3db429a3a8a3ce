"""Toy as a record."""

from __future__ import annotations

import os

from tellwire.clients.client import (
    HOOK_S,
    SERVER,
    Client,
    EnvRules,
    InstallPlace,
    LaunchWords,
    McpTraits,
    Programs,
    RunPlace,
    RunStart,
    ScreenTraits,
    Target,
    Writes,
    prompt,
)
from tellwire.clients.entries import Hooks, MemberEntry
from tests.contracts.toy.hooks import REFUSAL, ToyHooks
from tests.contracts.toy.transcript import ToyTranscript

KIND = "toy-cli"


def targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """`toy.json`."""
    root = place.project if place.scope == "project" else place.home
    server = {"command": programs.server[0], "args": list(programs.server[1:])}
    told = [(event, programs.hook(KIND), "*") for event in ("begin", "ask", "end", "bye")]
    told += [("after", programs.gate(KIND), "*"), ("before", programs.guard(KIND), "^save$")]
    hooks = [
        Hooks(event, ({"type": "command", "command": command, "timeout": HOOK_S},), {"matcher": matcher})
        for event, command, matcher in told
    ]
    entries = (MemberEntry(("servers", SERVER), server), *hooks)
    return [Target(path=os.path.join(root, ".toy", "toy.json"), format="json", entries=entries)]


def session(place: RunPlace) -> RunStart:
    """Its settings by an option."""
    return RunStart(words=("--server", place.programs.server[0]))


TOY = Client(
    kind=KIND,
    name="toy",
    title="Toy",
    program="toy",
    npm="toy-cli",
    lowest=(1, 0),
    highest_known=(1, 2),
    mcp=McpTraits(info="toy-mcp", short="toy", owns=True, shows=True),
    hooks=ToyHooks(),
    transcript=ToyTranscript(),
    launch=LaunchWords(headless=("--once",), once=("--once",)),
    environment=EnvRules(keys=("TOY_",)),
    screen=ScreenTraits(prompt=prompt("toy> ", r"=+", r"=+")),
    writes=Writes(event="before", tools={"save": "to"}, refusal=REFUSAL),
    targets=targets,
    session=session,
)
