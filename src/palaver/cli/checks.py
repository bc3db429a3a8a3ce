"""What `palaver doctor` looks at. Each check tells how it stands, and what to do; none changes anything."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from palaver.cli.install_world import find_clients, find_world
from palaver.cli.render import NOT_WAKEABLE, format_age, format_duration, wake_words
from palaver.cli.speaking import ask
from palaver.integrations.install.checking import Report, check
from palaver.integrations.install.clients import CLIENTS
from palaver.integrations.install.endpoint import peek_endpoint
from palaver.protocol.errors import PalaverError
from palaver.protocol.operations.agents import AgentRecord
from palaver.protocol.operations.broker import BrokerState, BrokerStatus, Diagnosis
from palaver.settings import Settings
from palaver.version import VERSION

FREE_BYTES_MIN = 50 << 20
FREE_BYTES_LOW = 500 << 20
WORDS_OF_KINDS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
    "pi": "pi",
}
"""What the installer calls the clients of a kind."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One finding."""

    about: str
    level: Literal["ok", "warn", "fail"] = "ok"
    words: str
    advice: str = ""
    code: str = ""
    """Of a failure: the row of the error table, for the exit code."""


def check_broker(settings: Settings) -> tuple[BrokerState | None, list[Check]]:
    """Whether one runs, of our version, and can store."""
    try:
        state = ask(BrokerStatus(), settings=settings, autostart=False)
    except PalaverError as error:
        found = Check(about="broker", level="fail", words=error.message, advice=error.advice, code=error.code)
        return None, [found]
    words = f"{state.version}, pid {state.pid}, up {format_duration(state.uptime_s)}"
    checks = [Check(about="broker", words=words)]
    if state.version != VERSION:
        words = f"The broker is version {state.version}, this command {VERSION}."
        checks = [Check(about="broker", level="warn", words=words, advice="Run `palaver up --replace`.")]
    if state.storage != "ok":
        advice = "Free disk space; the broker goes on by itself."
        checks.append(
            Check(about="storage", level="fail", words=state.storage, advice=advice, code="storage_full")
        )
    return state, checks


def check_home(settings: Settings) -> Iterator[Check]:
    """Whether the home is ours alone, and has room."""
    if not settings.home.is_dir():
        yield Check(about="home", words=f"{settings.home} is made when it is needed")
        return
    open_ones = [path for path in (settings.home, settings.socket, settings.database) if _is_open(str(path))]
    foreign = settings.home.stat().st_uid != os.getuid()
    if foreign:
        words = f"{settings.home} belongs to another user."
        yield Check(about="home", level="fail", words=words, advice="Set PALAVER_HOME.", code="forbidden")
    elif open_ones:
        words = f"Others may enter {', '.join(map(str, open_ones))}."
        advice = "Take their rights away: `chmod go= PATH`."
        yield Check(about="home", level="fail", words=words, advice=advice, code="forbidden")
    else:
        yield Check(about="home", words=str(settings.home))
    free = shutil.disk_usage(settings.home).free
    words = f"{free >> 20} MiB are free"
    if free < FREE_BYTES_LOW:
        level = "fail" if free < FREE_BYTES_MIN else "warn"
        yield Check(about="disk", level=level, words=words, advice="Free some space.", code="storage_full")
    else:
        yield Check(about="disk", words=words)


def _is_open(path: str) -> bool:
    try:
        return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)
    except OSError:
        return False


def check_port(settings: Settings, diagnosis: Diagnosis | None) -> Iterator[Check]:
    """Whether hooks over HTTP reach the broker, if any were installed."""
    try:
        endpoint = peek_endpoint(str(settings.home))
    except PalaverError as error:
        yield Check(about="hooks", level="fail", words=error.message, advice=error.advice, code=error.code)
        return
    if endpoint is None:
        return
    if diagnosis is not None and diagnosis.hooks_port == endpoint.port:
        yield Check(about="hooks", words=f"served on port {endpoint.port}")
    elif _is_taken(endpoint.port):
        words = f"Port {endpoint.port}, where Claude Code's hooks go, is taken by another program."
        advice = f"End that program, or delete {settings.home / 'hooks.json'} and run `palaver install all`."
        yield Check(about="hooks", level="fail", words=words, advice=advice, code="conflict")
    elif diagnosis is not None:
        words = f"Port {endpoint.port} is not served."
        yield Check(about="hooks", level="warn", words=words, advice="Run `palaver up --replace --detach`.")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


# -- clients ------------------------------------------------------------------------------------------


def check_clients(words: Sequence[str]) -> Iterator[Check]:
    """The clients on this machine: their versions, and whether palaver is in them."""
    found = find_clients(words)
    try:
        world = find_world("user", fixed=True)
    except PalaverError as error:
        yield Check(about="install", level="fail", words=error.message, advice=error.advice, code=error.code)
        return
    for word in words:
        client = CLIENTS[word]
        report = check(client, client.targets(world.place, world.programs), found[word])
        if report.program or report.state != "absent":
            yield _of_report(report)


def _of_report(report: Report) -> Check:
    version = report.version or "of unknown version"
    errors = [file.error for file in report.files if file.error]
    words = f"{version}, palaver is {report.state}"
    if report.fine:
        return Check(about=report.client, words=words)
    more = "; ".join([*errors, *report.notes])
    if report.state == "broken":
        return Check(
            about=report.client,
            level="fail",
            words=f"{words}: {more}",
            advice="Correct the file.",
            code="bad_request",
        )
    advice = "" if report.state == "installed" else f"Run `palaver install {report.client}`."
    return Check(
        about=report.client, level="warn", words=f"{words}: {more}" if more else words, advice=advice
    )


# -- agents -------------------------------------------------------------------------------------------


def check_agents(agents: Sequence[AgentRecord]) -> Iterator[Check]:
    """Each agent that is online, or has mail: what it does, and how it is reached."""
    for agent in agents:
        if agent.status == "online" and agent.paths:
            yield _of_agent(agent)
        elif agent.status != "online" and (agent.pending or len(agents) == 1):
            yield Check(about=agent.name, words=f"offline{_waiting(agent)}")


def _of_agent(agent: AgentRecord) -> Check:
    if agent.deaf:
        return Check(
            about=agent.name,
            level="warn",
            words=f"deaf: {agent.unreached}{_waiting(agent)}",
            advice="Restart its client. If it stays deaf, see `palaver install --check`.",
        )
    wake = wake_words(msgspec.to_builtins(agent))
    words = ", ".join(each for each in (agent.activity, wake or "fetches its mail") if each)
    shut = [
        f"{path.name}: {path.note}" for path in agent.paths if path.wakes and not path.works and path.note
    ]
    if wake == NOT_WAKEABLE:
        return Check(
            about=agent.name,
            level="warn",
            words=f"{words}{_waiting(agent)}" + (f" ({'; '.join(shut)})" if shut else ""),
            advice="Its mail comes with its next turn. Run it in tmux, or `palaver install` its client.",
        )
    return Check(about=agent.name, words=words)


def _waiting(agent: AgentRecord) -> str:
    count = agent.pending
    return f"; {count} message{' waits' if count == 1 else 's wait'}" if count else ""


def check_diagnosis(diagnosis: Diagnosis, *, only: str = "") -> Iterator[Check]:
    """What the broker itself found odd."""
    now = time.time()
    for fault in diagnosis.faults:
        times = "once" if fault.count == 1 else f"{fault.count} times"
        words = f"A hook of {fault.client} made no sense {times}, last {format_age(now - fault.last_at)}: "
        advice = "Its version may be newer than palaver knows; see `palaver install --check`."
        yield Check(about="hooks", level="warn", words=words + fault.error, advice=advice)
    for lease in diagnosis.leases:
        if only and lease.agent != only:
            continue
        words = (
            f"was given {', '.join(lease.ids)} {format_age(now - lease.since)}, and nothing shows it read it"
        )
        advice = "It is offered again when the session ends, or when its client shows that it is not there."
        yield Check(about=lease.agent, level="warn", words=words, advice=advice)
