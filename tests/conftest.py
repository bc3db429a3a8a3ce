"""Tells which tests name which requirements; ``test_requirements.py`` asks for it.

Fixtures belong into the conftest of the folder that uses them.
"""

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

# No test is judged by the clock: a busy machine makes an example slow now and then.
settings.register_profile("tellwire", deadline=None)
settings.load_profile("tellwire")

# Whoever runs the tests at a desktop is not notified of what the agents in them ask.
os.environ.setdefault("TELLWIRE_NOTIFY_COMMAND", "")

LONGEST = (
    "integration/test_threads.py",
    "surfaces/test_cli_terminal.py",
    "integration/test_machines.py",
    "integration/test_mcp_kills.py",
    "integration/test_shim.py",
    "integration/test_launch_kills.py",
    "integration/test_kills.py",
    "integration/test_life.py",
    "surfaces/test_readme.py",
    "integration/test_ownership.py",
    "integration/test_guarding.py",
    "integration/test_spawning.py",
    "integration/test_crowds.py",
    "integration/test_links.py",
    "integration/test_pairing_machines.py",
    "integration/test_mcp_receipts.py",
    "surfaces/test_cli_speaking.py",
    "test_requirements.py",
)
"""Files that a worker of several begins with: a long one at the end would keep the others waiting."""
TIERS = ("integration", "surfaces", "properties", "simulation")
"""Then the tiers whose files last; the rest takes moments."""
MAY_NOT_RUN = ("skip", "skipif", "xfail")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements-to", metavar="FILE", help="write the collected requirement markers")


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """In a worker of several, the longest files come first; alone, the usual order stays."""
    if not hasattr(session.config, "workerinput"):
        return
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        file = item.path.relative_to(here)
        if file.as_posix() in LONGEST:
            return LONGEST.index(file.as_posix())
        tier = TIERS.index(file.parts[0]) if file.parts[0] in TIERS else len(TIERS)
        return len(LONGEST) + tier

    items.sort(key=rank)  # stable: within a file nothing changes


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tests that need what this machine cannot give do not run; whoever reads the result is to know which."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        terminalreporter.write_line(f"DID NOT RUN: {report.nodeid}: {reason}", red=True, bold=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    target: str | None = session.config.getoption("--requirements-to")
    if target is None:
        return
    marks = [
        {
            "test": item.nodeid,
            "ids": mark.args,
            "stage": mark.kwargs.get("stage"),
            "always_runs": not any(item.get_closest_marker(name) for name in MAY_NOT_RUN),
        }
        for item in session.items
        for mark in item.iter_markers("requirement")
    ]
    Path(target).write_text(json.dumps(marks), encoding="utf-8")
