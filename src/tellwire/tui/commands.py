"""The keys and the `:` commands, as tables: footer, help, palette, completion and the docs come from them.

Parsing and completing are here; what a command does is in `actions`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tellwire.children.programs import STARTABLE
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.suggestions import nearest
from tellwire.tui.paint import THEMES
from tellwire.tui.prompt import Candidate

CANDIDATES_MAX = 8


class Key(NamedTuple):
    """One thing that a key does."""

    action: str
    keys: tuple[str, ...]
    """As Textual names them."""
    shown: str
    """As people write them."""
    help: str
    short: str = ""
    """In the footer; empty: not shown there."""


KEYS = (
    Key("open", ("enter",), "Enter", "go to the agent's terminal, or open what is chosen", "go"),
    Key("answer", ("a",), "a", "answer the chosen need in your own words", "answer"),
    Key("say", ("c",), "c", "write to the chosen agent, the marked ones, or whom you name", "say"),
    Key("reply", ("r",), "r", "reply to the chosen message or need", "reply"),
    Key("why", ("w",), "w", "why a message has not been read, and what happens next", "why"),
    Key("next", ("n",), "n", "the next thing that needs you", "next"),
    Key("find", ("slash",), "/", "search what was said", "find"),
    Key("command", ("colon",), ":", "type a command", "command"),
    Key("help", ("question_mark",), "?", "show this list", "keys"),
    Key("inside", ("i",), "i", "look inside the agent: its session, its ways in, its files", "inside"),
    Key("start", ("s",), "s", "start an agent with a task", "start"),
    Key("link", ("l",), "l", "let the marked agents talk on a link", "link"),
    Key("mark", ("space",), "Space", "mark an agent, for c and l"),
    Key("mute", ("m",), "m", "leave the agent alone: it is not woken; again: let it be woken", "mute"),
    Key("mute_all", ("M",), "M", "nobody is woken for one hour; again: let all be woken"),
    Key("hide", ("x",), "x", "hide the need until something new happens to it"),
    Key("resume", ("u",), "u", "let a paused link go on"),
    Key("thread", ("t",), "t", "the thread of the chosen message"),
    Key("hour", ("T",), "T", "what the last hour cost: turns and messages of each agent"),
    Key("doctor", ("D",), "D", "is tellwire itself well?"),
    Key("offline", ("full_stop",), ".", "show agents that are offline, or hide them again"),
    Key("copy_id", ("Y",), "Y", "copy the text of the chosen message"),
    Key("agents", ("1",), "1", "agents (with a need chosen that offers choices, 1 to 9 answer it)"),
    Key("conversations", ("2",), "2", "conversations"),
    Key("inside_pane", ("3",), "3", "the inside of the chosen agent"),
    Key("tree", ("4",), "4", "children and files: who may write where"),
    Key("timeline", ("5",), "5", "what happened, newest last"),
    Key("yes", ("y",), "y", "answer yes to the chosen need, if it offers that"),
    Key("pane", ("tab",), "Tab", "the next list"),
    Key("pane_back", ("shift+tab",), "Shift-Tab", "the list before"),
    Key("back", ("escape",), "Esc", "back"),
    Key("palette", ("ctrl+p",), "Ctrl-P", "all keys and commands, by what they do"),
    Key("suspend", ("ctrl+z",), "Ctrl-Z", "to the shell; `fg` comes back"),
    Key("quit", ("q", "ctrl+c"), "q", "leave; agents and broker go on", "quit"),
)
MOVES = {
    "down": ("down", "j"),
    "up": ("up", "k"),
    "page_down": ("pagedown", "ctrl+f"),
    "page_up": ("pageup", "ctrl+b"),
    "first": ("home", "g"),
    "last": ("end", "G"),
}
BY_KEY = {key: row.action for row in KEYS for key in row.keys} | {
    key: action for action, keys in MOVES.items() for key in keys
}


class Command(NamedTuple):
    """One `:` command."""

    name: str
    usage: str
    help: str
    takes: tuple[str, ...] = ()
    """What its words are: `agent`, `link`, `address`, `client`, `policy`, `theme`, `time`, `id`, `path` or
    `text`; the last one may be repeated."""
    least: int = 0
    """Words that it needs."""


COMMANDS = {
    each.name: each
    for each in (
        Command(
            "peer", "NAME [OTHER]", "make the chosen agent, or the first, a peer of another", ("agent",), 1
        ),
        Command("unpeer", "NAME [OTHER]", "make them peers no longer", ("agent",), 1),
        Command("say", "TO TEXT", "send a message to an agent, #topic or link:ID", ("address", "text"), 2),
        Command("answer", "ID TEXT", "answer a message to you", ("id", "text"), 2),
        Command("link", "NAME NAME...", "open a conversation between agents", ("agent",), 2),
        Command("add", "LINK NAME", "add an agent to a link", ("link", "agent"), 2),
        Command("close", "LINK", "close a link", ("link",), 1),
        Command("resume", "LINK", "let a paused link go on", ("link",), 1),
        Command("mute", "[NAME] [TIME]", "do not wake an agent; 90s, 30min, 2h", ("agent", "time")),
        Command("unmute", "[NAME]", "let an agent be woken again", ("agent",)),
        Command("spawn", "NAME CLIENT TASK", "start an agent with a task", ("text", "client", "text"), 3),
        Command("stop", "NAME", "stop a child; asks first", ("agent",), 1),
        Command("go", "[NAME]", "go to an agent's terminal", ("agent",)),
        Command("inside", "[NAME]", "look inside an agent", ("agent",)),
        Command("why", "ID", "why a message has not been read", ("id",), 1),
        Command("thread", "ID", "what a message answers, and its answers", ("id",), 1),
        Command("owns", "PATH", "who may write to a path", ("path",), 1),
        Command("policy", "[open|peers]", "who sees whom in the chosen agent's project", ("policy",)),
        Command("search", "WORDS", "search what was said", ("text",), 1),
        Command("filter", "[WORDS]", "show only agents that match: a name, s:waiting, p:shop", ("text",)),
        Command("quiet", "TIME|off", "no notices for a while: 30min, 2h", ("time",), 1),
        Command("doctor", "", "is tellwire itself well?"),
        Command("theme", "NAME", "dark, light, contrast, or ansi: the terminal's own colours", ("theme",), 1),
        Command("save", "FILE", "write what is shown into a new file", ("path",), 1),
        Command("help", "", "keys and commands"),
        Command("q", "", "leave; agents and broker go on"),
    )
}
FIXED = {"client": tuple(STARTABLE), "policy": ("open", "peers"), "theme": tuple(THEMES)}

Known = Mapping[str, Iterable[Candidate]]
"""What words of each kind there are: `agent`, `link`, `address`, `id`."""


def parse(text: str) -> tuple[Command, list[str]]:
    """A command and its words; quotes keep words together, and the last `text` takes all that follows.

    Raises:
        TellwireError: `bad_request`: there is no such command, or words are missing.
    """
    name, _, rest = text.strip().removeprefix(":").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = nearest(name, COMMANDS)
        advice = f"Did you mean {' or '.join(f':{each}' for each in near)}?" if near else "? lists them."
        raise TellwireError("bad_request", f"There is no command :{name}.", advice)
    words = _split(rest, command.takes)
    if len(words) < command.least:
        raise TellwireError("bad_request", f"Words are missing: :{name} {command.usage}", command.help)
    return command, words


def _split(rest: str, takes: tuple[str, ...]) -> list[str]:
    """Words as a shell splits them; a `text` at the end is what was typed."""
    rest = rest.strip()
    if takes and takes[-1] == "text":
        words: list[str] = []
        for _ in takes[:-1]:
            word, _, rest = rest.partition(" ")
            rest = rest.strip()
            words += [word] if word else []
        return [*words, rest] if rest else words
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def complete_command(text: str, known: Known) -> tuple[int, list[Candidate]]:
    """What may stand for the last word of a command, and where that begins."""
    start = text.rfind(" ") + 1
    word = text[start:]
    name, space, _ = text.partition(" ")
    if not space:
        found = [Candidate(each.name, f"{each.usage}  {each.help}".strip()) for each in COMMANDS.values()]
        return start, matching(word, found)
    command = COMMANDS.get(name)
    if command is None or not command.takes:
        return start, []
    place = min(len(text[: max(start, 1)].split()) - 1, len(command.takes) - 1)
    kind = command.takes[place]
    if kind in FIXED:
        return start, matching(word, [Candidate(each) for each in FIXED[kind]])
    return start, matching(word, known.get(kind, ()))


def complete_address(text: str, known: Known) -> tuple[int, list[Candidate]]:
    """In a message: `@` begins a name, `#` a topic, `link:` a link."""
    start = max(text.rfind(" "), text.rfind("\n")) + 1
    word = text[start:]
    if word.startswith("@"):
        found = matching(word[1:], known.get("agent", ()))
        return start + 1, found
    if word.startswith(("#", "link:")):
        return start, matching(word, [each for each in known.get("address", ()) if each.text[:1] == word[:1]])
    return start, []


def matching(word: str, found: Iterable[Candidate]) -> list[Candidate]:
    """Those that begin with a word, else those most like it."""
    known = list(found)
    low = word.casefold()
    begins = [each for each in known if each.text.casefold().startswith(low)]
    if begins or not word:
        return begins[:CANDIDATES_MAX]
    by_text = {each.text: each for each in known}
    return [by_text[each] for each in nearest(word, by_text)]


def palette(text: str) -> list[Candidate]:
    """Keys and commands whose name or description has all of the words."""
    rows = [Candidate(row.shown, row.help) for row in KEYS]
    rows += [Candidate(f":{each.name}", f"{each.help} ({each.usage})") for each in COMMANDS.values()]
    words = text.casefold().split()
    return [row for row in rows if all(word in f"{row.text} {row.note}".casefold() for word in words)]


def seconds(text: str) -> float:
    """A time such as `90s`, `30min`, `2h` or `1d`.

    Raises:
        TellwireError: `bad_request`.
    """
    units = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    try:
        value = float(number) * units[unit or "s"]
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value <= 365 * 86_400:
        raise TellwireError("bad_request", f"{text!r} is no time.", "Use 90s, 30min, 2h or 1d.")
    return value
