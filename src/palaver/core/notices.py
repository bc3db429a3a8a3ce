"""The broker's own messages to an agent: durable history like any other (AUD-6)."""

from __future__ import annotations

from palaver.core.context import Context
from palaver.core.digests import digest_of
from palaver.core.room import has_room
from palaver.core.state import Agent, State
from palaver.protocol.addresses import OPERATOR, SYSTEM
from palaver.protocol.events import AnyEvent, MessageQueued

_HARMLESS = str.maketrans({"[": "(", "]": ")", '"': "'"})


def notice(agent: Agent, text: str, context: Context, *, re: str = "") -> tuple[MessageQueued, str]:
    """A notification for one agent, and its body."""
    event = MessageQueued(
        sender="",
        sender_name=SYSTEM,
        to=agent.name,
        recipients=[agent.id],
        size=len(text.encode()),
        digest=digest_of(agent.name, text),
        ttl_s=context.limits.ttl_s,
        kind="notification",
        re=re,
    )
    return event, text


def harmless(text: str) -> str:
    """An agent's short word on one line, so that it cannot end our own."""
    return " ".join(text.split()).translate(_HARMLESS)


def quoted(text: str, length_max: int) -> str:
    """The beginning of an agent's words, on one line, so marked that they cannot pass for ours."""
    line = " ".join(text[: 2 * length_max].split())
    cut = len(line) > length_max or len(text) > 2 * length_max
    return f'"{line[:length_max].translate(_HARMLESS)}{"…" if cut else ""}"'


class Post:
    """Facts that follow from one decision, and notices among them; a full inbox gets none."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.limits = context.limits
        self._told: dict[str, int] = {}
        self.events: list[AnyEvent] = []
        self.texts: list[str] = []

    def add(self, *events: AnyEvent) -> None:
        """Facts without a body."""
        self.events += events

    def put(self, event: MessageQueued, text: str) -> None:
        """A message and its body."""
        self.events.append(event)
        self.texts.append(text)
        for agent in event.recipients:
            self._told[agent] = self._told.get(agent, 0) + 1

    def tell(self, agent: Agent, text: str) -> None:
        """A notice, if there is room for it."""
        context = self._context
        if has_room(agent, len(text.encode()), context.limits, more=self._told.get(agent.id, 0)):
            self.put(*notice(agent, text, context))

    def tell_all(self, state: State, agents: list[str], text: str, *, operator: bool = False) -> None:
        """The same to several, and to the person who runs all this."""
        person = state.find(OPERATOR) if operator else None
        told = agents if person is None or person.id in agents else [*agents, person.id]
        for agent_id in told:
            agent = state.agents.get(agent_id)
            if agent is not None:
                self.tell(agent, text)
