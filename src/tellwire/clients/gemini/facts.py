"""The record of Gemini CLI: what its parts are, and what is special about it."""

from __future__ import annotations

import re

from tellwire.clients.client import (
    FOLDER,
    SET_UP,
    Client,
    EnvRules,
    LaunchWords,
    McpTraits,
    ScreenTraits,
    Switch,
    Writes,
    prompt,
)
from tellwire.clients.gemini.chat import GeminiTranscript
from tellwire.clients.gemini.hooks import REFUSAL, GeminiHooks
from tellwire.clients.gemini.install import KIND, session, targets

GEMINI = Client(
    kind=KIND,
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    npm="@google/gemini-cli",
    lowest=(0, 60),
    highest_known=(0, 61, 0),
    mcp=McpTraits(info="gemini-cli-mcp-client", short="gemini", owns=True, shows=True),
    hooks=GeminiHooks(),
    transcript=GeminiTranscript(),
    launch=LaunchWords(ask=("-i",), ask_headless=("-p",)),
    environment=EnvRules(
        keys=("GEMINI_", "GOOGLE_"),
        # Else it restarts itself, and the process that we know would not be the one with the terminal.
        own={"GEMINI_CLI_NO_RELAUNCH": "true"},
    ),
    screen=ScreenTraits(
        prompt=prompt(r" [>*] ", r"▄{8,}\s*", r"▀{8,}\s*", r"(\s*Type your message or @path/to/file)?\s*"),
        dialogs=(
            (FOLDER, re.compile(r"Do you trust the files in this folder")),
            (SET_UP, re.compile(r"How would you like to authenticate")),
        ),
    ),
    writes=Writes(
        event="BeforeTool",
        tools={"write_file": "file_path", "replace": "file_path"},
        refusal=REFUSAL,
        drops_at=True,
        drops_slashes=True,
        decodes=True,
        searches=("replace",),
    ),
    targets=targets,
    session=session,
    scratch=("GEMINI_CLI_HOME",),
    switches=(Switch(("hooksConfig", "enabled"), False),),
)
