"""The picture that a console holds: tables of rows, what agents do, the last messages with their receipts.

`fold` takes an overview and then the frames of the feed, and says which rows changed. After the frames up to
an event the tables are those of an overview at that event: the console never lies. After a frame of a gap,
ask for an overview and fold that.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import msgspec

from tellwire.protocol.operations.feed import (
    TABLES,
    AgentRow,
    ChildRow,
    ClaimRow,
    FeedEvent,
    LinkRow,
    MailRow,
    OverviewPage,
    Pulse,
    Rows,
)
from tellwire.protocol.operations.needs import Notice
from tellwire.system.bounded import forget_oldest
from tellwire.views.bounds import FAULT_IDS_MAX, FAULTS_MAX, MESSAGES_MAX, TIMELINE_MAX

Frame: TypeAlias = OverviewPage | Rows | FeedEvent | Pulse | Notice
Key: TypeAlias = tuple[str, str]
"""A table and the id of a row in it."""

GAP = "gap"


class Message(msgspec.Struct, kw_only=True):
    """A message that was seen on the feed, and how far it got with each recipient."""

    id: str
    sender: str
    """The agent's id; empty for the broker's notices."""
    who: str
    to: str
    at: float
    text: str = ""
    re: str = ""
    link: str = ""
    states: dict[str, str] = {}
    """From a recipient's id to `pending`, `delivered`, `read`, `answered` or `expired`."""
    evidence: dict[str, str] = {}


class Fault(msgspec.Struct, kw_only=True):
    """Something that went wrong for one agent, and how often in a row."""

    kind: str
    """`failed` (a child did not come up), `expired`, `denied`, `refused` (a write) or `overdue`."""
    agent: str
    who: str
    at: float
    """When it last happened."""
    since: float
    count: int = 0
    text: str = ""
    ids: list[str] = []


class Model(msgspec.Struct, kw_only=True):
    """All that a console shows. Only `fold` changes it."""

    seq: int = 0
    """The last event that it knows."""
    floor: int = 0
    """The event of the last overview; rows of the feed from before it are out of date."""
    agents: dict[str, AgentRow] = {}
    links: dict[str, LinkRow] = {}
    children: dict[str, ChildRow] = {}
    claims: dict[str, ClaimRow] = {}
    policies: dict[str, str] = {}
    topics: dict[str, list[str]] = {}
    mail: dict[str, MailRow] = {}
    pulses: dict[str, Pulse] = {}
    """What agents do, by id."""
    messages: dict[str, Message] = {}
    """The last ones that came by the feed, oldest first."""
    faults: dict[str, Fault] = {}
    """The last things that went wrong, by kind and agent."""
    timeline: deque[FeedEvent] = msgspec.field(default_factory=lambda: deque(maxlen=TIMELINE_MAX))

    def tables(self) -> dict[str, dict[str, object]]:
        """What an overview tells as well, by table."""
        return {name: getattr(self, name) for name in TABLES}


def snapshot(*pages: OverviewPage) -> Model:
    """The picture that the pages of one overview give."""
    model = Model()
    for page in pages:
        fold(model, page)
    return model


def fold(model: Model, frame: Frame) -> set[Key]:
    """Take one frame over; which rows changed."""
    if isinstance(frame, OverviewPage):
        return _fold_overview(model, frame)
    if isinstance(frame, Rows):
        return _fold_rows(model, frame) if frame.seq >= model.floor else set()
    if isinstance(frame, Pulse):
        return _fold_pulse(model, frame)
    if isinstance(frame, Notice):
        return set()  # the need itself is in the tables
    return _fold_event(model, frame)


def _fold_overview(model: Model, page: OverviewPage) -> set[Key]:
    changed = _fold_rows(model, page.rows)
    if page.rows.whole:  # the first page: what was known of activities and receipts may be over
        changed.update(("pulses", agent) for agent in model.pulses)
        changed.update(("messages", message) for message in model.messages)
        changed.update(("faults", fault) for fault in model.faults)
        model.pulses, model.messages, model.faults = {}, {}, {}
        model.seq = model.floor = page.seq
        for event in page.recent:
            changed |= _add_fault(model, event)
    for pulse in page.pulses:
        changed |= _fold_pulse(model, pulse)
    return changed


def _fold_rows(model: Model, rows: Rows) -> set[Key]:
    changed: set[Key] = set()
    for name in TABLES:
        table: dict[str, object] = getattr(model, name)
        new: dict[str, object] = getattr(rows, name)
        if name in rows.whole:
            gone = [key for key in table if key not in new]
            changed.update((name, key) for key in gone)
            for key in gone:
                del table[key]
        for key, row in new.items():
            if table.get(key) == row:
                continue
            changed.add((name, key))
            if row is None:
                del table[key]
            else:
                table[key] = row
    for key in [key for table, key in changed if table == "agents" and key not in model.agents]:
        model.pulses.pop(key, None)
    return changed


def _fold_pulse(model: Model, pulse: Pulse) -> set[Key]:
    if (pulse.activity or pulse.held or pulse.shut) and pulse.agent in model.agents:
        model.pulses[pulse.agent] = pulse
    else:
        model.pulses.pop(pulse.agent, None)
    return {("pulses", pulse.agent)}


# -- events -------------------------------------------------------------------------------------------

RECEIPTS = {
    "messages_delivered": "delivered",
    "messages_returned": "pending",
    "messages_read": "read",
    "message_answered": "answered",
    "messages_expired": "expired",
    "messages_refused": "denied",
}
ENDS = frozenset({"left", "disconnected"})
"""With these a session is over, and what it was handed waits again."""


def _fold_event(model: Model, event: FeedEvent) -> set[Key]:
    if event.type == GAP or event.seq <= model.seq:
        return set()
    model.seq = event.seq
    model.timeline.append(event)
    if event.type == "broker_started":  # nobody has told the new one what agents do
        model.pulses = {}
    if event.type == "message_queued":
        return _add_message(model, event)
    return _add_fault(model, event) | _fold_receipts(model, event)


def _fold_receipts(model: Model, event: FeedEvent) -> set[Key]:
    if event.type in RECEIPTS:
        word, evidence = RECEIPTS[event.type], str(event.detail.get("evidence", ""))
        return _set_receipts(model, event.agent, event.ids, word, evidence)
    if event.type == "receipts_taken":  # by the machine that the agent is on
        return _set_receipts(model, event.agent, event.ids, str(event.detail.get("state", "")), "")
    begins = event.type == "session_started" and not event.detail.get("keeps")
    if begins or (event.type == "agent_offline" and event.detail.get("reason") in ENDS):
        held = [each.id for each in model.messages.values() if each.states.get(event.agent) == "delivered"]
        return _set_receipts(model, event.agent, held, "pending", "")
    return set()


def _add_message(model: Model, event: FeedEvent) -> set[Key]:
    (message_id,) = event.ids
    model.messages[message_id] = Message(
        id=message_id,
        sender=event.agent,
        who=event.who,
        to=str(event.detail.get("to", "")),
        at=event.at,
        text=event.text,
        re=str(event.detail.get("re", "")),
        link=event.link,
        states=dict.fromkeys(event.whom_ids, "pending"),
    )
    forget_oldest(model.messages, MESSAGES_MAX)
    return {("messages", message_id)}


def _set_receipts(model: Model, agent: str, ids: list[str], word: str, evidence: str) -> set[Key]:
    changed: set[Key] = set()
    for message_id in ids:
        message = model.messages.get(message_id)
        if message is None or agent not in message.states:
            continue
        message.states[agent] = word
        if evidence:
            message.evidence[agent] = evidence
        changed.add(("messages", message_id))
    return changed


# -- what went wrong ----------------------------------------------------------------------------------

FAULTS = {
    "child_failed": "failed",
    "messages_expired": "expired",
    "call_refused": "refused",
    "agent_overdue": "overdue",
}
WRITE = "write"
"""What a refused write is called on record."""
DENIED = "denied"
APART_S = 3_600.0
"""Faults of one kind that lie further apart are counted anew."""


def _add_fault(model: Model, event: FeedEvent) -> set[Key]:
    kind = FAULTS.get(event.type, "")
    if event.type == "call_refused":
        denied = event.detail.get("code") == DENIED
        kind = kind if event.detail.get("operation") == WRITE else DENIED if denied else ""
    if not kind:
        return set()
    key = f"{kind}:{event.agent}"
    fault = model.faults.pop(key, None)
    if fault is None or event.at - fault.at > APART_S:
        fault = Fault(kind=kind, agent=event.agent, who=event.who, at=event.at, since=event.at)
    fault.at, fault.who = event.at, event.who
    fault.count += int(event.detail.get("count") or len(event.ids) or 1)
    fault.text = str(event.detail.get("reason") or event.detail.get("operation") or "")
    fault.ids = [*fault.ids, *event.ids][-FAULT_IDS_MAX:]
    model.faults[key] = fault
    forget_oldest(model.faults, FAULTS_MAX)
    return {("faults", key)}
