"""Real agent CLIs as children: they come up, get their task, say their result once, and end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.end_to_end.clients import run
from tests.end_to_end.family import OWN_WORDS, RESULT, TASK, Family, open_family
from tests.end_to_end.programs import PROGRAMS, REAL
from tests.end_to_end.script import Request, Step, call, say
from tests.end_to_end.stage import is_served
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_scopes import HANDS
from tests.end_to_end.trust import Cautious, trust
from tests.integration.world import Home, read_proc, until

MORE = "And count those of the lexer."
MORE_RESULT = "The lexer has 17 lines."
FETCH = call("get_messages", wait_s=60)
WINDOWS = ("claude", "codex", "gemini", "pi")


def work(result: str = RESULT, *, task: str = TASK, hold: asyncio.Event | None = None) -> list[Step]:
    """What a child's model does: it fetches its task unless it stands there already, and tells the result."""
    return [say(result)._replace(when=task, hold=hold), FETCH]


def spawning(by: str, name: str, short: str, task: str, *scope: str) -> Step:
    """A call for a headless child."""
    tool = "mcp__tellwire/spawn_agent" if by == "codex" else "spawn_agent"  # Codex has one of its own
    words = list(OWN_WORDS.get(short, ()))
    given = {"name": name, "client": PROGRAMS[short].kind, "task": task, "command": words, "headless": True}
    return call(tool, **given, **({"scope": list(scope)} if scope else {}))


def told(record: str) -> dict[str, object]:
    """What `tellwire spawn --json` says of a child."""
    return json.loads(record)


# -- coming up ----------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-1", "CHILD-4", stage="lineage")
@pytest.mark.parametrize("short", REAL)
@pytest.mark.timeout(300)
async def test_each_client_is_a_child_that_gets_its_task_and_tells_its_result_once(
    tmp_path: Path, short: str
) -> None:
    async with open_family(tmp_path, short) as family:
        go = asyncio.Event()
        family.play(short, *work(hold=go))
        (family.shop / "parser").mkdir()
        done = await family.spawn("kid", short, "--headless", "--scope", "parser")
        assert done.returncode == 0, done.stderr
        record = told(done.stdout)
        assert (record["kind"], record["parent"], record["status"]) == (
            family.clients[short].kind,
            "boss",
            "running",
        )
        last = await family.request(short, TASK)
        assert len(last.where(TASK)) == 1
        assert [(each["name"], each["parent"]) for each in await family.children()] == [("kid", "boss")]
        go.set()
        result, ending = await family.heard(2)
        assert (result.sender, result.body) == ("kid", RESULT)
        freed = "Your child kid has ended. Its scope is yours again."
        assert ending.body == f"{freed} What it said last is {result.id}, which you got."
        assert await family.children() == []
        shown = (await family.run("children")).stdout
        assert f"kid ({family.clients[short].kind} of boss) has ended" in shown
        assert f"its last answer is {result.id}." in shown
        assert await family.alice.scopes.all() == []
        await family.nothing_more()


@pytest.mark.requirement("CHILD-1", "CHILD-4", stage="lineage")
@pytest.mark.parametrize("short", WINDOWS)
@pytest.mark.timeout(300)
async def test_a_client_in_a_window_of_its_own_works_on_until_it_is_stopped(
    tmp_path: Path, short: str
) -> None:
    async with open_family(tmp_path, short) as family:
        family.play(short, *work(MORE_RESULT, task=MORE)[:1], *work())
        if short == "codex":  # its human has answered its dialog, and so it asks nothing
            codex = family.clients[short]
            await trust(family.home, Cautious(codex.home, codex.project, codex.model_url), "shop-codex")
        done = await family.spawn("kid", short, words=() if short == "codex" else None)
        assert done.returncode == 0, done.stderr
        assert told(done.stdout)["place"] == "tmux window kid"
        (result,) = await family.heard(1)
        assert (result.sender, result.body) == ("kid", RESULT)
        words = json.loads((await family.run("attach", "kid", "--json")).stdout)["command"]
        assert words[:2] == ["tmux", "-S"]
        await until(lambda: RESULT in family.screen("kid"), what="the result in its window")
        await family.alice.send("kid", MORE)
        (result,) = await family.heard(1)
        assert (result.sender, result.body) == ("kid", MORE_RESULT)
        stopped = await family.run("stop", "kid", "--as", "boss")
        assert stopped.stdout == "kid is being stopped.\n", stopped.stderr
        (ending,) = await family.heard(1)
        assert ending.body == f"Your child kid was ended. What it said last is {result.id}, which you got."
        await family.nothing_more()


@pytest.mark.requirement("CHILD-3", stage="lineage")
@pytest.mark.timeout(300)
async def test_what_a_client_asks_its_human_is_not_answered_for_them(tmp_path: Path) -> None:
    async with open_family(tmp_path, "claude", "codex", "gemini") as family:
        strange = tmp_path / "strange"
        (strange / ".codex").mkdir(parents=True)
        (strange / ".codex/config.toml").write_text('model = "other"\n')  # else Codex has nothing to ask for
        distrust(family)
        asked = {
            "claude": ("It asks whether the folder is trusted", "Yes, I trust this folder"),
            "codex": ("It asks whether the folder is trusted", "1. Trust and continue"),
            "gemini": ("It asks whether the folder is trusted", "Do you trust the files in this folder?"),
        }
        for short, (reason, shown) in asked.items():
            done = await family.spawn("kid", short, "--cwd", str(strange), "--scope", str(strange))
            assert done.returncode == 75, done.stdout
            error = json.loads(done.stderr)["error"]["message"]
            assert reason in error
            assert shown in error
            assert f"start {short} once in {strange}, answer, then spawn again" in error
        done = await family.spawn("kid", "claude", "--headless", "--cwd", str(strange))
        assert "It asks whether the folder is trusted" in done.stderr, "without a window it would not ask"
        done = await family.spawn("kid", "codex", words=())
        assert "It asks whether its hooks are trusted" in done.stderr
        assert await family.children() == []
        assert await family.alice.scopes.all() == [], "a reservation is left"
        await family.nothing_more()
        assert not family.model.requests("claude") + family.model.requests("codex")


@pytest.mark.requirement("CHILD-1", "CHILD-4", "CHILD-5", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_client_whose_hooks_do_not_run_is_held_all_the_same_and_tells_its_result(
    tmp_path: Path,
) -> None:
    """Codex skips hooks that its human has not trusted, and without a window it does not ask."""
    async with open_family(tmp_path, "codex") as family:
        hand = HANDS["codex"]
        hand.allow(family.clients["codex"])
        inside, outside = family.shop / "parser", family.shop / "lexer"
        for folder in (outside, inside):
            folder.mkdir()
            family.play("codex", hand.write(folder / "new.txt")._replace(when=TASK))
        family.play("codex", *work())
        done = await family.spawn("kid", "codex", "--headless", "--scope", "parser", words=())
        assert done.returncode == 0, done.stderr
        record = told(done.stdout)
        assert (record["enforced"], record["why"]) == ("enforced", "held by its client's sandbox")
        (ending,) = await family.heard(1)
        assert ending.body == f"Your child kid has ended. Its scope is yours again. It said last:\n{RESULT}"
        assert (inside / "new.txt").exists()
        assert not (outside / "new.txt").exists()
        assert "writing outside of the project" in family.model.requests("codex")[-1].text
        await family.nothing_more()


def distrust(family: Family) -> None:
    """Gemini CLI asks for folders too; of the other two the project alone is trusted."""
    path = family.clients["gemini"].home / ".gemini/settings.json"
    settings = json.loads(path.read_text("utf-8"))
    settings["security"]["folderTrust"]["enabled"] = True
    path.write_text(json.dumps(settings), encoding="utf-8")


@pytest.mark.requirement("CHILD-1", "CHILD-3", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_childs_client_has_its_own_key_and_nobody_elses(tmp_path: Path) -> None:
    async with open_family(tmp_path, "claude", "codex") as family:
        missing = await family.spawn("kid", "gemini-cli", "--headless")
        assert missing.returncode == 75
        assert "'gemini' is not installed." in missing.stderr
        assert "npm install -g @google/gemini-cli" in missing.stderr
        go = asyncio.Event()
        family.play("codex", *work(hold=go))
        secrets = {
            "OPENAI_API_KEY": "own",
            "GEMINI_API_KEY": "other",
            "GITHUB_TOKEN": "other",
            "TELLWIRE_CHILD": "x",
        }
        done = await family.spawn("kid", "codex", "--headless", **secrets)
        assert done.returncode == 0, done.stderr
        await family.request("codex", TASK)
        environment = environment_of_child(family.home)
        assert {"SCRIPTED_KEY", "OPENAI_API_KEY", "PATH", "HOME"} <= environment.keys()
        assert not environment.keys() & {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN"}
        assert environment["TELLWIRE_CHILD"] != "x"
        go.set()
        await family.heard(2)


def environment_of_child(home: Home) -> dict[str, str]:
    """The environment of the one child that runs."""
    for entry in Path("/proc").iterdir():
        words = read_proc(int(entry.name), "cmdline").split(b"\0") if entry.name.isdigit() else []
        if any(word.startswith(b"You were started by another agent.") for word in words):
            pairs = [
                pair.decode().partition("=") for pair in read_proc(int(entry.name), "environ").split(b"\0")
            ]
            found = {name: value for name, _, value in pairs}
            if found.get("TELLWIRE_HOME") == str(home.path):
                return found
    raise AssertionError("no child runs")


# -- scopes -------------------------------------------------------------------------------------------


def write_with(short: str, path: Path) -> Step:
    """A write by the client's own tool, and in Codex by the shell, where it has none for this model."""
    if short == "claude":
        return call("Write", file_path=str(path), content="written\n")
    return call("exec_command", cmd=f"echo written > {path}; echo wrote=$?")


DONE = {"claude": "File created", "codex": "wrote=0"}
REFUSED = {"claude": "denied by your permission settings", "codex": "Read-only file system"}
HELD = {"claude": "rules", "codex": "sandbox"}


@pytest.mark.requirement("CHILD-1", "CHILD-4", "CHILD-5", stage="lineage")
@pytest.mark.parametrize(("above", "below"), [("claude", "codex"), ("codex", "claude")])
@pytest.mark.timeout(300)
async def test_a_child_of_another_client_is_held_to_its_scope_and_its_result_comes_once(
    tmp_path: Path, above: str, below: str
) -> None:
    async with open_family(tmp_path, above, below) as family:
        inside, outside = family.shop / "parser", family.shop / "lexer"
        inside.mkdir()
        outside.mkdir()
        allow_all_edits(family)
        give = spawning(above, "kid", below, TASK, "parser")
        done = say("It is done.")._replace(when=RESULT)
        family.play(above, done, done, give, FETCH)  # that the child has ended comes before or after it
        tries = [write_with(below, folder / "new.txt") for folder in (outside, inside)]
        family.play(below, say(RESULT)._replace(when=DONE[below]))
        family.play(below, *(each._replace(when=TASK) for each in tries), FETCH)
        ran = await run(family.clients[above], "Have the parser counted.")
        assert (ran.code, ran.text) == (0, "It is done."), ran.err[-500:]
        assert (inside / "new.txt").read_text("utf-8") == "written\n"
        assert not (outside / "new.txt").exists()
        assert f"You may write to {inside}, and nowhere else" in family.model.requests(below)[0].text
        assert REFUSED[below] in (await family.request(below, "new.txt", index=1)).text
        heard = family.model.requests(above)[-1]
        assert len(heard.where(RESULT)) == 1, heard.where(RESULT)
        (row,) = family.journal("child_started")
        assert row["detail"]["held_by"] == HELD[below]


def allow_all_edits(family: Family) -> None:
    """A person who lets their Claude Code write wherever it wants."""
    path = family.clients["claude"].home / ".claude/settings.json"
    settings = json.loads(path.read_text("utf-8"))
    settings["permissions"]["allow"] += ["Edit", "Write"]
    path.write_text(json.dumps(settings), encoding="utf-8")


# -- restarts -----------------------------------------------------------------------------------------


@pytest.mark.requirement("CHILD-6", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_broker_killed_while_a_child_works_loses_neither_child_nor_result(tmp_path: Path) -> None:
    async with open_family(tmp_path, "claude") as family:
        go = asyncio.Event()
        family.play("claude", *work(hold=go))
        done = await family.spawn("kid", "claude", "--headless")
        assert done.returncode == 0, done.stderr
        await family.request("claude", TASK)
        family.home.signal(Home.KILL)
        await until(lambda: len(family.home.brokers()) == 1 and is_served(family.home), what="a new broker")
        (child,) = await family.children()
        assert (child["name"], child["status"]) == ("kid", "running")
        go.set()
        result, ending = await family.heard(2)
        assert (result.sender, result.body) == ("kid", RESULT)
        assert ending.body == f"Your child kid has ended. What it said last is {result.id}, which you got."
        await family.nothing_more()


@pytest.mark.requirement("CHILD-4", "CHILD-6", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_result_waits_for_a_parent_whose_session_is_over(tmp_path: Path) -> None:
    async with open_family(tmp_path, "claude", "pi") as family:
        go = asyncio.Event()
        parent = family.clients["claude"]
        family.play("claude", spawning("claude", "kid", "pi", TASK), say("It is under way."))
        family.play("pi", *work(hold=go))
        ran = await run(parent, "Have the parser counted.")
        assert (ran.code, ran.text) == (0, "It is under way."), ran.err[-500:]
        await family.request("pi", TASK)
        go.set()
        await until(family.children_gone, what="the end of the child")
        family.play("claude", say("I see."))
        again = await run(parent, "What came of it?", resume=family.session())
        assert (again.code, again.text) == (0, "I see."), again.err[-500:]
        heard = await family.request("claude", "What came of it?")
        assert len(heard.where(RESULT)) == 1, heard.where(RESULT)
        assert len(heard.where("Your child kid has ended.")) == 1


# -- grandchildren ------------------------------------------------------------------------------------


@pytest.mark.requirement("AUD-3", "CHILD-2", stage="lineage")
@pytest.mark.timeout(300)
async def test_a_grandchilds_scope_is_known_two_levels_up_and_wakes_nobody(tmp_path: Path) -> None:
    async with open_family(tmp_path, "pi", "claude") as family:
        (family.shop / "parser/tables").mkdir(parents=True)
        go = asyncio.Event()
        begin, deeper = "Have the parser counted.", "Count the tables."
        family.play("pi", say("17 tables.")._replace(when=deeper, hold=go))
        family.play(
            "pi",
            spawning("pi", "kid", "claude", TASK, "parser")._replace(when=begin),
            say("It is under way.")._replace(when=begin),
            FETCH,
        )
        family.play(
            "claude", spawning("claude", "grandkid", "pi", deeper, "parser/tables")._replace(when=TASK)
        )
        family.play("claude", say("Given on.")._replace(when=TASK, hold=go), FETCH)
        async with Terminal.open(family.clients["pi"]) as terminal:
            await terminal.shows(family.clients["pi"].ready_mark)
            await terminal.type(begin)
            await terminal.shows("It is under way.")
            await terminal.idle()
            await family.request("pi", deeper)
            before = requests_of_parent(family, begin)
            tree = [(each["name"], each["parent"]) for each in await family.children()]
            assert tree == [("kid", "shop-pi"), ("grandkid", "kid")]
            (climbed,) = family.journal("scope_sub_delegated")
            assert (climbed["who"], climbed["whom"]) == ("shop-pi", ["grandkid"])
            owner = await family.run("who-owns", "parser/tables/new.txt", "--json")
            assert json.loads(owner.stdout)["owner"] == "grandkid", owner.stderr
            assert requests_of_parent(family, begin) == before, "its model was asked something"
            go.set()
            heard = await family.request("pi", "Given on.")
            assert deeper not in heard.text, "what is between a child and its own is nobody else's"
            await until(family.children_gone, what="the end of both")
            await terminal.idle()


def requests_of_parent(family: Family, begin: str) -> list[Request]:
    """What the model of the one in the terminal was asked."""
    return [each for each in family.model.requests("pi") if begin in each.text]
