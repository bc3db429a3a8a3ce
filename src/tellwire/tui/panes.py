"""The content of each list: its title, its lines, and what it says when there is nothing. Only painting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tellwire.clients import CLIENTS
from tellwire.protocol.operations.feed import FeedEvent
from tellwire.tui.commands import COMMANDS, KEYS
from tellwire.tui.desk import Desk
from tellwire.tui.lists import LazyLines
from tellwire.tui.paint import Line, Span, line
from tellwire.views.agents import NAME_WIDTH_MAX, AgentLine, agent_line, header_line
from tellwire.views.attention import ACTIONS, Need, need_line
from tellwire.views.model import Message
from tellwire.views.signs import ASCII, Signs, ascii_line
from tellwire.views.talk import conversation_line, message_head, receipt_text, receipt_word
from tellwire.views.timeline import QUIET, event_line
from tellwire.views.tree import tree_line, tree_rows
from tellwire.views.words import clean_lines, cut, pad, width_of, wrap

STATE_ROLES = {"busy": "busy", "waiting": "waiting", "errored": "errored", "idle": "idle", "offline": "dim"}
RECEIPT_ROLES = {"read": "good", "answered": "good", "expired": "bad", "denied": "bad", "delivered": "need"}
ACTION_KEYS = {
    "answer": "a",
    "read": "Enter",
    "go": "Enter",
    "why": "w",
    "inside": "i",
    "unmute": "m",
    "resume": "u",
    "scopes": "4",
    "doctor": "D",
    "hide": "x",
}
NO_AGENTS = [
    "No agent is here yet. To start two:",
    "",
    f"  tellwire run {CLIENTS[0].program} {CLIENTS[1].program}    in another terminal, in your project",
    "  then tell one of them to ask the other something",
    "",
    "or press s to start one from here, with a task.",
]
NOTHING = ["Nothing needs you."]
BODY_LINES_MAX = 400
"""Lines of one message that are shown; the rest is counted."""


class Content(NamedTuple):
    """What a list shows."""

    title: tuple[Span, ...]
    lines: Sequence[Line]
    empty: list[str]


def fitted(text: str, signs: Signs) -> str:
    """A finished line; on terminals that know only ASCII, without anything else."""
    return ascii_line(text) if signs is ASCII else text


# -- agents -------------------------------------------------------------------------------------------


def agents_content(desk: Desk, width: int) -> Content:
    """Agents by project, in their fixed order."""
    rows = desk.rows()
    entries: list[AgentLine | str] = []
    group = None
    for row in rows:
        if row.group != group:
            group = row.group
            entries.append(row.project)
        entries.append(row)
    longest = max((width_of(row.name) + 2 * row.depth for row in rows), default=0)
    name_width = max(6, min(NAME_WIDTH_MAX, longest, width - 20))

    def make(index: int) -> Line:
        entry = entries[index]
        if isinstance(entry, str):
            return line("", Span(fitted(cut(entry, width), desk.signs), "title"))
        return _agent(desk, entry, width=width, name_width=name_width)

    count = f" {len(rows)}" if rows else ""
    shown = f" matching {desk.filter}" if desk.filter else ""
    title = (Span(f"1 Agents{count}{shown}"),)
    if not desk.ready:
        return Content(title, (), ["Waiting for the broker ..."])
    if desk.filter and not rows:
        return Content(title, (), [f"No agent matches {desk.filter}. :filter shows all again."])
    return Content(title, LazyLines(len(entries), make), NO_AGENTS)


def _agent(desk: Desk, row: AgentLine, *, width: int, name_width: int) -> Line:
    text = fitted(
        agent_line(row, desk.now, width=width - 1, signs=desk.signs, name_width=name_width), desk.signs
    )
    role = STATE_ROLES.get(row.state, "")
    marked = Span("+", "mark") if row.id in desk.marked else Span(" ")
    head, rest = text[1:3], text[3:]
    name, rest = rest[:name_width], rest[name_width:]
    before, state, after = rest.partition(row.state)
    return line(
        row.id, marked, Span(head, role), Span(name, "name"), before, Span(state, role), Span(after, "dim")
    )


# -- needs --------------------------------------------------------------------------------------------


def needs_content(desk: Desk, width: int, chosen: str) -> Content:
    """What needs the person; the chosen one with what can be done about it."""
    lines: list[Line] = []
    for need in desk.needs:
        text = fitted(need_line(need, desk.now, width=width - 1, signs=desk.signs), desk.signs)
        who, rest = text[: len(need.who)], text[len(need.who) :]
        lines.append(line(need.key, Span(who, "name"), Span(rest)))
        if need.key == chosen or (not chosen and len(lines) == 1):
            lines.append(line(need.key, Span(cut("  " + need_hint(need, desk.signs), width - 1), "key")))
    at = next((number for number, need in enumerate(desk.needs, 1) if need.key == chosen), 1)
    count = f" {at}/{len(desk.needs)}" if desk.needs else ""
    return Content((Span(f"Needs you{count}", "need" if desk.needs else "title"),), lines, NOTHING)


def need_hint(need: Need, signs: Signs) -> str:
    """The keys for a need, with what they do."""
    choices = [f"{number} {word}" for number, word in enumerate(need.choices, 1)]
    actions = [
        f"{ACTION_KEYS[action]} {ACTIONS[action]}"
        for action in need.actions
        if not (action == "answer" and need.choices)
    ]
    return fitted(f" {signs.dot} ".join([*choices, *actions]), signs)


# -- conversations ------------------------------------------------------------------------------------


def conversations_content(desk: Desk, width: int) -> Content:
    """Who talks with whom, by the last word."""
    found = desk.conversations()

    def make(index: int) -> Line:
        row = found[index]
        text = fitted(conversation_line(row, desk.now, width=width - 1, signs=desk.signs), desk.signs)
        title, rest = text[:32], text[32:]
        return line(row.key, Span(title, "name" if row.unread else ""), Span(rest, "dim"))

    count = f" {len(found)}" if found else ""
    return Content(
        (Span(f"2 Conversations{count}"),),
        LazyLines(len(found), make),
        ["Nothing has been said yet. c writes to the chosen agent."],
    )


def talk_content(desk: Desk, width: int) -> Content:
    """The open conversation: each message with how far it got."""
    talk = desk.talk
    if talk is None:
        return Content(
            (Span("Conversation"),), (), ["Enter on a conversation opens it; c writes to an agent."]
        )
    found = talk.messages(desk.model)
    lines: list[Line] = []
    told = not talk.seen
    for message in found:
        if not told and message.at > talk.seen:
            told = True
            rule = "-" if desk.signs is ASCII else "─"
            lines.append(line("", Span(f" {rule * 2} new since {clock_of(talk.seen)} {rule * 2}", "need")))
        lines += message_lines(desk, message, width)
    row = next((each for each in desk.conversations() if each.key == talk.key), None)
    name = talk.key if row is None else row.title
    title = fitted(name.replace("⇄", desk.signs.both).replace("→", desk.signs.to), desk.signs)
    budget = ""
    if talk.key.startswith("link:") and (link := desk.model.links.get(talk.key[5:])) is not None:
        budget = f" {desk.signs.dot} {link.turns} turns since your last word"
        budget += f" {desk.signs.dot} paused" if link.status == "paused" else ""
    return Content(
        (Span(cut(f"{title}{budget}", max(8, width - 6))),), lines, ["Nothing has been said here yet."]
    )


def message_lines(desk: Desk, message: Message, width: int, *, indent: int = 0) -> list[Line]:
    """A message: who to whom with its receipt, and its text below."""
    room = width - 2 - indent
    head = fitted(
        message_head(desk.model, message, clock_of(message.at), width=room, signs=desk.signs), desk.signs
    )
    receipt = fitted(receipt_text(message, signs=desk.signs), desk.signs)
    before, shown, after = head.partition(receipt) if receipt else (head, "", "")
    role = RECEIPT_ROLES.get(receipt_word(message.states.values()), "dim")
    pad_left = " " * indent
    rows = [line(message.id, pad_left, Span(before, "name"), Span(shown, role), Span(after, "dim"))]
    body = wrap(clean_lines(message.text), indent=" " * (indent + 6), width=width - 2)
    rows += [line(message.id, fitted(text, desk.signs)) for text in body[:BODY_LINES_MAX]]
    if len(body) > BODY_LINES_MAX:
        rows.append(line(message.id, Span(f"      {len(body) - BODY_LINES_MAX} more lines", "dim")))
    return rows


# -- the rest -----------------------------------------------------------------------------------------


def tree_content(desk: Desk, width: int) -> Content:
    """Children beneath their parents, and who may write where."""
    rows = tree_rows(desk.model)

    def make(index: int) -> Line:
        row = rows[index]
        text = fitted(tree_line(row, width=width - 2, signs=desk.signs), desk.signs)
        role = "" if row.name else "dim"
        return line(f"{row.agent} {row.path}".rstrip(), Span(" " + text, role))

    empty = ["No agent has started a child or claimed files."]
    return Content((Span("4 Files, children"),), LazyLines(len(rows), make), empty)


def timeline_content(desk: Desk, width: int) -> Content:
    """What happened, newest last."""
    events = [event for event in desk.model.timeline if event.type not in QUIET]

    def make(index: int) -> Line:
        event = events[index]
        text = fitted(event_line(event, width=max(8, width - 11)), desk.signs)
        needs = event.type == "call_refused" or text.startswith("needs you")
        return line(str(event.seq), Span(f"{seconds_of(event)} ", "dim"), Span(text, "need" if needs else ""))

    empty = ["Nothing has happened since this console was opened."]
    return Content((Span("5 Timeline"),), LazyLines(len(events), make), empty)


def sheet_content(desk: Desk, width: int) -> Content:
    """What was asked for last."""
    if not desk.sheets:
        return Content((Span("3 Inside"),), (), ["i looks inside the chosen agent."])
    sheet = desk.sheets[-1]
    lines = [
        Line(each.key, tuple(Span(fitted(span.text, desk.signs), span.role) for span in each.spans))
        for each in sheet.make(width - 2)
    ]
    return Content((Span(fitted(cut(sheet.title, max(8, width - 8)), desk.signs)),), lines, ["Nothing."])


def clock_of(at: float) -> str:
    """When, in the zone of this machine."""
    return f"{datetime.fromtimestamp(at):%H:%M}"


def seconds_of(event: FeedEvent) -> str:
    """The same, to the second."""
    return f"{datetime.fromtimestamp(event.at):%H:%M:%S}"


# -- bars ---------------------------------------------------------------------------------------------


def header(desk: Desk, width: int, trouble: str) -> tuple[Span, ...]:
    """The first line: how many agents do what, what needs the person, and whether all is well."""
    room = width - 11 - (width_of(trouble) + 2 if trouble else 0)
    text = fitted(header_line(desk.model, len(desk.needs), width=max(0, room), signs=desk.signs), desk.signs)
    need, gap, rest = text.partition("  ")
    spans = (
        Span(" tellwire  ", "title"),
        Span(need, "need" if desk.needs else "dim"),
        Span(gap),
        Span(pad(rest, max(0, room - width_of(need) - width_of(gap)))),
    )
    return (*spans, Span(f"  {trouble}", "bad")) if trouble else spans


def footer(width: int, hints: Sequence[tuple[str, str]]) -> tuple[Span, ...]:
    """Keys with one word each, as many as fit; the help is always among them."""
    spans: list[Span] = []
    left = width - 1
    for key, word in hints:
        size = len(key) + len(word) + 3
        if size > left:
            break
        left -= size
        spans += [Span(" "), Span(key, "key"), Span(f" {word} ")]
    return tuple(spans)


def help_lines(width: int) -> list[Line]:
    """All keys and commands."""
    lines = [line("", Span(" Keys", "title"))]
    for row in KEYS:
        texts = wrap([row.help], indent=" " * 13, width=width)
        lines.append(line(f"key {row.action}", Span(f" {pad(row.shown, 11)} ", "key"), texts[0].lstrip()))
        lines += [line(f"key {row.action}", text) for text in texts[1:]]
    lines += [line(""), line("", Span(" Commands", "title"))]
    for each in COMMANDS.values():
        usage = f" :{each.name} {each.usage}"
        lines.append(line(f"command {each.name}", Span(pad(usage, 28) + " ", "key"), each.help))
    return lines
