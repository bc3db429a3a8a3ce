"""Two agents in one program: one asks, the other answers.

    python examples/ask_and_answer.py

It starts a broker if none runs, prints

    quiz-host asks: What is 6 times 7?
    quiz-guest answers: 42
    quiz-host sees: answered

and ends by itself.
"""

import asyncio

import tellwire


async def answer_one(name: str, joined: asyncio.Event) -> None:
    """Answer the first question that comes."""
    async with tellwire.connect(name, capabilities=["arithmetic"]) as me:
        joined.set()
        async for question in me:
            await me.send(question.sender, "42", re=question.id)
            return


async def main() -> None:
    """Ask whoever can do arithmetic."""
    async with tellwire.connect("quiz-host") as me, asyncio.TaskGroup() as tasks:
        joined = asyncio.Event()
        tasks.create_task(answer_one("quiz-guest", joined))
        await joined.wait()
        (able,) = await me.peers(capability="arithmetic")
        print("quiz-host asks: What is 6 times 7?")
        question = await me.send(able.name, "What is 6 times 7?")
        for answer in await me.messages(wait_s=10):
            print(f"{answer.sender} answers: {answer.body}")
            await me.confirm([answer])
        print(f"quiz-host sees: {(await me.status(question.id))[able.name]}")


if __name__ == "__main__":
    asyncio.run(main())
