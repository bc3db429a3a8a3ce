"""A pool of workers: jobs go round, everybody hears on a topic that the work is over.

    python examples/worker_pool.py

It starts a broker if none runs, prints the nine results in the order of the jobs

    1 squared is 1
    ...
    9 squared is 81
    3 workers went home

and ends by itself.
"""

import asyncio

import tellwire

WORKERS = ("pool-worker-a", "pool-worker-b", "pool-worker-c")
JOBS = range(1, 10)


async def work(name: str, ready: asyncio.Barrier) -> None:
    """Square numbers until the boss says on #pool that it is enough."""
    async with tellwire.connect(name, capabilities=["square"]) as me:
        await me.subscribe("#pool")
        await ready.wait()
        async for message in me:
            if message.to == "#pool":
                return
            number = message.body["number"]
            await me.send(message.sender, {"number": number, "square": number * number}, re=message.id)


async def main() -> None:
    """Hand the jobs out, collect the results, send everybody home."""
    ready = asyncio.Barrier(len(WORKERS) + 1)
    async with tellwire.connect("pool-boss") as me, asyncio.TaskGroup() as tasks:
        for name in WORKERS:
            tasks.create_task(work(name, ready))
        await ready.wait()
        for number in JOBS:
            await me.send(WORKERS[number % len(WORKERS)], {"number": number})
        results: dict[int, int] = {}
        while len(results) < len(JOBS):
            answers = await me.messages(wait_s=10)
            results.update({answer.body["number"]: answer.body["square"] for answer in answers})
            await me.confirm(answers)
        for number in JOBS:
            print(f"{number} squared is {results[number]}")
        told = await me.send("#pool", "enough for today", kind="notification")
        print(f"{len(told.recipients)} workers went home")


if __name__ == "__main__":
    asyncio.run(main())
