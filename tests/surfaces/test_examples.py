"""The examples, and the one in README.md, do what they promise: also the second time."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.world import ROOT, WITHIN_S, Home

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
README = (ROOT / "README.md").read_text("utf-8")


def promised_lines(path: Path) -> list[str]:
    """The indented block behind the word `prints`; `...` stands for any lines."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    block = text.partition("prints")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def run(home: Home, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *words],
        env=home.environment(),
        cwd=home.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_prints_what_it_promises_and_ends_twice_in_a_row(home: Home, path: Path) -> None:
    promised = promised_lines(path)
    assert promised
    for _ in range(2):
        said = run(home, str(path))
        if "..." in promised:
            place = promised.index("...")
            behind = len(promised) - place - 1
            said = [*said[:place], "...", *said[-behind:]]
        assert said == promised


def test_the_examples_share_no_names() -> None:
    texts = [*(path.read_text("utf-8") for path in EXAMPLES), README]
    names = [sorted(set(re.findall(r'connect(?:_sync)?\("([\w-]+)"', text))) for text in texts]
    assert all(names)
    everyone = [name for some in names for name in some]
    assert len(everyone) == len(set(everyone))


@pytest.mark.requirement("NET-8")
def test_the_readmes_two_programs_give_todays_answer_the_second_time_too(home: Home) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    first, second = [block for block in blocks if "connect_sync" in block]
    answerer = subprocess.Popen(
        [sys.executable, "-u", "-c", first], env=home.environment(), cwd=home.path, stdout=subprocess.DEVNULL
    )
    try:
        wait = "import tellwire, time\nwith tellwire.connect_sync('looker') as me:\n"
        wait += f"    for _ in range({WITHIN_S:.0f} * 20):\n"
        wait += "        if me.peers(): break\n        time.sleep(0.05)\n"
        run(home, "-c", wait)
        for _ in range(2):
            peers, sent, answer, status = run(home, "-c", second)
            message, said = sent.split()
            assert (said, "reviewer" in peers) == ("received", True)
            assert answer.count("Message") == 1
            assert f"re='{message}'" in answer
            assert status == "{'reviewer': 'answered'}"
    finally:
        answerer.kill()
        answerer.wait()


def test_there_are_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["ask_and_answer", "blocking", "worker_pool"]
