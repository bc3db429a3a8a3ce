"""What an action knows of the screen: what is chosen, and what can be shown, asked and told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from tellwire.protocol.errors import TellwireError
from tellwire.tui.desk import Desk, Sheet
from tellwire.tui.prompt import Complete, no_candidates
from tellwire.views.attention import Need
from tellwire.views.talk import key_of

MESSAGE_PANES = ("talk", "sheet")


def always(words: str) -> Callable[[str], str]:
    """The same, whatever is typed."""

    def hint(_text: str) -> str:
        return words

    return hint


class Question(NamedTuple):
    """Something that is asked for in the prompt."""

    label: str
    done: Callable[[str], Awaitable[str | None]]
    """Takes the text; returns the line that tells of success."""
    complete: Complete = no_candidates
    text: str = ""
    hint: Callable[[str], str] = always("")
    """What to say above the prompt while a text is typed."""
    kind: str = ""
    """Questions of one kind share a history; a draft is kept for each label."""


class Stage(Protocol):
    """The screen, as far as actions need it."""

    desk: Desk

    @property
    def pane(self) -> str:
        """The current list."""
        ...

    def chosen(self, pane: str = "") -> str:
        """The key of the chosen item of a list; of the current one if none is named."""
        ...

    def select(self, pane: str) -> None:
        """Make a list the current one."""
        ...

    def show(self, sheet: Sheet) -> None:
        """Show something on top."""
        ...

    def ask(self, question: Question) -> None:
        """Open the prompt."""
        ...

    def tell(self, text: str) -> None:
        """Say that something worked."""
        ...

    def paint(self) -> None:
        """Paint everything anew."""
        ...

    def go(self, name: str) -> Awaitable[None]:
        """Go to an agent's terminal, and come back."""
        ...

    def checks(self) -> Awaitable[Sheet]:
        """What `tellwire doctor` says."""
        ...

    def back(self) -> None:
        """Close what is on top."""
        ...

    def move(self, action: str) -> None:
        """Move in the current list."""
        ...

    def look_like(self, theme: str, /) -> None:
        """Change the theme."""
        ...

    def copy(self, text: str) -> None:
        """Put a text into the terminal's clipboard."""
        ...

    def shown_text(self) -> str:
        """What the current list shows, as text."""
        ...

    def leave(self, *, for_a_while: bool = False) -> None:
        """End, or go to the background."""
        ...


# -- what is chosen -----------------------------------------------------------------------------------


def chosen_need(stage: Stage) -> Need | None:
    """The need that a person looks at: the chosen one, if any."""
    key = stage.chosen("needs")
    return next((need for need in stage.desk.needs if need.key == key), None)


def chosen_message(stage: Stage) -> str:
    """The id of the chosen message: in a conversation or a sheet, or of a need or agent."""
    key = stage.chosen()
    if stage.pane in MESSAGE_PANES:
        return key if key[:1] == "m" and key.isalnum() else ""
    if stage.pane == "needs":
        need = chosen_need(stage)
        return (
            ""
            if need is None
            else need.id
            if need.kind in ("question", "message")
            else _last_open(stage, need.agent)
        )
    if stage.pane == "conversations":
        found = [each for each in stage.desk.model.messages.values() if key_of(each) == key]
        return found[-1].id if found else ""
    return _last_open(stage, stage.desk.agent)


def _last_open(stage: Stage, agent: str) -> str:
    """The oldest message that an agent has not read, as far as one is held; else the last one to it."""
    held = [each for each in stage.desk.model.messages.values() if agent in each.states]
    waiting = [each.id for each in held if each.states[agent] in ("pending", "delivered")]
    return waiting[0] if waiting else held[-1].id if held else ""


def require_message(stage: Stage) -> str:
    """The same.

    Raises:
        TellwireError: none is chosen.
    """
    if message := chosen_message(stage):
        return message
    raise TellwireError(
        "unknown_message", "No message is chosen.", "Choose one in a conversation, or use :why ID."
    )
