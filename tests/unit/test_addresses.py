"""Names, addresses and ids: what is one, and what is said of what is not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellwire.core.agents.names import next_name
from tellwire.protocol.addresses import (
    NAME_LENGTH_MAX,
    RESERVED,
    is_name,
    is_reserved,
    parse_address,
    parse_name,
    parse_topic,
    shorten,
)
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id, parse_message_id
from tellwire.protocol.suggestions import nearest
from tests.unit.mesh import refused

SEQUENCE_MAX = 2**63 - 1


@pytest.mark.parametrize(
    "name", ["a", "Alice", "build.bot", "x_1", "a-2", "9", "_"[:0] + "a_", "n" * NAME_LENGTH_MAX]
)
def test_a_name_is_letters_digits_and_a_few_marks(name: str) -> None:
    assert parse_name(name) == name
    assert parse_address(name) == ("agent", name)


@pytest.mark.requirement("SEC-3")
@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "a/b",
        "-a",
        ".a",
        "a-",
        "a.",
        "ä",
        "a\n",
        "a\x00",
        "#a",
        "a:b",
        "n" * (NAME_LENGTH_MAX + 1),
        "\ud800",
    ],
)
def test_what_is_not_a_name_is_refused(name: str) -> None:
    assert not is_name(name)
    with refused("name_invalid"):
        parse_name(name)


def test_both_names_of_the_broker_are_reserved() -> None:
    assert {"tellwire", "palaver"} <= RESERVED


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_word_is_nobodys_name_in_any_case(name: str) -> None:
    for form in (name, name.upper(), name.title()):
        with refused("name_invalid"):
            parse_name(form)


@pytest.mark.requirement("SEC-1", "SEC-3")
@pytest.mark.parametrize(
    "name",
    [
        *("operator-2", "operator_", "operator.human", "0perator", "OPERAT0R", "op-er.a_tor", "0p3r4t0r"),
        *("human-operator", "the.operator", "theoperator", "operators", "my-0perator", "Pala-ver", "p4l4v3r"),
        *("tellwire", "te11wire", "tel1w1re", "al1", "a11", "a1l", "m3", "m-3", "y0u"[:0] + "u53r", "5y5tem"),
    ],
)
def test_what_looks_like_a_reserved_word_is_reserved(name: str) -> None:
    assert is_reserved(name)
    with refused("name_invalid"):
        parse_name(name)


@pytest.mark.parametrize("name", ["operate", "cooperate", "shop-claude", "tellwire-claude", "users", "mel"])
def test_what_only_holds_a_reserved_word_is_free(name: str) -> None:
    assert parse_name(name) == name


@pytest.mark.requirement("SEC-1")
@given(st.sampled_from(sorted(RESERVED)), st.data())
def test_no_disguise_of_a_reserved_word_is_a_name(word: str, data: st.DataObject) -> None:
    digits = {"o": "0", "l": "1", "i": "1", "e": "3", "a": "4", "s": "5"}
    letters = [data.draw(st.sampled_from([each, each.upper(), digits.get(each, each)])) for each in word]
    marks = [data.draw(st.sampled_from(["", "", ".", "_", "-"])) for _ in word]
    name = "".join(letter + mark for letter, mark in zip(letters, marks, strict=True)).rstrip(".-")
    if is_name(name):
        with refused("name_invalid"):
            parse_name(name)


@given(st.text("abmel-01345.", min_size=1, max_size=6), st.integers(1, 40))
def test_a_number_behind_a_name_makes_no_reserved_word(asked: str, number: int) -> None:
    if is_name(asked) and not is_reserved(asked):
        assert not is_reserved(next_name(asked, number)[1])


@given(st.text(max_size=100))
def test_the_name_that_is_proposed_instead_is_a_name(text: str) -> None:
    try:
        parse_name(text)
    except TellwireError as error:
        if error.advice.startswith("For example: "):
            proposal = error.advice.removeprefix("For example: '").removesuffix("'.")
            assert parse_name(proposal) == proposal


def test_a_topic_and_a_broadcast_are_recognised() -> None:
    assert parse_address("#Build") == ("topic", "Build")
    assert parse_address("broadcast") == ("broadcast", "broadcast")
    assert parse_address("desk:bob") == ("agent", "desk:bob")
    assert parse_topic("build") == parse_topic("#build") == "build"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "##a",
        "# a",
        "#a b",
        "a b",
        "a b:name",
        "-a:name",
        "a:",
        ":a",
        "a:b:c",
        "link:1",
        "#" + "t" * 65,
    ],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with refused("address_invalid"):
        parse_address(text)


@given(st.text())
def test_foreign_text_is_quoted_short_and_printable(text: str) -> None:
    quoted = shorten(text)
    assert len(quoted) <= 450
    assert quoted.isprintable() or not text.isprintable()


# -- ids ----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**60 - 1), st.sampled_from("am"))
@example(0, "m")
@example(1023, "m")
@example(1024, "m")
@example(2**60 - 1, "m")
def test_an_id_round_trips_and_has_one_form(seq: int, prefix: str) -> None:
    text = format_id(prefix, seq)
    assert parse_id(prefix, text) == seq
    assert text[0] == prefix
    assert not text[1:].startswith("0") or seq == 0


@pytest.mark.requirement("NET-5")
def test_an_id_is_short_enough_for_a_model_to_copy() -> None:
    assert len(format_id("m", 1_000_000)) <= 5
    assert len(format_id("m", 10**12)) <= 9


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_two_things_never_share_an_id(one: int, other: int) -> None:
    assert (format_id("m", one) == format_id("m", other)) is (one == other)


@pytest.mark.parametrize(
    "text", ["", "m", "a1", "m-1", "m+1", "m 1", "m1_0", "mw", "m1.0", "m٣", "4f2k", "m" + "1" * 14]
)
def test_what_is_not_an_id_is_no_number(text: str) -> None:
    assert parse_id("m", text) is None
    with refused("unknown_message"):
        parse_message_id(text)


@given(st.text(max_size=20).map(lambda tail: "m" + tail))
@example("mvvvvvvvvvvvvv")
@example("m8000000000000")
def test_whatever_is_read_as_an_id_is_a_possible_sequence(text: str) -> None:
    seq = parse_id("m", text)
    assert seq is None or 0 <= seq <= SEQUENCE_MAX


# -- suggestions --------------------------------------------------------------------------------------


def test_the_nearest_words_come_best_first_whatever_their_case() -> None:
    assert nearest("ALICE", ["Bob", "Alicia", "Alice"])[0] == "Alice"
    assert nearest("zzz", ["alice", "bob"]) == []
    assert len(nearest("a1", [f"a{n}" for n in range(50)])) == 3
