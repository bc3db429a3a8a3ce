"""The launcher without the program: takes tellwire's entries out, and serves an MCP client with no tools.

`launcher` packs this module, and the few that it needs, into one file beside the launcher. It runs with any
Python 3.11 or newer, with the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from tellwire.install.entries import Part, Record, as_entries
from tellwire.install.texts import cleared
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.system.files import write_atomically

RECORDS = "installed.json"
GONE = "The tellwire program is not where it was when it was installed."
USAGE = """\
Without it this launcher can only undo the installation:
  {launcher} uninstall all [--yes]     or name clients: {clients}
To keep tellwire in your clients, install the program again and run `tellwire install all`.
"""


@dataclass(frozen=True)
class Kept:
    """A file of a record, as the functions that edit text want it."""

    path: str
    format: str
    entries: Sequence[Any]
    trimmings: dict[str, Any]


def main(words: list[str]) -> int:
    """What the launcher does if there is no program: `launcher.zip HOME WORD...`."""
    home, *rest = words
    if rest[:1] == ["mcp"]:
        return serve()
    records = load(home)
    if rest[:1] == ["uninstall"]:
        return uninstall(home, records, rest[1:])
    launcher = os.path.join(home, "bin", "tellwire-launcher")
    clients = ", ".join(sorted({record.client for record in records})) or "none is configured"
    sys.stderr.write(f"{GONE}\n{USAGE.format(launcher=launcher, clients=clients)}")
    return ERRORS["unreachable"].exit


# -- taking out ---------------------------------------------------------------------------------------


def load(home: str) -> list[Record]:
    """What was installed; nothing if there is no record of it."""
    try:
        with open(os.path.join(home, RECORDS), "rb") as file:
            known = json.load(file)["files"]
        return [_record(each) for each in known]
    except FileNotFoundError:
        return []


def _record(facts: dict[str, Any]) -> Record:
    known: dict[str, Any] = {each.name: facts[each.name] for each in fields(Record) if each.name in facts}
    for name in ("backups", "entries", "folders"):
        known[name] = tuple(known.get(name, ()))
    known["made"] = tuple(tuple(path) for path in known.get("made", ()))
    known["parts"] = tuple(
        Part(kind=part["kind"], path=tuple(part["path"]), value=part.get("value", ""))
        for part in known.get("parts", ())
    )
    return Record(**known)


def uninstall(home: str, records: Sequence[Record], words: Sequence[str]) -> int:
    """Take out what was installed for some clients, or for all."""
    names = [word for word in words if not word.startswith("-")]
    chosen = [each for each in records if "all" in names or _is_named(each.client, names)]
    if not chosen:
        sys.stderr.write("Nothing of that is installed; name a client, or all.\n")
        return 0 if "all" in names else ERRORS["bad_request"].exit
    for record in chosen:
        print(f"{record.client}: {record.path}")
    if "--yes" not in words and not _is_confirmed():
        sys.stderr.write("Nothing was changed. To go ahead, add `--yes`.\n")
        return ERRORS["confirmation_needed"].exit
    code = 0
    left = list(records)
    for record in chosen:
        try:
            print(take_out(record))
            left.remove(record)
        except (TellwireError, OSError) as error:
            sys.stderr.write(f"{record.path}: {error}\n")
            code = ERRORS["forbidden"].exit
    _save(home, left)
    if not left:
        remove_launcher(home)
    return code


def _is_named(client: str, names: Sequence[str]) -> bool:
    return any(client == name or client.startswith(f"{name}-") for name in names)


def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stderr.write("Take tellwire out of these files? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def take_out(record: Record) -> str:
    """Take tellwire out of one file; what was done.

    Raises:
        TellwireError: it cannot be edited safely, and was not changed.
        OSError: it cannot be read or written.
    """
    data = _read(record.path)
    after: bytes | None = None
    done = "was gone already"
    if data is not None:
        kept = Kept(record.path, record.format or "whole", as_entries(record.parts), record.trimmings)
        after = cleared(kept, data, record, _read)
        done = "restored" if after is not None else "deleted"
        if after is None:
            os.unlink(record.path)
        elif after != data:
            facts = os.stat(record.path)
            mode = record.mode or facts.st_mode & 0o7777
            owner = (facts.st_uid, facts.st_gid)
            write_atomically(record.path, after, mode=mode, owner=owner, fsync=True, shared=True)
    for backup in record.backups:
        with suppress(OSError):
            os.unlink(backup)
    for folder in record.folders if after is None else ():
        with suppress(OSError):
            os.rmdir(folder)
    return f"{record.path}: {done}"


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _save(home: str, records: Sequence[Record]) -> None:
    path = os.path.join(home, RECORDS)
    if not records:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    with open(path, "rb") as file:
        known = json.load(file)
    paths = {(record.client, record.path) for record in records}
    known["files"] = [each for each in known["files"] if (each["client"], each["path"]) in paths]
    write_atomically(path, json.dumps(known, indent=1).encode() + b"\n", fsync=True)


def remove_launcher(home: str) -> None:
    """Remove what `launcher.write` made; a program that runs from it goes on."""
    for name in ("bin/tellwire-launcher", "bin/python", "lib/removal.zip", "lib/tellwire", "lib/python"):
        with suppress(OSError):
            os.unlink(os.path.join(home, name))
    for name in ("bin", "lib"):
        with suppress(OSError):
            os.rmdir(os.path.join(home, name))


# -- a server without tools ---------------------------------------------------------------------------


def serve() -> int:
    """Answer an MCP client until it leaves: a server that failed would be an error on its person's screen."""
    while line := sys.stdin.buffer.readline():
        try:
            message: dict[str, Any] = json.loads(line)
            asked, method = message.get("id"), message.get("method")
            params: dict[str, Any] = message.get("params") or {}
        except (ValueError, AttributeError, RecursionError):
            continue
        if asked is None or method is None:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked}
        if method == "initialize":
            version = params.get("protocolVersion", "2025-06-18")
            info = {"name": "tellwire", "version": "0"}
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif method in ("tools/list", "ping"):
            answer["result"] = {"tools": []} if method == "tools/list" else {}
        else:
            answer["error"] = {"code": -32601, "message": GONE}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
    return 0
