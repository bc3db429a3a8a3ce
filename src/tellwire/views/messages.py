"""Messages in lines: why one has not been read and what comes next, and the thread it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tellwire.protocol.operations.explain import Explained, Explanation, Step, Thread
from tellwire.protocol.operations.history import HistoryRecord
from tellwire.protocol.operations.messages import RecipientStatus
from tellwire.views.words import clean, clean_lines, cut, pad

STEP_WORDS = {
    "stored": "stored",
    "delivered": "handed to its client",
    "returned": "handed back, not read",
    "read": "read",
    "answered": "answered",
    "expired": "expired",
    "offline": "the agent went offline",
    "online": "the agent came online",
    "muted": "the agent was muted",
    "unmuted": "the agent was unmuted",
}
STEPS_SHOWN = 8
TEXT_WIDTH = 60
LABEL_WIDTH = 8
DEPTH_MAX = 8
"""Answers to answers that are indented further."""
SHOWN_MAX = 3
"""Recipients that are named."""


# -- why ----------------------------------------------------------------------------------------------


def why_lines(told: Explanation, *, age: Callable[[float], str]) -> list[str]:
    """All of it; `age` puts a time into words, such as `5 min ago`."""
    lines = [f"{told.id}  {clean(told.sender)} → {clean(told.to)}  {age(told.at)}"]
    if told.text:
        lines.append(f'  "{cut(clean(told.text), TEXT_WIDTH)}"')
    for each in told.recipients:
        lines += ["", *recipient_lines(each, age=age)]
    return lines


def recipient_lines(told: Explained, *, age: Callable[[float], str]) -> list[str]:
    """The same for one recipient: its state, the steps so far, the reason and the next step."""
    evidence = f" ({clean(told.evidence)})" if told.evidence else ""
    lines = [f"{clean(told.name)}: {told.state}{evidence}"]
    first, rest = told.steps[:1], told.steps[1:]
    steps = [*first, *rest[-STEPS_SHOWN:]]
    if len(rest) > STEPS_SHOWN:
        lines.append(f"  {len(rest) - STEPS_SHOWN} earlier steps are left out")
    lines += [f"  {pad(age(step.at), LABEL_WIDTH + 2)}  {step_words(step)}" for step in steps]
    if told.why:
        lines.append(f"  {pad('waits:', LABEL_WIDTH)}{clean(told.why)}")
    if told.next:
        lines.append(f"  {pad('next:', LABEL_WIDTH)}{clean(told.next)}")
    return lines


def step_words(step: Step) -> str:
    """One step of a message, as a line."""
    words = STEP_WORDS.get(step.what, clean(step.what))
    return f"{words} ({clean(step.note)})" if step.note else words


# -- threads ------------------------------------------------------------------------------------------


class ThreadRow(NamedTuple):
    """One message of a thread."""

    id: str
    depth: int
    head: str
    """Who to whom, when, and how far it got."""
    body: list[str]


def thread_rows(told: Thread, *, age: Callable[[float], str]) -> list[ThreadRow]:
    """The messages, oldest first, each with how deep its answer lies; harmless text."""
    depths: dict[str, int] = {}
    rows: list[ThreadRow] = []
    for message in told.messages:
        depths[message.id] = depth = depths.get(message.re or "", -1) + 1
        body = message.body if isinstance(message.body, str) else msgspec.json.encode(message.body).decode()
        head = f"{message.id}  {clean(message.sender)} → {clean(message.to)}  {age(message.sent_at)}"
        receipts = receipt_words(message)
        rows.append(
            ThreadRow(
                message.id,
                min(depth, DEPTH_MAX),
                f"{head}  {receipts}" if receipts else head,
                clean_lines(body),
            )
        )
    return rows


def receipt_words(message: HistoryRecord) -> str:
    """How far a message got: `read`, or `bob: read, carol: pending (offline)`."""
    if len(message.recipients) == 1:
        return _receipt(message.recipients[0])
    named = [f"{clean(each.name)}: {_receipt(each)}" for each in message.recipients[:SHOWN_MAX]]
    more = len(message.recipients) - SHOWN_MAX
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _receipt(status: RecipientStatus) -> str:
    return f"{status.state} ({clean(status.why)})" if status.why else status.state
