"""The checks of `tellwire doctor`: each reports a state and what to do about it; none changes anything."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from tellwire.cli.local.holder import find_holder, reach_broker
from tellwire.cli.local.world import find_clients, find_world
from tellwire.cli.render import NOT_WAKEABLE, format_age, format_duration, wake_words
from tellwire.clients import BY_KIND, BY_NAME
from tellwire.install import launcher
from tellwire.install.check import Report, check
from tellwire.install.endpoint import peek_endpoint
from tellwire.install.former import former_home
from tellwire.install.records import load_records
from tellwire.protocol.addresses import FORMER
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import AgentRecord
from tellwire.protocol.operations.broker import BrokerState, Diagnosis, SessionFault
from tellwire.protocol.operations.machines import MachineRecord
from tellwire.settings import Settings
from tellwire.store.losses import find_losses
from tellwire.version import VERSION

NO_BROKER = "not running; the next command or agent session starts it"
UNSUPPORTED = "Use a version that is supported; until then mail may not reach its sessions."
FREE_BYTES_MIN = 50 << 20
FREE_BYTES_LOW = 500 << 20
ADVICE = {
    "dialog": "Answer the dialog in its terminal; its mail is delivered then.",
    "failed": "Look at its screen for the error. A new prompt in its terminal makes it start again.",
}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    about: str
    level: Literal["ok", "warn", "fail"] = "ok"
    words: str
    advice: str = ""
    code: str = ""
    """Of a failure: the row of the error table, for the exit code."""


def check_broker(settings: Settings) -> tuple[BrokerState | None, list[Check]]:
    """Whether one runs, of our version, and can store."""
    try:
        state = reach_broker(settings)
    except TellwireError as error:
        if error.code == "unreachable" and not find_holder(settings.lock):
            return None, [Check(about="broker", words=NO_BROKER)]
        found = Check(about="broker", level="fail", words=error.message, advice=error.advice, code=error.code)
        return None, [found]
    words = f"{state.version}, pid {state.pid}, up {format_duration(state.uptime_s)}"
    checks = [Check(about="broker", words=words)]
    if state.version != VERSION:
        words = f"The broker has version {state.version}, this command {VERSION}."
        checks = [Check(about="broker", level="warn", words=words, advice="Run `tellwire up --replace`.")]
    if state.storage != "ok":
        advice = state.storage_advice or "Free disk space; the broker then continues automatically."
        checks.append(
            Check(about="storage", level="fail", words=state.storage, advice=advice, code="storage_full")
        )
    return state, checks


def check_settings(settings: Settings) -> Iterator[Check]:
    """What is wrong with the file of settings."""
    for fault in settings.faults:
        yield Check(about="settings", words=fault, level="warn")


def check_home(settings: Settings) -> Iterator[Check]:
    """Whether the home is ours alone, and has room."""
    if not settings.home.is_dir():
        yield Check(about="home", words=f"{settings.home} will be created when it is needed")
        return
    open_ones = [path for path in (settings.home, settings.socket, settings.database) if _is_open(str(path))]
    foreign = settings.home.stat().st_uid != os.getuid()
    if foreign:
        words = f"{settings.home} belongs to another user."
        yield Check(
            about="home",
            level="fail",
            words=words,
            advice="Set TELLWIRE_HOME to a folder of your own.",
            code="forbidden",
        )
    elif open_ones:
        words = f"Other users can access {', '.join(map(str, open_ones))}."
        advice = "Remove their access with `chmod go= PATH`."
        yield Check(about="home", level="fail", words=words, advice=advice, code="forbidden")
    else:
        yield Check(about="home", words=str(settings.home))
    for loss in find_losses(settings.database):
        advice = (
            "Restore a backup if you have one. Otherwise run `tellwire audit --acknowledge` at a terminal."
        )
        yield Check(about="journal", level="fail", words=loss.words(), advice=advice, code="database_corrupt")
    free = shutil.disk_usage(settings.home).free
    words = f"{free >> 20} MiB free"
    if free < FREE_BYTES_LOW:
        level = "fail" if free < FREE_BYTES_MIN else "warn"
        yield Check(
            about="disk", level=level, words=words, advice="Free some disk space.", code="storage_full"
        )
    else:
        yield Check(about="disk", words=words)


def check_former_home(env: Mapping[str, str]) -> Iterator[Check]:
    """Whether a home of the former name is there. Nothing reads it, and nobody deletes it but its owner."""
    home = former_home(env)
    if os.path.isdir(home):
        words = f"{home} is from the old name, {FORMER}; it is no longer used"
        yield Check(
            about="old home", level="warn", words=words, advice="Delete it if you do not need its contents."
        )


def _is_open(path: str) -> bool:
    try:
        return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)
    except OSError:
        return False


def check_port(settings: Settings, diagnosis: Diagnosis | None) -> Iterator[Check]:
    """Whether hooks over HTTP reach the broker, if any were installed."""
    try:
        endpoint = peek_endpoint(str(settings.home))
    except TellwireError as error:
        yield Check(about="hooks", level="fail", words=error.message, advice=error.advice, code=error.code)
        return
    if endpoint is None:
        return
    if diagnosis is not None and diagnosis.hooks_port == endpoint.port:
        yield Check(about="hooks", words=f"listening on port {endpoint.port}")
    elif _is_taken(endpoint.port):
        words = f"Port {endpoint.port}, which the clients' plugins use, is taken by another program."
        advice = (
            f"Stop that program, or delete {settings.home / 'hooks.json'} and run `tellwire install all`."
        )
        yield Check(about="hooks", level="fail", words=words, advice=advice, code="conflict")
    elif diagnosis is not None:
        words = f"The broker is not listening on port {endpoint.port}."
        yield Check(about="hooks", level="warn", words=words, advice="Run `tellwire up --replace --detach`.")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


# -- clients ------------------------------------------------------------------------------------------


def check_launcher(settings: Settings) -> Iterator[Check]:
    """Whether what the clients' configurations name is there, and leads to this program."""
    home = str(settings.home)
    if not load_records(home).files:
        return
    wrong = launcher.trouble(home)
    leads = launcher.target(home)
    if wrong:
        advice = "Run `tellwire install all`."
        yield Check(
            about="launcher",
            level="fail",
            words=f"{wrong}; hooks do nothing.",
            advice=advice,
            code="unreachable",
        )
    elif os.path.realpath(leads) != os.path.realpath(launcher.PACKAGE):
        words = f"The clients use {leads}, this command is {launcher.PACKAGE}."
        advice = "To have them use this one, run `tellwire install all`."
        yield Check(about="launcher", level="warn", words=words, advice=advice)
    else:
        yield Check(about="launcher", words=f"{home}/bin")


def look_at_clients(words: Sequence[str]) -> dict[str, Report]:
    """How tellwire is installed in each client, by the installer's word for it.

    Raises:
        TellwireError: a configuration cannot be read.
    """
    if not words:
        return {}
    found = find_clients(words)
    world = find_world("user", fixed=True)
    return {
        word: check(BY_NAME[word], BY_NAME[word].targets(world.place, world.programs), found[word])
        for word in words
    }


def check_clients(reports: Iterable[Report]) -> Iterator[Check]:
    """The clients on this machine: their versions, and whether tellwire is in them."""
    for report in reports:
        if report.program or report.state != "absent":
            yield _of_report(report)


def _of_report(report: Report) -> Check:
    version = report.version or "unknown version"
    errors = [file.error for file in report.files if file.error]
    words = f"{version}, tellwire is {report.state}"
    more = "; ".join([*errors, *report.notes])
    if report.state == "unsupported":
        return Check(about=report.client, level="warn", words=more, advice=UNSUPPORTED)
    if report.fine:
        return Check(about=report.client, words=f"{words}; {more}" if more else words)
    if report.state == "broken":
        return Check(
            about=report.client,
            level="fail",
            words=f"{words}: {more}",
            advice="Fix the file.",
            code="bad_request",
        )
    advice = "" if report.state == "installed" else f"Run `tellwire install {report.client}`."
    return Check(
        about=report.client, level="warn", words=f"{words}: {more}" if more else words, advice=advice
    )


# -- agents -------------------------------------------------------------------------------------------


def check_agents(agents: Sequence[AgentRecord], told: Container[str] = ()) -> Iterator[Check]:
    """Each agent that is online, or has mail: what it does, and how it is reached."""
    for agent in agents:
        if agent.name in told:
            continue
        if agent.status == "online" and agent.paths:
            yield _of_agent(agent)
        elif agent.status != "online" and (agent.pending or len(agents) == 1):
            yield Check(about=agent.name, words=f"offline{_waiting(agent.pending)}")


def _of_agent(agent: AgentRecord) -> Check:
    wake = wake_words(msgspec.to_builtins(agent))
    words = ", ".join(each for each in (agent.activity, wake or "fetches its own mail") if each)
    shut = [
        f"{path.name}: {path.note}" for path in agent.paths if path.wakes and not path.works and path.note
    ]
    if wake == NOT_WAKEABLE:
        return Check(
            about=agent.name,
            level="warn",
            words=f"{words}{_waiting(agent.pending)}" + (f" ({'; '.join(shut)})" if shut else ""),
            advice="Its mail waits for its next turn. Run it in tmux, or `tellwire install` its client.",
        )
    waits = f"{_waiting(agent.pending)}: {agent.waits}" if agent.waits else ""
    return Check(about=agent.name, words=f"{words}{waits}")


def check_sessions(faults: Sequence[SessionFault], reports: Mapping[str, Report]) -> Iterator[Check]:
    """Sessions that mail cannot get into, or waits for somebody's doing."""
    now = time.time()
    for fault in faults:
        since = f", for {format_duration(now - fault.since)}" if fault.since else ""
        head = "deaf: " if fault.what == "deaf" else ""
        words = f"{head}{fault.why}{since}{_waiting(fault.waiting)}"
        stops = fault.what == "deaf" and fault.waiting > 0
        known = BY_KIND.get(fault.kind)
        advice = ADVICE.get(fault.what) or advise_deaf(
            fault, None if known is None else reports.get(known.name)
        )
        yield Check(
            about=fault.agent,
            level="fail" if stops else "warn",
            words=words,
            advice=advice,
            code="timeout" if stops else "",
        )


def advise_deaf(fault: SessionFault, report: Report | None) -> str:
    """What to do about a session of which no hook was heard: by what is known of its configuration."""
    if report is None:
        return "Restart its client."
    if report.state != "installed":
        found = f"tellwire is {report.state} in its configuration"
        return f"{found}. Run `tellwire install {report.client}`, then restart the client."
    if report.notes and not report.fine:
        return report.notes[0]
    files = [file for file in report.files if file.hooks] or report.files
    changed = {file.path: _changed_at(file.path) for file in files}
    newest = max(changed, key=lambda path: changed[path], default="")
    if newest and 0 < fault.started_at < changed[newest]:
        return f"It started before {newest} was last changed, so it may lack tellwire's hooks. Restart it."
    if fault.kind in BY_KIND and BY_KIND[fault.kind].silent_at_start:
        return "Its hooks do not run before its first prompt. Type one; if it stays deaf, restart it."
    return "Its hooks do not run. Restart it; if it stays deaf, run `tellwire install --check`."


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _waiting(count: int) -> str:
    return f"; {count} message{' waits' if count == 1 else 's wait'}" if count else ""


def check_machines(machines: Sequence[MachineRecord]) -> Iterator[Check]:
    """Which other machines are reached, and why the rest are not."""
    for each in machines:
        if each.status == "removed":
            continue
        about = f"machine {each.label}"
        waits = f", {each.outbox} in the outbox" if each.outbox else ""
        if each.status == "online" and each.carrier:
            trip = f", round trip {each.round_trip_s * 1_000:.0f} ms" if each.round_trip_s else ""
            yield Check(about=about, words=f"online by {each.carrier}{trip}, tellwire {each.version}{waits}")
        elif each.carriers and all(word.startswith("off ") for word in each.carriers):
            yield Check(about=about, words=f"switched off{waits}")
        else:
            heard = (
                f"last heard {format_age(time.time() - each.heard_at)}" if each.heard_at else "never heard"
            )
            words = f"{heard}{waits}. {each.problem}".rstrip(". ")
            advice = (
                f"See `tellwire machine show {each.label}`; what is sent waits and arrives when it is back."
            )
            yield Check(about=about, level="warn", words=words, advice=advice)


def check_diagnosis(diagnosis: Diagnosis, *, only: str = "") -> Iterator[Check]:
    """Problems that the broker itself has noticed."""
    now = time.time()
    for fault in diagnosis.faults:
        times = "once" if fault.count == 1 else f"{fault.count} times"
        words = (
            f"Could not understand a hook of {fault.client} {times}, last {format_age(now - fault.last_at)}: "
        )
        advice = "Its version may be too new for this tellwire. Run `tellwire install --check`."
        yield Check(about="hooks", level="warn", words=words + fault.error, advice=advice)
    for lease in diagnosis.leases:
        if only and lease.agent != only:
            continue
        words = (
            f"got {', '.join(lease.ids)} {format_age(now - lease.since)}, with no proof yet that it was read"
        )
        advice = "It is delivered again if the session ends, or if its client shows that it did not arrive."
        if lease.stuck:
            words += "; its client is idle"
            advice = (
                "Type a prompt: its next turn settles this. Or end it; the message is then delivered again."
            )
        yield Check(about=lease.agent, level="warn", words=words, advice=advice)
