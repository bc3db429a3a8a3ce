"""README.md, played as it stands: from a built wheel, in an empty home, twice in a row.

Blocks are found by their language and order. `console` blocks are typed into shells at terminals, and what
they show is compared, but for ids and times. What needs real agent CLIs is named in `ELSEWHERE`.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.surfaces.install_world import Person

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
WHEELS = ROOT / ".wheels"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "§ "
WITHIN_S = 120.0
INSTALL_S = 240
ELSEWHERE = {"tellwire run claude codex": "tests/end_to_end"}
"""Commands that need the real clients, and where they are tested."""
ONCE = {"bob is registered.": "bob (is|was already) registered."}
"""What differs the second time."""
OTHERS = re.compile(r"\d+ (?:is|more are) offline or in other projects: .*")
"""The end of a listing, once the README was played in this home."""

pytestmark = [pytest.mark.requirement("INST-5", stage="install"), pytest.mark.timeout(900)]


def blocks(language: str) -> list[str]:
    return [text for word, text in BLOCK.findall(README) if word == language]


# -- a person at terminals ----------------------------------------------------------------------------


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, person: Person, environment: dict[str, str]) -> None:
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(person.project)
            own = {**environment, "PS1": PROMPT, "TERM": "dumb", "COLUMNS": "100", "NO_COLOR": "1"}
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], own)
        self._read_to_prompt()

    def type(self, command: str) -> None:
        """Type a line; its echo is not part of what it shows."""
        os.write(self._screen, f"{command}\n".encode())

    def finish(self) -> str:
        """What the command has shown when the prompt is back; a question is answered with yes."""
        return self._read_to_prompt().partition("\n")[2].removesuffix(PROMPT)

    def run(self, command: str) -> str:
        self.type(command)
        return self.finish()

    def code(self) -> int:
        """The exit code of the last command."""
        return int(self.run("echo $?"))

    def _read_to_prompt(self) -> str:
        seen, answered = "", False
        deadline = time.monotonic() + WITHIN_S
        while not seen.endswith(PROMPT):
            left = max(deadline - time.monotonic(), 0)
            ready, _, _ = select.select([self._screen], [], [], left)
            assert ready, f"nothing more within {WITHIN_S} s: {seen!r}"
            seen += os.read(self._screen, 65_536).decode(errors="replace").replace("\r\n", "\n")
            if "[y/N" in seen and not answered:
                answered = True
                os.write(self._screen, b"y\n")
        return seen

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGHUP)
        os.close(self._screen)
        os.waitpid(self.pid, 0)


class World:
    """An empty home, offline, with uv on the PATH and the built package among the files to install from."""

    def __init__(self, folder: Path) -> None:
        self.person = Person(folder)
        self.person.has_all()
        os.symlink(Path(sys.executable).with_name("uv"), self.person.bin / "uv")
        files = folder / "files"
        shutil.copytree(WHEELS / "files", files)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(files)]
        subprocess.run(build, cwd=ROOT, capture_output=True, timeout=INSTALL_S, check=True)
        python = (WHEELS / "pythons").read_text().split()[0]
        path = f"{self.person.home}/env/bin:{self.person.home}/.local/bin:{self.person.bin}:/usr/bin:/bin"
        self.environment = self.person.environment(
            PATH=path,
            UV_PYTHON=python,
            UV_OFFLINE="1",
            UV_NO_INDEX="1",
            UV_FIND_LINKS=str(files),
            PIP_CONFIG_FILE=os.devnull,
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(files),
        )
        self.shell(f"{python} -m venv ~/env")

    def shell(self, line: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env=self.environment,
            cwd=self.person.project,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, program: str) -> subprocess.Popen[str]:
        """A program in the environment that `pip install` made ready."""
        command = [f"{self.person.home}/env/bin/python", "-u", "-c", program]
        return subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.person.project,
            text=True,
            stdout=subprocess.PIPE,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("readme"))
    yield made
    with suppress(AssertionError):
        made.shell("tellwire down")


@pytest.fixture
def terminals(world: World) -> Iterator[tuple[Terminal, Terminal]]:
    both = Terminal(world.person, world.environment), Terminal(world.person, world.environment)
    yield both
    for each in both:
        each.close()


# -- what a block promises ----------------------------------------------------------------------------


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Commands, each with the lines it is to show; none: whatever it shows is right."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def matches(wanted: list[str], shown: str, ids: dict[str, str]) -> None:
    """Compare, and learn which ids stand for those of the README."""
    lines = [line.rstrip() for line in shown.rstrip("\n").splitlines() if not OTHERS.fullmatch(line.strip())]
    assert len(lines) == len(wanted), shown
    for want, line in zip(wanted, lines, strict=True):
        pattern = ONCE.get(want) or re.escape(want)
        pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern)
        pattern = re.sub(r"\b\d+\\s\+s\\s\+ago|\bnow\b", r"(?:now|\\d+ \\w+ ago)", pattern)
        names: list[str] = []
        for word in re.findall(r"\bm[0-9a-z]\b", want):
            known = ids.get(word)
            pattern = pattern.replace(word, re.escape(known) if known else r"(m[0-9a-z]+)", 1)
            names += [] if known else [word]
        found = re.fullmatch(pattern, line)
        assert found, f"{line!r} is not {want!r}"
        if names:
            ids[names[0]] = found.group(found.lastindex or 1)


def put_in(command: str, ids: dict[str, str]) -> str:
    """The command with the ids of this run."""
    return re.sub(r"\bm[0-9a-z]\b", lambda word: ids.get(word[0], word[0]), command)


def play_alone(terminal: Terminal, block: str, ids: dict[str, str]) -> None:
    for command, wanted in steps(block):
        shown = terminal.run(put_in(command, ids))
        assert terminal.code() in (0, 1), f"{command}: {shown}"
        if wanted:
            matches(wanted, shown, ids)


# -- playing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_", ["first", "second"])
def test_the_readme_does_what_it_says(
    world: World, terminals: tuple[Terminal, Terminal], round_: str
) -> None:
    install, run, equip, pip = blocks("sh")
    assert run.strip() in ELSEWHERE
    you, agent = terminals

    you.run(install.strip())
    assert you.code() == 0
    you.run(equip.strip())
    assert you.code() == 0, "the stand-ins for the clients are equipped"

    answering, asking, everyday = blocks("console")
    ids: dict[str, str] = {}
    play_conversation(you, agent, answering, asking, ids)
    play_alone(you, everyday, ids)

    world.shell(pip)
    play_programs(world)


def play_conversation(
    you: Terminal, agent: Terminal, answering: str, asking: str, ids: dict[str, str]
) -> None:
    """The two terminals of the README by turns: one waits for mail, the other for the answer."""
    (register, registered), (wait, mail), (answer, sent) = steps(answering)
    (listing, listed), (ask, answered), (status, receipt) = steps(asking)
    matches(registered, agent.run(register), ids)
    agent.type(wait)
    deadline = time.monotonic() + WITHIN_S
    while "bob" not in (shown := you.run(listing)):
        assert time.monotonic() < deadline, shown
    matches(listed, shown, ids)
    you.type(ask)
    matches(mail, agent.finish(), ids)
    matches(sent, agent.run(put_in(answer, ids)), ids)
    matches(answered, you.finish(), ids)
    matches(receipt, you.run(put_in(status, ids)), ids)


def play_programs(world: World) -> None:
    """One waits, the other asks; what the comments say is what it prints."""
    reviewer, author = blocks("python")
    waiting = world.python(reviewer)
    try:
        deadline = time.monotonic() + WITHIN_S
        while "reviewer" not in world.shell("tellwire list"):
            assert time.monotonic() < deadline
        asking = world.python(author)
        said, _ = asking.communicate(timeout=WITHIN_S)
        peers, sent, answer, status = said.splitlines()
        message, received = sent.split()
        assert (asking.returncode, "reviewer" in peers, received) == (0, True, "received")
        assert f"re='{message}'" in answer
        assert status == "{'reviewer': 'answered'}"
    finally:
        waiting.kill()
        waiting.communicate()


def test_every_block_of_the_readme_is_played_or_tested_elsewhere() -> None:
    languages = [word for word, _ in BLOCK.findall(README)]
    assert set(languages) == {"text", "sh", "console", "python"}
    for place in ELSEWHERE.values():
        assert (ROOT / place).exists()
