"""Real agent CLIs on links: what each finally says crosses, turn by turn, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.company import REQUEST_S, Company, open_company
from tests.end_to_end.mesh import until_known
from tests.end_to_end.script import Call, Step, call, fail, say
from tests.end_to_end.stage import is_served, once
from tests.integration.world import take, until

BEGIN = "Discuss it with your neighbour."
GONE = "shop-pi is gone"
ROUNDS = 5
"""Two turns each."""


def words(short: str, number: int) -> str:
    """What one finally says."""
    return f"Word {number} of {short}: the parser needs part {number}."


def thought(short: str, number: int) -> str:
    """What one says before a tool call: nobody else's business."""
    return f"Let me think, says {short}, for the time {number}."


def turn(short: str, number: int, *, after: str) -> list[Step]:
    """A turn that begins when a text has come: a thought, a tool call, and the final word."""
    look = Step(text=thought(short, number), calls=(Call("list_peers", {"all": True}),), when=after)
    return [look, say(words(short, number))._replace(when=after)]


def talk(company: Company, first: str, second: str, opening: Step) -> None:
    """Both play their part. What comes last stands first, for what was said before stays in the context."""
    one: list[Step] = [say(f"end of {first}")._replace(when=words(second, ROUNDS))]
    two: list[Step] = []
    for number in range(ROUNDS, 1, -1):
        one += turn(first, number, after=words(second, number - 1))
    for number in range(ROUNDS, 0, -1):
        two += turn(second, number, after=words(first, number))
    begin = [opening._replace(when=BEGIN), say(words(first, 1))._replace(when=BEGIN)]
    company.play(first, *one, *begin)
    company.play(second, *two)


def links_of(company: Company) -> list[dict[str, object]]:
    """The links, as a person sees them."""
    done = company.home.tellwire("link", "list", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["links"]


async def restart(company: Company) -> None:
    """Kill the broker; a client's shim starts the next."""
    company.home.signal(signal.SIGKILL)
    await until(lambda: len(company.home.brokers()) == 1 and is_served(company.home), what="a new broker")
    for short in company.clients:
        await until_known(company.alice, f"shop-{short}")


@pytest.mark.requirement("SC-12", stage="clients")
@pytest.mark.requirement("SC-12", stage="links")
@pytest.mark.timeout(400)
async def test_two_clients_hold_ten_turns_on_a_direct_link_and_see_final_words_only(tmp_path: Path) -> None:
    async with open_company(tmp_path, "claude", "codex") as company:
        talk(company, "claude", "codex", call("open_link", members=["shop-codex"]))
        await company.terminals["claude"].type(BEGIN)
        await company.request("codex", words("claude", 3))
        await restart(company)
        last = await company.request("claude", words("codex", ROUNDS))
        heard = await company.request("codex", words("claude", ROUNDS))
        for number in range(1, ROUNDS + 1):
            once(last, words("codex", number))
            once(heard, words("claude", number))
            assert thought("codex", number) not in last.text
            assert thought("claude", number) not in heard.text
        assert "You are shop-codex" not in last.text, "a tool's result crossed"
        assert "You are shop-claude" not in heard.text, "a tool's result crossed"
        (link,) = links_of(company)
        assert link["direct"] is True


def listening(short: str, heard: asyncio.Event) -> list[Step]:
    """Something to say while others speak; from when they have been heard."""
    return [say(f"{short} listens, {number}.")._replace(hold=heard) for number in range(3)]


@pytest.mark.requirement("SC-12", stage="clients")
@pytest.mark.requirement("SC-12", stage="links")
@pytest.mark.timeout(400)
async def test_three_clients_share_a_link_until_they_have_nothing_to_add(tmp_path: Path) -> None:
    trio = ("claude", "gemini", "opencode")
    async with open_company(tmp_path, *trio) as company:
        heard = asyncio.Event()
        release = {short: asyncio.Event() for short in trio[1:]}
        for short in trio[1:]:
            steps = [*turn(short, 1, after=words("claude", 1)), *listening(short, heard)]
            company.play(short, steps[0]._replace(hold=release[short]), *steps[1:])
        opening = call("open_link", members=[f"shop-{short}" for short in trio[1:]])
        begin = [opening._replace(when=BEGIN), say(words("claude", 1))._replace(when=BEGIN)]
        company.play("claude", *begin, *listening("claude", heard))
        await company.terminals["claude"].type(BEGIN)
        for short in trio[1:]:
            await company.request(short, words("claude", 1))
        await restart(company)
        for short, other in (("gemini", "claude"), ("opencode", "gemini")):  # one speaks after the other
            release[short].set()
            await company.request(other, words(short, 1))
        heard.set()
        await until(lambda: links_of(company)[0]["status"] == "paused", within_s=REQUEST_S, what="the end")
        for short in trio:
            last = company.model.requests(short)[-1]
            for other in trio:
                if other != short:
                    once(last, words(other, 1))
                    assert thought(other, 1) not in last.text
                    assert f"You are shop-{other}" not in last.text, "a tool's result crossed"
        (link,) = links_of(company)
        assert link["direct"] is False


@pytest.mark.requirement("AUD-7", stage="clients")
@pytest.mark.timeout(400)
async def test_a_listener_hears_once_each_how_a_worker_stopped_failed_and_died(tmp_path: Path) -> None:
    async with open_company(tmp_path, "claude", "pi") as company:
        await company.alice.turns.listen("shop-claude")
        work = call("agent_send", to="shop-pi", body="Count the lines.", listen=True)
        company.play("claude", work._replace(when=BEGIN), say("It is under way.")._replace(when=BEGIN))
        company.play("pi", say("There are 42 lines.")._replace(when="Count the lines."))
        await company.terminals["claude"].type(BEGIN)
        await company.request("claude", "shop-pi stopped: ")
        await company.terminals["claude"].idle()
        await restart(company)
        company.play("pi", *[fail(400)] * 8)
        await company.alice.send("shop-pi", "Count the words.")
        await company.request("claude", "shop-pi stopped with an error")
        await company.terminals["claude"].idle()
        company.terminals["pi"].kill()
        last = await company.request("claude", GONE)
        for news in ("42 lines", "stopped with an error", GONE):
            once(last, news)
        heard = await take(company.alice, 1)
        assert ["It is under way" in message.body for message in heard] == [True]
        more = await company.alice.messages(wait_s=2)
        assert not more, "a turn that only a notice began is nobody's news"
