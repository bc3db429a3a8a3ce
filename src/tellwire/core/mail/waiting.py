"""Why a message is not read yet, if it waits longer than its path needs; computed on request."""

from __future__ import annotations

from typing import NamedTuple

from tellwire.core.context import Context
from tellwire.core.mail.notices import CHAIN, held_back
from tellwire.core.mail.reach import DEAF, DIALOG, PULLS, Contact, not_wakeable
from tellwire.core.mail.waking import BEHIND, ENDED, FAILED, LEFT, OFTEN, STOPPED
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
there is evidence. `push` is to a program that mail is pushed to."""
LARGE = "it is too large to deliver with a turn: the agent was told about it and has to fetch it"
UNSEEN = "the operator has not looked at it yet"
WEAK = "it does not wake anybody; it is delivered with the next turn"

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Gate(NamedTuple):
    """What a message waits for: a code for programs, and a text for people."""

    code: str
    text: str
    after_s: float = 0.0
    """Listings show the text if it waits longer than this; until then it is delivered as expected."""

    def why(self, waited_s: float) -> str:
        """The text, if it has waited longer than it needs."""
        return self.text if waited_s > self.after_s or not self.after_s else ""


HELD = {"failed": FAILED, "left": LEFT, "often": OFTEN, "stopped": STOPPED, "ended": ENDED}
"""From the code of a gate to the beginning of the reason why an agent is not woken now."""


class Waiting:
    """Answers for the messages of one reply; each client is looked at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._contacts: dict[str, Contact | None] = {}
        self._handed: dict[int, float] = {}

    def why(self, agent: Agent, seq: int, receipt: Receipt, sent_at: float) -> str:
        """Why a message still waits in an agent's inbox; empty if it is on its way as expected."""
        gate = self.gate(agent, seq, receipt, sent_at)
        since = self._handed_at(receipt.lease, sent_at) if receipt.lease else sent_at
        return gate.why(self._context.now - since)

    def gate(self, agent: Agent, seq: int, receipt: Receipt, sent_at: float) -> Gate:
        """What a message waits for, however short it has waited."""
        now = self._context.now
        if agent.name == OPERATOR:
            return Gate("unseen", UNSEEN, NEEDS_S[PUSH])
        if not agent.online:
            away_s = now - agent.gone_at
            text = f"offline for {format_span(away_s)}" if agent.gone_at and away_s >= 1 else "offline"
            return Gate("offline", text)
        contact = self._contact(agent.id)
        if receipt.lease:
            return open_gate(agent, receipt, contact, now - self._handed_at(receipt.lease, sent_at), now)
        if contact is not None and format_id("m", seq) in contact.announced:
            return Gate("large", LARGE)
        return pending_gate(agent, receipt, contact, now)

    def why_oldest(self, agent: Agent) -> str:
        """The same of the oldest message that waits for an agent, or was handed to it."""
        for box in (agent.pending, agent.leased):
            if box:
                seq = next(iter(box))
                header = self._context.header(seq)
                return self.why(agent, seq, box[seq], self._context.now if header is None else header.at)
        return ""

    def again_s(self, agent: str) -> float:
        """In how many seconds an agent that may not be woken now is tried again; 0 if nobody knows."""
        contact = self._contact(agent)
        return 0.0 if contact is None else contact.again_s

    def _contact(self, agent: str) -> Contact | None:
        if agent not in self._contacts:
            self._contacts[agent] = self._context.contact(agent)
        return self._contacts[agent]

    def _handed_at(self, lease: int, sent_at: float) -> float:
        if lease not in self._handed:
            self._handed[lease] = handed_at(self._context, lease, sent_at)
        return self._handed[lease]


def why_pending(agent: Agent, receipt: Receipt, contact: Contact | None, waited_s: float, now: float) -> str:
    """Why nothing has taken a message out of an online agent's inbox, if that is longer than it needs."""
    return pending_gate(agent, receipt, contact, now).why(waited_s)


def why_open(agent: Agent, receipt: Receipt, contact: Contact | None, open_s: float, now: float) -> str:
    """Why a message that was handed over is not read, if that is longer than it needs."""
    return open_gate(agent, receipt, contact, open_s, now).why(open_s)


def pending_gate(agent: Agent, receipt: Receipt, contact: Contact | None, now: float) -> Gate:
    """What a message in an online agent's inbox waits for."""
    if contact is None or contact.holds:
        return Gate("program", "its program has not taken it yet", NEEDS_S[PUSH])
    if not contact.hooked:
        return Gate("fetch", PULLS)
    if not contact.bound:
        return Gate("deaf", DEAF)
    since = format_span(now - contact.since)
    if contact.state == "waiting":
        return Gate("dialog", f"{DIALOG}, for {since}")
    if not contact.idle:
        return Gate("busy", f"busy in a turn for {since}", NEEDS_S[MID_TURN])
    return _idle_gate(agent, receipt, contact, now)


def _idle_gate(agent: Agent, receipt: Receipt, contact: Contact, now: float) -> Gate:
    if receipt.weak:
        return Gate("chain", CHAIN) if held_back(agent, now) == CHAIN else Gate("weak", WEAK)
    if agent.is_muted(now):
        until = agent.muted_until
        text = f"muted for {format_span(until - now)} more" if until else "muted until unmuted"
        return Gate("muted", text)
    if contact.held:
        return Gate(_held_code(contact.held), contact.held)
    if contact.shut and not contact.is_settling(now):
        return Gate("unwakeable", not_wakeable(contact))
    after_s = NEEDS_S.get(contact.path, NEEDS_S[MID_TURN])
    if any(held.sender == receipt.sender for held in agent.leased.values()):
        return Gate("behind", BEHIND, after_s)
    tried = f"{contact.path} has not reached it" if contact.path else "nothing has reached it"
    return Gate("waking", f"idle for {format_span(now - contact.since)}, and {tried} yet", after_s)


def handed_at(context: Context, lease: int, otherwise: float) -> float:
    """When a lease began, by the journal."""
    entries = context.entries(0, lease + 1, 1)
    return entries[0].at if entries else otherwise


def _held_code(held: str) -> str:
    """Which of the reasons of `core/mail/waking` these words begin with."""
    return next((code for code, text in HELD.items() if held.startswith(text)), "held")


def open_gate(agent: Agent, receipt: Receipt, contact: Contact | None, open_s: float, now: float) -> Gate:
    """What a message waits for that was handed over `open_s` seconds ago."""
    ago = format_span(open_s)
    if contact is None:
        text = f"its program has had it for {ago} and has not confirmed it"
        return Gate("unconfirmed", text, NEEDS_S[PUSH])
    call = next((key for key, lease in agent.calls.items() if lease == receipt.lease), "")
    after_s = NEEDS_S.get(contact.lease_paths.get(call, PULL), NEEDS_S[PULL])
    if contact.state == "waiting":
        text = f"handed over {ago} ago; {DIALOG}, for {format_span(now - contact.since)}"
        return Gate("dialog", text, after_s)
    if not contact.hooked:
        return Gate("fetched", f"fetched {ago} ago; its next call will show that it was read", after_s)
    doing = "idle" if contact.idle else "busy"
    text = f"handed to its client {ago} ago, with no evidence yet that it was read; it is {doing}"
    return Gate("evidence", text, after_s)


def is_stuck(agent: Agent, receipt: Receipt, contact: Contact | None, open_s: float) -> bool:
    """Whether an open hand-over will not settle by itself: longer than it needs, and the client is idle."""
    if contact is None or not (contact.hooked and contact.idle):
        return False
    call = next((key for key, lease in agent.calls.items() if lease == receipt.lease), "")
    return open_s > NEEDS_S.get(contact.lease_paths.get(call, PULL), NEEDS_S[PULL])


def format_span(seconds: float) -> str:
    """A length of time in its largest unit, such as `3 min`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "0 s"
