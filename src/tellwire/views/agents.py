"""Agents in rows: what each does, since when, what waits for it, and how it is reached.

The order is fixed: by project, then as they joined, children beneath their parents. Nothing jumps when states
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.ids import parse_id
from tellwire.protocol.operations.feed import AgentRow
from tellwire.views.attention import is_muted
from tellwire.views.model import Model
from tellwire.views.signs import UNICODE, Signs, age_words, fit, short_age
from tellwire.views.words import clean, cut, pad, width_of

DEPTH_MAX = 4
"""Children of children that are indented further."""
NAME_WIDTH_MAX = 20
STATE_WIDTH = 7
KIND_WIDTH = 8
KINDS_MIN = 60
"""Lines narrower than this leave out the client and the note."""
UNKNOWN_GROUP = "no project"


class AgentLine(NamedTuple):
    """One agent as a console shows it; all texts are harmless."""

    id: str
    name: str
    kind: str
    state: str
    """`busy`, `waiting`, `idle`, `errored`, `online` (nobody knows what it does) or `offline`."""
    since: float
    pending: int
    delivered: int
    muted: bool
    note: str
    """What there is to say: what it wants, why it is not woken, how it is reached."""
    wake: str
    """The path by which it is woken while it is idle; empty if there is none or nobody knows."""
    place: str
    group: str
    """The project, as a path."""
    project: str
    """The same in short."""
    depth: int = 0
    """How deep it lies beneath its parent, if that is shown above it."""
    parent: str = ""


def agent_rows(model: Model, now: float, *, offline: bool = False) -> list[AgentLine]:
    """Those that are online, or all, in their fixed order; not the person."""
    shown = {
        key: row
        for key, row in model.agents.items()
        if row.name != OPERATOR and (row.online or offline or row.pending)
    }
    labels = project_labels(row.group for row in shown.values())

    def place_of(key: str) -> tuple[str, str, int]:
        group = shown[key].group
        return labels[group], group, parse_id("a", key) or 0

    beneath: dict[str, list[str]] = {}
    for key in sorted(shown, key=place_of):
        child = model.children.get(key)
        above = child.parent if child is not None and child.parent in shown else ""
        beneath.setdefault(above, []).append(key)
    rows: list[AgentLine] = []

    def add(key: str, depth: int, group: str) -> None:
        rows.append(_line(model, key, now, labels=labels, depth=min(depth, DEPTH_MAX), group=group))
        for child in beneath.get(key, ()):
            add(child, depth + 1, group)

    for key in beneath.get("", ()):
        add(key, 0, shown[key].group)
    return rows


def _line(model: Model, key: str, now: float, *, labels: dict[str, str], depth: int, group: str) -> AgentLine:
    row, pulse = model.agents[key], model.pulses.get(key)
    state = state_word(model, key)
    known = pulse is not None and pulse.activity == state
    since = pulse.since if pulse is not None and known else row.connected_at if row.online else row.gone_at
    child = model.children.get(key)
    return AgentLine(
        id=key,
        name=clean(row.name),
        kind=clean(row.kind),
        state=state,
        since=since,
        pending=row.pending,
        delivered=row.delivered,
        muted=is_muted(row, now),
        note=_note(model, key, row, state=state, now=now),
        wake=clean(pulse.way) if pulse is not None and state == "idle" else "",
        place=clean((pulse.place if pulse is not None else "") or row.terminal),
        group=group,
        project=labels[group],
        depth=depth,
        parent=child.parent if child is not None else "",
    )


def state_word(model: Model, agent: str) -> str:
    """What an agent does, in one word; `online` if nobody knows."""
    row, pulse = model.agents.get(agent), model.pulses.get(agent)
    if row is None or not row.online:
        return "offline"
    return pulse.activity if pulse is not None and pulse.activity else "online"


def state_counts(model: Model) -> Counter[str]:
    """How many agents are in which state; not the person."""
    return Counter(state_word(model, key) for key, row in model.agents.items() if row.name != OPERATOR)


def _note(model: Model, key: str, row: AgentRow, *, state: str, now: float) -> str:
    pulse, notes = model.pulses.get(key), list[str]()
    if state == "offline":
        notes.append({"left": "closed", "restart": "not back since a restart"}.get(row.offline_reason, ""))
    if state == "waiting" and pulse is not None and pulse.wants:
        notes.append(f"wants: {clean(pulse.wants)}")
    if is_muted(row, now):
        left = age_words(now, row.muted_until) if row.muted_until else ""
        notes.append(f"muted for {left} more" if left else "muted")
    if pulse is not None and row.online:
        notes.append(clean(pulse.held) or clean(pulse.shut))
        if state == "idle" and pulse.way and not pulse.held:
            notes.append(f"wake: {clean(pulse.way)}")
    if (child := model.children.get(key)) is not None:
        parent = model.agents.get(child.parent)
        notes.append(f"child of {clean(parent.name)}" if parent is not None else "child")
    if (claim := model.claims.get(key)) is not None:
        notes.append("writes " + ", ".join(clean(_tail(rule.path)) for rule in claim.rules[:2]))
    return " · ".join(note for note in notes if note)


def _tail(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1] + "/"


# -- projects -----------------------------------------------------------------------------------------


def project_labels(groups: Iterable[str]) -> dict[str, str]:
    """From a project's path to its last part; to two parts where several would be called the same."""
    known = sorted(set(groups))
    short = {group: _label(group, 1) for group in known}
    counts = Counter(short.values())
    return {group: label if counts[label] == 1 else _label(group, 2) for group, label in short.items()}


def _label(group: str, parts: int) -> str:
    path = group.rstrip("/").removesuffix("/.git").rstrip("/")
    return clean("/".join(path.split("/")[-parts:])) or UNKNOWN_GROUP


# -- lines --------------------------------------------------------------------------------------------


def agent_lines(
    rows: Sequence[AgentLine], now: float, *, width: int, signs: Signs = UNICODE, headings: bool = True
) -> list[str]:
    """The rows as lines of at most `width` columns, with a heading for each project."""
    longest = max((width_of(row.name) + 2 * row.depth for row in rows), default=0)
    name_width = max(6, min(NAME_WIDTH_MAX, longest, width - 18))
    lines: list[str] = []
    group = None
    for row in rows:
        if headings and row.group != group:
            lines.append(fit(row.project, width, signs))
            group = row.group
        lines.append(agent_line(row, now, width=width, signs=signs, name_width=name_width))
    return lines


def agent_line(
    row: AgentLine, now: float, *, width: int, signs: Signs = UNICODE, name_width: int = NAME_WIDTH_MAX
) -> str:
    """One agent: sign, name, client, state, age, mail, and what there is to say."""
    indent = "  " * (row.depth - 1) + signs.child if row.depth else ""
    name = cut(f"{indent}{row.name}", name_width)
    parts = [f" {signs.states[row.state]} {pad(name, name_width)}"]
    if width >= KINDS_MIN:
        parts.append(pad(cut(row.kind, KIND_WIDTH), KIND_WIDTH))
    parts.append(pad(row.state, STATE_WIDTH))
    parts.append(pad(short_age(row.since, now), 4, right=True))
    mail = f"{signs.mail}{row.pending}" if row.pending else ""
    parts.append(pad(mail + (signs.muted if row.muted else ""), 4))
    if width >= KINDS_MIN:
        parts.append(row.note)
    return fit(" ".join(parts).rstrip(), width, signs)


def header_line(model: Model, needs: int, *, width: int, signs: Signs = UNICODE) -> str:
    """How many agents do what, and how much needs the person: the most important first, cut at the end."""
    counts = state_counts(model)
    parts = [f"{signs.need} {needs} {'needs' if needs == 1 else 'need'} you"]
    words = {"busy": "busy", "waiting": "waits" if counts["waiting"] == 1 else "wait", "errored": "errored"}
    for state in ("waiting", "errored", "busy", "idle"):
        if counts[state]:
            parts.append(f"{signs.states[state]} {counts[state]} {words.get(state, state)}")
    waiting = sum(row.pending for row in model.agents.values() if row.name != OPERATOR)
    if waiting:
        parts.append(f"{signs.mail} {waiting} waiting")
    return fit("  ".join(parts), width, signs)
