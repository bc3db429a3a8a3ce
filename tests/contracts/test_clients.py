"""One suite for every agent CLI, its record and its samples; a sixth one that does not exist included."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellwire
from tellwire.clients import CLIENTS
from tellwire.clients.client import Client, InstallPlace, LaunchWords, McpTraits, Programs, Target
from tellwire.clients.events import HookEvent
from tellwire.clients.plugin import PluginTranscript
from tellwire.clients.ports import Doors, SessionPort, Waker
from tellwire.clients.reader import TranscriptReader
from tellwire.relay.guard import denial
from tellwire.relay.starts import start_of
from tellwire.sessions.client_session import ClientSession
from tellwire.sessions.gate_files import facts_of
from tests.contracts.client_contract import MARK, Samples, faults
from tests.contracts.toy.facts import TOY
from tests.unit.transcripts import (
    ABSENT,
    JSON,
    OPEN,
    READ,
    Given,
    recorded,
    recorded_lines,
    replay,
    replay_damaged,
)

SOURCE = Path(tellwire.__file__).parent
SAMPLES = Path(__file__).parents[1] / "samples"
ROOT = Path(__file__).parents[2]
PINNED = ROOT / "requirements" / "clients.json"
TOY_SAMPLES = Samples(
    Path(__file__).parent / "toy" / "samples", Path(__file__).parent / "toy/samples/screens.json"
)
SIX = (*CLIENTS, TOY)


def no_targets(place: InstallPlace, programs: Programs) -> list[Target]:
    """Nothing is installed."""
    del place, programs
    return []


def samples_of(client: Client) -> Samples:
    if client is TOY:
        return TOY_SAMPLES
    return Samples(SAMPLES / client.name, SAMPLES / "screens" / f"{client.kind}.json")


@pytest.mark.parametrize("client", SIX, ids=lambda client: client.kind)
def test_a_record_holds_all_that_its_samples_show(client: Client) -> None:
    others = [each for each in SIX if each is not client]
    assert faults(client, samples_of(client), others) == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.kind)
def test_the_newest_version_that_is_known_is_the_one_that_is_pinned(client: Client) -> None:
    pinned = json.loads(PINNED.read_bytes())["dependencies"]
    assert pinned[client.npm] == ".".join(map(str, client.highest_known))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "codex"}, "`kind` is that of Codex as well."),
        ({"title": ""}, "`title` is empty: give it in facts.py."),
        ({"mcp": McpTraits(short="toy")}, "`mcp` lacks the name it gives itself"),
        ({"launch": LaunchWords(ask=())}, "`launch` does not say what introduces the first prompt."),
        ({"targets": no_targets}, "does not start tellwire's MCP server."),
        (
            {"writes": msgspec.structs.replace(TOY.writes, tools={"keep": "to"})},
            "finds no path in what was recorded",
        ),
        (
            {"writes": msgspec.structs.replace(TOY.writes, refusal={"no": ""})},
            "has to have {reason} in one place.",
        ),
        ({"transcript": CLIENTS[0].transcript}, "finds no words of the user"),
    ],
)
def test_what_a_new_client_forgot_is_told_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    forgetful = msgspec.structs.replace(TOY, **change)
    assert any(sentence in each for each in faults(forgetful, TOY_SAMPLES, CLIENTS))


def test_a_sample_that_is_missing_is_named(tmp_path: Path) -> None:
    bare = Samples(tmp_path, tmp_path / "screens.json")
    told = " ".join(faults(TOY, bare, CLIENTS))
    for name in ("reader_payloads.jsonl", "transcript.jsonl", "screens.json", "writes.json"):
        assert f"record the sample {name}." in told


def test_a_sixth_client_is_served_by_its_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "t1.jsonl"
    path.touch()
    names = count(1)
    session = ClientSession("a1", TOY.opened(), lambda: f"t{next(names)}")
    for what in ("session_started", "prompt"):
        session.note(HookEvent(what=what, name=what, session="t1", transcript=str(path)))
    session.leases.add("hook:1:1", [MARK])
    assert session.judge() == ([], [])
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"who": "human", "text": f"<peer-message {MARK} age=1s>"}) + "\n")
        file.write(json.dumps({"who": "toy", "text": "I see."}) + "\n")
    assert session.judge() == (["hook:1:1"], [])


def test_a_hook_without_a_broker_judges_a_sixth_client_by_the_file(tmp_path: Path) -> None:
    pid = os.getppid()
    guard = {
        "process": f"{pid}.{start_of(pid)}",
        "rules": [{"path": str(tmp_path / "src")}],
        "otherwise": "{path} is outside your scope.",
        "writes": {TOY.kind: facts_of(TOY)},
    }
    (tmp_path / f"{pid}.json").write_text(json.dumps(guard), "utf-8")

    def said(to: str) -> bytes:
        payload = {"hook_event_name": "before", "tool_name": "save", "tool_input": {"to": to}}
        asked = json.dumps({**payload, "cwd": str(tmp_path)}).encode()
        return denial(TOY.kind, asked, str(tmp_path), cut=False)[0]

    assert said("src/a") == b""
    assert json.loads(said("doc/a"))["no"].startswith(f"{tmp_path}/doc/a is outside your scope.")


# -- what their readers prove -------------------------------------------------------------------------

WRITING = [each for each in SIX if not isinstance(each.transcript, PluginTranscript)]
"""Clients whose files are read; the plugins of the others tell themselves."""
RECORDED = [
    pytest.param(client, case, texts, id=f"{client.kind}-{case}")
    for client in WRITING
    if (samples_of(client).folder / "reader_cases.json").exists()  # else the contract says so
    for case, texts in recorded(str(samples_of(client).folder)).items()
]


def reader_of(client: Client) -> type[TranscriptReader]:
    """The class of its readers."""
    found = type(client.transcript.reader(HookEvent(what="prompt", name="x", session="s")))
    assert issubclass(found, TranscriptReader)
    return found


def lines_of(client: Client, case: str) -> list[bytes]:
    return recorded_lines(str(samples_of(client).folder), case)


@pytest.mark.parametrize(("client", "case", "texts"), RECORDED)
def test_a_recorded_session_gives_the_verdict_that_the_models_server_gives(
    tmp_path: Path, client: Client, case: str, texts: list[Given]
) -> None:
    lines, make = lines_of(client, case), reader_of(client)
    wanted = {one.mark: one.verdict for one in texts if one.verdict is not OPEN}
    assert replay(make, tmp_path / "told", lines, texts, is_expecting=True) == wanted
    untold = replay(make, tmp_path / "untold", lines, texts, is_expecting=False)
    # What the client never wrote down and nobody announced stays open.
    assert untold.items() <= wanted.items()
    assert {mark for mark, verdict in wanted.items() if verdict is READ} <= untold.keys()


@pytest.mark.parametrize(("client", "case", "texts"), RECORDED)
def test_a_recorded_session_read_at_once_gives_the_same_or_leaves_it_open(
    tmp_path: Path, client: Client, case: str, texts: list[Given]
) -> None:
    (tmp_path / "t").write_bytes(b"".join(lines_of(client, case)))
    verdicts = reader_of(client)(str(tmp_path / "t")).judge([one.mark for one in texts])
    for one in texts:
        assert verdicts[one.mark] in (one.verdict, OPEN)
        assert verdicts[one.mark] is READ or one.verdict is not READ


@pytest.mark.parametrize("client", WRITING, ids=lambda client: client.kind)
@given(data=st.data())
def test_a_damaged_transcript_makes_no_wrong_verdict(client: Client, data: st.DataObject) -> None:
    folder = str(samples_of(client).folder)
    assert ABSENT not in replay_damaged(reader_of(client), data, client=folder).values()


@pytest.mark.parametrize("client", WRITING, ids=lambda client: client.kind)
@given(data=st.data())
def test_garbage_is_refused_or_understood(client: Client, data: st.DataObject) -> None:
    payloads = samples_of(client).payloads()
    fields = sorted({key for payload in payloads for key in payload})
    names = sorted({str(payload["hook_event_name"]) for payload in payloads})
    values = JSON | st.sampled_from(names) | st.just("5c1f")
    payload = data.draw(st.dictionaries(st.sampled_from(fields) | st.text(max_size=8), values))
    try:
        event = client.hooks.parse(payload)
    except ValueError:
        return
    assert event.session


# -- how they are woken -------------------------------------------------------------------------------


class Way:
    """A way to wake a client, of which only the place in the list matters."""

    async def wake(self, session: Any, agent: Any) -> bool:
        """Never."""
        del session, agent
        return False

    def path_of(self, agent: Any) -> None:
        """Nowhere."""
        del agent


@pytest.mark.parametrize("client", SIX, ids=lambda client: client.kind)
def test_every_client_can_be_woken_and_by_typing_too(client: Client) -> None:
    ways: tuple[Waker, Waker, Waker] = (Way(), Way(), Way())
    doors, port = Doors(*ways), _port()
    threads = None if client.threads is None else client.threads(port)
    assert doors.typing in client.wakers(port, doors, threads)


def _port() -> SessionPort:
    return msgspec.Raw()  # pyright: ignore[reportReturnType] - nothing is asked of it here


# -- the only list ------------------------------------------------------------------------------------


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The string constants of a module that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


EXAMPLES = {"What kind of agent, e.g. claude-code."}
"""Texts that name one client as an example, and would be as true with another."""


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_kind_of_client_is_named_outside_of_its_folder(path: Path) -> None:
    if SOURCE / "clients" in path.parents:
        return
    words = {word for each in CLIENTS for word in (each.kind, each.name, each.title)}
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(words)))})(?![\w-])")
    found = [f"{path.name}:{line}: {text!r}" for line, text in literals(path) if pattern.search(text)]
    named = [each for each in found if not any(example in each for example in EXAMPLES)]
    assert not named, "ask the record instead: tellwire.clients.BY_KIND"


@pytest.mark.parametrize(
    "name", ["README.md", "docs/delivery-matrix.md", "docs/evidence.md", "docs/children.md"]
)
def test_pages_that_tell_of_clients_tell_of_all_of_them(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert [each.title for each in CLIENTS if each.title not in text] == []
