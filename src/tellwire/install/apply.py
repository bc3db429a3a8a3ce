"""Carrying a plan out: all files of a client or none of them, and the record of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tellwire.install.files import locked, look, make_folders, read_bytes, refused, write_whole
from tellwire.install.plan import Change
from tellwire.install.records import Records, load_records, save_records
from tellwire.protocol.errors import TellwireError


def carry_out(changes: Sequence[Change], home: str) -> None:
    """Write what was planned.

    Raises:
        TellwireError: `conflict`: a file is not any more what the plan was made for; or the disk refused.
            Nothing is changed then.
    """
    with locked(home):
        records = load_records(home)
        for change in changes:
            if look(change.path) != change.seen or change.old != _known(records, change):
                words = f"{change.path} was changed by another program in the meantime."
                raise TellwireError("conflict", words, "Run the command again.")
        done: list[Change] = []
        try:
            for change in changes:
                done.append(change)
                records = _write(change, records)
            save_records(home, records)
        except OSError as error:
            _undo(done)
            raise refused(done[-1].path, error) from error
        for change in reversed(changes):  # a later file may lie in a folder that was made for an earlier one
            _tidy(change)


def _known(records: Records, change: Change) -> object:
    record = change.old or change.new
    return None if record is None else records.find(record.client, record.path)


def _write(change: Change, records: Records) -> Records:
    seen, new = change.seen, change.new
    if change.backup and seen.data is not None:
        write_whole(change.backup, seen.data, mode=seen.mode, owner=seen.owner)
    if change.after is None:
        if seen.data is not None:
            os.unlink(seen.path)
    elif change.after != seen.data:
        made = make_folders(os.path.dirname(seen.path))
        if new is not None:
            new = replace(new, folders=(*made, *new.folders))
        write_whole(seen.path, change.after, mode=change.mode, owner=seen.owner)
    old = next((each for each in records.files if each == change.old), None)
    return records.replaced(old, new)


def _undo(done: Sequence[Change]) -> None:
    """Put back what was there; as far as the disk allows."""
    for change in reversed(done):
        seen = change.seen
        with suppress(OSError):
            if seen.data is not None:
                if read_bytes(seen.path) != seen.data:
                    write_whole(seen.path, seen.data, mode=seen.mode, owner=seen.owner)
            elif os.path.exists(seen.path):
                os.unlink(seen.path)
        with suppress(OSError):
            if change.backup:
                os.unlink(change.backup)


def _tidy(change: Change) -> None:
    """After taking out: the copies are not needed any more, and folders that are empty again go."""
    if change.new is not None:
        return
    for record in filter(None, (change.old, change.former)):
        for path in record.backups:
            with suppress(OSError):
                os.unlink(path)
        for folder in record.folders if change.after is None else ():
            with suppress(OSError):
                os.rmdir(folder)
