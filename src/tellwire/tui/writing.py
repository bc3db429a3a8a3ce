"""Answering and writing: what the keys do that open the prompt for a text to an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tellwire.protocol.addresses import LINK, OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.tui import asking
from tellwire.tui.commands import Known, complete_address, matching
from tellwire.tui.desk import Desk
from tellwire.tui.prompt import Candidate
from tellwire.tui.stage import Question, Stage, always, chosen_need, require_message
from tellwire.views.attention import Need
from tellwire.views.talk import name_of

MANY = 50
"""Recipients above which a message is sent only after a second word."""


def answer(stage: Stage) -> None:
    """Answer the chosen need in words of one's own."""
    need = chosen_need(stage)
    if need is None or "answer" not in need.actions:
        found = next((each for each in stage.desk.needs if "answer" in each.actions), None)
        if found is None:
            raise TellwireError(
                "unknown_message", "No question waits for an answer.", "c writes to an agent."
            )
        need = found
    _ask_answer(stage, need)


def _ask_answer(stage: Stage, need: Need) -> None:
    choices = f" One of: {', '.join(need.choices)}." if need.choices else ""

    def complete(text: str) -> tuple[int, list[Candidate]]:
        return 0, matching(text, [Candidate(word) for word in need.choices])

    stage.ask(
        Question(
            f"answer {need.who} {need.id}: ",
            _once(stage, partial(asking.answer, stage.desk, need.id)),
            complete,
            hint=always(f"{need.who} {'asks' if need.kind == 'question' else 'wrote'}: {need.text}{choices}"),
        )
    )


def _once(stage: Stage, send: Callable[..., Awaitable[str]]) -> Callable[[str], Awaitable[str | None]]:
    """Send a text; the same text that is tried again goes out once."""
    keys: dict[str, str] = {}

    async def done(text: str) -> str | None:
        if not text.strip():
            return None
        key = keys.setdefault(text, stage.desk.wire.new_key())
        return await send(text, key=key)

    return done


async def choose(stage: Stage, number: int) -> None:
    """Answer the chosen need with one of its choices."""
    need = chosen_need(stage)
    if need is None or number > len(need.choices):
        return
    stage.tell(await asking.answer(stage.desk, need.id, need.choices[number - 1]))


async def yes(stage: Stage) -> None:
    """Answer yes, if that is offered."""
    need = chosen_need(stage)
    words = [] if need is None else [word for word in need.choices if word.casefold().startswith("y")]
    if need is None or len(words) != 1:
        raise TellwireError(
            "question_closed", "The chosen need does not offer yes.", "n chooses the next need."
        )
    stage.tell(await asking.answer(stage.desk, need.id, words[0]))


def say(stage: Stage) -> None:
    """Write to the marked agents, the chosen one, or whom the person names first."""
    desk = stage.desk
    to = desk.addressed()
    if stage.pane == "talk" and desk.talk is not None:
        to = _other_side(stage) or to
    if not to:
        stage.ask(_whom(stage))
        return
    stage.ask(_message(stage, to))


def _whom(stage: Stage) -> Question:
    async def named(text: str) -> str | None:
        if text.strip():
            stage.ask(_message(stage, text.strip()))
        return None

    known = stage.desk.known_words()
    return Question("to: ", named, partial(_addresses, known))


def _addresses(known: Known, text: str) -> tuple[int, list[Candidate]]:
    return 0, matching(text, known["address"])


def _other_side(stage: Stage) -> str:
    """Whom a message in the open conversation goes to."""
    talk, model = stage.desk.talk, stage.desk.model
    if talk is None:
        return ""
    kind, _, rest = talk.key.partition(":")
    if kind == "link":
        return f"{LINK}{rest}"
    if kind == "topic":
        return rest
    names = [model.agents[each].name for each in rest.split() if each in model.agents]
    return ",".join(name for name in names if name != OPERATOR)


def _message(stage: Stage, to: str, *, re: str | None = None) -> Question:
    desk = stage.desk
    known = desk.known_words()
    label = f"you {desk.signs.to} {to}{f', re {re}' if re else ''}: "
    names = to.split(",")

    async def send(text: str, *, key: str) -> str:
        if len(names) > MANY and not text.endswith("!"):
            raise TellwireError(
                "confirmation_needed", f"This goes to {len(names)} agents.", "End it with ! to send it."
            )
        return await asking.say(desk, to, text, re=re, key=key)

    return Question(
        label,
        _once(stage, send),
        partial(complete_address, known=known),
        hint=always(reach_words(desk, to)),
        kind="say",
    )


REACH = {
    "busy": "enters at its next tool call",
    "idle": "is woken",
    "waiting": "waits for its human; enters after that",
    "errored": "its last turn failed",
    "offline": "gets it on return",
    "online": "gets it when it asks",
}


def reach_words(desk: Desk, to: str) -> str:
    """Whom a message reaches, and how, before it is sent."""
    parts: list[str] = []
    for name in to.split(",")[:4]:
        state = desk.state_of(name)
        known = any(row.name == name for row in desk.model.agents.values())
        parts.append(f"{name} {state}: {REACH.get(state, '')}" if known else name)
    more = len(to.split(",")) - 4
    return "; ".join(parts) + (f" and {more} more" if more > 0 else "")


def reply(stage: Stage) -> None:
    """Reply to the chosen need or message."""
    need = chosen_need(stage) if stage.pane == "needs" else None
    if need is not None and "answer" in need.actions:
        _ask_answer(stage, need)
        return
    message_id = require_message(stage)
    message = stage.desk.model.messages.get(message_id)
    if message is None and stage.desk.talk is not None:
        found = stage.desk.talk.messages(stage.desk.model)
        message = next((each for each in found if each.id == message_id), None)
    if message is None:
        raise TellwireError("unknown_message", f"{message_id} is not open.", "Open its conversation first.")
    sender = name_of(stage.desk.model, message.sender) if message.sender else ""
    to = f"{LINK}{message.link}" if message.link else sender
    if not to or to == "you":
        to = ",".join(name_of(stage.desk.model, each) for each in message.states)
    stage.ask(_message(stage, to, re=message_id))
