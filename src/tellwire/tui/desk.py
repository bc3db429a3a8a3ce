"""What a console has on its desk: the picture, what is chosen, marked and hidden, the open conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from tellwire.protocol.addresses import LINK, OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.feed import FeedEvent
from tellwire.protocol.operations.history import Conversation as StoredConversation
from tellwire.protocol.operations.history import HistoryRecord, ListConversations, ReadHistory
from tellwire.protocol.operations.links import LinkHistory
from tellwire.protocol.suggestions import nearest
from tellwire.tui.bridge import Wire
from tellwire.tui.paint import Line
from tellwire.tui.prompt import Candidate
from tellwire.views.agents import AgentLine, agent_rows, state_word
from tellwire.views.attention import Need, attention, still_hidden
from tellwire.views.bounds import CONVERSATIONS_MAX
from tellwire.views.model import Message, Model
from tellwire.views.signs import Signs
from tellwire.views.talk import YOU, Conversation, conversations, key_of, messages_of
from tellwire.views.words import clean

HISTORY = 50
"""Messages that an open conversation begins with."""


class Sheet(NamedTuple):
    """Something that was asked for, shown until Esc."""

    title: str
    make: Callable[[int], list[Line]]
    """Its lines for a width."""
    again: str = ""
    """Which command shows it anew, such as `inside bob`."""


class Talk:
    """One conversation: what was said before, as the broker tells it, and what is said now."""

    def __init__(self, key: str, seen: float) -> None:
        self.key = key
        self.seen = seen
        """When it was last looked at, before now; 0 for never."""
        self.stale = True
        self._loaded: dict[str, Message] = {}

    async def load(self, wire: Wire, model: Model) -> None:
        """Ask for what was said, with receipts as of now."""
        self.stale = False
        records = (await wire.call(self._question(model))).messages
        found = [_as_message(model, record) for record in records]
        self._loaded = {each.id: each for each in reversed(found) if key_of(each) == self.key}

    def _question(self, model: Model) -> ReadHistory | LinkHistory:
        if self.key.startswith(LINK):
            return LinkHistory(link=self.key.removeprefix(LINK), limit=HISTORY)
        names = [model.agents[each].name for each in self._agents() if each in model.agents]
        if not names or self.key.startswith("topic:"):
            return ReadHistory(limit=HISTORY)
        return ReadHistory(agent=names[0], peer=names[1] if len(names) > 1 else None, limit=HISTORY)

    def _agents(self) -> list[str]:
        return self.key.partition(":")[2].split()

    def messages(self, model: Model) -> list[Message]:
        """All that is known of it, oldest first, with live receipts."""
        live = {each.id: each for each in messages_of(model, self.key)}
        merged = {**self._loaded}
        for message_id, message in live.items():
            whole = merged.get(message_id)
            if whole is None:
                merged[message_id] = message
            else:
                whole.states, whole.evidence = message.states, message.evidence
        return sorted(merged.values(), key=lambda each: (len(each.id), each.id))

    def concerns(self, event: FeedEvent, model: Model) -> bool:
        """Whether an event may have changed what the broker tells of it."""
        if any(each in self._loaded for each in event.ids):
            return True
        new = event.ids if event.type == "message_queued" else []
        return any(key_of(model.messages[each]) == self.key for each in new if each in model.messages)


def _as_message(model: Model, record: HistoryRecord) -> Message:
    ids = {row.name: agent for agent, row in model.agents.items()}
    link = record.to.removeprefix(LINK).partition("/")[0] if record.to.startswith(LINK) else ""
    return Message(
        id=record.id,
        sender=ids.get(record.sender, ""),
        who=record.sender,
        to=record.to,
        at=record.sent_at,
        text=record.body if isinstance(record.body, str) else msgspec.json.encode(record.body).decode(),
        re=record.re or "",
        link=link,
        states={ids.get(each.name, each.name): each.state for each in record.recipients},
        evidence={
            ids.get(each.name, each.name): each.evidence for each in record.recipients if each.evidence
        },
    )


def _as_row(told: StoredConversation) -> Conversation:
    names = [YOU if name == OPERATOR else clean(name) for name in told.agents]
    names.sort(key=lambda name: name != YOU)
    title = {
        "link": f"{told.key} {', '.join(names)}",
        "topic": clean(told.key.removeprefix("topic:")),
        "several": f"{clean(told.sender)} → several",
    }.get(told.kind, " ⇄ ".join(names) if len(names) > 1 else f"{clean(told.sender)} → {''.join(names)}")
    return Conversation(
        key=told.key,
        kind=told.kind,
        title=title,
        at=told.at,
        messages=told.messages,
        unread=told.unread,
        last=clean(told.text),
        agents=tuple(told.agent_ids),
    )


class Desk:
    """The state of one console. Painting and doing are elsewhere."""

    def __init__(self, wire: Wire, model: Model, *, clock: Callable[[], float], signs: Signs) -> None:
        self.wire = wire
        self.clock = clock
        self.signs = signs
        self.model = model
        self.hidden: dict[str, str] = {}
        self.marked: list[str] = []
        """Ids of agents."""
        self.offline = False
        self.filter = ""
        self.agent = ""
        """The id of the chosen agent."""
        self.talk: Talk | None = None
        self.sheets: list[Sheet] = []
        self.needs: list[Need] = []
        self.ready = False
        """The first overview has come."""
        self._visits: dict[str, float] = {}
        self._told: dict[str, Conversation] = {}
        """Conversations as the broker told of them last."""

    @property
    def now(self) -> float:
        return self.clock()

    def look(self) -> None:
        """Find what needs the person now."""
        self.hidden = still_hidden(self.hidden, self.model, self.now)
        self.needs = attention(self.model, self.now, hidden=self.hidden)

    def open_talk(self, key: str) -> Talk:
        """Open a conversation."""
        self.talk = Talk(key, self._visits.get(key, 0.0))
        self._visits[key] = self.now
        return self.talk

    # -- conversations --------------------------------------------------------------------------------

    async def load_conversations(self) -> None:
        """Ask who talked with whom, also before this console was opened."""
        told = await self.wire.call(ListConversations(limit=CONVERSATIONS_MAX))
        self._told = {each.key: _as_row(each) for each in told.conversations}

    def conversations(self) -> list[Conversation]:
        """Who talks with whom, by the last word: what the broker told, and what came since."""
        rows = dict(self._told)
        for live in conversations(self.model):
            told = rows.get(live.key)
            if told is None:
                rows[live.key] = live
            elif live.at >= told.at:
                rows[live.key] = told._replace(at=live.at, last=live.last, title=live.title)
        return sorted(rows.values(), key=lambda row: -row.at)[:CONVERSATIONS_MAX]

    # -- agents ---------------------------------------------------------------------------------------

    def rows(self) -> list[AgentLine]:
        """The agents that are shown, in their fixed order."""
        rows = agent_rows(self.model, self.now, offline=self.offline)
        words = self.filter.casefold().split()
        return [row for row in rows if all(_matches(row, word) for word in words)] if words else rows

    @property
    def agent_name(self) -> str:
        """The chosen agent's name; empty if none is."""
        row = self.model.agents.get(self.agent)
        return "" if row is None else row.name

    def named(self, words: list[str], at: int = 0) -> str:
        """The agent that a command names, or the chosen one.

        Raises:
            TellwireError: `unknown_agent`: there is none.
        """
        if at < len(words):
            return self.known(words[at])
        if self.agent_name:
            return self.agent_name
        raise TellwireError("unknown_agent", "No agent is chosen.", "Choose one, or name it.")

    def known(self, name: str) -> str:
        """The name of an agent as it is spelt.

        Raises:
            TellwireError: `unknown_agent`, with the nearest names.
        """
        names = {row.name.casefold(): row.name for row in self.model.agents.values()}
        if name.casefold() in names:
            return names[name.casefold()]
        near = nearest(name, names.values())
        advice = f"Did you mean {' or '.join(near)}?" if near else "The list of agents has the names."
        raise TellwireError("unknown_agent", f"There is no agent {name!r}.", advice)

    def state_of(self, name: str) -> str:
        """What an agent does, by its name."""
        agent = next((key for key, row in self.model.agents.items() if row.name == name), "")
        return state_word(self.model, agent)

    def addressed(self) -> str:
        """Whom a new message would go to: the marked agents, or the chosen one."""
        names = [self.model.agents[each].name for each in self.marked if each in self.model.agents]
        return ",".join(names) or self.agent_name

    # -- words to complete ----------------------------------------------------------------------------

    def known_words(self) -> dict[str, list[Candidate]]:
        """Names, links, topics and ids that a person may want to type."""
        agents = list(self._agents())
        links = [
            Candidate(link, ", ".join(self._names(row.members))) for link, row in self.model.links.items()
        ]
        topics = [Candidate(topic, f"{len(who)} subscribed") for topic, who in self.model.topics.items()]
        return {
            "agent": agents,
            "link": links,
            "address": [*agents, *topics, *(Candidate(f"{LINK}{each.text}", each.note) for each in links)],
            "id": [Candidate(need.id, need.who) for need in self.needs if need.id],
        }

    def _agents(self) -> Iterator[Candidate]:
        for key, row in self.model.agents.items():
            if row.name != OPERATOR:
                yield Candidate(row.name, state_word(self.model, key))

    def _names(self, agents: list[str]) -> list[str]:
        return [self.model.agents[each].name for each in agents if each in self.model.agents]


def _matches(row: AgentLine, word: str) -> bool:
    kind, _, rest = word.partition(":")
    if rest and kind in ("s", "p", "a"):
        return {"s": row.state, "p": row.project, "a": row.name}[kind].casefold().startswith(rest)
    return word in row.name.casefold() or word in row.project.casefold()
