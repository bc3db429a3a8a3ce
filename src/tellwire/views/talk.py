"""Conversations out of the messages that a console has seen, and receipts in words.

A conversation is two agents, a link, a topic, or one agent that wrote to several at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tellwire.protocol.addresses import LINK, OPERATOR, PAIR, conversation_of
from tellwire.views.bounds import CONVERSATIONS_MAX
from tellwire.views.model import Message, Model
from tellwire.views.signs import UNICODE, Signs, fit, short_age
from tellwire.views.words import clean, pad, width_of

YOU = "you"
ORDER = ("denied", "expired", "pending", "delivered", "read", "answered")
"""How far a message got, the least first."""
TITLE_WIDTH_MAX = 32


class Conversation(NamedTuple):
    """Who talks with whom, how much, and what was said last."""

    key: str
    """`pair:a1 a2`, `link:l4`, `topic:#builds` or `several:a1`."""
    kind: str
    """`pair`, `link`, `topic` or `several`."""
    title: str
    at: float
    """When the last thing was said."""
    messages: int
    unread: int
    """Messages that not every recipient has read."""
    last: str
    """The beginning of the last message."""
    agents: tuple[str, ...]
    """The ids of those who take part."""


def conversations(model: Model) -> list[Conversation]:
    """What was said while the console was open, by the last word, newest first; a bounded number."""
    found: dict[str, list[Message]] = {}
    for message in model.messages.values():
        found.setdefault(key_of(message), []).append(message)
    rows = [_conversation(model, key, said) for key, said in found.items()]
    rows.sort(key=lambda row: -row.at)
    return rows[:CONVERSATIONS_MAX]


def key_of(message: Message) -> str:
    """The conversation that a message belongs to."""
    to = f"{LINK}{message.link}" if message.link else message.to
    return conversation_of(message.sender, message.states, to)


def messages_of(model: Model, key: str) -> list[Message]:
    """The messages of a conversation that are held, oldest first."""
    return [message for message in model.messages.values() if key_of(message) == key]


def thread_of(model: Model, message_id: str) -> list[tuple[int, Message]]:
    """The thread of a message as far as it is held: each with how deep its answer lies, oldest first."""
    root, seen = message_id, {message_id}
    while (message := model.messages.get(root)) is not None and message.re and message.re not in seen:
        if message.re not in model.messages:
            break
        root = message.re
        seen.add(root)
    depths = {root: 0}
    found: list[tuple[int, Message]] = []
    for message in model.messages.values():
        if message.id == root:
            found.append((0, message))
        elif message.re in depths:
            depths[message.id] = depths[message.re] + 1
            found.append((depths[message.id], message))
    return found


def _conversation(model: Model, key: str, said: list[Message]) -> Conversation:
    last = said[-1]
    kind = key.split(":", 1)[0]
    agents = tuple(sorted({each for message in said for each in (message.sender, *message.states)} - {""}))
    return Conversation(
        key,
        kind,
        _title(model, key, kind, last),
        last.at,
        len(said),
        sum(1 for message in said if receipt_word(message.states.values()) in ("pending", "delivered")),
        clean(last.text),
        agents,
    )


def _title(model: Model, key: str, kind: str, last: Message) -> str:
    if kind == "link":
        row = model.links.get(key.removeprefix(LINK))
        members = [] if row is None else [name_of(model, agent) for agent in row.members]
        return f"{key} {', '.join(members)}".rstrip()
    if kind == "topic":
        return clean(last.to)
    if kind == "several":
        return f"{name_of(model, last.sender) or clean(last.who)} → several"
    names = [name_of(model, agent) or clean(last.who) for agent in key.removeprefix(PAIR).split()]
    if len(names) == 1:
        return f"{clean(last.who)} → {names[0]}"
    return " ⇄ ".join(sorted(names, key=lambda name: name != YOU))


def name_of(model: Model, agent: str) -> str:
    """An agent's name; `you` for the person; its id if it is forgotten."""
    row = model.agents.get(agent)
    if row is None:
        return agent
    return YOU if row.name == OPERATOR else clean(row.name)


# -- receipts -----------------------------------------------------------------------------------------


def receipt_word(states: Iterable[str]) -> str:
    """How far a message got with all its recipients: with the one that has it the least."""
    known = set(states)
    return next((word for word in ORDER if word in known), "")


def receipt_text(message: Message, *, signs: Signs = UNICODE) -> str:
    """Sign and word, with the evidence: `✓✓ read (transcript)`; to several `✓✓ read 3 of 5`."""
    states = list(message.states.values())
    if not states:
        return ""
    if len(states) == 1:
        evidence = next(iter(message.evidence.values()), "")
        note = f" ({clean(evidence)})" if evidence and states[0] in ("read", "answered") else ""
        return f"{signs.receipts[states[0]]} {states[0]}{note}"
    counts = Counter("read" if word == "answered" else word for word in states)  # who answered has read
    best = next(word for word in reversed(ORDER) if counts[word])
    return f"{signs.receipts[best]} {best} {counts[best]} of {len(states)}"


# -- lines --------------------------------------------------------------------------------------------


def conversation_line(row: Conversation, now: float, *, width: int, signs: Signs = UNICODE) -> str:
    """One conversation: title, messages that are not read, age, and the last words."""
    age = pad(short_age(row.at, now), 4, right=True)
    unread = pad(f"{row.unread}" if row.unread else "", 3, right=True)
    title_width = max(8, min(TITLE_WIDTH_MAX, width - 10))
    title = row.title.replace("⇄", signs.both).replace("→", signs.to)
    head = f"{pad(fit(title, title_width, signs), title_width)} {unread} {age}"
    room = width - width_of(head) - 2
    return f"{head}  {fit(row.last, room, signs)}" if room >= 12 else fit(head, width, signs)


def message_head(model: Model, message: Message, clock: str, *, width: int, signs: Signs = UNICODE) -> str:
    """Who to whom with the receipt; `clock` is when, as the painter's zone has it."""
    sender = name_of(model, message.sender) if message.sender else clean(message.who)
    to = [name_of(model, agent) for agent in message.states]
    whom = to[0] if len(to) == 1 and not message.link and message.to[:1] != "#" else clean(message.to)
    line = f"{clock} {sender} {signs.to} {whom}  {receipt_text(message, signs=signs)}"
    room = width - width_of(message.id) - 1
    return f"{pad(fit(line, room, signs), room)} {message.id}"
