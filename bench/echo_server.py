"""The limit: a Unix-socket server that only sends back what it gets. Run: `echo_server.py SOCKET`."""

import asyncio
import sys
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """Bytes in, the same bytes out."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def main(path: str) -> None:
    """Serve until ended."""
    server = await asyncio.get_running_loop().create_unix_server(Echo, path, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
