"""OpenCode and Pi with palaver's plugins: mail enters a running turn, its end, and an idle session, once."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.clients import Client, run
from tests.end_to_end.mesh import until_known
from tests.end_to_end.model import Model
from tests.end_to_end.opencode import OpenCode
from tests.end_to_end.pi import Pi
from tests.end_to_end.script import call, say
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_hooks import FINAL, INSTALL_S, QUESTION, equip, served, until_read
from tests.integration.world import Home, Join, until

RUNS = 5
SLOWER_MAX = 1.35
SLOWER_S_MAX = 0.8

PROGRAMS: dict[str, type[Client]] = {"opencode": OpenCode, "pi": Pi}

every_plugin = pytest.mark.parametrize("short", PROGRAMS)


@pytest.fixture
def client(model: Model, tmp_path: Path, short: str) -> Client:
    """A client without palaver."""
    made = PROGRAMS[short](tmp_path / short, tmp_path / "shop", model.url(short))
    made.configure()
    return made


def files(client: Client) -> dict[str, bytes]:
    """What a client's home holds."""
    return {str(each): each.read_bytes() for each in client.home.rglob("*") if each.is_file()}


def uninstall(home: Home, client: Client) -> None:
    """Take palaver out of a client's settings, as a person would."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "palaver"), "uninstall", client.short, "--user", "--yes"],
        env={**client.environment(), "PALAVER_HOME": str(home.path), "PATH": os.environ["PATH"]},
        cwd=client.project,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@every_plugin
async def test_mail_enters_a_running_turn_once(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    release = asyncio.Event()
    model.play(
        short,
        call("list_peers")._replace(hold=release),
        call("list_peers"),
        say(FINAL),
        unlisted=client.unlisted,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Look around."))
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        second = await model.request(short, index=1)
        third = await model.request(short, index=2)
    assert (running.result().code, running.result().text) == (0, FINAL), running.result()
    assert [len(each.where(QUESTION)) for each in (second, third)] == [1, 1], second.where(QUESTION)
    assert len(re.findall("peer-message id=", third.text)) == 1
    await until_read(alice, sent.id, "request")


@every_plugin
async def test_mail_enters_the_result_of_a_tool_of_the_client(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    (client.project / "note.txt").write_text("The parser is finished.\n", encoding="utf-8")
    release = asyncio.Event()
    path = {"opencode": "filePath", "pi": "path"}[short]
    read = call("read", **{path: str(client.project / "note.txt")})
    model.play(short, read._replace(hold=release), say(FINAL), unlisted=client.unlisted)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Look at the note."))
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        second = await model.request(short, index=1)
    assert (running.result().code, running.result().text) == (0, FINAL), running.result()
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
    await until_read(alice, sent.id, "request")


@every_plugin
async def test_mail_enters_at_the_end_of_a_turn_once(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    release = asyncio.Event()
    model.play(short, say("First.")._replace(hold=release), say(FINAL), unlisted=client.unlisted)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Say something."))
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        second = await model.request(short, index=1)
    assert running.result().code == 0, running.result()
    assert running.result().text.endswith(FINAL), running.result()
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
    await until_read(alice, sent.id, "request")


@every_plugin
async def test_mail_wakes_an_idle_session_once(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    model.play(short, say("Ready."), say(FINAL), say("Again."), unlisted=client.unlisted)
    async with Terminal.open(client) as terminal:
        await terminal.shows(client.ready_mark)
        await terminal.type("Get ready.")
        await terminal.shows("Ready.")
        await terminal.idle()
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        second = await model.request(short, QUESTION)
        await terminal.shows(FINAL)
        await until_read(alice, sent.id, "request")
        await terminal.idle()
        more = await alice.send(f"shop-{short}", "And the lexer?")
        third = await model.request(short, "And the lexer?")
        await terminal.shows("Again.")
        await until_read(alice, more.id, "request")
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)
    assert [len(third.where(text)) for text in (QUESTION, "And the lexer?")] == [1, 1]


@every_plugin
async def test_a_new_broker_wakes_a_session_that_was_idle_all_the_time(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    model.play(short, say("Ready."), say(FINAL), unlisted=client.unlisted)
    async with Terminal.open(client) as terminal:
        await terminal.shows(client.ready_mark)
        await terminal.type("Get ready.")
        await terminal.shows("Ready.")
        await terminal.idle()
        await until_known(alice, f"shop-{short}")
        home.signal(signal.SIGKILL)
        await until(lambda: len(home.brokers()) == 1 and served(home), what="a new broker")
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        second = await model.request(short, QUESTION)
        await terminal.shows(FINAL)
        await until_read(alice, sent.id, "request")
    assert len(second.where(QUESTION)) == 1, second.where(QUESTION)


@every_plugin
async def test_an_interrupted_turn_loses_nothing_and_repeats_nothing(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    release, never = asyncio.Event(), asyncio.Event()
    model.play(
        short,
        call("list_peers")._replace(hold=release),
        say("never said")._replace(hold=never),
        say(FINAL),
        unlisted=client.unlisted,
    )
    async with Terminal.open(client) as terminal:
        await terminal.shows(client.ready_mark)
        await terminal.type("Look around.")
        await model.request(short)
        await until_known(alice, f"shop-{short}")
        sent = await alice.send(f"shop-{short}", QUESTION)
        release.set()
        await model.request(short, QUESTION)
        await terminal.interrupt()
        assert (await alice.status(sent.id))[f"shop-{short}"] == "delivered", "no answer came"
        await terminal.type("Go on.")
        last = await model.request(short, "Go on.")
        await terminal.shows(FINAL)
        await until_read(alice, sent.id, "request")
    assert len(last.where(QUESTION)) == 1, last.where(QUESTION)


async def test_mail_does_not_go_to_a_sub_agent(home: Home, model: Model, join: Join, tmp_path: Path) -> None:
    alice = await join("alice")
    client = OpenCode(tmp_path / "opencode", tmp_path / "shop", model.url("opencode"))
    client.configure()
    await equip(home, client)
    release = asyncio.Event()
    words = {"description": "look", "prompt": "HELPER: look around.", "subagent_type": "general"}
    model.play(
        "opencode",
        call("list_peers")._replace(when="HELPER", hold=release),
        call("task", **words)._replace(when="Delegate it."),
        say("The helper is done.")._replace(when="HELPER"),
        say("First.")._replace(when="Delegate it."),
        say(FINAL)._replace(when="Delegate it."),
        unlisted=client.unlisted,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(client, "Delegate it."))
        await model.request("opencode", "HELPER: look around.", index=0)
        await until_known(alice, "shop-opencode")
        sent = await alice.send("shop-opencode", QUESTION)
        release.set()
    assert running.result().code == 0, running.result()
    for request in model.requests("opencode"):
        is_helper = "Delegate it." not in request.text
        assert len(request.where(QUESTION)) <= (0 if is_helper else 1), request.text[-1_000:]
    assert len(model.requests("opencode")[-1].where(QUESTION)) == 1
    await until_read(alice, sent.id, "request")


@every_plugin
async def test_mail_that_waited_for_an_agent_comes_with_its_first_turn(
    home: Home, model: Model, join: Join, client: Client, short: str
) -> None:
    alice = await join("alice")
    await equip(home, client)
    model.play(short, say("First."), unlisted=client.unlisted)
    await run(client, "Get known.")
    sent = await alice.send(f"shop-{short}", QUESTION)
    model.play(short, say("First."), say(FINAL), unlisted=client.unlisted)
    ran = await run(client, "Say something.")
    assert ran.code == 0, ran
    last = model.requests(short)[-1]
    assert len(last.where(QUESTION)) == 1, last.text[-2_000:]
    await until_read(alice, sent.id, "request")


@every_plugin
async def test_a_headless_run_ends_as_fast_as_without_palaver(
    home: Home, model: Model, client: Client, tmp_path: Path, short: str
) -> None:
    plain = PROGRAMS[short](tmp_path / "plain", tmp_path / "shop", model.url("plain"))
    plain.configure()
    await equip(home, client)

    async def took_s(one: Client, agent: str) -> float:
        model.play(agent, say(FINAL), unlisted=one.unlisted)
        ran = await run(one, "Say something.")
        assert (ran.code, ran.text) == (0, FINAL), ran
        return ran.took_s

    # By turns, for the machine may get slower or faster meanwhile; the best of each, for noise only adds.
    pairs = [(await took_s(plain, "plain"), await took_s(client, short)) for _ in range(RUNS)]
    without, with_it = (min(times) for times in zip(*pairs, strict=True))
    assert with_it < without * SLOWER_MAX or with_it - without < SLOWER_S_MAX, pairs


@every_plugin
async def test_without_a_broker_a_client_does_its_work(
    home: Home, model: Model, client: Client, short: str
) -> None:
    await equip(home, client)
    (home.path / "hooks.json").unlink()
    model.play(short, say(FINAL), unlisted=client.unlisted)
    ran = await run(client, "Say something.")
    assert (ran.code, ran.text) == (0, FINAL), ran
    assert "palaver" not in ran.err


@every_plugin
async def test_uninstalling_leaves_nothing_behind(home: Home, client: Client, short: str) -> None:
    before = files(client)
    await equip(home, client)
    assert files(client) != before
    await asyncio.to_thread(uninstall, home, client)
    assert files(client) == before
