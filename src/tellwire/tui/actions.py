"""What each key and each `:` command does: it asks the broker, opens a prompt, or changes what is shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from tellwire.children.programs import STARTABLE
from tellwire.protocol.addresses import LINK
from tellwire.protocol.errors import TellwireError
from tellwire.tui import asking
from tellwire.tui.commands import (
    BY_KEY,
    CANDIDATES_MAX,
    COMMANDS,
    KEYS,
    complete_command,
    matching,
    palette,
    parse,
)
from tellwire.tui.desk import Sheet
from tellwire.tui.paint import THEMES
from tellwire.tui.panes import help_lines
from tellwire.tui.prompt import Candidate
from tellwire.tui.stage import (
    MESSAGE_PANES,
    Question,
    Stage,
    always,
    chosen_message,
    chosen_need,
    require_message,
)
from tellwire.tui.writing import answer, choose, reply, say, yes
from tellwire.views.attention import hide
from tellwire.views.talk import name_of

HOUR_S = 3_600.0

Act = Callable[[Stage], "Coroutine[Any, Any, None] | None"]
"""What only opens or moves something is done at once: the next key is already on its way."""


# -- looking ------------------------------------------------------------------------------------------


async def open_item(stage: Stage) -> None:
    """Go to the agent's terminal, or open the conversation, the thread or the need."""
    desk, key = stage.desk, stage.chosen()
    if stage.pane == "conversations" and key:
        desk.open_talk(key)
        stage.select("talk")
    elif stage.pane in MESSAGE_PANES and chosen_message(stage):
        stage.show(await asking.thread(desk, chosen_message(stage)))
    elif stage.pane == "needs":
        await _open_need(stage)
    elif stage.pane == "tree" and key:
        await stage.go(name_of(desk.model, key.partition(" ")[0]))
    elif stage.pane == "agents" and desk.agent_name:
        await stage.go(desk.agent_name)


async def _open_need(stage: Stage) -> None:
    need = chosen_need(stage)
    if need is None:
        return
    if need.kind in ("question", "message"):
        stage.show(await asking.thread(stage.desk, need.id))
    elif need.kind == "paused":
        stage.desk.open_talk(f"{LINK}{need.id}")
        stage.select("talk")
    elif need.agent:
        await stage.go(name_of(stage.desk.model, need.agent))


async def why(stage: Stage) -> None:
    """Why the chosen message has not been read."""
    stage.show(await asking.why(stage.desk, require_message(stage)))


async def thread(stage: Stage) -> None:
    """The thread of the chosen message."""
    stage.show(await asking.thread(stage.desk, require_message(stage)))


async def inside(stage: Stage) -> None:
    """Look inside the agent that is chosen, in whatever list."""
    stage.show(await asking.inside(stage.desk, _agent(stage)))


def _agent(stage: Stage) -> str:
    need = chosen_need(stage) if stage.pane == "needs" else None
    row = stage.desk.model.agents.get(need.agent if need is not None else stage.desk.agent)
    return row.name if row is not None else stage.desk.named([])


async def hour(stage: Stage) -> None:
    """What the last hour cost."""
    stage.show(await asking.hour(stage.desk))


async def doctor(stage: Stage) -> None:
    """Is tellwire itself well?"""
    stage.tell("Looking ...")
    stage.show(await stage.checks())


def find(stage: Stage) -> None:
    """Search what was said."""

    async def done(text: str) -> str | None:
        if text.strip():
            stage.show(await asking.search(stage.desk, text.strip()))
        return None

    hint = 'All words must occur; "two words" is a phrase, wor* matches the start of a word.'
    stage.ask(Question("/", done, hint=always(hint), kind="find"))


def show_help(stage: Stage) -> None:
    """Keys and commands."""
    stage.show(Sheet("Keys and commands", help_lines))


def next_need(stage: Stage) -> None:
    """Choose the next need."""
    if stage.pane == "needs":
        stage.move("down_or_first")
    else:
        stage.select("needs")


# -- doing --------------------------------------------------------------------------------------------


def start(stage: Stage) -> None:
    """Start an agent with a task: name, client and task in one line."""
    known = {"client": [Candidate(each) for each in STARTABLE]}

    def complete(text: str) -> tuple[int, list[Candidate]]:
        begin = text.rfind(" ") + 1
        return begin, matching(text[begin:], known["client"]) if text.count(" ") == 1 else []

    async def done(text: str) -> str | None:
        if not text.strip():
            return None
        _, words = parse(f"spawn {text}")
        return await asking.spawn(stage.desk, *words)

    clients = ", ".join(each for each in STARTABLE if each != "command")
    hint = f"NAME CLIENT TASK, for example: tester {next(iter(STARTABLE))} Run the tests. Clients: {clients}."
    stage.ask(Question("start: ", done, complete, hint=always(hint), kind="start"))


def mark(stage: Stage) -> None:
    """Mark the chosen agent, or no longer."""
    marked, agent = stage.desk.marked, stage.desk.agent
    if stage.pane != "agents" or not agent:
        return
    if agent in marked:
        marked.remove(agent)
    else:
        marked.append(agent)
    stage.move("down")
    stage.paint()


async def link(stage: Stage) -> None:
    """Let the marked agents talk on a link."""
    desk = stage.desk
    names = [desk.model.agents[each].name for each in desk.marked if each in desk.model.agents]
    if len(names) < 2:
        raise TellwireError("bad_request", "Mark two agents or more first.", "Space marks the chosen agent.")
    stage.tell(await asking.open_link(desk, names))
    desk.marked.clear()
    stage.paint()


async def mute(stage: Stage) -> None:
    """Leave the agent alone; the second time, let it be woken."""
    name = _agent(stage)
    row = next(row for row in stage.desk.model.agents.values() if row.name == name)
    over = bool(row.muted_until) and row.muted_until <= stage.desk.now
    stage.tell(await asking.mute(stage.desk, name, off=row.muted and not over))


async def mute_all(stage: Stage) -> None:
    """Nobody is woken for an hour."""
    stage.tell(await asking.mute_all(stage.desk, for_s=HOUR_S))


def hide_need(stage: Stage) -> None:
    """Hide the chosen need."""
    if (need := chosen_need(stage)) is not None:
        stage.desk.hidden = hide(stage.desk.hidden, need)
        stage.paint()


async def resume(stage: Stage) -> None:
    """Let the paused link go on that is chosen."""
    need = chosen_need(stage)
    if need is None or need.kind != "paused":
        need = next((each for each in stage.desk.needs if each.kind == "paused"), None)
    if need is None:
        raise TellwireError("unknown_link", "No link is paused.", "")
    stage.tell(await asking.resume_link(stage.desk, need.id))


def offline(stage: Stage) -> None:
    """Show agents that are offline, or hide them."""
    stage.desk.offline = not stage.desk.offline
    stage.paint()


def copy_text(stage: Stage) -> None:
    """Copy the text of the chosen message."""
    message_id = require_message(stage)
    found = [] if stage.desk.talk is None else stage.desk.talk.messages(stage.desk.model)
    texts = [each.text for each in [*found, *stage.desk.model.messages.values()] if each.id == message_id]
    stage.copy(texts[0] if texts else message_id)
    stage.tell(f"copied {message_id}" if texts else f"copied the id {message_id}")


def command(stage: Stage, text: str = "") -> None:
    """Type a command."""
    known = stage.desk.known_words()

    async def done(typed: str) -> str | None:
        if typed.strip():
            await run_command(stage, typed)
        return None

    def hint(typed: str) -> str:
        row = COMMANDS.get(typed.strip().partition(" ")[0])
        return (
            f":{row.name} {row.usage}  {row.help}"
            if row is not None
            else "Tab completes; ? lists all commands."
        )

    stage.ask(Question(":", done, partial(complete_command, known=known), text, hint, "command"))


def open_palette(stage: Stage) -> None:
    """Find a key or command by what it does."""

    def complete(text: str) -> tuple[int, list[Candidate]]:
        return 0, palette(text)[:CANDIDATES_MAX]

    async def done(text: str) -> str | None:
        found = [row for row in palette(text) if row.text == text.strip()] or palette(text)
        if not found or not text.strip():
            return None
        word = found[0].text
        if word.startswith(":") and len(word) > 1:
            command(stage, f"{word[1:]} ")
        else:
            action = next(row.action for row in KEYS if row.shown == word)
            job = run(stage, action)
            if job is not None:
                await job
        return None

    stage.ask(Question("do: ", done, complete, hint=always("What do you want to do?"), kind="do"))


# -- tables -------------------------------------------------------------------------------------------


def _select(pane: str) -> Act:
    def act(stage: Stage) -> None:
        stage.select(pane)

    return act


def _call(name: str, **options: bool) -> Act:
    def act(stage: Stage) -> None:
        getattr(stage, name)(**options)

    return act


ACTIONS: dict[str, Act] = {
    "open": open_item,
    "answer": answer,
    "say": say,
    "reply": reply,
    "why": why,
    "next": next_need,
    "find": find,
    "command": command,
    "help": show_help,
    "inside": inside,
    "start": start,
    "link": link,
    "mark": mark,
    "mute": mute,
    "mute_all": mute_all,
    "hide": hide_need,
    "resume": resume,
    "thread": thread,
    "hour": hour,
    "doctor": doctor,
    "offline": offline,
    "copy_id": copy_text,
    "agents": _select("agents"),
    "conversations": _select("conversations"),
    "inside_pane": inside,
    "tree": _select("tree"),
    "timeline": _select("timeline"),
    "yes": yes,
    "pane": _select("next"),
    "pane_back": _select("previous"),
    "back": _call("back"),
    "palette": open_palette,
    "suspend": _call("leave", for_a_while=True),
    "quit": _call("leave"),
}


def press(stage: Stage, key: str, character: str | None) -> Coroutine[Any, Any, None] | None:
    """A key outside of the prompt; what is left to do, if anything is."""
    if stage.pane == "needs" and key.isdigit() and key != "0":
        need = chosen_need(stage)
        if need is not None and need.choices:
            return choose(stage, int(key))
    action = BY_KEY.get(key) or BY_KEY.get(character or "")
    return run(stage, action) if action else None


def run(stage: Stage, action: str) -> Coroutine[Any, Any, None] | None:
    """Carry an action out, or a move."""
    if action in ACTIONS:
        return ACTIONS[action](stage)
    stage.move(action)
    return None


async def run_command(stage: Stage, text: str) -> None:
    """Carry a `:` command out.

    Raises:
        TellwireError: there is none of that name, or it is refused.
    """
    row, words = parse(text)
    told = await _RUNS[row.name](stage, words)
    if told:
        stage.tell(told)


async def _stop(stage: Stage, words: list[str]) -> None:
    name = stage.desk.known(words[0])

    async def done(text: str) -> str | None:
        return await asking.stop(stage.desk, name) if text.strip().casefold() in ("y", "yes") else None

    stage.ask(
        Question(
            f"stop {name}? y/n: ",
            done,
            hint=always("It is asked to end, and killed after five seconds."),
        )
    )


async def _theme(stage: Stage, words: list[str]) -> str:
    if words[0] not in THEMES:
        raise TellwireError("bad_request", f"There is no theme {words[0]!r}.", f"Use {', '.join(THEMES)}.")
    stage.look_like(words[0])
    return f"theme {words[0]}"


async def _save(stage: Stage, words: list[str]) -> str:
    path, text = words[0], stage.shown_text()

    def write() -> None:
        with open(os.path.expanduser(path), "x", encoding="utf-8") as file:
            file.write(text + "\n")

    try:
        await asyncio.to_thread(write)
    except FileExistsError:
        raise TellwireError("conflict", f"{path} exists already.", "Choose another name.") from None
    except OSError as error:
        raise TellwireError("bad_request", f"Cannot write {path}: {error.strerror}.", "") from None
    return f"saved in {path}"


async def _filter(stage: Stage, words: list[str]) -> None:
    stage.desk.filter = " ".join(words)
    stage.select("agents")


async def _sheet(stage: Stage, sheet: Awaitable[Sheet]) -> None:
    stage.show(await sheet)


async def _help(stage: Stage, _words: list[str]) -> None:
    show_help(stage)


async def _quit(stage: Stage, _words: list[str]) -> None:
    stage.leave()


async def _mute(stage: Stage, words: list[str]) -> str:
    name, for_s = asking.muting(stage.desk, words)
    return await asking.mute(stage.desk, name, for_s)


_RUNS: dict[str, Callable[[Stage, list[str]], Awaitable[str | None]]] = {
    "peer": lambda stage, words: asking.peer(stage.desk, words),
    "unpeer": lambda stage, words: asking.peer(stage.desk, words, off=True),
    "say": lambda stage, words: asking.say(stage.desk, words[0], words[1]),
    "answer": lambda stage, words: asking.answer(stage.desk, words[0], words[1]),
    "link": lambda stage, words: asking.open_link(stage.desk, words),
    "add": lambda stage, words: asking.add_member(stage.desk, words[0], words[1]),
    "close": lambda stage, words: asking.close_link(stage.desk, words[0]),
    "resume": lambda stage, words: asking.resume_link(stage.desk, words[0]),
    "mute": _mute,
    "unmute": lambda stage, words: asking.mute(stage.desk, stage.desk.named(words), off=True),
    "spawn": lambda stage, words: asking.spawn(stage.desk, words[0], words[1], words[2]),
    "stop": _stop,
    "go": lambda stage, words: stage.go(stage.desk.named(words)),
    "inside": lambda stage, words: _sheet(stage, asking.inside(stage.desk, stage.desk.named(words))),
    "why": lambda stage, words: _sheet(stage, asking.why(stage.desk, words[0])),
    "thread": lambda stage, words: _sheet(stage, asking.thread(stage.desk, words[0])),
    "owns": lambda stage, words: asking.owns(stage.desk, words[0]),
    "policy": lambda stage, words: asking.policy(stage.desk, words),
    "search": lambda stage, words: _sheet(stage, asking.search(stage.desk, words[0])),
    "filter": _filter,
    "quiet": lambda stage, words: asking.quiet(stage.desk, words[0]),
    "doctor": lambda stage, _words: doctor(stage),
    "theme": _theme,
    "save": _save,
    "help": _help,
    "q": _quit,
}
