"""The examples do what their docstrings promise, and end by themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.world import ROOT, Home

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def promised_lines(path: Path) -> list[str]:
    """The indented block behind the word `prints`; `...` stands for any lines."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    block = text.partition("prints")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_prints_what_it_promises_and_ends(home: Home, path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        env=home.environment(),
        cwd=home.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, promised = done.stdout.splitlines(), promised_lines(path)
    assert promised
    if "..." in promised:
        place = promised.index("...")
        behind = len(promised) - place - 1
        said = [*said[:place], "...", *said[-behind:]]
    assert said == promised


def test_there_are_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["ask_and_answer", "blocking", "worker_pool"]
