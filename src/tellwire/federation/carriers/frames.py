"""Blobs on a byte stream, as the ssh carrier and the broker's door for it exchange them.

    length (4) | to (10) | from (10) | blob

Both addresses are tags of machines. An empty blob says who is there. If `from` is zeros, the rest is words
for people, and the connection ends. Pure.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tellwire.federation.ports import BLOB_BYTES_MAX

TAG_BYTES = 10
NOBODY = bytes(TAG_BYTES)
FRAME_BYTES_MAX = BLOB_BYTES_MAX + 2 * TAG_BYTES
_HEAD = struct.Struct(">I10s10s")
_DIGITS = "0123456789abcdefghijklmnopqrstuv"


class Frame(NamedTuple):
    """One blob and its addresses."""

    to: bytes
    sender: bytes
    blob: bytes


class FrameError(ValueError):
    """The bytes are no frames."""


def tag_of(machine: str) -> bytes:
    """The ten bytes behind a machine's id."""
    return int(machine[1:], 32).to_bytes(TAG_BYTES, "big")


def machine_of(tag: bytes) -> str:
    """The machine with a tag."""
    number = int.from_bytes(tag, "big")
    return "k" + "".join(_DIGITS[number >> shift & 31] for shift in range(75, -1, -5))


def format_frame(to: bytes, sender: bytes, blob: bytes) -> bytes:
    return _HEAD.pack(2 * TAG_BYTES + len(blob), to, sender) + blob


class FrameDecoder:
    """Cuts a byte stream into frames and holds the unfinished one."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes in and return the frames they complete.

        Raises:
            FrameError: the stream cannot be read on.
        """
        rest = self._rest
        rest += data
        frames: list[Frame] = []
        at = 0
        while len(rest) - at >= _HEAD.size:
            size, to, sender = _HEAD.unpack_from(rest, at)
            if not 2 * TAG_BYTES <= size <= FRAME_BYTES_MAX:
                raise FrameError(f"a frame of {size} bytes")
            end = at + 4 + size
            if end > len(rest):
                break
            frames.append(Frame(to, sender, bytes(rest[at + _HEAD.size : end])))
            at = end
        del rest[:at]
        return frames
