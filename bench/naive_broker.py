"""The broker most of us would write first: asyncio streams, json, one SQLite commit for each command.

It keeps the same promise as tellwire in the same cycle: a send is acknowledged after its commit
(WAL, synchronous=FULL) and pushed to its receiver, and a confirmation is acknowledged after its commit.
What waits for a name is pushed when that name connects. Run: `naive_broker.py SOCKET DATABASE`.
"""

import asyncio
import json
import sqlite3
import sys
from typing import Any

SCHEMA = """
create table if not exists messages (
    id integer primary key, sender text, recipient text, body text,
    sent_at real default (julianday('now')), confirmed integer default 0)
"""


class Broker:
    """Names, their connections, and the database."""

    def __init__(self, database: str) -> None:
        self._database = sqlite3.connect(database)
        self._database.execute("pragma journal_mode=wal")
        self._database.execute("pragma synchronous=full")
        self._database.execute(SCHEMA)
        self._writers: dict[str, asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a JSON object a line, answered in order."""
        name = ""
        try:
            while line := await reader.readline():
                request = json.loads(line)
                match request["op"]:
                    case "hello":
                        name = request["name"]
                        self._join(name, writer)
                        answer = {}
                    case "send":
                        answer = {"id": self._send(name, request)}
                    case "confirm":
                        self._confirm(request["ids"])
                        answer = {}
                    case other:
                        answer = {"error": f"unknown operation {other}"}
                _write(writer, {"answer": request["request"], **answer})
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self._writers.pop(name, None)
            writer.close()

    def _join(self, name: str, writer: asyncio.StreamWriter) -> None:
        self._writers[name] = writer
        waiting = self._database.execute(
            "select id, sender, body from messages where recipient = ? and not confirmed order by id", (name,)
        )
        for identity, sender, body in waiting:
            _write(writer, {"id": identity, "from": sender, "body": body})

    def _send(self, sender: str, request: dict[str, Any]) -> int | None:
        inserted = self._database.execute(
            "insert into messages (sender, recipient, body) values (?, ?, ?)",
            (sender, request["to"], request["body"]),
        )
        self._database.commit()
        receiver = self._writers.get(request["to"])
        if receiver is not None:
            _write(receiver, {"id": inserted.lastrowid, "from": sender, "body": request["body"]})
        return inserted.lastrowid

    def _confirm(self, identities: list[int]) -> None:
        self._database.executemany(
            "update messages set confirmed = 1 where id = ?", [(identity,) for identity in identities]
        )
        self._database.commit()


def _write(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def main(path: str, database: str) -> None:
    """Serve until ended."""
    broker = Broker(database)
    server = await asyncio.start_unix_server(broker.serve, path, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
