"""Recorded and hand-made transcripts, written to a file as a client writes them, and read meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st

from tellwire.clients.events import Verdict
from tellwire.clients.reader import TranscriptReader

SAMPLES = Path(__file__).parents[1] / "samples"
MARK = "id=m4f2k from=backend"
TEXT = f"[tellwire: 1 message from another agent.]\n<peer-message {MARK} age=2s>\nhello\n</peer-message>"
READ, ABSENT, OPEN = Verdict.READ, Verdict.ABSENT, Verdict.OPEN

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

MakeReader: TypeAlias = Callable[..., TranscriptReader]


class Given(msgspec.Struct, frozen=True):
    """A text that a hook was given while a sample was recorded, and what became of it.

    The verdict comes from the log of the model's server, not from the transcript.
    """

    mark: str
    event: str
    at: float
    lines: int
    """So many lines the transcript had at that time."""
    verdict: Verdict


def recorded(client: str) -> dict[str, list[Given]]:
    """The recorded cases of a client, or in a folder, and the texts that were given in each."""
    cases = (SAMPLES / client / "reader_cases.json").read_bytes()
    return msgspec.json.decode(cases, type=dict[str, list[Given]])


def recorded_lines(client: str, case: str) -> list[bytes]:
    """The lines of a recorded transcript."""
    return (SAMPLES / client / f"reader_{case}.jsonl").read_bytes().splitlines(keepends=True)


def replay(
    make: MakeReader, path: Path, lines: Sequence[bytes], given: Iterable[Given], *, is_expecting: bool
) -> dict[str, Verdict]:
    """The first verdict on each mark when the file is read after each of its lines; none is taken back."""
    now = 0.0
    reader = make(str(path), clock=lambda: now)
    waiting = sorted(given, key=lambda one: (one.lines, one.at))
    known: list[str] = []
    verdicts: dict[str, Verdict] = {}
    for number, line in enumerate(lines):
        while waiting and waiting[0].lines <= number:
            one = waiting.pop(0)
            now = one.at
            known.append(one.mark)
            if is_expecting:
                reader.expect(one.mark)
        with path.open("ab") as file:
            file.write(line)
        for mark, verdict in reader.judge(known).items():
            if verdict is not OPEN:
                assert verdicts.setdefault(mark, verdict) is verdict
    return verdicts


def judged(make: MakeReader, lines: Iterable[bytes], marks: Sequence[str]) -> dict[str, Verdict]:
    """What a reader says of a whole transcript."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "transcript"
        path.write_bytes(b"".join(lines))
        return make(str(path)).judge(marks)


def replay_damaged(make: MakeReader, data: st.DataObject, *, client: str) -> dict[str, Verdict]:
    """What is said of texts that were read, if some lines are cut or garbage and the file ends anywhere."""
    case = data.draw(st.sampled_from(sorted(recorded(client))))
    given = [one for one in recorded(client)[case] if one.verdict is READ]
    lines = recorded_lines(client, case)
    harm = st.sampled_from([b"{", b"\xff\x00", b"[[", b"half"])
    for number, how in data.draw(st.dictionaries(st.integers(0, len(lines) - 1), harm, max_size=3)).items():
        lines[number] = _harmed(lines[number], how)
    lines[-1] = lines[-1][: data.draw(st.integers(0, len(lines[-1])))]
    del lines[data.draw(st.integers(0, len(lines))) :]
    with TemporaryDirectory() as folder:
        return replay(make, Path(folder) / "t", lines, given, is_expecting=data.draw(st.booleans()))


def _harmed(line: bytes, how: bytes) -> bytes:
    return (line[: len(line) // 2] if how == b"half" else how) + b"\n"


def write(path: Path, *entries: dict[str, Any] | bytes) -> None:
    """Append entries to a transcript; bytes go in as they are."""
    with path.open("ab") as file:
        for entry in entries:
            file.write(entry if isinstance(entry, bytes) else json.dumps(entry).encode() + b"\n")


def stamp(second: float) -> str:
    """A client's time stamp, so many seconds after the hour."""
    return f"2026-11-16T00:{int(second) // 60:02}:{second % 60:06.3f}Z"


def moment(second: float) -> float:
    """The same time as our clock tells it."""
    return 1794787200.0 + second
