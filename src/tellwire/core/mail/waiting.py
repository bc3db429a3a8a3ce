"""Why a message is not read yet, if it waits longer than its path needs: found out when somebody asks."""

from __future__ import annotations

from tellwire.core.context import Context
from tellwire.core.mail.notices import CHAIN, held_back
from tellwire.core.mail.reach import DEAF, DIALOG, PULLS, Contact, not_wakeable
from tellwire.core.state import Agent, Receipt
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.ids import format_id

PUSH, MID_TURN, PULL = "push", "mid-turn", "get_messages"
NEEDS_S = {
    PUSH: 30.0,
    MID_TURN: 60.0,
    "end of turn": 60.0,
    "waiter": 20.0,
    "plugin": 20.0,
    "queue": 30.0,
    "queue (up to 10 s)": 45.0,
    "typing": 60.0,
    PULL: 60.0,
}
"""How long a message takes by each path at most, if nothing is in its way: to be handed over, and again until
there is evidence. `push` is to a program that is handed its mail as it comes."""
LARGE = "it is too large to deliver with a turn: the agent was told about it and has to fetch it"
UNSEEN = "the operator has not looked at it yet"
WEAK = "it does not wake anybody; it is delivered with the next turn"

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Waiting:
    """Answers for the messages of one reply; each client is looked at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._contacts: dict[str, Contact | None] = {}
        self._handed: dict[int, float] = {}

    def why(self, agent: Agent, seq: int, receipt: Receipt, sent_at: float) -> str:
        """Why a message still waits in an agent's inbox; empty if it is on its way as expected."""
        now = self._context.now
        if agent.name == OPERATOR:
            return "" if now - sent_at <= NEEDS_S[PUSH] else UNSEEN
        if not agent.online:
            away_s = now - agent.gone_at
            return f"offline for {format_span(away_s)}" if agent.gone_at and away_s >= 1 else "offline"
        contact = self._contact(agent.id)
        if receipt.lease:
            return why_open(agent, receipt, contact, now - self._handed_at(receipt.lease, sent_at), now)
        if contact is not None and format_id("m", seq) in contact.announced:
            return LARGE
        return why_pending(agent, receipt, contact, now - sent_at, now)

    def why_oldest(self, agent: Agent) -> str:
        """The same of the oldest message that waits for an agent, or was handed to it."""
        for box in (agent.pending, agent.leased):
            if box:
                seq = next(iter(box))
                header = self._context.header(seq)
                return self.why(agent, seq, box[seq], self._context.now if header is None else header.at)
        return ""

    def _contact(self, agent: str) -> Contact | None:
        if agent not in self._contacts:
            self._contacts[agent] = self._context.contact(agent)
        return self._contacts[agent]

    def _handed_at(self, lease: int, sent_at: float) -> float:
        if lease not in self._handed:
            entries = self._context.entries(0, lease + 1, 1)
            self._handed[lease] = entries[0].at if entries else sent_at
        return self._handed[lease]


def why_pending(agent: Agent, receipt: Receipt, contact: Contact | None, waited_s: float, now: float) -> str:
    """Why nothing has taken a message out of an online agent's inbox, if that is longer than it needs."""
    if contact is None or contact.holds:
        return "" if waited_s <= NEEDS_S[PUSH] else "its program has not taken it yet"
    if not contact.hooked:
        return PULLS
    if not contact.bound:
        return DEAF
    since = format_span(now - contact.since)
    if contact.state == "waiting":
        return f"{DIALOG}, for {since}"
    if not contact.idle:
        return "" if waited_s <= NEEDS_S[MID_TURN] else f"busy in a turn for {since}"
    return _why_idle(agent, receipt, contact, waited_s, now)


def _why_idle(agent: Agent, receipt: Receipt, contact: Contact, waited_s: float, now: float) -> str:
    if receipt.weak:
        return CHAIN if held_back(agent, now) == CHAIN else WEAK
    if agent.is_muted(now):
        until = agent.muted_until
        return f"muted for {format_span(until - now)} more" if until else "muted until unmuted"
    if contact.held or (contact.shut and not contact.is_settling(now)):
        return contact.held or not_wakeable(contact)
    if waited_s <= NEEDS_S.get(contact.way, NEEDS_S[MID_TURN]):
        return ""
    tried = f"{contact.way} has not reached it" if contact.way else "nothing has reached it"
    return f"idle for {format_span(now - contact.since)}, and {tried} yet"


def why_open(agent: Agent, receipt: Receipt, contact: Contact | None, open_s: float, now: float) -> str:
    """Why a message that was handed over is not read, if that is longer than it needs."""
    ago = format_span(open_s)
    if contact is None:
        return "" if open_s <= NEEDS_S[PUSH] else f"its program has had it for {ago} and has not confirmed it"
    call = next((word for word, lease in agent.calls.items() if lease == receipt.lease), "")
    if open_s <= NEEDS_S.get(contact.ways.get(call, PULL), NEEDS_S[PULL]):
        return ""
    if contact.state == "waiting":
        return f"handed over {ago} ago; {DIALOG}, for {format_span(now - contact.since)}"
    if not contact.hooked:
        return f"fetched {ago} ago; its next call will show that it was read"
    doing = "idle" if contact.idle else "busy"
    return f"handed to its client {ago} ago, with no evidence yet that it was read; it is {doing}"


def is_stuck(agent: Agent, receipt: Receipt, contact: Contact | None, open_s: float) -> bool:
    """Whether an open hand-over will not settle by itself: longer than it needs, and the client is idle."""
    if contact is None or not (contact.hooked and contact.idle):
        return False
    call = next((word for word, lease in agent.calls.items() if lease == receipt.lease), "")
    return open_s > NEEDS_S.get(contact.ways.get(call, PULL), NEEDS_S[PULL])


def format_span(seconds: float) -> str:
    """How long, in its largest unit."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "0 s"
