"""Ids are found in any line, in any pieces, valid or not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tellwire.relay.ids import ID_BYTES_MAX, IdFinder, find_ids, is_answerable

words = st.text(max_size=8) | st.sampled_from(
    ["id", "i\\d", '"id":1', "{", "}", "[", "]", ",", ":", '"', "\\"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)
objects = st.lists(st.tuples(words, values), max_size=6)


def written(pairs: list[tuple[str, Any]], *, ascii_only: bool) -> bytes:
    """An object with these members, also with two of a name."""
    members = [
        f"{json.dumps(name, ensure_ascii=ascii_only)}:{json.dumps(value, ensure_ascii=ascii_only)}"
        for name, value in pairs
    ]
    return ("{" + ",".join(members) + "}").encode("utf-8", "surrogatepass")


def id_of(pairs: list[tuple[str, Any]]) -> list[Any]:
    """The last one counts."""
    return [value for name, value in pairs if name == "id"][-1:]


@given(objects, st.booleans(), st.data())
def test_the_id_of_an_object_is_found_in_any_pieces(
    pairs: list[tuple[str, Any]], ascii_only: bool, data: st.DataObject
) -> None:
    text = written(pairs, ascii_only=ascii_only)
    finder, at = IdFinder(), 0
    while at < len(text):
        size = data.draw(st.integers(1, 12))
        finder.feed(text[at : at + size])
        at += size
    found = finder.finish()
    assert found == find_ids(text)
    wanted = id_of(pairs)
    assert len(found) == len(wanted)
    for raw, value in zip(found, wanted, strict=True):
        if len(raw) <= ID_BYTES_MAX:
            assert json.loads(raw.decode("utf-8", "surrogatepass")) == value


@given(st.lists(objects, max_size=5))
def test_each_object_of_a_batch_has_its_id(batch: list[list[tuple[str, Any]]]) -> None:
    text = b"[" + b",".join(written(pairs, ascii_only=True) for pairs in batch) + b"]"
    found = [json.loads(raw) for raw in find_ids(text) if len(raw) <= ID_BYTES_MAX]
    assert found == [value for pairs in batch for value in id_of(pairs)]


@given(objects, st.integers(), st.binary(max_size=20))
def test_rubbish_in_a_string_and_behind_the_end_hides_no_id(
    pairs: list[tuple[str, Any]], asked: int, rubbish: bytes
) -> None:
    inside = rubbish.replace(b"\\", b"").replace(b'"', b"")
    before = written([*pairs, ("x", "PLACE"), ("id", asked)], ascii_only=True).replace(b"PLACE", inside)
    assert find_ids(before) == [str(asked).encode()]


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ id0').map(str.encode))
def test_whatever_comes_it_ends_and_says_only_what_can_be_said(text: bytes) -> None:
    for raw in find_ids(text):
        if is_answerable(raw):
            json.loads(b'{"id":%b}' % raw)
