"""Mail to the operator: how long it lives, and questions that offer words to choose from."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tellwire.core.limits import Limits
from tellwire.core.state import Agent, Question, Receipt, State
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.operations.messages import SendMessage

LIVES_S = 30 * 86_400.0
"""Of mail to the operator, on the awake clock. Not a setting: applying an event must not depend on one."""
CHOICES_MAX = 9
CHOICE_LENGTH_MAX = 32
KEY = "choices"
"""The key of the choices in a message's context."""


def with_choices(operation: SendMessage) -> SendMessage:
    """The same send, with its choices in the context.

    Raises:
        TellwireError: `bad_request`.
    """
    if operation.to != OPERATOR or operation.direct:
        raise TellwireError("bad_request", "`choices` are for a message to `operator` alone.")
    if operation.context is not None and not isinstance(operation.context, dict):
        raise TellwireError("bad_request", "With `choices` the `context` must be an object.")
    if not are_choices(operation.choices):
        raise TellwireError(
            "bad_request",
            f"`choices` must be 1 to {CHOICES_MAX} different words of 1 to {CHOICE_LENGTH_MAX} characters.",
            "Offer short answers, such as yes and no.",
        )
    given = cast("dict[str, Any]", operation.context or {})
    return replace(operation, context={**given, KEY: operation.choices}, choices=None)


def are_choices(value: Any) -> bool:
    """Whether these are words that a person can choose from."""
    if not isinstance(value, list):
        return False
    words = cast("list[Any]", value)
    if not 1 <= len(words) <= CHOICES_MAX or not all(isinstance(word, str) for word in words):
        return False
    short = all(
        0 < len(word) <= CHOICE_LENGTH_MAX and word == word.strip() and word.isprintable() for word in words
    )
    return short and len({word.casefold() for word in words}) == len(words)


def choices_in(context: Any) -> list[str]:
    """The choices that a message's context offers; none if it offers none in the right form."""
    found: Any = cast("dict[str, Any]", context).get(KEY) if isinstance(context, dict) else None
    return cast("list[str]", found) if are_choices(found) else []


def note_asked(state: State, event: MessageQueued, receipt: Receipt) -> None:
    """Applying a message to the operator: it lives long, and may be a question."""
    receipt.deadline = state.awake + max(event.ttl_s, LIVES_S)
    if event.context and event.sender and choices_in(msgspec.json.decode(event.context)):
        state.asked = {**state.questions(), state.seq: Question(event.sender, receipt.deadline)}


def settle_asked(state: State, operator: str, seqs: list[int]) -> None:
    """Applying an answer or the end of messages: what the operator was asked there is no longer open."""
    if isinstance(state.asked, dict) and state.names.get(OPERATOR) == operator:
        for seq in seqs:
            state.asked.pop(seq, None)


def forget_asker(state: State, agent: str) -> None:
    """Applying that an agent is gone: nobody waits for answers to what it asked."""
    if isinstance(state.asked, dict):
        state.asked = {seq: question for seq, question in state.asked.items() if question.sender != agent}


# -- an agent's share of the operator's inbox -----------------------------------------------------------


def has_share(state: State, sender: Agent, operator: Agent, limits: Limits) -> bool:
    """Whether an agent may have one more open message at the operator; others are not kept from it."""
    return open_at(state, sender.id, operator) < limits.operator_share_max


def open_at(state: State, sender: str, operator: Agent) -> int:
    """How many messages of one sender the operator has not read, or not answered though they ask."""
    unread = sum(receipt.sender == sender for receipt in operator.pending.values())
    asked = sum(
        question.sender == sender and seq not in operator.pending
        for seq, question in state.questions().items()
    )
    return unread + asked
