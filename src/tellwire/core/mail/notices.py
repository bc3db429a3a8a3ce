"""The broker's own messages to an agent: durable history like any other (AUD-6); some of them may wake it."""

from __future__ import annotations

from typing import NamedTuple

from tellwire.core.context import Context
from tellwire.core.mail.drafts import digest_of
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import OPERATOR, SYSTEM
from tellwire.protocol.events import AnyEvent, MessageQueued


class Weight(NamedTuple):
    """Whether a kind of notice may begin a turn, and why; one that may not waits for the next (AUD-7)."""

    wakes: bool
    why: str
    lasts: bool = False
    """Nothing else reports this: it never expires early, and a full inbox accepts it."""


WEIGHTS: dict[str, Weight] = {
    "child_turn": Weight(
        True, "a parent waits for what its child says, or has to help it (AUD-4)", lasts=True
    ),
    "child_ended": Weight(
        True, "scope and children are the parent's again, and nothing more will come (AUD-4)", lasts=True
    ),
    "turn": Weight(True, "who listens has asked to hear of it"),
    "gone": Weight(True, "who listens waits for an end that will not come"),
    "overdue": Weight(True, "who listens may wait for ever"),
    "lost": Weight(True, "the sender may wait for an answer that will not come"),
    "link_lost": Weight(True, "who waits for the other's words there would wait for ever"),
    "link_opened": Weight(False, "nothing was said yet, and what is said wakes by itself"),
    "link_joined": Weight(False, "who comes in has not spoken yet"),
    "link_left": Weight(False, "the others go on"),
    "link_closed": Weight(False, "nothing can be said there any more"),
    "link_paused": Weight(False, "it is there to let agents fall silent; a person is told too"),
    "chain": Weight(False, "it is there to let agents fall silent; a person is told too"),
    "storage": Weight(True, "a person has to know, and nobody else can do anything about it", lasts=True),
    "renamed": Weight(False, "its mail still reaches it, and nothing has to be done at once"),
    "link_resumed": Weight(False, "who resumed it speaks next, and that wakes"),
}
"""Every kind of notice there is."""

NOTHING = "nothing waits"
WEAK = "only weak notices wait"
CHAIN = "held: too many turns in a row came of messages alone; it waits for a human, the operator or new work"
MUTED = "muted"

_HARMLESS = str.maketrans({"[": "(", "]": ")", '"': "'"})


def held_back(agent: Agent, now: float) -> str:
    """Why what waits may neither begin a turn of an agent's model nor keep one from ending; empty if it may.

    The one gate for an idle agent and for one at the end of its turn (AUD-5). A turn that runs anyway takes
    along whatever waits.
    """
    if not agent.pending:
        return NOTHING
    if all(receipt.weak for receipt in agent.pending.values()):
        return CHAIN if is_held(agent) else WEAK
    return MUTED if agent.is_muted(now) else ""


def is_held(agent: Agent) -> bool:
    """Whether a message of an agent waits that begins no turn, because too many came of messages alone."""
    return any(receipt.weak and (receipt.sender or receipt.quotes) for receipt in agent.pending.values())


def notice(
    agent: Agent, text: str, context: Context, kind: str, *, re: str = "", hops: int = 0
) -> tuple[MessageQueued, str]:
    """A notification for one agent, of a kind in `WEIGHTS`, and its body; `hops` of the turn it tells of."""
    weight, limits = WEIGHTS[kind], context.limits
    event = MessageQueued(
        sender="",
        sender_name=SYSTEM,
        to=agent.name,
        recipients=[agent.id],
        size=len(text.encode()),
        digest=digest_of(agent.name, text),
        ttl_s=limits.ttl_s_max if weight.lasts else limits.ttl_s,
        kind="notification",
        re=re,
        hops=hops,
        weak=not weight.wakes or (hops > limits.chain_turns_max and bool(agent.turns)),
    )
    return event, text


def words_of(
    speaker: Agent,
    listener: Agent,
    text: str,
    *,
    kind: str,
    ttl_s: float,
    turn: str,
    hops: int = 0,
    weak: bool = False,
) -> MessageQueued:
    """What an agent finally said, for one who waits for it: under its name, though it did not send that."""
    return MessageQueued(
        sender="",
        sender_name=speaker.name,
        to=listener.name,
        recipients=[listener.id],
        size=len(text.encode()),
        digest=digest_of(listener.name, text),
        ttl_s=ttl_s,
        kind=kind,
        turn=turn,
        hops=hops,
        weak=weak,
    )


def shortened(text: str, bytes_max: int, name: str = "") -> str:
    """A text that fits a message: cut if it must be, with a mark, and where the whole is if it is there."""
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    where = f'; get_session_data("{name}") shows it' if name else ""
    mark = f"\n[cut: the whole has {len(data)} bytes{where}]"
    return data[: bytes_max - len(mark.encode())].decode(errors="ignore") + mark


def harmless(text: str) -> str:
    """A short text of an agent, on one line, so that it cannot end our own line."""
    return " ".join(text.split()).translate(_HARMLESS)


def quoted(text: str, length_max: int) -> str:
    """The beginning of an agent's words, on one line, so marked that they cannot pass for ours."""
    line = " ".join(text[: 2 * length_max].split())
    cut = len(line) > length_max or len(text) > 2 * length_max
    return f'"{line[:length_max].translate(_HARMLESS)}{"…" if cut else ""}"'


class Post:
    """Facts that follow from one decision, and notices among them; a full inbox gets only those that last."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.limits = context.limits
        self._told: dict[str, int] = {}
        self.events: list[AnyEvent] = []
        self.texts: list[str] = []

    def add(self, *events: AnyEvent) -> None:
        """Add events that carry no message."""
        self.events += events

    def put(self, event: MessageQueued, text: str) -> None:
        """Add a message with its body, and count it against its recipients' room."""
        self.events.append(event)
        self.texts.append(text)
        for agent in event.recipients:
            self._told[agent] = self._told.get(agent, 0) + 1

    def tell(self, agent: Agent, text: str, kind: str, *, hops: int = 0) -> None:
        """Add a notice, if the recipient has room for it; other machines write their own."""
        if not agent.machine and self.has_room(agent, len(text.encode()), kind):
            self.put(*notice(agent, text, self._context, kind, hops=hops))

    def has_room(self, agent: Agent, size: int, kind: str) -> bool:
        """Whether a notice of that kind fits an inbox, behind what this post brings there already."""
        fits = agent.has_reserve if WEIGHTS[kind].lasts else agent.has_room
        return fits(size, self.limits, more=self._told.get(agent.id, 0))

    def tell_all(
        self, state: State, agents: list[str], text: str, kind: str, *, operator: bool = False
    ) -> None:
        """Add a notice to several agents, and to the operator."""
        person = state.find(OPERATOR) if operator else None
        told = agents if person is None or person.id in agents else [*agents, person.id]
        for agent_id in told:
            agent = state.agents.get(agent_id)
            if agent is not None:
                self.tell(agent, text, kind)
