"""When the person is notified: once for each need, never while they look, and not in quiet hours.

What is to be told comes out of `look`, which is called again and again with what needs the person then. Which
console tells it, or which command, is the broker's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tellwire.core.context import Context
from tellwire.core.operator.person import is_operator
from tellwire.core.state import State
from tellwire.protocol.addresses import OPERATOR, SYSTEM

SETTLE_S = 1.0
"""A client must wait for its human so long: what is approved at once makes no notice."""
APART_S = 60.0
"""One notice for each agent and kind within this."""
REMIND_S = 600.0
"""Then, once more, if the need is still there."""
REMEMBERED_MAX = 10_000
QUIET_S_MAX = 7 * 86_400.0


class Wanted(NamedTuple):
    """Something that needs the person now."""

    key: str
    kind: str
    """`question`, `message`, `waiting` or `errored`."""
    agent: str
    who: str
    seq: int = 0
    """Of a message."""
    wants: str = ""


class Due(NamedTuple):
    """What the person is to be told now, in one notice."""

    first: Wanted
    more: int = 0
    digest: bool = False
    """It was held back in quiet hours."""


def needs_now(state: State, context: Context) -> list[Wanted]:
    """Messages to the person, and clients that wait for them or failed; the oldest first."""
    operator = state.find(OPERATOR)
    found: list[Wanted] = []
    questions = state.questions()
    pending = {} if operator is None else operator.pending
    for seq in sorted({*questions, *pending}):
        sender = questions[seq].sender if seq in questions else pending[seq].sender
        agent = state.agents.get(sender)
        kind = "question" if seq in questions else "message"
        name = SYSTEM if agent is None else agent.name
        found.append(Wanted(f"mail:{seq}", kind, sender, name, seq))
    for agent in state.agents.values():
        doing = context.doing(agent.id) if agent.online and not is_operator(agent) else None
        if doing is not None and doing.activity in ("waiting", "errored"):
            key = f"{doing.activity}:{agent.id}:{doing.since}"
            found.append(Wanted(key, doing.activity, agent.id, agent.name, wants=doing.wants))
    return found


class _Known:
    """What became of one need so far."""

    __slots__ = ("at", "first", "reminded", "told")

    def __init__(self, first: float) -> None:
        self.first = first
        self.told = False
        self.at = 0.0
        self.reminded = False


class Notices:
    """Remembers which needs the person has been told of."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._held: dict[str, None] = {}
        self._begun = False

    def look(self, needs: list[Wanted], now: float, *, looking: bool, quiet: bool) -> Due | None:
        """What to tell now, if anything; what was there before the first look is known."""
        current = {need.key: need for need in needs[:REMEMBERED_MAX]}
        self._known = {key: known for key, known in self._known.items() if key in current}
        self._held = {key: None for key in self._held if key in current}
        self._last = {each: at for each, at in self._last.items() if 0 <= now - at < APART_S}
        for key in current:
            if key not in self._known:
                self._known[key] = known = _Known(now)
                known.told = known.reminded = not self._begun
        self._begun = True
        if looking:
            for known in self._known.values():
                known.told = known.reminded = True
            self._held.clear()
            return None
        fresh = [need for need in current.values() if self._is_due(need, now)]
        for need in fresh:
            known = self._known[need.key]
            known.told, known.reminded, known.at = True, known.told or quiet, now
        if quiet:
            self._held.update(dict.fromkeys(need.key for need in fresh))
            return None
        if self._held:
            held, self._held = [*self._held], {}
            told = [current[key] for key in held] + [need for need in fresh if need.key not in held]
            return Due(told[0], len(told) - 1, digest=True)
        told = [need for need in fresh if (need.agent, need.kind) not in self._last]
        self._last.update({(need.agent, need.kind): now for need in told})
        return Due(told[0], len(told) - 1) if told else None

    def _is_due(self, need: Wanted, now: float) -> bool:
        known = self._known[need.key]
        if not known.told:
            return need.kind != "waiting" or not 0 <= now - known.first < SETTLE_S
        return not known.reminded and known.at > 0 and now - known.at >= REMIND_S


def notice_words(due: Due, text_of: Callable[[int], str]) -> tuple[str, str]:
    """What a notice says, and what must not be cut off behind it; `text_of` gives the body of a message."""
    need = due.first
    wants = f": {need.wants}" if need.wants else ""
    words = {
        "question": f"{need.who} asks: ",
        "message": f"{need.who} writes: ",
        "waiting": f"{need.who} waits for you{wants}",
        "errored": f"{need.who}: its last turn failed",
    }[need.kind]
    words += text_of(need.seq) if need.seq else ""
    return f"{'In quiet hours: ' if due.digest else ''}{words}", f" (and {due.more} more)" if due.more else ""
