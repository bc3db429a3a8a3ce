"""What `tellwire doctor` says of a session that gets no mail: what is wrong, and what to do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tellwire.cli.local.checks import advise_deaf, check_agents, check_sessions
from tellwire.clients.codex.trust import LACKING as TRUST
from tellwire.core.mail.reach import DEAF, DIALOG, Contact
from tellwire.core.mail.waking import FAILED, STOPPED
from tellwire.core.state import Agent
from tellwire.install.check import FileState, Report
from tellwire.protocol.operations.agents import AgentRecord, PathRecord
from tellwire.protocol.operations.broker import SessionFault
from tellwire.sessions.diagnosis import find_fault

FIRST_2 = pytest.mark.requirement("FIRST-2", stage="contact")
GIVEN_UP = "left to its human after 4 failed wakes"
BOUND = Contact(hooked=True, bound=True, state="idle", idle=True, since=7.0)


@FIRST_2
@pytest.mark.parametrize(
    ("contact", "fault"),
    [
        (BOUND, ("", "", 0.0)),
        (BOUND._replace(held=STOPPED), ("", "", 0.0)),
        (BOUND._replace(held=GIVEN_UP), ("failed", GIVEN_UP, 7.0)),
        (Contact(), ("", "", 0.0)),
        (Contact(hooked=True), ("deaf", DEAF, 3.0)),
        (BOUND._replace(state="waiting", idle=False), ("dialog", DIALOG, 7.0)),
        (
            BOUND._replace(held=f"{FAILED}; next try in 4 min"),
            ("failed", f"{FAILED}; next try in 4 min", 7.0),
        ),
    ],
)
def test_a_fault_follows_from_what_is_known_of_the_client(contact: Contact, fault: object) -> None:
    agent = Agent(id="a1", name="bob", kind="claude-code", session="i", connected_at=3.0)
    assert find_fault(agent, contact) == fault


def report(path: Path, **fields: Any) -> Report:
    known: dict[str, Any] = {"state": "installed", "fine": True, "files": (FileState(path=str(path)),)}
    return Report(client="claude", title="", program="claude", version="1", **{**known, **fields})


def fault(**fields: Any) -> SessionFault:
    known: dict[str, Any] = {"agent": "bob", "kind": "claude-code", "what": "deaf", "why": DEAF}
    return SessionFault(**{**known, **fields})


@FIRST_2
def test_a_deaf_session_is_told_what_to_do_by_what_its_configuration_says(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.touch()
    os.utime(path, (1_000.0, 1_000.0))
    older, newer = fault(started_at=900.0), fault(started_at=1_100.0)
    assert "Run `tellwire install claude`" in advise_deaf(older, report(path, state="absent"))
    assert advise_deaf(older, report(path, notes=(TRUST,), fine=False)) == TRUST
    away = report(path, notes=("`claude` is not on the PATH.",))
    assert "It started before" in advise_deaf(older, away), "where the program is says nothing of its session"
    server = FileState(path=str(tmp_path))  # changed just now, by the client itself
    both = report(path, files=(server, FileState(path=str(path), hooks=True)))
    assert "Its hooks do not run" in advise_deaf(newer, both)
    assert f"It started before {path} was last changed" in advise_deaf(older, report(path))
    assert "Its hooks do not run" in advise_deaf(newer, report(path))
    assert "first prompt" in advise_deaf(fault(kind="codex", started_at=1_100.0), report(path))
    assert advise_deaf(older, None) == "Restart its client."


@FIRST_2
def test_each_fault_has_one_line_of_advice_and_mail_for_a_deaf_one_is_a_failure() -> None:
    since = time.time() - 300
    faults = [
        fault(waiting=1, since=since),
        fault(agent="ann"),
        fault(agent="cat", what="dialog", why=DIALOG, since=since),
        fault(agent="dan", what="failed", why=FAILED, waiting=2),
    ]
    checks = {check.about: check for check in check_sessions(faults, {})}
    assert [(each.about, each.level) for each in checks.values()] == [
        ("bob", "fail"),
        ("ann", "warn"),
        ("cat", "warn"),
        ("dan", "warn"),
    ]
    assert checks["bob"].words == f"deaf: {DEAF}, for 5 min; 1 message waits"
    assert checks["dan"].words == f"{FAILED}; 2 messages wait"
    assert all(check.advice and "\n" not in check.advice for check in checks.values())


def test_an_agent_that_was_told_of_is_not_told_of_twice_and_mail_that_waits_says_why() -> None:
    path = PathRecord(name="waiter", works=True, wakes=True)
    agents = [
        AgentRecord(
            id=name, name=name, kind="claude-code", status="online", paths=[path], pending=1, waits=why
        )
        for name, why in (("ann", ""), ("bob", "busy in a turn for 6 min"))
    ]
    (bob,) = check_agents(agents, {"ann"})
    assert (bob.level, bob.words) == ("ok", "waiter; 1 message waits: busy in a turn for 6 min")
