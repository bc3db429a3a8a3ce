"""Events: each names its audience, its word tells its version, and old shapes are lifted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tellwire.protocol.events import (
    EVENTS,
    AgentOnline,
    Audience,
    BrokerStarted,
    Event,
    MessageQueued,
    MessagesRead,
    format_batch,
    lift,
    parse_batch,
)
from tellwire.protocol.events.children import ChildEnded
from tellwire.protocol.events.links import AgentOverdue, TurnEnded
from tellwire.protocol.operations.base import snake_case


@pytest.mark.requirement("AUD-1")
def test_an_event_class_without_an_audience_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="must declare its audience"):
        type("Forgetful", (Event,), {"__annotations__": {"agent": str}}, frozen=True)


@pytest.mark.requirement("AUD-1")
@pytest.mark.parametrize("audience", [None, "agent", "control", 1, Audience])
def test_an_audience_that_is_none_of_the_two_is_no_audience(audience: object) -> None:
    with pytest.raises(TypeError, match="must declare its audience"):
        type("Vague", (Event,), {"audience": audience}, frozen=True)


@pytest.mark.requirement("AUD-1")
def test_an_audience_is_not_inherited() -> None:
    base = type("Loud", (Event,), {"audience": Audience.AGENT}, frozen=True)
    with pytest.raises(TypeError, match="must declare its audience"):
        type("Louder", (base,), {}, frozen=True)


@pytest.mark.requirement("AUD-1")
def test_every_event_names_its_audience_itself() -> None:
    assert {kind.__name__: kind.__dict__["audience"] for kind in EVENTS.values()}.keys() == {
        kind.__name__ for kind in EVENTS.values()
    }
    assert {kind for kind in EVENTS.values() if kind.audience is Audience.AGENT} == {
        MessageQueued,
        TurnEnded,
        AgentOverdue,
        ChildEnded,
    }


def test_every_event_has_a_word_of_its_own_that_tells_its_version() -> None:
    words: list[str] = []
    for kind in EVENTS.values():
        tag = str(kind.__struct_config__.tag)
        version = "" if kind.version == 1 else f".{kind.version}"
        assert tag == snake_case(kind.__name__) + version
        assert kind.__doc__
        words.append(tag)
    assert len(words) == len(set(words))
    assert set(EVENTS) >= {word.partition(".")[0] for word in words}


def test_a_batch_round_trips() -> None:
    batch: list[Any] = [BrokerStarted("0.1"), MessagesRead("a1", [3, 4], "confirm"), AgentOnline("a1")]
    assert parse_batch(format_batch(batch)) == batch


@pytest.mark.parametrize(
    "data", [b"", b"{", b"5", b"[5]", b"[{}]", b"[[]]", b'[["from_the_future",1]]', b'[["agent_online"]]']
)
def test_a_batch_that_cannot_be_read_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        parse_batch(data)


def test_a_retired_shape_is_lifted_step_by_step_to_todays() -> None:
    today: list[Any] = msgspec.json.decode(format_batch([AgentOnline("a1")]))[0]

    def grow(row: list[Any]) -> list[Any]:
        return ["plant", row[1] + "1"]

    def bloom(row: list[Any]) -> list[Any]:
        return [today[0], *row[1:]]

    lifted = lift(["seed", "a"], {"seed": grow, "plant": bloom})
    assert msgspec.convert(lifted, AgentOnline) == AgentOnline("a1")


def test_a_shape_of_today_is_left_alone() -> None:
    row = msgspec.json.decode(format_batch([AgentOnline("a1")]))[0]
    assert lift(row, {"other": lambda _old: pytest.fail("lifted without need")}) is row
