"""The fast commands' JSON against `json`: the same meaning, the same text, the same refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellwire.system import quick_json
from tellwire.system.quick_json import dumps, dumps_indented, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
SEPARATORS = {True: (",", ":"), False: (", ", ": ")}


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types; a number that is none equals itself."""
    return repr(one) == repr(other)


@given(VALUES, st.booleans())
def test_a_value_is_written_as_json_writes_it(value: Any, compact: bool) -> None:
    expected = json.dumps(value, ensure_ascii=False, separators=SEPARATORS[compact])
    assert dumps(value, compact=compact) == expected
    assert dumps_indented(value) == json.dumps(value, ensure_ascii=False, indent=2)


@given(VALUES, st.sampled_from(["", " ", "\n", "\t \r\n"]), st.booleans())
def test_a_document_is_read_as_json_reads_it(value: Any, blank: str, ascii_only: bool) -> None:
    text = f"{blank}{json.dumps(value, ensure_ascii=ascii_only)}{blank}"
    assert same(loads(text), json.loads(text))
    if ascii_only:
        assert same(loads(text.encode()), json.loads(text.encode()))


@given(
    st.text(alphabet='{}[]",:0123456789.eE+-truefalsnN \\u\ud800\x00\ufeff\n', max_size=30)
    | st.text(max_size=20)
)
def test_any_text_is_read_or_refused_as_json_does(text: str) -> None:
    assert outcome(loads, text) == outcome(json.loads, text)


def outcome(read: Callable[[Any], Any], text: str | bytes) -> str:
    """What came of it: the value, or the refusal with its words."""
    try:
        return repr(read(text))
    except ValueError as refused:
        return f"{type(refused).__name__}: {refused}"


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused_as_json_does(data: bytes) -> None:
    assert outcome(loads, data) == outcome(json.loads, data)


def test_what_json_does_not_know_is_refused_alike() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value, kind in ((object(), TypeError), ({1: {2, 3}}, TypeError), (loop, ValueError)):
        with pytest.raises(kind) as expected:
            json.dumps(value)
        with pytest.raises(kind) as told:
            dumps(value)
        assert str(told.value) == str(expected.value)


def test_without_the_functions_in_c_json_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_scan", "_make_encoder", "_quote"):
        monkeypatch.setattr(quick_json, name, None)
    assert dumps({"a": [1, "ü"]}, compact=True) == '{"a":[1,"ü"]}'
    assert loads(b'{"a": [1.5, null]}') == {"a": [1.5, None]}
