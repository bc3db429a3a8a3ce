"""Tells which tests name which requirements; ``test_requirements.py`` asks for it.

Fixtures belong into the conftest of the folder that uses them.
"""

import json
from pathlib import Path

import pytest
from hypothesis import settings

# No test is judged by the clock: a busy machine makes an example slow now and then.
settings.register_profile("tellwire", deadline=None)
settings.load_profile("tellwire")

MAY_NOT_RUN = ("skip", "skipif", "xfail")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements-to", metavar="FILE", help="write the collected requirement markers")


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
