"""Messages that wait: sent to agents that joined once and are away."""

import asyncio

from bench.bodies import Bodies
from bench.engine import RoundFailed
from bench.engines.tellwire_broker import TellwireClient, TellwireEngine
from bench.load import Budget

BODY_BYTES = 200
AWAY = 50
SENDERS = 50
AWAY_FIRST = 100_000
SENDER_FIRST = 200_000


async def store_pending(engine: TellwireEngine, count: int, bodies: Bodies) -> None:
    """Leave this many messages waiting, spread over agents that are away."""
    if not count:
        return
    for number in range(AWAY):
        away = await engine.client(AWAY_FIRST + number)
        await away.close()
    budget = Budget(count)
    async with asyncio.TaskGroup() as group:
        for number in range(SENDERS):
            group.create_task(_send_away(engine, number, budget, bodies))
    waiting = await asyncio.to_thread(lambda: int(engine.status()["pending"]))
    if waiting < count:
        raise RoundFailed(f"{count:,} messages were sent to agents that are away, only {waiting:,} wait")


async def _send_away(engine: TellwireEngine, number: int, budget: Budget, bodies: Bodies) -> None:
    sender: TellwireClient = await engine.join(f"agent-{SENDER_FIRST + number}")
    to = 0
    while budget.take():
        _, body = bodies.next(BODY_BYTES)
        await sender.send(AWAY_FIRST + (number + to) % AWAY, body)
        to += 1
    await sender.close()
