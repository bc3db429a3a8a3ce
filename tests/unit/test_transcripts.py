"""Following a file that another program writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tellwire.clients import reader as transcripts
from tellwire.clients.reader import FileFollower, TranscriptReader, decoded, marks_in, seconds
from tests.unit.transcripts import ABSENT, MARK, OPEN, moment, stamp


def new_lines(follower: FileFollower) -> list[bytes]:
    return [line for _, line in follower.lines(lambda: None)]


class Lines(TranscriptReader):
    """Keeps what it is told to read."""

    read: list[tuple[int, bytes]]

    def _forget(self) -> None:
        self.read = []

    def _read_line(self, line: bytes, offset: int) -> None:
        self.read.append((offset, line))


def test_each_line_comes_once_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t"
    reader = Lines(str(path))
    path.write_bytes(b"one\ntwo\nthr")
    reader.judge([])
    with path.open("ab") as file:
        file.write(b"ee\nfour\n")
    reader.judge([])
    reader.judge([])
    assert reader.read == [(0, b"one"), (4, b"two"), (8, b"three"), (14, b"four")]


def test_a_line_over_several_chunks_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "_CHUNK_BYTES", 3)
    (tmp_path / "t").write_bytes(b"a long line\n\nb\nno end")
    assert new_lines(FileFollower(str(tmp_path / "t"))) == [b"a long line", b"", b"b"]


def test_a_line_beyond_the_bound_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "_CHUNK_BYTES", 4)
    monkeypatch.setattr(transcripts, "LINE_BYTES_MAX", 8)
    (tmp_path / "t").write_bytes(b"short\n" + b"x" * 50 + b"\nnext\n")
    reader = Lines(str(tmp_path / "t"))
    reader.judge([])
    assert reader.read == [(0, b"short"), (6, transcripts.UNREADABLE), (57, b"next")]


def test_only_new_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 5_000)
    follower = FileFollower(str(path))
    new_lines(follower)
    read: list[int] = []
    pread = os.pread

    def counting(descriptor: int, size: int, place: int) -> bytes:
        found = pread(descriptor, size, place)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counting)
    with path.open("ab") as file:
        file.write(b"z\n")
    assert new_lines(follower) == [b"y" * 5_000 + b"z"]
    assert sum(read) < 200


@pytest.mark.parametrize("content", [b"new\n", b"another, and longer than the first one was\n"])
def test_another_file_in_its_place_is_read_from_its_beginning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"the first one\n")
    reader = Lines(str(path))
    reader.judge([])
    path.write_bytes(content)
    reader.judge([])
    assert reader.read == [(0, content.rstrip())]
    (tmp_path / "u").write_bytes(content + b"moved\n")
    (tmp_path / "u").replace(path)
    reader.judge([])
    assert reader.read[-1] == (len(content), b"moved")
    assert len(reader.read) == 2


def test_what_is_no_file_gives_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("", str(tmp_path / "missing"), str(tmp_path), str(tmp_path / "pipe"), "/dev/zero", "a\0b"):
        reader = Lines(path)
        reader.expect(MARK)
        assert reader.judge([MARK]) == {MARK: OPEN}
        assert reader.read == []


def test_a_mark_that_becomes_known_late_is_searched_for_in_all_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(f"a\n{MARK}\nb\n".encode())
    reader = Lines(str(path))
    reader.judge(["id=other from=x"])
    first = reader.read
    reader.judge(["id=other2 from=x"])
    assert reader.read is first, "what is nowhere costs no second reading"
    reader.judge([MARK])
    assert reader.read == first
    assert reader.read is not first


def test_settled_marks_are_forgotten_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "MARKS_MAX", 3)
    reader = Lines(str(tmp_path / "t"))
    assert reader.judge(["a", "b", "c", "d"]) == dict.fromkeys("abcd", OPEN)
    assert len(vars(reader)["_marks"]) == 3


def test_a_text_handed_over_again_is_open_again(tmp_path: Path) -> None:
    reader = Lines(str(tmp_path / "t"))
    reader.judge([MARK])
    vars(reader)["_marks"][MARK].verdict = ABSENT
    reader.expect(MARK)
    assert reader.judge([MARK]) == {MARK: OPEN}


@pytest.mark.parametrize(
    "mark", ['id=m1 from="two words"', "id=m1 from=a&b", "id=m1 from=<x>", "é", "", "\ud800"]
)
def test_a_mark_is_found_in_what_a_client_makes_of_it(tmp_path: Path, mark: str) -> None:
    reader = Lines(str(tmp_path / "t"))
    reader.judge([mark])
    marks = list(vars(reader)["_marks"].values())
    escaped = mark.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for text in (mark, escaped, escaped.replace('"', "&quot;")):
        assert marks_in({"a": [1, None, {"b": f"x{text}y"}]}, marks) == marks
    assert marks_in({"a": ["something else"]}, marks) == (marks if mark == "" else [])


def test_foreign_json_is_read_as_far_as_it_goes() -> None:
    assert decoded(b'{"a": 1}') == {"a": 1}
    assert decoded(b'"\\ud800"') == "\ud800"
    for broken in (b"", b"{", b"\xff", b'"\xff"', b"[" * 100_000):
        assert decoded(broken) is None
    assert seconds(stamp(61.5)) == moment(61.5)
    for broken in ("", "yesterday", None, 5, "9999-99-99T00:00:00Z", "0001-01-01T00:00:00"):
        assert seconds(broken) <= 0
