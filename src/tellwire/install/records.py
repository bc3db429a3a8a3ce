"""What tellwire has written where: `installed.json` in the home folder. Without it, taking out works too."""

from __future__ import annotations

import os

import msgspec

from tellwire.install.entries import Record
from tellwire.install.files import read_bytes, write_whole
from tellwire.protocol.errors import TellwireError

NAME = "installed.json"
VERSION = 1


class Records(msgspec.Struct, frozen=True):
    """The records of all files that tellwire changed."""

    files: tuple[Record, ...] = ()
    version: int = VERSION

    def find(self, client: str, path: str) -> Record | None:
        """The record of a file."""
        return next((each for each in self.files if (each.client, each.path) == (client, path)), None)

    def replaced(self, old: Record | None, new: Record | None) -> Records:
        """The same with one record instead of another."""
        files = [each for each in self.files if each is not old]
        return Records((*files, new) if new is not None else tuple(files))


def load_records(home: str) -> Records:
    """What was written so far.

    Raises:
        TellwireError: `bad_request`: the file is damaged, or of a later version.
    """
    path = os.path.join(home, NAME)
    data = read_bytes(path)
    if data is None:
        return Records()
    try:
        records = msgspec.json.decode(data, type=Records)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise TellwireError(
            "bad_request",
            f"{path} is damaged: {error}.",
            "Move it away; tellwire then recognises its entries by their content.",
        ) from error
    if records.version != VERSION:
        raise TellwireError(
            "wrong_version", f"{path} was written by a later version of tellwire.", "Upgrade tellwire."
        )
    return records


def save_records(home: str, records: Records) -> None:
    """Write it down; without any record there is no file."""
    path = os.path.join(home, NAME)
    if records.files:
        write_whole(path, msgspec.json.format(msgspec.json.encode(records), indent=1) + b"\n", mode=0o600)
    elif os.path.exists(path):
        os.unlink(path)
