"""`tellwire doctor`: what is wrong, what to do about it, and a probe that proves how an agent is reached."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import click
import msgspec

from tellwire.cli.local.checks import (
    Check,
    check_agents,
    check_broker,
    check_clients,
    check_diagnosis,
    check_former_home,
    check_home,
    check_launcher,
    check_machines,
    check_port,
    check_sessions,
    check_settings,
    look_at_clients,
)
from tellwire.cli.options import Duration, as_option, complete_names, json_option
from tellwire.cli.render import format_age, render_json
from tellwire.cli.screen import ERR, Screen, find_screen, write
from tellwire.cli.speaking import Speaker, ask, speak
from tellwire.clients import BY_KIND, BY_NAME
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.agents import AgentRecord, GetAgent, ListAgents
from tellwire.protocol.operations.broker import Diagnose, Diagnosis, SessionFault
from tellwire.protocol.operations.machines import ListMachines
from tellwire.settings import load_settings
from tellwire.views.words import clean, wrap

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}
PROBE = "A test by `tellwire doctor`, to check that mail reaches you. Nothing to do; no answer is needed."
PROBE_S = 60.0
LOOK_S = 0.2
DONE = ("read", "answered")
OVER = ("expired", "denied")


@click.command()
@click.argument("agent", required=False, shell_complete=complete_names)
@click.option("--probe", is_flag=True, help="Send AGENT a real message and follow it; this costs a turn.")
@click.option(
    "--wait",
    "wait_s",
    type=Duration(),
    default=PROBE_S,
    metavar="TIME",
    help="How long to follow it (default 60s).",
)
@as_option
@json_option
def doctor(agent: str | None, wait_s: float, speaker: str | None, *, probe: bool, as_json: bool) -> int:
    """Find problems, and say how to fix them.

    Checks the broker, its home, the clients and each agent. It changes nothing. With --probe it sends the
    agent a small message, and reports whether it was read or how far it got.

    \b
    Examples:
      tellwire doctor
      tellwire doctor bob --probe
      tellwire doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    if probe and agent is None:
        raise click.UsageError("--probe needs an AGENT.")
    checks, record = find_checks(agent)
    if not as_json:
        write(render_checks(checks, find_screen()))
    outcome: dict[str, Any] | None = None
    if probe and record is not None:
        known = [check.advice for check in checks if check.about == record.name and check.level != "ok"]
        outcome, check = _probe(record, speaker, wait_s, known=known, tell=not as_json)
        checks.append(check)
        if not as_json:
            write(render_checks([check], find_screen()))
    failed = [check for check in checks if check.level == "fail"]
    if as_json:
        whole = {"fine": not failed, "checks": [_document(check) for check in checks], "probe": outcome}
        write(render_json(whole))
    return ERRORS[failed[0].code].exit if failed else 0


def find_checks(name: str | None) -> tuple[list[Check], AgentRecord | None]:
    """All checks, or those that concern one agent.

    Raises:
        TellwireError: `unknown_agent`.
    """
    settings = load_settings()
    broker, checks = check_broker(settings)
    diagnosis = None if broker is None else _ask_diagnosis(checks)
    agents: list[AgentRecord] = []
    record: AgentRecord | None = None
    if name is not None:
        if broker is None:
            words = f"Cannot look up {name}: no broker is running."
            unknown = Check(
                about=name, level="fail", words=words, advice="Run `tellwire up`.", code="unreachable"
            )
            return [*checks, unknown], None
        record = ask(GetAgent(name=name), settings=settings, autostart=False)
        agents, word = [record], BY_KIND[record.kind].name if record.kind in BY_KIND else None
        words = [] if word is None else [word]
    else:
        words = list(BY_NAME)
        checks += [*check_settings(settings), *check_home(settings)]
        checks += check_former_home(os.environ)
        if broker is not None:
            agents = ask(ListAgents(all=True), settings=settings, autostart=False).agents
            checks += check_machines(ask(ListMachines(), settings=settings, autostart=False).machines)
    checks += check_port(settings, diagnosis)
    checks += check_launcher(settings)
    try:
        reports = look_at_clients(words)
    except TellwireError as error:
        reports = {}
        checks.append(
            Check(about="install", level="fail", words=error.message, advice=error.advice, code=error.code)
        )
    checks += check_clients(reports.values())
    faults = [] if diagnosis is None else _faults_of(diagnosis, record)
    checks += check_agents(agents, {fault.agent for fault in faults})
    checks += check_sessions(faults, reports)
    if record is not None and record.status == "online":
        checks += _paths_of(record)
    if diagnosis is not None:
        checks += check_diagnosis(diagnosis, only="" if record is None else record.name)
    return checks, record


def _faults_of(diagnosis: Diagnosis, record: AgentRecord | None) -> list[SessionFault]:
    return [fault for fault in diagnosis.sessions if record is None or fault.agent == record.name]


def _ask_diagnosis(checks: list[Check]) -> Diagnosis | None:
    try:
        return ask(Diagnose(), autostart=False)
    except TellwireError as error:  # an older broker does not know the question
        checks.append(Check(about="broker", level="warn", words=error.message, advice=error.advice))
        return None


def _paths_of(agent: AgentRecord) -> list[Check]:
    now = time.time()
    checks: list[Check] = []
    for path in agent.paths:
        age = "never used" if path.last_at is None else format_age(now - path.last_at)
        last = age if path.last_at is None else f"last used {age}"
        state = "works" if path.works else "unproved" if path.unproved else "not working now"
        words = "; ".join(each for each in (f"{path.name}: {state}", path.note, last) if each)
        checks.append(Check(about=agent.name, words=words))
    return checks


# -- the probe ----------------------------------------------------------------------------------------


def _probe(
    agent: AgentRecord, speaker: str | None, wait_s: float, *, known: list[str], tell: bool
) -> tuple[dict[str, Any], Check]:
    began = time.monotonic()

    async def work(me: Speaker) -> dict[str, Any]:
        sent = await me.send(agent.name, PROBE, kind="notification", ttl_s=max(wait_s, 1.0))
        state = "pending" if sent.id else sent.status
        evidence, last, why = "", "", sent.why
        while sent.id and state not in (*DONE, *OVER) and time.monotonic() - began < wait_s:
            (receipt,) = (await me.status(sent.id)).recipients
            state, evidence, why = receipt.state, receipt.evidence, receipt.why
            if state != last and tell:
                write(f"{sent.id}  {state}, after {time.monotonic() - began:.1f} s\n", ERR)
            last = state
            await asyncio.sleep(LOOK_S)
        return {"id": sent.id, "state": state, "evidence": evidence, "why": why, "note": sent.note}

    outcome = speak(speaker, work)
    outcome["took_s"] = round(time.monotonic() - began, 1)
    before = {path.name: path.last_at for path in agent.paths}
    now = ask(GetAgent(name=agent.name), autostart=False)
    by = [path.name for path in now.paths if path.last_at and path.last_at != before.get(path.name)]
    outcome["by"] = by
    if outcome["state"] in DONE:
        way = f", through {' and '.join(by)}" if by else ""
        how = f"({outcome['evidence']}){way}"
        words = f"probe {outcome['id']} was {outcome['state']} after {outcome['took_s']} s {how}"
        return outcome, Check(about=agent.name, words=words)
    words = f"probe {outcome['id']} is still {outcome['state']} after {outcome['took_s']} s"
    more = outcome["why"] or outcome["note"]
    return outcome, Check(
        about=agent.name,
        level="fail",
        words=f"{words}: {more}" if more else words,
        advice=next(filter(None, known), "") or _advise(outcome["state"], now),
        code="timeout",
    )


def _advise(state: str, agent: AgentRecord) -> str:
    """What to do about a probe that was not read, if nothing was found wrong with its agent."""
    if agent.status != "online":
        return "Start it again, then probe again."
    if state == "delivered":
        return "Its client has it, but there is no evidence yet that it was read. Use a longer --wait."
    if agent.activity == "busy":
        return (
            "It is busy: mail arrives with its next tool call or at the end of its turn. Use a longer --wait."
        )
    return "Look at its screen, and probe again with a longer --wait."


# -- words --------------------------------------------------------------------------------------------


def render_checks(checks: list[Check], screen: Screen) -> str:
    """One line for each, and what to do below it."""
    size = max((len(check.about) for check in checks), default=0)
    lines: list[str] = []
    for check in checks:
        level = screen.paint(check.level.ljust(4), STYLES[check.level])
        head = f"{level}  {clean(check.about).ljust(size)}  "
        indent = " " * (size + 8)
        first, *rest = wrap([clean(check.words)], indent=indent, width=screen.width)
        lines += [head + first[len(indent) :], *rest]
        if check.level != "ok" and check.advice:
            lines += wrap([f"→ {clean(check.advice)}"], indent=indent, width=screen.width)
    return "\n".join(lines) + "\n"


def _document(check: Check) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(check).items() if key != "code"}
