"""An agent CLI as one frozen record, and what the parts of that record are.

`tellwire.clients.CLIENTS` has one `Client` for each agent CLI. Code that depends on a client asks its record:
there is no other table by kind. What serves a running session is given to a client as ports (`ports`).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from tellwire.clients.entries import Entry
from tellwire.clients.events import HookEvent, OpenTurn, Said, TurnState, Verdict
from tellwire.clients.ports import ClientThreads, Doors, SessionPort, Waker, by_typing, runs_one
from tellwire.system.screens import Prompt

SERVER = "tellwire"
LAUNCHER = "tellwire-launcher"
"""The program in the home's `bin` that configurations start (`install/launcher`)."""
HOOK_S = 3
"""A hook ends by itself within two seconds; a client need not wait for one that cannot."""
ENDPOINT = "hooks.json"
"""The file in tellwire's home that tells plugins the broker's port and token."""
SCRATCH = "scratch"
"""Of a child's folder: where it may write whatever its scope is."""
Scope: TypeAlias = Literal["user", "project"]
Format: TypeAlias = Literal["json", "json_comments", "jsonc", "toml", "whole"]
"""How a file is written: `json_comments` takes comments, `jsonc` trailing commas too; `whole` is all ours."""
COMMAND = "command"
"""In place of a kind: any program that a child can be."""
NOTHING: Mapping[str, str] = MappingProxyType({})


# -- its MCP client -----------------------------------------------------------------------------------


def no_parent(meta: Mapping[str, Any]) -> str:
    """Of a client whose sub-agents' calls look like its own."""
    del meta
    return ""


class McpTraits(msgspec.Struct, frozen=True, kw_only=True):
    """How a client uses MCP."""

    info: str = ""
    """The name it gives itself."""
    short: str
    """Ends the names of its agents."""
    owns: bool = False
    """Its process is one agent: a command that it runs speaks as that agent. Not so for an editor."""
    text_only: bool = False
    """It shows its model the data of a result instead of the text, and so would drop the frame."""
    result_bytes: int = 0
    """It cuts the middle out of a result larger than about this; 0: it takes the usual whole."""
    shows: bool = False
    """It puts the server's instructions before its model."""
    cancels_late: bool = False
    """It sends a cancellation after every answer that it has used."""
    conversation: str = ""
    """The variable in which it tells its servers which conversation they are started for."""
    parent_of: Callable[[Mapping[str, Any]], str] = no_parent
    """From a call's metadata the conversation that started the sub-agent that calls; empty for others."""


# -- its hooks and its transcript ---------------------------------------------------------------------


class TextLimit(NamedTuple):
    """How much text a hook can give at once and whole."""

    chars: int
    bytes: int = 0
    """Counts instead, if it is not 0."""


class HookCodec(Protocol):
    """A client's hooks: parses their payloads, and formats the answers."""

    @property
    def room(self) -> TextLimit:
        """How much text a hook can give at once and whole."""
        ...

    def parse(self, payload: Mapping[str, Any]) -> HookEvent:
        """A hook's payload; an unknown event is `other`.

        Raises:
            ValueError: it makes no sense.
        """
        ...

    def answer(self, event: HookEvent, text: str) -> dict[str, Any]:
        """What the hook says to give the model `text` at this event (one that `takes_text`)."""
        ...

    def show(self, answer: dict[str, Any], line: str) -> dict[str, Any]:
        """The same answer, with a line for the human's screen, where the client has a place for one."""
        ...

    def deny(self, event: HookEvent, reason: str) -> dict[str, Any]:
        """What the hook says to keep a tool call from running."""
        ...


class Reader(Protocol):
    """Follows one session's transcript; cheap to ask again and again, whatever the file's size.

    A verdict belongs to one hand-over: `expect` begins a new one, whatever became of an earlier one.
    """

    evidence: str
    """The name of the evidence that its verdicts rest on."""

    def expect(self, mark: str, at: float | None = None, *, deferred: bool = False) -> None:
        """A text with this mark is handed over, now or `at`; a deferred one waits in the client's queue."""
        ...

    def doubt(self, mark: str) -> None:
        """A deferred text should have been taken up by now; unless it was, requests without it count."""
        ...

    def lacks(self, mark: str, *, left: bool = False, unbegun: bool = False, stopped: bool = False) -> bool:
        """The client rests, and shows nothing of the hand-over, nor ever will.

        `left`: its human has gone on to another conversation. `unbegun`: the text was to begin a turn, and
        no hook has told of one. `stopped`: its human interrupted the last turn.
        """
        ...

    def is_present(self, mark: str) -> bool:
        """A text with this mark is in the conversation already, and will be in its next request."""
        ...

    def may_return(self, mark: str) -> bool:
        """The client dropped a text with this mark, but brings it back when the session is resumed."""
        ...

    def judge(self, marks: Sequence[str]) -> dict[str, Verdict]:
        """What is known now of the texts that contain these marks, such as `id=m4f2k from=backend`.

        A file that is missing, cut, damaged or of an unknown version gives OPEN, never an exception.
        """
        ...


class Transcript(Protocol):
    """What a client writes down, or its plugin tells, of its sessions."""

    @property
    def evidence(self) -> str:
        """The kind of evidence that its readers find: `request` or `transcript`."""
        ...

    def opened(self) -> Transcript:
        """For one broker: one that remembers sessions begins without any."""
        ...

    def reader(self, event: HookEvent) -> Reader:
        """A reader of the session that this event belongs to."""
        ...

    def turn_state(self, turn: OpenTurn) -> TurnState | None:
        """What the client's own files tell of a turn; None if they tell nothing that we understand."""
        ...

    def entries(self, lines: Iterable[dict[str, Any]]) -> Iterator[Said]:
        """What was said in a session, out of the client's own record."""
        ...


# -- starting it --------------------------------------------------------------------------------------


class LaunchWords(msgspec.Struct, frozen=True, kw_only=True):
    """How it is started as a child. What a person would type; nothing that accepts on the person's behalf."""

    window: tuple[str, ...] = ()
    """Its words in a window of its own; the caller's words follow, then what introduces the first prompt."""
    headless: tuple[str, ...] = ()
    ask: tuple[str, ...] = ("--",)
    """What introduces the first prompt in a window: the last of its words, whatever the caller's are."""
    ask_headless: tuple[str, ...] = ("--",)
    once: tuple[str, ...] = ()
    """Words on its command line that say: one run, then end."""


def no_names(env: Mapping[str, str]) -> frozenset[str]:
    """Of a client whose settings name no variables."""
    del env
    return frozenset()


class EnvRules(msgspec.Struct, frozen=True, kw_only=True):
    """What of its parent's environment a child of this client gets, besides what every program may have."""

    keys: tuple[str, ...]
    """Beginnings of the variables that it reads: its keys, and where and how it works."""
    own: Mapping[str, str] = NOTHING
    """Variables that are set for a child of this client."""
    named_keys: Callable[[Mapping[str, str]], frozenset[str]] = no_names
    """The variables that its own settings name as the keys of its model."""


class ChildPlace(NamedTuple):
    """Where a child is to be started, and with what."""

    client: str
    folder: Path
    """The child's own."""
    env: Mapping[str, str]
    command: Sequence[str]

    @property
    def scratch(self) -> str:
        """Where it may write whatever its scope is."""
        return os.fspath(self.folder / SCRATCH)


class Bounds(NamedTuple):
    """The options that hold a client to its scope."""

    words: tuple[str, ...] = ()
    held_by: str = ""
    """`sandbox` or `rules`, if the client itself holds it; empty if only its hooks are asked."""
    files: Mapping[str, str] = NOTHING
    """For the child's folder: what the words name."""
    env: Mapping[str, str] = NOTHING


# -- its screen ---------------------------------------------------------------------------------------


def prompt(before: str, above: str, below: str, hint: str = "") -> Prompt:
    """Make the pattern of an input line."""
    return Prompt(re.compile(before), re.compile(above), re.compile(below), re.compile(hint or r"\s*"))


FOLDER = "whether the folder is trusted"
HOOKS = "whether its hooks are trusted"
SET_UP = "how it is to be set up"


def never_distrusted(cwd: str, env: Mapping[str, str]) -> bool:
    """Of a client that asks its human, or does without."""
    del cwd, env
    return False


class ScreenTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What it shows in a terminal."""

    prompt: Prompt
    dialogs: tuple[tuple[str, re.Pattern[str]], ...] = ()
    """What it asks before it begins, in our words, and how that is known in the client's."""
    is_distrusted: Callable[[str, Mapping[str, str]], bool] = never_distrusted
    """Whether it would begin without a window, unasked, in a folder that its human never trusted."""


# -- what it writes -----------------------------------------------------------------------------------


class Writes(msgspec.Struct, frozen=True, kw_only=True):
    """What it reports before a tool writes a file. Without a broker, a hook judges by these facts."""

    event: str
    """What it reports before a tool runs."""
    tools: dict[str, str]
    """The tools that write files, and the field that says where; an empty one: the paths are in a patch."""
    refusal: dict[str, Any]
    """What its hook says to keep a call from running; `relay.guard.REASON` is replaced by the reason."""
    gated: bool = True
    """Its hooks are commands, which run only while there is a file for them."""
    drops_at: bool = False
    """It takes the `@` off the beginning of a path."""
    drops_slashes: bool = False
    """And the slashes behind it."""
    decodes: bool = False
    """It decodes `%20` and the like in every path."""
    plain_spaces: bool = False
    """It takes every kind of space for a plain one."""
    searches: tuple[str, ...] = ()
    """Tools that search the project for a relative path that does not exist."""


# -- installing ---------------------------------------------------------------------------------------
class InstallPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Whose configuration: a person's, or a project's."""

    home: str
    """The person's home folder."""
    project: str
    scope: Scope
    env: Mapping[str, str]
    plugin: str = ""
    """Instead of the client's settings, the folder of a plugin."""


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """The commands that a client starts. They change only if tellwire moves: trust depends on them.

    Hooks are lines for a shell whose parent is the client.
    """

    server: tuple[str, ...]
    """The command line of the MCP server."""
    python: str
    relay: str
    """The folder of the programs for hooks."""
    marks: str
    """Where the broker leaves marks for the gates."""
    options: tuple[str, ...] = ()
    """`--home=…`, if it is not the usual one."""

    def hook(self, kind: str) -> str:
        """The command of a hook."""
        return self._run("hook.py", kind)

    def gate(self, kind: str) -> str:
        """The command of a hook that runs at every tool call, and hardly ever has something to do.

        It costs a shell and a look or two, unless mail waits for the client and the broker answers.
        """
        home = self.marks.rpartition("/")[0]
        mark, stalled = (f"{shlex.quote(folder)}/$PPID" for folder in (self.marks, f"{home}/stalled"))
        return f"[ -e {mark} ] && [ ! -e {stalled} ] && {self._run('hook.py', kind)}"

    def guard(self, kind: str) -> str:
        """The command of a hook that runs before a file is written; it has to do only where scopes are."""
        guards = f"{self.marks.rpartition('/')[0]}/guards"
        return f"[ -e {shlex.quote(guards)}/$PPID ] && {self._run('hook.py', kind)}"

    def waiter(self, kind: str) -> str:
        """The command that waits for mail while a session is idle."""
        return self._run("waiter.py", kind)

    def _run(self, program: str, kind: str) -> str:
        """A line for any shell; without our programs it does nothing. The client stays the parent."""
        python, path = shlex.quote(self.python), f"{self.relay}/{program}"
        words = shlex.join([self.python, "-I", "-S", path, kind, *self.options])
        return f"[ -x {python} ] && [ -f {shlex.quote(path)} ] && exec {words}; exit 0"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration file, and the entries that it should have."""

    path: str
    format: Format
    entries: tuple[Entry, ...]
    trust: str = ""
    """The file in which the client notes which hooks its human trusts, if it asks."""
    trimmings: Mapping[str, Any] = {}
    """What a file gets that tellwire makes; alone they are not worth keeping it."""


class HookTrust(msgspec.Struct, frozen=True, kw_only=True):
    """Of a client that runs a hook only after its human has trusted it: what it has noted of ours."""

    untrusted: Callable[..., list[str]]
    """The events whose hooks in a document it will not run: `(document, hooks, path=, notes=)`."""
    switched_off: Callable[..., list[str]]
    """The events whose hooks were trusted and then switched off, likewise."""
    lacking: str
    """What to do about hooks that are not trusted."""
    again: str
    """That it will ask again after an installation."""


class Break(NamedTuple):
    """A version from which on tellwire does not work with a client."""

    at: tuple[int, ...]
    why: str
    """The end of a sentence."""


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """What a client fetches for itself once tellwire is in its configuration."""

    what: str
    size_mb: int
    """About how much, on disk."""
    paths: Callable[[InstallPlace], list[str]]
    """What it makes: files and folders."""
    package: Callable[[InstallPlace], str]
    """The `package.json` that names what is fetched; with other dependencies in it, all of it is kept."""
    dependency: str
    """The only dependency that is there for tellwire's sake."""


class Switch(NamedTuple):
    """A setting that switches all hooks off."""

    path: tuple[str, ...]
    value: bool


# -- for one session ----------------------------------------------------------------------------------


class RunPlace(msgspec.Struct, frozen=True, kw_only=True):
    """What starting a client on the mesh for one session can use."""

    folder: str
    """In tellwire's home, for files that are the same for every session of the client."""
    programs: Programs
    env: Mapping[str, str]


class RunStart(msgspec.Struct, frozen=True, kw_only=True):
    """What starts a client on the mesh for one session, beside its own configuration."""

    words: tuple[str, ...] = ()
    """Before the person's own."""
    env: Mapping[str, str] = NOTHING
    files: Mapping[str, str] = NOTHING
    """By path: what the words and the environment name."""
    copies: tuple[tuple[str, Target], ...] = ()
    """Files of the person's, and copies of them with our entries."""
    links: Mapping[str, str] = NOTHING
    """Beside the copies: names, and what of the person's each leads to; a folder ends in `/`."""
    notes: tuple[str, ...] = ()
    """What is slower or will be asked, compared with an installation."""


# -- all of it ----------------------------------------------------------------------------------------


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that tellwire knows about one agent CLI."""

    kind: str
    """As agents of it are listed: `claude-code`."""
    name: str
    """Its name for `tellwire install`: `claude`."""
    title: str
    program: str
    """As it is found on the PATH."""
    npm: str
    """The package it is installed from."""
    lowest: tuple[int, ...]
    """The oldest version that is known to work."""
    highest_known: tuple[int, ...]
    """The newest version that its samples were recorded with."""
    breaks: tuple[Break, ...] = ()
    """Later versions that are known not to work."""
    mcp: McpTraits
    hooks: HookCodec
    starts_with_prompt: bool = False
    """Its start hook runs with the first prompt, not with the program."""
    silent_at_start: bool = False
    """Nothing is heard of it before its first prompt."""
    tells_cuts: bool = False
    """A hook comes after each cut of its context."""
    cut_mark: bytes = b""
    """What its transcript says after each compaction, where a hook says so too late or not at all."""
    transcript: Transcript
    launch: LaunchWords
    environment: EnvRules
    screen: ScreenTraits
    writes: Writes
    hold: Callable[[ChildPlace, Sequence[str]], Bounds] | None = None
    """Its own sandbox or rules, by which it writes to some folders only; may block for a moment."""
    targets: Callable[[InstallPlace, Programs], list[Target]]
    """The files of its configuration, and what each is to have."""
    session: Callable[[RunPlace], RunStart]
    """How it is on the mesh for one session, without an installation (`tellwire run`)."""
    hints: tuple[str, ...] = ()
    """What its human has to do after an installation."""
    scratch: tuple[str, ...] = ()
    """Variables that name folders it would make only to tell its version."""
    prepare: tuple[str, ...] = ()
    """Words with which it gets ready for its first plugin, so that its next start does not have to."""
    downloads: tuple[Download, ...] = ()
    """What it fetches then, or at its next start; it goes with tellwire, if it came with it."""
    plugin_notes: tuple[str, ...] = ()
    """Of a client that takes tellwire as a plugin folder: what to tell then; `{folder}` is where it is."""
    trust: HookTrust | None = None
    switches: tuple[Switch, ...] = ()
    threads: Callable[[SessionPort], ClientThreads] | None = None
    runs_many: Callable[[int], bool] = runs_one
    """Whether a process of it runs the sessions of several terminals."""
    wakers: Callable[[SessionPort, Doors, ClientThreads | None], list[Waker]] = by_typing
    """How it is woken, the best path first."""

    def opened(self) -> Client:
        """For one broker: what it remembers of sessions begins empty."""
        return msgspec.structs.replace(self, transcript=self.transcript.opened())
