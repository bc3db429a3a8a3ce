"""What happens, one plain line for each event: for pipes, for screen readers, and for a console's timeline.

Names and texts of agents are made harmless here. Lines carry words only: no colour, no box, no glyph that a
screen reader would not read.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import NamedTuple, cast

from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.operations.feed import FeedEvent, Pulse
from tellwire.views.bounds import TIMELINE_MAX
from tellwire.views.model import Model
from tellwire.views.words import clean, cut

NAMED_MAX = 3
"""Recipients or ids that one line names."""
QUIET = frozenset(
    {
        "messages_delivered",
        "messages_returned",
        "session_placed",
        "checkpoint_marked",
        "child_reported",
        "child_unheard",
        "scope_sub_delegated",
        "listener_added",
        "listener_removed",
        "machine_named",
        "parcel_taken",
        "parcels_acked",
        "receipt_given",
        "receipts_taken",
        "remote_agent_told",
        "roster_taken",
        "roster_told",
    }
)
"""Events that a person seldom wants to hear of."""
WORDS = {
    "agent_forgotten": "{who} was removed",
    "agent_muted": "{who} was {muted}",
    "agent_offline": "{who} went offline ({reason})",
    "agent_online": "{who} shows life again",
    "agent_overdue": "{who} has finished no turn for long",
    "agent_registered": "{who} joined ({kind})",
    "agent_updated": "{who} changed its profile{name}",
    "broker_started": "the broker started",
    "call_refused": "{who} was refused {operation} ({code})",
    "checkpoint_marked": "{who} marked a checkpoint",
    "child_confirmed": "{who} is up",
    "child_ended": "{who} ended ({how})",
    "child_failed": "{who} did not come up: {reason}",
    "child_reported": "what {who} said was passed on",
    "child_reserved": "{who} is being started by {whom}",
    "child_started": "the process of {who} was started",
    "child_stop_asked": "{who} is to stop, says {whom}",
    "child_unheard": "what {who} said did not fit an inbox",
    "incarnation_begun": "a store was put back: what {who} may lack is sent again",
    "item_refused": "something from {who} was refused ({code})",
    "link_closed": "link {link} was closed by {who}",
    "link_joined": "{whom} joined link {link}",
    "link_left": "{who} left link {link}",
    "link_opened": "{who} opened link {link} with {whom}",
    "link_paused": "link {link} is paused ({reason})",
    "link_resumed": "link {link} goes on",
    "listener_added": "{who} listens to {whom}",
    "listener_removed": "{who} no longer listens to {whom}",
    "machine_named": "this machine is called {label}",
    "machine_offline": "the machine {who} is not heard any more",
    "machine_online": "the machine {who} is heard",
    "machine_paired": "the machine {label} was paired ({trust})",
    "machine_removed": "the machine {who} was removed",
    "machine_updated": "the machine {who} changed",
    "message_answered": "{who} answered {ids}",
    "message_queued": "{who} to {whom}: {text} ({ids})",
    "messages_delivered": "{ids} handed to {who}",
    "messages_expired": "{ids} expired, not read by {who}",
    "messages_read": "{who} read {ids}",
    "messages_refused": "{ids} denied to {whom} ({code})",
    "messages_returned": "{ids} handed back by {who}, not read",
    "messages_withdrawn": "{ids} to {whom} withdrawn, not confirmed in time",
    "parcel_taken": "{who} was heard up to {number}",
    "parcels_acked": "{who} has everything up to {number}",
    "parcels_refused": "{count} parcels refused: {reason}",
    "peers_joined": "{who} and {whom} are peers",
    "peers_parted": "{who} and {whom} are no longer peers",
    "policy_set": "project {group}: policy {policy}",
    "receipt_given": "{who} was told how far a message got with {whom}",
    "receipts_taken": "{ids} {state} at {whom}",
    "remote_agent_told": "{who} tells of {whom}",
    "roster_taken": "{who} has told who is there",
    "roster_told": "other machines are told who is here",
    "scope_claimed": "{who} claimed {rules}",
    "scope_released": "{who} gave back {rules}",
    "scope_sub_delegated": "{who} has a scope through {whom}",
    "session_placed": "{who} is in {folder}",
    "session_started": "{who} is online",
    "topic_joined": "{who} subscribed to {topic}",
    "topic_left": "{who} unsubscribed from {topic}",
    "turn_ended": "{who} ended a turn ({outcome})",
}
"""Every type of event."""
NEEDS_YOU = "needs you: "


def event_line(event: FeedEvent, *, width: int | None = None) -> str:
    """One event as a sentence; a message to the operator says that it needs you, and how to answer."""
    fields = {key: _value(value) for key, value in event.detail.items()}
    fields |= {
        "who": clean(event.who) or "the broker",
        "whom": _several([clean(name) for name in event.whom]),
        "ids": _several(event.ids, more="messages"),
        "text": clean(event.text),
        "link": clean(event.link),
        "muted": "muted" if event.detail.get("muted") else "unmuted",
        "name": f": it is {clean(str(event.detail['name']))} now" if event.detail.get("name") else "",
    }
    line = WORDS[event.type].format_map(_Fields(fields))
    if event.type == "message_queued" and OPERATOR in event.whom:
        line = NEEDS_YOU + line
    return line if width is None else cut(line, width)


class _Fields(dict[str, str]):
    """What an event of an earlier version does not tell is left out."""

    def __missing__(self, key: str) -> str:
        return ""


class Filter(NamedTuple):
    """Which events a timeline shows; empty for all."""

    agents: frozenset[str] = frozenset()
    """By id: events that concern one of them."""
    types: frozenset[str] = frozenset()
    link: str = ""
    text: str = ""
    """Words that the line must have, in any case."""
    quiet: bool = False
    """Also what a person seldom wants to hear of."""

    def takes(self, event: FeedEvent) -> bool:
        """Whether an event passes."""
        if self.types and event.type not in self.types:
            return False
        if not (self.quiet or self.types) and event.type in QUIET:
            return False
        if self.link and event.link != self.link:
            return False
        if self.agents and event.agent not in self.agents and self.agents.isdisjoint(event.whom_ids):
            return False
        return not self.text or self.text.casefold() in event_line(event).casefold()


ALL = Filter()


def timeline_rows(model: Model, wanted: Filter = ALL, *, limit: int = TIMELINE_MAX) -> list[FeedEvent]:
    """The last events that pass, the newest first."""
    return list(islice((event for event in reversed(model.timeline) if wanted.takes(event)), limit))


def pulse_line(pulse: Pulse, model: Model, *, width: int | None = None) -> str:
    """What an agent does now, if a person should know: that it waits for its human. Else nothing."""
    row = model.agents.get(pulse.agent)
    if row is None or pulse.activity != "waiting":
        return ""
    wants = f": {clean(pulse.wants)}" if pulse.wants else ""
    place = f" in {clean(pulse.place)}" if pulse.place else ""
    line = f"{NEEDS_YOU}{clean(row.name)} waits for its human{place}{wants}"
    return line if width is None else cut(line, width)


def summary_line(model: Model) -> str:
    """How many agents there are, what they do, and what waits for the person."""
    here = {key: row for key, row in model.agents.items() if ":" not in row.name}  # not of other machines
    online = [key for key, row in here.items() if row.online and row.name != OPERATOR]
    doing = Counter(model.pulses[key].activity for key in online if key in model.pulses)
    parts = [f"{len(online)} {'agent' if len(online) == 1 else 'agents'} online"]
    parts += [f"{doing[word]} {word}" for word in ("busy", "waiting", "idle", "errored") if doing[word]]
    parts.append(f"{len(model.mail)} {'message needs' if len(model.mail) == 1 else 'messages need'} you")
    return ", ".join(parts)


def _several(words: list[str], *, more: str = "more") -> str:
    named = ", ".join(words[:NAMED_MAX])
    rest = len(words) - NAMED_MAX
    return f"{named} and {rest} {'more' if more == 'more' else f'more {more}'}" if rest > 0 else named


def _value(value: object) -> str:
    if isinstance(value, list):
        return _several([_value(each) for each in cast("list[object]", value)])
    if isinstance(value, dict):
        return clean(str(cast("dict[str, object]", value).get("path", "")))
    return clean(str(value))
