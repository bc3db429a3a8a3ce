"""Editing JSON with comments: the place asked for changes, and not a byte beside it."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tellwire.install.formats import jsonc
from tellwire.install.formats.jsonc import BadTextError, Path

WORDS = st.text(max_size=8) | st.sampled_from(["//", "/* x */", "http://x", '"', "\\", "}", ",", "é日🎉"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=4)
GAPS = st.sampled_from(
    [
        "",
        "",
        "",
        " ",
        "\n",
        "\n  ",
        "\n\t",
        "\r\n  ",
        " // c, {\n",
        '/* }, " */',
        " /* a\n b */ ",
        "\n// x\n  ",
    ]
)

BLANKS = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t"])


@st.composite
def texts(draw: st.DrawFn, *, comments: bool = True, commas: bool = True) -> str:
    """An object as somebody could have written it: any layout, comments, trailing commas."""

    def gap() -> str:
        return draw(GAPS if comments else BLANKS)

    def written(value: Any) -> str:
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value).items()
            parts = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{written(part)}{gap()}" for key, part in pairs]
            return "{" + closed(parts) + "}"
        if isinstance(value, list):
            return "[" + closed([f"{gap()}{written(part)}{gap()}" for part in cast("list[Any]", value)]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def closed(parts: list[str]) -> str:
        comma = draw(st.sampled_from(["", ","])) if parts and commas else ""
        return ",".join(parts) + comma + gap()

    return gap() + written(draw(OBJECTS)) + gap()


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    """Every place in a value."""
    found: list[Path] = []
    if isinstance(value, dict):
        pairs: list[tuple[Any, Any]] = list(cast("dict[str, Any]", value).items())
    else:
        pairs = list(enumerate(cast("list[Any]", value))) if isinstance(value, list) else []
    for key, part in pairs:
        found += [(*path, key), *paths_of(part, (*path, key))]
    return found


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for key in path:
        value = value[key]
    return value


@settings(deadline=None)
@given(texts(), VALUES)
def test_a_member_comes_last_and_goes_again_without_a_trace(text: str, value: Any) -> None:
    before = jsonc.parse(text).value
    assume("new" not in before)
    after = jsonc.insert(text, ("new",), value)
    assert list(jsonc.parse(after).value.items()) == [*before.items(), ("new", value)]
    removed = jsonc.remove(after, ("new",))
    assert jsonc.parse(removed).value == before
    if before:
        assert removed == text


@settings(deadline=None)
@given(texts(), VALUES, st.data())
def test_an_item_or_member_is_put_anywhere_and_all_else_stays(
    text: str, value: Any, data: st.DataObject
) -> None:
    before = copy.deepcopy(jsonc.parse(text).value)
    holders = [path for path in [(), *paths_of(before)] if isinstance(at(before, path), dict | list)]
    path = data.draw(st.sampled_from(holders))
    key: str | int = 0 if isinstance(at(before, path), list) else "new"
    assume(key == 0 or key not in at(before, path))
    after = jsonc.insert(text, (*path, key), value)
    holder = at(before, path)
    if isinstance(holder, list):
        cast("list[Any]", holder).append(value)
    else:
        holder[key] = value
    assert jsonc.parse(after).value == before
    kept = iter(after)
    assert all(sign in kept for sign in text), "what was there is there still, in its order"


@settings(deadline=None)
@given(texts(), VALUES, st.data())
def test_a_value_is_replaced_in_its_place(text: str, value: Any, data: st.DataObject) -> None:
    root = jsonc.parse(text)
    assume(paths_of(root.value))
    path = data.draw(st.sampled_from(paths_of(root.value)))
    node = jsonc.find(text, root, path)
    assert node is not None
    after = jsonc.replace(text, path, value)
    assert after.startswith(text[: node.start])
    assert after.endswith(text[node.end :])
    assert at(jsonc.parse(after).value, path) == value
    assert jsonc.put_back(after, path, text[node.start : node.end]) == text


@settings(deadline=None)
@given(texts(), st.data())
def test_a_part_is_removed_and_every_comment_outside_it_stays(text: str, data: st.DataObject) -> None:
    before = copy.deepcopy(jsonc.parse(text).value)
    assume(paths_of(before))
    path = data.draw(st.sampled_from(paths_of(before)))
    after = jsonc.remove(text, path)
    del at(before, path[:-1])[path[-1]]
    assert jsonc.parse(after).value == before


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:/*\\ \n1a-.tue', max_size=30))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    wrong = mistake_in(text)
    if wrong is None:
        value = jsonc.parse(text).value
        assert json.loads(json.dumps(value)) == value
        return
    assert 1 <= wrong.line <= text.count("\n") + 1
    assert wrong.column >= 1
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def mistake_in(text: str) -> BadTextError | None:
    """What the parser says against a text."""
    try:
        jsonc.parse(text)
    except BadTextError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("{\n  'a': 1\n}", 2, 3),
        ('{"a": 1 "b": 2}', 1, 9),
        ('{"a": [1,\n  2,,]}', 2, 5),
        ('{"a": 01}', 1, 7),
        ('{"a": "\n"}', 1, 7),
        ("{} {}", 1, 4),
        ("{ /* no end", 1, 3),
        ("[" * 3_000, 1, 101),
    ],
)
def test_a_mistake_is_told_with_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(BadTextError) as caught:
        jsonc.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@given(texts(comments=False, commas=False))
def test_a_strict_reader_takes_plain_json(text: str) -> None:
    assert jsonc.parse(text, comments=False, commas=False).value == json.loads(text)


@pytest.mark.parametrize(
    ("text", "column"),
    [('{"a": "//", // c\n}', 13), ("/* c */ {}", 1), ('{"a": [1, ]}', 9), ('{"a": 1,}', 8)],
)
def test_a_strict_reader_tells_what_is_not_allowed(text: str, column: int) -> None:
    with pytest.raises(BadTextError, match="allowed") as caught:
        jsonc.parse(text, comments=False, commas=False)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_key_that_stands_twice_is_not_edited() -> None:
    with pytest.raises(BadTextError, match="occurs twice"):
        jsonc.insert('{"hooks": {}, "hooks": {}}', ("hooks", "Stop", 0), 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "k": {\n    "x": 1\n  }\n}'),
        ('{"a": [1]}', '{"a": [1], "k": {"x": 1}}'),
        ('{\n\t"a": 1 // mine\n}', '{\n\t"a": 1, // mine\n\t"k": {\n\t\t"x": 1\n\t}\n}'),
        ('{\n    "a": 1,\n}\n', '{\n    "a": 1,\n    "k": {\n        "x": 1\n    },\n}\n'),
        ('{\r\n  "a": 1\r\n}', '{\r\n  "a": 1,\r\n  "k": {\r\n    "x": 1\r\n  }\r\n}'),
    ],
)
def test_new_text_looks_like_its_neighbours(before: str, after: str) -> None:
    assert jsonc.insert(before, ("k",), {"x": 1}) == after


def test_one_line_stays_one_line_whatever_is_added() -> None:
    text = jsonc.insert('{"a": 1}', ("k",), ["x" * 50, "y" * 50])
    assert len(text.splitlines()) == 1
    assert jsonc.remove(text, ("k",)) == '{"a": 1}'
