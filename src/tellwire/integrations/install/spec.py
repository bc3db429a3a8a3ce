"""What a client's installation is made of: places, our programs, the files. One module for each client."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tellwire.integrations.install.entries import Entry
from tellwire.integrations.install.json_file import JsonText
from tellwire.integrations.install.records import Record
from tellwire.integrations.install.toml_file import TomlText

SERVER = "tellwire"
HOOK_S = 3
"""A hook ends by itself within two seconds; a client need not wait for one that cannot."""
Scope: TypeAlias = Literal["user", "project"]


class Dialect(Protocol):
    """How entries get into a text and out of it."""

    def load(self, text: str) -> Any:
        """What the text means."""
        ...

    def apply(self, text: str, entries: Sequence[Entry]) -> str:
        """The text with the entries."""
        ...

    def strip(self, text: str, entries: Sequence[Entry], record: Record | None, path: str) -> str:
        """The text without them."""
        ...

    def source_at(self, text: str, path: tuple[str, ...]) -> str:
        """The text at a path."""
        ...


JSON: Dialect = JsonText()
JSON_WITH_COMMENTS: Dialect = JsonText(comments=True)
JSONC: Dialect = JsonText(comments=True, commas=True)
TOML: Dialect = TomlText()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Whose configuration: a person's, or a project's."""

    home: str
    """The person's home folder."""
    project: str
    scope: Scope
    env: Mapping[str, str]
    plugin: str = ""
    """For Claude Code: instead of its settings, the folder of a plugin."""


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is to start. The words change only if tellwire moves: trust hangs on them.

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
        """The command that waits beside an idle session."""
        return self._run("waiter.py", kind)

    def _run(self, program: str, kind: str) -> str:
        """A line for any shell; without our programs it does nothing. The client stays the parent."""
        python, path = shlex.quote(self.python), f"{self.relay}/{program}"
        words = shlex.join([self.python, "-I", "-S", path, kind, *self.options])
        return f"[ -x {python} ] && [ -f {shlex.quote(path)} ] && exec {words}; exit 0"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One file and what it is to have."""

    path: str
    dialect: Dialect
    entries: tuple[Entry, ...]
    trust: str = ""
    """The file in which the client notes which hooks its human trusts, if it asks."""
    trimmings: Mapping[str, Any] = {}
    """What a file gets that tellwire makes; alone they are not worth keeping it."""


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One client that tellwire can be installed into."""

    word: str
    """As it is typed."""
    kind: str
    """As agents of it are listed."""
    title: str
    program: str
    """As it is found on the PATH."""
    needed: tuple[int, ...]
    """The oldest version that is known to work."""
    targets: Callable[[Place, Programs], list[Target]]
    hints: tuple[str, ...] = ()
    """What its human has to do then."""
    scratch: tuple[str, ...] = ()
    """Variables that name folders it would make only to tell its version."""
    prepare: tuple[str, ...] = ()
    """Words with which it gets ready for its first plugin, so that its next start does not have to."""
