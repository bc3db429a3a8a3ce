"""What a client fetches for itself because of tellwire: told before, noted, and removed with tellwire.

Noted is what was not there before: `downloads.json` in the home folder. It is removed only while nothing else
depends on it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from tellwire.clients.client import Client, Download, InstallPlace, Scope
from tellwire.install.files import locked, read_bytes, write_whole
from tellwire.protocol.errors import TellwireError

NAME = "downloads.json"
DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
MB = 1_000_000


class Fetched(msgspec.Struct, frozen=True):
    """What was not there when tellwire was installed in a client, and may come because of it."""

    client: str
    scope: Scope
    paths: tuple[str, ...]


def expected(client: Client, place: InstallPlace) -> list[Download]:
    """What the client would fetch now: nothing of it is there yet."""
    if place.plugin:
        return []
    return [each for each in client.downloads if not os.path.lexists(each.paths(place)[0])]


def note(client: Client, place: InstallPlace, home: str) -> None:
    """Write down what is not there yet; what was noted before stays."""
    paths = tuple(
        path for each in expected(client, place) for path in each.paths(place) if not os.path.lexists(path)
    )
    with locked(home):
        known = _load(home)
        if paths and _find(known, client, place) is None:
            _save(home, [*known, Fetched(client.kind, place.scope, paths)])


def removable(client: Client, place: InstallPlace, home: str) -> list[str]:
    """What came with tellwire and nothing else needs: the files and folders that are there."""
    known = _find(_load(home), client, place)
    if known is None or not all(_is_ours_alone(each, place) for each in client.downloads):
        return []
    return [path for path in known.paths if os.path.lexists(path)]


def remove(client: Client, place: InstallPlace, home: str) -> None:
    """Remove it, and what was noted of it.

    Raises:
        TellwireError: `forbidden`: something could not be removed; the note stays.
    """
    for path in removable(client, place, home):
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except OSError as error:
            words = f"{path} could not be removed: {error.strerror or error}."
            raise TellwireError("forbidden", words, "Check its owner and mode.") from error
    with locked(home):
        gone = _find(known := _load(home), client, place)
        _save(home, [each for each in known if each is not gone])


def size_mb(paths: Sequence[str]) -> int:
    """About how much is on disk."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += os.lstat(path).st_size
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size
    return round(total / MB)


def _is_ours_alone(download: Download, place: InstallPlace) -> bool:
    """Whether nothing depends on it but what is there for tellwire's sake."""
    try:
        data = read_bytes(download.package(place))
        if data is None:
            return True
        package: Any = json.loads(data)
        needed = {name for key in DEPENDENCIES for name in cast("dict[str, Any]", package.get(key) or {})}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False
    return needed <= {download.dependency}


def _find(known: Sequence[Fetched], client: Client, place: InstallPlace) -> Fetched | None:
    folders = {os.path.dirname(path) for each in client.downloads for path in each.paths(place)}
    return next(
        (
            each
            for each in known
            if (each.client, each.scope) == (client.kind, place.scope)
            if any(os.path.dirname(path) in folders for path in each.paths)
        ),
        None,
    )


def _load(home: str) -> list[Fetched]:
    try:
        data = read_bytes(os.path.join(home, NAME))
        return [] if data is None else msgspec.json.decode(data, type=list[Fetched])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []  # without a note nothing is removed


def _save(home: str, known: Sequence[Fetched]) -> None:
    path = os.path.join(home, NAME)
    if known:
        write_whole(path, msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n", mode=0o600)
    elif os.path.exists(path):
        os.unlink(path)
