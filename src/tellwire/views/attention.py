"""What needs the person, in one list: kind, who, what, since when, what to do about it, and where.

The kinds come in the order of `KINDS`, within each the oldest first. A person can hide one: it is gone until
something new happens to it, never for ever. Texts are harmless, and not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tellwire.protocol.addresses import OPERATOR, SYSTEM
from tellwire.protocol.operations.feed import AgentRow
from tellwire.views.bounds import NEEDS_MAX
from tellwire.views.model import Fault, Model
from tellwire.views.signs import UNICODE, Signs, age_words, fit, short_age
from tellwire.views.words import clean, pad, width_of

KINDS = (
    "question",
    "message",
    "waiting",
    "failed",
    "errored",
    "held",
    "undelivered",
    "unproved",
    "paused",
    "expired",
    "denied",
    "overdue",
    "refused",
    "deaf",
    "full",
)
"""Every kind of need, the most urgent first."""
ACTIONS = {
    "answer": "answer it",
    "read": "read it",
    "go": "go to its terminal",
    "why": "see why",
    "inside": "see what it said",
    "unmute": "let it be woken again",
    "resume": "let the link go on",
    "scopes": "see who may write where",
    "doctor": "see what is wrong",
    "hide": "hide it until something new happens",
}
"""What can be done about a need, and what it means."""
PENDING_S = 120.0
"""Mail that waits longer on an agent that cannot be woken needs the person."""
DELIVERED_S = 300.0
"""So does mail that was handed over, without evidence for so long."""
FAULT_S = 86_400.0
"""What went wrong is listed for a day."""
WRITES_MIN = 3
FULL = 50
"""As many open messages as one agent may have at the person, unless the setting says otherwise."""
HINTS_MIN = 60
"""Lines narrower than this leave out what to do."""


class Need(NamedTuple):
    """One thing that waits for the person."""

    kind: str
    who: str
    """The agent's name, or the link; `tellwire` for the broker."""
    text: str
    since: float
    """0 if that is not known."""
    actions: tuple[str, ...] = ("hide",)
    """What to do about it, the best first: words of `ACTIONS`."""
    place: str = ""
    """The terminal that it is about, such as `%3`."""
    agent: str = ""
    """The agent's id."""
    id: str = ""
    """The message or link."""
    choices: tuple[str, ...] = ()
    stamp: str = ""
    """Changes when something new happens to it."""

    @property
    def key(self) -> str:
        """The same for the same need, whatever happens to it."""
        return f"{self.kind}:{self.id or self.agent}"


Hidden = Mapping[str, str]
"""From the key of a need to its stamp when it was hidden."""


def attention(model: Model, now: float, *, hidden: Hidden | None = None) -> list[Need]:
    """What needs the person now, without what they have hidden."""
    found = [need for finder in _FINDERS for need in finder(model, now)]
    known = hidden or {}
    shown = [need for need in found if known.get(need.key) != need.stamp]
    shown.sort(key=lambda need: (KINDS.index(need.kind), need.since))
    return shown[:NEEDS_MAX]


def hide(hidden: Hidden, need: Need) -> dict[str, str]:
    """The same, with this need hidden until something new happens to it."""
    return {**hidden, need.key: need.stamp}


def still_hidden(hidden: Hidden, model: Model, now: float) -> dict[str, str]:
    """Only what still is there to be hidden: a need that comes again later is shown."""
    stamps = {need.key: need.stamp for need in attention(model, now)}
    return {key: stamp for key, stamp in hidden.items() if stamps.get(key) == stamp}


# -- messages to the person ---------------------------------------------------------------------------


def _mail(model: Model, _now: float) -> Iterator[Need]:
    paused = {link for link, row in model.links.items() if row.status == "paused"}
    for message, row in model.mail.items():
        sender = model.agents.get(row.sender)
        if sender is None and row.text.startswith("link:") and _first_word(row.text) in paused:
            continue  # the paused link is listed by itself
        answers = sender is not None
        yield Need(
            "question" if row.asks else "message",
            clean(sender.name) if sender is not None else SYSTEM,
            clean(row.text),
            row.at,
            ("answer", "read", "hide") if answers else ("read", "hide"),
            place=_place(model, row.sender),
            agent=row.sender,
            id=message,
            choices=tuple(clean(word) for word in row.choices),
            stamp=message,
        )


def _first_word(text: str) -> str:
    return text.split(" ", 1)[0].removeprefix("link:")


def _full(model: Model, _now: float) -> Iterator[Need]:
    counts: dict[str, int] = {}
    for row in model.mail.values():
        counts[row.sender] = counts.get(row.sender, 0) + 1
    for agent, count in counts.items():
        row = model.agents.get(agent)
        if row is not None and count >= FULL:
            text = f"{count} open messages: what else it sends you is refused until you have read some"
            yield Need("full", clean(row.name), text, 0.0, ("read", "hide"), agent=agent, stamp=str(count))


# -- what agents do -----------------------------------------------------------------------------------


def _doing(model: Model, now: float) -> Iterator[Need]:
    for agent, pulse in model.pulses.items():
        row = model.agents.get(agent)
        if row is None or not row.online or row.name == OPERATOR:
            continue
        who, place = clean(row.name), clean(pulse.place or row.terminal)
        go = ("go",) if place else ()
        stamp = f"{pulse.activity} {pulse.since}"
        if pulse.activity == "waiting":
            wants = f"wants: {clean(pulse.wants)}" if pulse.wants else "waits for its human"
            yield Need("waiting", who, wants, pulse.since, (*go, "hide"), place, agent, stamp=stamp)
        elif pulse.activity == "errored":
            text = f"its last turn failed{': ' if pulse.held else ''}{clean(pulse.held)}"
            yield Need("errored", who, text, pulse.since, (*go, "inside", "hide"), place, agent, stamp=stamp)
        if pulse.shut and not pulse.activity and not pulse.way:
            yield Need("deaf", who, clean(pulse.shut), row.connected_at, ("doctor", "hide"), place, agent)
        yield from _held(model, agent, row, now=now)


def _held(model: Model, agent: str, row: AgentRow, *, now: float) -> Iterator[Need]:
    """An idle agent whose last wake failed, whatever waits for it."""
    pulse = model.pulses[agent]
    if "failed" in pulse.held and pulse.activity != "errored" and row.pending:
        text = f"{clean(pulse.held)}; {_count(row.pending)} wait"
        place = clean(pulse.place or row.terminal)
        since = min(pulse.since or now, now)
        yield Need("held", clean(row.name), text, since, ("go", "why", "hide"), place, agent, stamp=text)


def _undelivered(model: Model, now: float) -> Iterator[Need]:
    for agent, row in model.agents.items():
        if row.name == OPERATOR:
            continue
        place = _place(model, agent)
        if row.pending and row.pending_since and now - row.pending_since > PENDING_S:
            why, actions = _why_pending(model, agent, row, now=now)
            if why:
                text = f"{_count(row.pending)} pending: {why}"
                stamp = f"{row.pending_since} {row.pending}"
                since = row.pending_since
                yield Need("undelivered", clean(row.name), text, since, actions, place, agent, stamp=stamp)
        if row.delivered and row.delivered_since and now - row.delivered_since > DELIVERED_S:
            text = f"{_count(row.delivered)} handed over, no evidence yet of being read"
            stamp, actions = str(row.delivered_since), ("go", "why", "hide")
            since = row.delivered_since
            yield Need("unproved", clean(row.name), text, since, actions, place, agent, stamp=stamp)


def _why_pending(model: Model, agent: str, row: AgentRow, *, now: float) -> tuple[str, tuple[str, ...]]:
    """Why an agent's mail waits, if that does not pass by itself, and what to do."""
    pulse = model.pulses.get(agent)
    if not row.online:
        away = age_words(row.gone_at, now)
        return f"offline for {away}" if away else "offline", ("why", "hide")
    if pulse is not None and pulse.activity in ("waiting", "errored", "busy"):
        return "", ()  # listed for that already, or it takes its mail in its turn
    if is_muted(row, now):
        left = age_words(now, row.muted_until) if row.muted_until else ""
        return f"muted for {left} more" if left else "muted until unmuted", ("unmute", "why", "hide")
    if pulse is None or "failed" in pulse.held:
        return "", ()
    if pulse.held:
        return clean(pulse.held), ("go", "why", "hide")
    return (clean(pulse.shut), ("go", "why", "hide")) if pulse.shut else ("", ())


def is_muted(row: AgentRow, now: float) -> bool:
    """Whether an agent must not be woken now."""
    return row.muted and (not row.muted_until or now < row.muted_until)


# -- links, and what went wrong -----------------------------------------------------------------------

PAUSED_WORDS = {"turns": "too many turns without a word of yours", "hops": "too many turns in a row"}


def _paused(model: Model, _now: float) -> Iterator[Need]:
    for link, row in model.links.items():
        if row.status == "paused":
            names = [clean(model.agents[each].name) for each in row.members if each in model.agents]
            reason = PAUSED_WORDS.get(row.reason, clean(row.reason))
            text = f"paused: {reason}" + (f" ({', '.join(names)})" if names else "")
            stamp = f"{row.paused_at} {row.said}"
            actions = ("resume", "read", "hide")
            yield Need("paused", f"link:{link}", text, row.paused_at, actions, id=link, stamp=stamp)


def _faults(model: Model, now: float) -> Iterator[Need]:
    for fault in model.faults.values():
        row = model.agents.get(fault.agent)
        text = _FAULT_WORDS[fault.kind](fault)
        if not text or now - fault.at > FAULT_S:
            continue
        if fault.kind == "overdue" and (row is None or not row.overdue):
            continue
        who = clean(row.name if row is not None else fault.who) or SYSTEM
        stamp = f"{fault.at} {fault.count}"
        actions, place = _FAULT_ACTIONS[fault.kind], _place(model, fault.agent)
        yield Need(fault.kind, who, text, fault.since, actions, place, fault.agent, stamp=stamp)


def _expired(fault: Fault) -> str:
    shown = ", ".join(fault.ids[-3:])
    rest = fault.count - min(3, len(fault.ids))
    return f"{shown}{f' and {rest} more' if rest > 0 else ''} expired, not read"


def _failed(fault: Fault) -> str:
    return f"did not come up: {clean(fault.text) or 'no reason told'}"


def _denied(fault: Fault) -> str:
    return "a message of it reached nobody" if fault.count == 1 else f"{fault.count} messages reached nobody"


def _refused(fault: Fault) -> str:
    return f"{fault.count} writes were refused" if fault.count >= WRITES_MIN else ""


_FAULT_WORDS: dict[str, Callable[[Fault], str]] = {
    "failed": _failed,
    "expired": _expired,
    "denied": _denied,
    "refused": _refused,
    "overdue": lambda _fault: "has finished no turn for long",
}
_FAULT_ACTIONS = {
    "failed": ("inside", "hide"),
    "expired": ("why", "hide"),
    "denied": ("why", "hide"),
    "refused": ("scopes", "hide"),
    "overdue": ("go", "inside", "hide"),
}
_FINDERS: tuple[Callable[[Model, float], Iterator[Need]], ...] = (
    _mail,
    _full,
    _doing,
    _undelivered,
    _paused,
    _faults,
)


def _place(model: Model, agent: str) -> str:
    pulse, row = model.pulses.get(agent), model.agents.get(agent)
    return clean((pulse.place if pulse is not None else "") or (row.terminal if row is not None else ""))


def _count(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


# -- lines --------------------------------------------------------------------------------------------

VERBS = {
    "question": "asks",
    "message": "writes",
    "waiting": "waits",
    "failed": "failed",
    "errored": "errored",
    "held": "not woken",
    "undelivered": "mail waits",
    "unproved": "not proved",
    "paused": "paused",
    "expired": "expired",
    "denied": "denied",
    "overdue": "overdue",
    "refused": "refused",
    "deaf": "not heard",
    "full": "inbox full",
}
"""One or two words for each kind."""
SPOKEN = ("question", "message")
"""Kinds whose text is the agent's own."""


def need_line(need: Need, now: float, *, width: int, signs: Signs = UNICODE) -> str:
    """One need in one line of at most `width` columns: who and what first, the age last."""
    age = pad(short_age(need.since, now), 4, right=True)
    head = f"{need.who} {VERBS[need.kind]}" if need.kind in SPOKEN else need.who
    hint = _hint(need) if width >= HINTS_MIN else ""
    room = width - width_of(age) - 1
    tail = f" {hint}" if hint else ""
    room -= width_of(tail)
    return pad(fit(f"{head}: {need.text}", max(0, room), signs), room) + fit(tail, width, signs) + " " + age


def _hint(need: Need) -> str:
    if need.choices:
        shown = "/".join(need.choices)
        return f"[{shown if width_of(shown) <= 24 else f'{len(need.choices)} choices'}]"
    return f"[{need.actions[0]}]"
