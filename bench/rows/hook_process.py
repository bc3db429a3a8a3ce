"""Hooks as processes, from spawn to end: with nothing waiting and with a fresh message, ours and hcom's."""

import itertools
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import tellwire
from bench.engine import Missing, RoundFailed
from bench.engines.hcom_hook import HcomHook, opened_hcom
from bench.engines.tellwire_broker import TellwireEngine
from bench.hook_client import HookClient, opened_client
from bench.process import wait_for_quiet
from bench.report import Section, compare
from bench.rows.stored import BARE_PYTHON
from bench.turns import by_turns
from bench.workshop import Workshop, value_detail
from tellwire.sdk.blocking import BlockingAgent

EMPTY_ROW = "hook process, nothing waiting"
MAIL_ROW = "hook process, one message"
GATE, HOOK, HCOM, TRUE = "tellwire gate", "tellwire hook.py", "hcom post", "/bin/true"
BOTH = "tellwire gate and hook.py"
WORKER = "worker"
MESSAGE_ID = re.compile(r"peer-message id=(\w+)")
TOOL = {
    "hook_event_name": "PostToolUse",
    "tool_name": "Read",
    "tool_input": {"file_path": "note.txt"},
    "tool_response": "The parser is finished.\n",
    "tool_use_id": "call_d99e075362ca4256b68c",
}


class Mesh:
    """A broker, a client of ours that runs hooks, and alice, who writes to it."""

    def __init__(self, client: HookClient, alice: BlockingAgent, transcript: str) -> None:
        self._client = client
        self._alice = alice
        self._session = {
            "session_id": "01a1e1c3-6cf6-7d02-b2e2-34b2375c8f08",
            "turn_id": "01a1e1c3-6d1b-7a51-a542-1daaacadccc8",
            "transcript_path": transcript,
            "cwd": "/",
            "model": "scripted",
            "permission_mode": "default",
        }
        self._numbers = itertools.count()
        self._tell({"hook_event_name": "SessionStart", "source": "startup"})
        self._tell({"hook_event_name": "UserPromptSubmit", "prompt": "Go on."})

    def _tell(self, event: Mapping[str, Any]) -> str:
        return self._client.run(self._client.hook, {**self._session, **event})[1]

    def gate_ms(self) -> float:
        """The gate, which finds no mark."""
        return self._empty_ms(self._client.gate)

    def hook_ms(self) -> float:
        """The hook, which the broker has nothing for."""
        return self._empty_ms(self._client.hook)

    def _empty_ms(self, command: Any) -> float:
        self._tell(TOOL)  # the broker takes its mark away
        if self._client.mark.exists():
            raise RoundFailed("a mark, although nothing waits")
        took_ms, said = self._client.run(command, {**self._session, **TOOL})
        if said:
            raise RoundFailed(f"mail, although nobody has written: {said}")
        return took_ms

    def hook_with_mail_ms(self) -> float:
        """The hook alone."""
        return self._mail_ms(self._client.hook)

    def both_with_mail_ms(self) -> float:
        """The gate, which finds a mark, and the hook behind it: what a client waits for."""
        return self._mail_ms(self._client.gate)

    def _mail_ms(self, command: Any) -> float:
        body = f"Note number {next(self._numbers)} for you."
        self._alice.send(WORKER, body)
        took_ms, said = self._client.run(command, {**self._session, **TOOL})
        found = MESSAGE_ID.search(said)
        if body not in said or found is None:
            raise RoundFailed(f"the hook brought no mail: {said!r}")
        self._client.reply(found[1])
        return took_ms

    def true_ms(self) -> float:
        """The cheapest process that a hook can be."""
        return self._client.run(["/bin/true"], TOOL)[0]

    def python_ms(self) -> float:
        """An interpreter that does nothing."""
        return self._client.run([sys.executable, "-I", "-S", "-c", "pass"], TOOL)[0]


class Rival:
    """hcom, run by the same client."""

    def __init__(self, client: HookClient, hook: HcomHook) -> None:
        self._client = client
        self._hook = hook
        self._session = {
            "session_id": "0b1e4c6a-2f6d-4b0e-9a51-3c7d5e8f9a10",
            "transcript_path": str(hook.project / "transcript.jsonl"),
            "cwd": str(hook.project),
            "permission_mode": "default",
        }
        self._numbers = itertools.count()
        start = {"hook_event_name": "SessionStart", "source": "startup"}
        client.run(hook.session_start, {**self._session, **start}, hook.environment)

    def empty_ms(self) -> float:
        """With nothing waiting."""
        took_ms, said = self._post()
        if said:
            raise RoundFailed(f"hcom said something although nobody has written: {said}")
        return took_ms

    def mail_ms(self) -> float:
        """With a fresh message."""
        body = f"Note number {next(self._numbers)} for you."
        self._hook.send(body)
        took_ms, said = self._post()
        if body not in said:
            raise RoundFailed(f"hcom's hook brought no mail: {said!r}")
        return took_ms

    def _post(self) -> tuple[float, str]:
        return self._client.run(self._hook.post, {**self._session, **TOOL}, self._hook.environment)


def measure_hook_processes(workshop: Workshop) -> Section:
    """All of them run by one client, by turns."""
    engine = TellwireEngine()
    with ExitStack() as stack:
        folder, home = (stack.enter_context(workshop.folder()) for _ in range(2))
        stack.enter_context(workshop.running(engine, home))
        client = stack.enter_context(opened_client(engine, WORKER))
        alice = stack.enter_context(tellwire.connect_sync("alice", home=engine.home))
        mesh = Mesh(client, alice, str(folder / "transcript.jsonl"))
        empty: dict[str, Callable[[], float]] = {
            GATE: mesh.gate_ms,
            HOOK: mesh.hook_ms,
            TRUE: mesh.true_ms,
            BARE_PYTHON: mesh.python_ms,
        }
        mail: dict[str, Callable[[], float]] = {
            BOTH: mesh.both_with_mail_ms,
            HOOK: mesh.hook_with_mail_ms,
            BARE_PYTHON: mesh.python_ms,
        }
        try:
            rival = Rival(client, stack.enter_context(opened_hcom(folder)))
            empty[HCOM], mail[HCOM] = rival.empty_ms, rival.mail_ms
        except Missing as missing:
            empty[HCOM] = mail[HCOM] = partial(_absent, str(missing))
        section = Section()
        _compare(workshop, EMPTY_ROW, empty, ((GATE, TRUE), (GATE, HCOM), (HOOK, BARE_PYTHON)), section)
        _compare(workshop, MAIL_ROW, mail, ((BOTH, HCOM), (BOTH, BARE_PYTHON)), section)
    return section


def _absent(why: str) -> float:
    raise Missing(why)


def _compare(
    workshop: Workshop,
    row: str,
    contenders: Mapping[str, Callable[[], float]],
    pairs: tuple[tuple[str, str], ...],
    section: Section,
) -> None:
    plan = workshop.plan
    outcomes = by_turns(
        contenders,
        plan.rounds,
        plan.hook_processes,
        lambda: wait_for_quiet(plan.patience_s),
        workshop.tell,
    )
    details = {name: value_detail(row, name, "ms", outcome) for name, outcome in outcomes.items()}
    section.details += details.values()
    section.ratios += [compare(row, "ms", details[ours], details[theirs], "value") for ours, theirs in pairs]
