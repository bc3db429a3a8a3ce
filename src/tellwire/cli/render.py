"""What people see of a reply. In: plain JSON values, the time, a screen; out: text. No I/O, no clock.

Both the fast commands and the click commands render here, so their words are the same. Foreign text is in
the last column of a table, or in a block of its own. Imports are few: the fast commands pay for them.
"""

from __future__ import annotations

from tellwire.cli.screen import Screen
from tellwire.cli.tables import Column, render_table
from tellwire.system.quick_json import dumps, dumps_indented
from tellwire.version import VERSION
from tellwire.views.words import clean, clean_lines, cut, width_of, wrap

TYPE_CHECKING = False  # importing it from typing would cost the fast commands four milliseconds
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Facts: TypeAlias = dict[str, Any]

STATUS_STYLES = {
    "online": "green",
    "received": "green",
    "sent": "green",
    "read": "green",
    "answered": "green",
    "queued": "yellow",
    "pending": "yellow",
    "delivered": "yellow",
    "denied": "red",
    "refused": "red",
    "expired": "red",
    "timeout": "red",
}
NAME_WIDTH_MIN = 16
"""A longer name is cut before a column is dropped; `--json` and `info` have the whole."""
NOT_WAKEABLE = "not wakeable"
DEAF = "deaf"
HELD = "held"
WAKE_STYLES = {"not": "yellow", "muted": "yellow", HELD: "yellow", DEAF: "red"}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def render_json(document: object) -> str:
    """One JSON document on one line."""
    return dumps(document, compact=True) + "\n"


def render_error(message: str, advice: str, screen: Screen) -> str:
    """A refusal: what happened, and what to do."""
    head = screen.paint("tellwire:", "red")
    rest = f"\n  {clean(advice)}" if advice else ""
    return f"{head} {clean(message)}{rest}\n"


def counted(count: int, noun: str) -> str:
    """How many: `1 message`, `2 messages`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_age(seconds: float) -> str:
    """How long ago, in one unit: `5 min ago`."""
    if seconds < 1:
        return "now"
    for size, unit in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def format_duration(seconds: float) -> str:
    """A duration in its two largest units: `3 h 5 min`."""
    rest = int(seconds)
    shown: list[str] = []
    for size, unit in UNITS:
        count, rest = divmod(rest, size)
        if count:
            shown.append(f"{count} {unit}")
    return " ".join(shown[:2]) or "0 s"


def render_state(state: Facts, screen: Screen) -> str:
    """The broker: its process, its agents, what is stored; a last line if its version is another one."""
    rows = [
        ("broker", f"{state['version']}, pid {state['pid']}, up {format_duration(state['uptime_s'])}"),
        ("agents", f"{state['online']} online, {state['agents']} known"),
        ("messages", f"{state['pending']} unread"),
        ("journal", counted(state["sequence"], "event")),
        ("storage", state["storage"]),
        ("home", state["home"]),
        *(("lost", words) for words in state["lost"]),
    ]
    text = render_pairs(rows, screen)
    if state["version"] != VERSION:
        other = f"The broker has version {clean(state['version'])}, this command {VERSION}."
        text += f"{other} Run `tellwire up --replace`.\n"
    return text


# -- agents -------------------------------------------------------------------------------------------


def render_agents(reply: Facts, *, now: float, screen: Screen) -> str:
    """The table of agents."""
    agents = reply.get("agents", [])
    groups = {agent.get("group", "") for agent in agents}
    columns = [
        Column("NAME", [agent["name"] for agent in agents], style="bold", least=NAME_WIDTH_MIN),
        Column("STATUS", [_presence(agent) for agent in agents], styles=STATUS_STYLES),
        Column("WAKE", [wake_words(agent) for agent in agents], styles=WAKE_STYLES, rank=2),
        Column("KIND", [clean(agent["kind"]) for agent in agents], rank=4),
        *_terminals(agents),
        Column("WAITING", [str(agent.get("pending", 0)) for agent in agents], right=True, rank=1),
        Column(
            "JOINED",
            [format_age(now - agent.get("connected_at", 0.0)) for agent in agents],
            rank=3,
            style="dim",
        ),
    ]
    if len(groups) > 1:
        columns.append(Column("PROJECT", [_folder(agent.get("group", "")) for agent in agents], rank=5))
    if any(agent.get("capabilities") for agent in agents):
        columns.append(Column("CAN", [clean(", ".join(agent.get("capabilities", []))) for agent in agents]))
    if any(agent.get("title") for agent in agents):
        columns.append(Column("BEGAN WITH", [clean(agent.get("title", "")) for agent in agents], rank=6))
    text = render_table(columns, screen) if agents else "No other agents are online in this project.\n"
    doubts = [f"{agent['name']}: {agent['doubt']}" for agent in agents if agent.get("doubt")]
    text += "".join(
        screen.paint(line, "yellow") + "\n"
        for doubt in doubts
        for line in wrap([clean(doubt)], indent="", width=screen.width)
    )
    hidden = reply.get("hidden", 0)
    if hidden:
        word = "is" if hidden == 1 else "are"
        more = "more " if agents else ""
        note = f"{hidden} {more}{word} offline or in other projects: tellwire list --all"
        text += "".join(
            screen.paint(line, "dim") + "\n" for line in wrap([note], indent="", width=screen.width)
        )
    return text


def _terminals(agents: list[Facts]) -> list[Column]:
    """Which terminal is which agent, if any is known."""
    shown = [clean(agent.get("terminal", "")) for agent in agents]
    return [Column("PANE", shown, rank=2)] if any(shown) else []


def render_agent(agent: Facts, *, now: float, screen: Screen) -> str:
    """Everything that is known about one agent."""
    joined = format_age(now - agent.get("connected_at", 0.0))
    seen = agent.get("last_heartbeat", 0.0)
    rows = [
        ("name", f"{agent['name']} ({agent['id']})"),
        ("status", _presence(agent) + (" (you)" if agent.get("reason") == "self" else "")),
        ("kind", agent["kind"]),
        ("joined", joined),
        ("seen", format_age(now - seen) if seen else ""),
        ("waiting", _waiting(agent)),
        ("project", agent.get("group", "")),
        ("terminal", agent.get("terminal", "")),
        ("began", agent.get("title", "")),
        ("can", ", ".join(agent.get("capabilities", []))),
        ("metadata", _one_line(agent.get("metadata") or "")),
        ("muted", _muted(agent, now)),
        ("wake", wake_words(agent)),
        ("reach", agent.get("unreached", "")),
        ("version", agent.get("doubt", "")),
        *((f"path {clean(path['name'])}", _path(path, now)) for path in agent.get("paths", [])),
    ]
    return render_pairs(rows, screen)


def wake_words(agent: Facts) -> str:
    """The path by which an idle agent is woken now; empty for a client that is never woken."""
    if agent.get("deaf"):
        return DEAF
    if agent.get("muted"):
        return "muted"
    if agent.get("waits", "").startswith(f"{HELD}:"):
        return HELD  # only new work wakes it
    paths = agent.get("paths", [])
    if not paths or agent["status"] != "online":
        return ""
    works = (path["name"] for path in paths if path["works"] and path.get("wakes"))
    return clean(next(works, NOT_WAKEABLE))


def _path(path: Facts, now: float) -> str:
    last = path.get("last_at")
    words = ["works" if path["works"] else "unproved" if path.get("unproved") else "not working now"]
    words += [path["note"]] if path.get("note") else []
    words.append("never used" if last is None else f"last used {format_age(now - last)}")
    return "; ".join(words)


def _waiting(agent: Facts) -> str:
    count, why = agent.get("pending", 0), agent.get("waits", "")
    if not count:
        return "nothing"
    return counted(count, "message") + (f": {why}" if why else "")


def _muted(agent: Facts, now: float) -> str:
    until = agent.get("muted_until", 0.0)
    if not agent.get("muted"):
        return ""
    return f"for {format_duration(until - now)} more" if until else "until unmuted"


def render_pairs(rows: list[tuple[str, str]], screen: Screen) -> str:
    """Names and values, one pair on a line; pairs without a value are left out."""
    size = max(len(name) for name, _ in rows)
    lines: list[str] = []
    for name, value in rows:
        if value:
            room = None if screen.width is None else screen.width - size - 2
            shown = clean(value) if room is None else cut(clean(value), room)
            lines.append(f"{screen.paint(name.ljust(size), 'dim')}  {shown}")
    return "\n".join(lines) + "\n"


def _presence(agent: Facts) -> str:
    more = DEAF if agent.get("deaf") else agent.get("offline_reason", "") or agent.get("activity", "")
    return f"{agent['status']} ({clean(more)})" if more else agent["status"]


def _folder(path: str) -> str:
    return clean(path.rstrip("/").rpartition("/")[2] or "/") if path else ""


# -- at a glance --------------------------------------------------------------------------------------

NEEDS = ("needs", "waiting", "errored")
"""What a person has to do something about."""
SIGNS = {"needs": "⚑", "waiting": "◐", "errored": "✕", "busy": "●", "idle": "○"}
TMUX_COLOURS = {"needs": "yellow", "waiting": "yellow", "errored": "red"}


def needs_somebody(counts: Facts) -> bool:
    """Whether anything waits for the person."""
    return any(counts.get(word) for word in NEEDS)


def render_glance(counts: Facts) -> str:
    """One line of words: what needs the person first."""
    needs, waiting, errored = (counts.get(word, 0) for word in NEEDS)
    first = [
        f"{counted(needs, 'message')} need{'s' if needs == 1 else ''} you" if needs else "",
        f"{counted(waiting, 'agent')} wait{'s' if waiting == 1 else ''} for you" if waiting else "",
        f"{counted(errored, 'agent')} failed" if errored else "",
    ]
    rest = [f"{counts[word]} {word}" for word in ("busy", "idle") if counts.get(word)]
    shown = [part for part in first if part] or ["nothing needs you"]
    return ", ".join([*shown, *(rest or [f"{counts.get('online', 0)} online"])]) + "\n"


def render_tmux(counts: Facts) -> str:
    """The same for tmux's status line: signs and numbers, colours in its own notation."""
    shown: list[str] = []
    for word, sign in SIGNS.items():
        if count := counts.get(word, 0):
            colour = TMUX_COLOURS.get(word)
            shown.append(f"#[fg={colour}]{sign}{count}#[default]" if colour else f"{sign}{count}")
    return " ".join(shown) + "\n"


# -- sending ------------------------------------------------------------------------------------------


def render_sent(sent: Facts, to: str, *, screen: Screen) -> str:
    """How far a send got; for people who sent it to `to`."""
    status, why = sent["status"], sent.get("why", "")
    recipients = sent.get("recipients", [])
    reached = sum(outcome["status"] in ("received", "queued") for outcome in recipients)
    words = {
        "received": "the operator sees it with `tellwire needs`" if to == "operator" else f"{to} is online",
        "queued": f"{to} is offline and gets it on return",
        "sent": f"to {counted(reached, 'agent')}",
    }
    if why:
        words["queued"] = f"{to} is online but cannot be reached now"
    parts = [
        sent.get("id", ""),
        screen.paint(status, STATUS_STYLES.get(status, "dim")),
        words.get(status, ""),
    ]
    line = "  ".join(part for part in parts if part)
    lines = [line if screen.width is None or screen.colour else cut(line, screen.width)]
    lines += [
        part
        for each in (why, sent.get("note"))
        if each
        for part in wrap([clean(each)], indent="  ", width=screen.width)
    ]
    text = "\n".join(lines) + "\n"
    if recipients:
        columns = [
            Column("TO", [outcome["name"] for outcome in recipients], style="bold"),
            Column("STATUS", [outcome["status"] for outcome in recipients], styles=STATUS_STYLES),
            Column("NOTE", [clean(outcome.get("note", "")) for outcome in recipients]),
        ]
        text += render_table(columns, screen)
    return text


# -- messages -----------------------------------------------------------------------------------------


def render_messages(messages: list[Facts], *, now: float, screen: Screen) -> str:
    """Messages with their whole bodies, a blank line between them."""
    return "\n".join(render_message(message, now=now, screen=screen) for message in messages)


def render_message(message: Facts, *, now: float, screen: Screen) -> str:
    """One message: who and when in the first line, the body below."""
    told = [format_age(now - message["at"])]
    if message.get("re"):
        told.append(f"re {clean(message['re'])}")
    kind = message.get("kind", "request")
    if kind == "notification" or (kind == "response") is not bool(message.get("re")):
        told.append(kind)
    if message.get("mode"):
        told.append(message["mode"])
    if message.get("repeat"):
        told.append("may be a repeat")
    sender = clean(message["from"])
    names = f"{message['id']}  {sender} → {clean(message['to'])}"
    facts = "  " + " · ".join(told)
    if screen.width is not None:
        names = cut(names, screen.width)
        facts = cut(facts, screen.width - width_of(names))
    head = screen.paint(names, "bold") + screen.paint(facts.rstrip(), "dim")
    lines = [head, *wrap(_body_lines(message["body"]), indent="  ", width=screen.width)]
    if message.get("context") is not None:
        lines += wrap([f"context: {_one_line(message['context'])}"], indent="  ", width=screen.width)
    if message.get("recipients"):
        states = ", ".join(_receipt(each) for each in message["recipients"])
        lines += [screen.paint(line, "dim") for line in wrap([states], indent="  ", width=screen.width)]
    return "\n".join(lines) + "\n"


def _receipt(receipt: Facts) -> str:
    why = receipt.get("why", "")
    return f"{clean(receipt['name'])} {receipt['state']}" + (f" ({clean(why)})" if why else "")


def render_inbox(inbox: Facts, *, now: float, screen: Screen) -> str:
    """What waits, and how much more behind it."""
    messages, more = inbox.get("messages", []), inbox.get("waiting", 0)
    if not messages:
        return "No messages.\n"
    text = render_messages(messages, now=now, screen=screen)
    return text + (f"\n{more} more wait{'s' if more == 1 else ''}.\n" if more else "")


def render_status(reply: Facts, *, now: float, screen: Screen) -> str:
    """The receipts of one message."""
    names = f"{reply['id']}  {clean(reply['sender'])} → {clean(reply['to'])}"
    facts = f"  {format_age(now - reply['at'])}"
    if screen.width is not None:
        names = cut(names, screen.width - len(facts))
    text = screen.paint(names, "bold") + screen.paint(facts, "dim") + "\n"
    recipients = reply.get("recipients", [])
    if not recipients:
        return text
    ages = [format_age(now - each["at"]) if each.get("at") else "" for each in recipients]
    columns = [
        Column("TO", [clean(each["name"]) for each in recipients], style="bold"),
        Column("STATE", [each["state"] for each in recipients], styles=STATUS_STYLES),
        Column("WHEN", ages, rank=1, style="dim"),
        Column("EVIDENCE", [clean(each.get("evidence", "")) for each in recipients], rank=2),
    ]
    whys = [f"{each['name']}: {each['why']}" for each in recipients if each.get("why")]
    lines = [line for why in whys for line in wrap([clean(why)], indent="  ", width=screen.width)]
    return text + render_table(columns, screen) + "".join(f"{line}\n" for line in lines)


def _body_lines(body: object) -> list[str]:
    if isinstance(body, str):
        return clean_lines(body.rstrip("\n"))
    return clean_lines(dumps_indented(body))


def _one_line(value: object) -> str:
    return clean(value if isinstance(value, str) else dumps(value))
