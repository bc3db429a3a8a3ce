"""The hash chain over the journal: one hash per commit, each over the one before it."""

from __future__ import annotations

import struct
from hashlib import sha256

from tellwire.core.record.stored import Commit

ORIGIN = bytes(32)
_CLOCKS = struct.Struct(">qdd")


def next_hash(previous: bytes, commit: Commit) -> bytes:
    """The hash of `commit` in its place."""
    digest = sha256(previous)
    digest.update(_CLOCKS.pack(commit.seq, commit.at, commit.awake))
    digest.update(commit.data)
    return digest.digest()
