"""The tables every surface is built from: errors and operations, complete and in agreement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tellwire.core.kernel import APPLIERS, CALLERS, DECIDERS, OwnCommand
from tellwire.protocol.errors import ERRORS, ErrorRow, TellwireError
from tellwire.protocol.events import EVENTS
from tellwire.protocol.operations import OPERATIONS
from tellwire.protocol.operations.audit import AcknowledgeLosses
from tellwire.protocol.operations.base import ALL_SURFACES, ANYONE, Operation, Reply, snake_case
from tellwire.protocol.operations.broker import BrokerStatus, Diagnose, StopBroker
from tellwire.protocol.operations.history import PurgeHistory
from tellwire.protocol.operations.machines import MachineCard, RenewMachine
from tellwire.protocol.operations.messages import MessageRecord
from tellwire.protocol.operations.needs import Attend
from tellwire.protocol.operations.sessions import GetSessionData

ANSWERED_BY_THE_BROKER: set[type] = {
    AcknowledgeLosses,
    Attend,
    BrokerStatus,
    Diagnose,
    GetSessionData,
    MachineCard,
    PurgeHistory,
    RenewMachine,
    StopBroker,
}
"""They are about the process or the file, not about the state; the daemon answers them."""


@pytest.mark.parametrize(("code", "row"), ERRORS.items(), ids=ERRORS)
def test_every_error_has_a_status_an_exit_code_and_advice(code: str, row: ErrorRow) -> None:
    assert 400 <= row.http < 600
    assert 64 <= row.exit < 80
    assert row.advice.endswith(".")
    error = TellwireError(code, "Why.")
    assert error.advice == row.advice
    assert str(error) == f"Why. [{code}] {row.advice}"


def test_advice_of_its_own_goes_before_the_tables() -> None:
    assert TellwireError("conflict", "Why.", "Do this.").advice == "Do this."
    assert TellwireError("conflict", "Why.", "").advice == ""


def test_an_error_outside_the_table_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        TellwireError("no_such_code", "Why.")


@pytest.mark.parametrize(("word", "kind"), OPERATIONS.items(), ids=OPERATIONS)
def test_every_operation_is_whole(word: str, kind: type[Operation[Any]]) -> None:
    assert word == kind.wire_name() == snake_case(kind.__name__)
    assert kind.__doc__
    assert issubclass(kind.reply, Reply)
    assert kind.reply.__doc__
    assert kind.callers
    assert kind.callers <= ANYONE
    assert kind.surfaces
    assert kind.surfaces <= ALL_SURFACES
    assert (kind in DECIDERS) is (kind not in ANSWERED_BY_THE_BROKER)
    assert CALLERS[kind] == kind.callers
    assert msgspec.json.schema(kind)


def test_every_command_of_the_brokers_own_is_decided_and_nobody_can_ask_for_it() -> None:
    own = set(OwnCommand.__args__)
    assert own <= set(DECIDERS)
    assert not own & set(CALLERS)
    assert set(DECIDERS) - own == set(OPERATIONS.values()) - ANSWERED_BY_THE_BROKER


def test_every_event_is_applied() -> None:
    assert set(APPLIERS) == set(EVENTS.values())


def test_a_class_name_gives_the_word_on_the_wire() -> None:
    assert [snake_case(name) for name in ("Send", "SendMessage", "GetURL")] == [
        "send",
        "send_message",
        "get_u_r_l",
    ]


@pytest.mark.requirement("NET-2", "F2-3")
def test_a_message_has_the_fields_that_were_promised() -> None:
    record = MessageRecord(
        id="m1",
        sender="alice",
        to="bob",
        body={"n": 1},
        sent_at=1.5,
        kind="response",
        re="m0",
        mode="deduce",
        context=[2],
    )
    assert msgspec.to_builtins(record) == {
        "id": "m1",
        "from": "alice",
        "to": "bob",
        "body": {"n": 1},
        "at": 1.5,
        "kind": "response",
        "re": "m0",
        "mode": "deduce",
        "context": [2],
    }
