"""The door for ssh carriers: connections of other machines' blobs, by the machine that is at the other end.

Whoever connects is our own user, by ssh. Who it is counts for nothing: only a blob that opens is believed.
"""

from __future__ import annotations

import asyncio
import time

from tellwire.broker.registrations import Connections, Visit
from tellwire.federation.carriers.frames import (
    NOBODY,
    Frame,
    FrameDecoder,
    FrameError,
    format_frame,
    machine_of,
    tag_of,
)
from tellwire.federation.carriers.ssh import IncomingSsh
from tellwire.protocol.errors import TellwireError

WIRES_MAX = 128
PENDING_BYTES_MAX = 1 << 20
WORDS_BYTES_MAX = 1_000


class WireDoor:
    """All connections of ssh carriers, and who waits for them."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._expected: dict[str, IncomingSsh] = {}
        self._here = ""
        self.wires: set[Wire] = set()

    def expect(self, here: str, there: str, carrier: IncomingSsh) -> None:
        """Hand the connections of a machine to a carrier."""
        self._here = here
        self._expected[there] = carrier

    def forget(self, there: str) -> None:
        """A machine was removed: hear it no more."""
        self._expected.pop(there, None)
        for wire in [each for each in self.wires if each.machine == there]:
            wire.refuse("This machine was removed.")

    def admit(self, visit: Visit) -> None:
        """Take a connection over."""
        wire = Wire(self, visit.transport)
        self.wires.add(wire)
        self._connections.add(wire)
        self._connections.start_deadline(wire)
        visit.transport.set_protocol(wire)
        if len(self.wires) > WIRES_MAX:
            wire.refuse("There are too many connections.")
        elif visit.data:
            wire.data_received(visit.data)

    def find(self, wire: Wire, frame: Frame) -> IncomingSsh | None:
        """The carrier for what comes from a machine; None if it was refused."""
        machine = machine_of(frame.sender)
        if not self._here:
            wire.refuse("No machine is paired here.")
        elif frame.to != tag_of(self._here):
            wire.refuse("This is another machine than the one that was paired; pair it again.")
        elif machine not in self._expected:
            wire.refuse("This machine is not paired here, or was removed; pair it again.")
        else:
            self._connections.clear_deadline(wire)
            return self._expected[machine]
        return None

    def end(self, wire: Wire) -> None:
        """A connection is over."""
        self.wires.discard(wire)
        self._connections.discard(wire)
        self._connections.clear_deadline(wire)


class Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, door: WireDoor, transport: asyncio.Transport) -> None:
        self._door = door
        self._transport = transport
        self._decoder = FrameDecoder()
        self._carrier: IncomingSsh | None = None
        self._closed = False
        self.machine = ""
        self.since = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Take blobs; the first frame says whose they are."""
        if self._closed:
            return
        try:
            frames = self._decoder.feed(data)
        except FrameError:
            self.refuse("What came is no frame.")
            return
        for frame in frames:
            if self._carrier is None and not self._begin(frame):
                return
            if frame.blob and self._carrier is not None:
                self._carrier.take(frame.blob)

    def _begin(self, frame: Frame) -> bool:
        carrier = self._door.find(self, frame)
        if carrier is None:
            return False
        self.machine = machine_of(frame.sender)
        if not carrier.attach(self):
            self.refuse("The broker is about to stop.")
            return False
        self._carrier = carrier
        return True

    def write(self, data: bytes) -> bool:
        """Send bytes; False if the connection is closed, or too much waits."""
        if self._closed or self._transport.get_write_buffer_size() > PENDING_BYTES_MAX:
            return False
        self._transport.write(data)
        return True

    def close(self) -> None:
        """End it."""
        if not self._closed:
            self._closed = True
            self._transport.close()

    def refuse(self, why: str) -> None:
        """Say why, and end it."""
        if not self._closed:
            self._transport.write(format_frame(NOBODY, NOBODY, why.encode()[:WORDS_BYTES_MAX]))
            self.close()

    def dismiss(self, error: TellwireError) -> None:
        """The broker stops."""
        self.refuse(error.message)

    def expire(self) -> None:
        """Nothing came in time."""
        self.refuse("Nothing came in time.")

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end is gone."""
        del exc
        self._closed = True
        if self._carrier is not None:
            self._carrier.detach(self)
        self._door.end(self)
