"""What a console asks of the broker, and the answer in words: one function for each `:` command.

Each returns the line that tells of success. A refusal is an error, which the console shows with its advice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from tellwire.paths import canonical
from tellwire.protocol.addresses import LINK, OPERATOR, parse_link
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import AgentRecord, GetAgent, MuteAgent
from tellwire.protocol.operations.audit import ReadAudit
from tellwire.protocol.operations.children import SpawnAgent, StopAgent
from tellwire.protocol.operations.explain import ExplainMessage, ReadThread
from tellwire.protocol.operations.history import HistoryRecord, SearchMessages
from tellwire.protocol.operations.links import AddMember, CloseLink, LinkRecord, OpenLink, ResumeLink
from tellwire.protocol.operations.messages import ConfirmMessages, SendMessage, Sent
from tellwire.protocol.operations.needs import AnswerMessage
from tellwire.protocol.operations.peers import MeshPolicy, Peers, RegisterPeer, RemovePeer
from tellwire.protocol.operations.scopes import WhoOwns
from tellwire.protocol.operations.sessions import GetSessionData, SessionData
from tellwire.tui.commands import seconds
from tellwire.tui.desk import Desk, Sheet
from tellwire.tui.paint import Line, Span, line
from tellwire.views.messages import receipt_words, thread_rows, why_lines
from tellwire.views.signs import age_words
from tellwire.views.words import clean, clean_lines, cut, pad, wrap

SESSION_CHARS = 12_000
SEARCH_MAX = 50
THREAD_MAX = 200
HOUR_S = 3_600.0
AUDIT_PAGE = 1_000
AUDIT_PAGES_MAX = 20
SENT_WORDS = {"received": "{to} is online", "queued": "{to} is offline and gets it on return"}
UNREACHED = "{to} is online but cannot be reached now"


def ago(desk: Desk) -> Callable[[float], str]:
    """Puts a time into words, such as `5 min ago`."""

    def words(at: float) -> str:
        return f"{age_words(at, desk.now)} ago" if desk.now - at >= 1 else "now"

    return words


# -- messages -----------------------------------------------------------------------------------------


async def say(desk: Desk, to: str, text: str, *, re: str | None = None, key: str = "") -> str:
    """Send a message; how far it got. The same `key` sends it once, however often it is tried."""
    names = [name.strip() for name in to.split(",") if name.strip()]
    target = names[0] if len(names) == 1 else names
    sent = await desk.wire.call(SendMessage(to=target, body=text, re=re, key=key or desk.wire.new_key()))
    return sent_words(sent, to)


async def answer(desk: Desk, message_id: str, text: str, *, key: str = "") -> str:
    """Answer a message to the operator."""
    sent = await desk.wire.call(AnswerMessage(id=message_id, body=text, key=key or desk.wire.new_key()))
    return sent_words(sent, "the agent")


def sent_words(sent: Sent, to: str) -> str:
    """How far a send got.

    Raises:
        TellwireError: it reached nobody.
    """
    if not sent.id:
        code = "unknown_agent" if sent.status == "denied" else "address_invalid"
        near = f"Did you mean {' or '.join(sent.suggestions)}?" if sent.suggestions else None
        raise TellwireError(code, f"{sent.status}: {clean(sent.note)}", near)
    note = SENT_WORDS.get(sent.status, "") if not sent.why else UNREACHED
    if sent.recipients:
        reached = sum(each.status in ("received", "queued") for each in sent.recipients)
        note = f"to {reached} agent{'' if reached == 1 else 's'}"
    parts = [sent.id, sent.status, note.format(to=clean(to)), clean(sent.why), clean(sent.note)]
    return "  ".join(part for part in parts if part)


async def confirm(desk: Desk, ids: Sequence[str]) -> None:
    """Tell that messages to the person were on screen."""
    await desk.wire.call(ConfirmMessages(ids=list(ids)))


async def why(desk: Desk, message_id: str) -> Sheet:
    """Why a message has not been read, and what happens next."""
    told = await desk.wire.call(ExplainMessage(id=message_id))
    texts = why_lines(told, age=ago(desk))
    return Sheet(f"Why {message_id}", partial(_wrapped, message_id, texts), f"why {message_id}")


async def thread(desk: Desk, message_id: str) -> Sheet:
    """What a message answers, and all answers."""
    told = await desk.wire.call(ReadThread(id=message_id, limit=THREAD_MAX))
    rows = thread_rows(told, age=ago(desk))
    more = ["There is more than is shown here."] if told.more or told.cut else []

    def make(width: int) -> list[Line]:
        lines: list[Line] = []
        for row in rows:
            indent = "  " * row.depth
            heads = wrap([row.head], indent=indent, width=width)
            lines += [line(row.id, Span(text, "name")) for text in heads]
            lines += [line(row.id, text) for text in wrap(row.body, indent=indent + "  ", width=width)]
        return [*lines, *(line("", Span(text, "dim")) for text in more)]

    return Sheet(f"Thread of {told.root}", make, f"thread {message_id}")


async def search(desk: Desk, words: str) -> Sheet:
    """What was said with these words, newest first."""
    found = await desk.wire.call(SearchMessages(query=words, limit=SEARCH_MAX))
    age = ago(desk)

    def make(width: int) -> list[Line]:
        lines = [each for record in found.messages for each in _record_lines(record, age, width)]
        return lines or [line("", Span(" No message has all of these words.", "dim"))]

    more = "+" if found.more else ""
    return Sheet(f"Search {clean(words)}: {len(found.messages)}{more} found", make, f"search {words}")


def _record_lines(record: HistoryRecord, age: Callable[[float], str], width: int) -> list[Line]:
    head = f"{record.id}  {clean(record.sender)} → {clean(record.to)}  {age(record.sent_at)}"
    head += f"  {receipt_words(record)}" if record.recipients else ""
    body = record.body if isinstance(record.body, str) else str(record.body)
    text = wrap(clean_lines(body)[:4], indent="      ", width=width)
    return [line(record.id, Span(cut(head, width), "name")), *(line(record.id, each) for each in text[:4])]


def _wrapped(key: str, texts: Sequence[str], width: int) -> list[Line]:
    lines: list[Line] = []
    for text in texts:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        role = "need" if text.strip().startswith(("waits:", "next:")) else ""
        lines += [
            line(key, Span(each, role)) for each in wrap([text.lstrip(" ")], indent=indent, width=width)
        ]
    return lines


# -- peers and links ----------------------------------------------------------------------------------


async def peer(desk: Desk, words: list[str], *, off: bool = False) -> str:
    """Make two agents peers, or no longer; nobody is told, and nothing of what they said is touched.

    Raises:
        TellwireError: `conflict`: the first one is in the middle of a turn.
    """
    one, other = _pair(desk, words)
    if not off and desk.state_of(one) == "busy":
        raise TellwireError(
            "conflict", f"{one} is in the middle of a turn.", "Try again when the turn has ended."
        )
    operation = RemovePeer(name=one, other=other) if off else RegisterPeer(name=one, other=other)
    reply: Peers = await desk.wire.call(operation)
    now = "no longer peers" if off else "peers"
    return f"{one} and {other} are {now}" + ("" if reply.changed else "; they were before")


def _pair(desk: Desk, words: list[str]) -> tuple[str, str]:
    if len(words) > 1:
        return desk.known(words[0]), desk.known(words[1])
    return desk.named([]), desk.known(words[0])


async def open_link(desk: Desk, names: Sequence[str]) -> str:
    """Open a conversation."""
    return link_words(await desk.wire.call(OpenLink(members=[desk.known(name) for name in names])))


async def add_member(desk: Desk, link: str, name: str) -> str:
    """Add an agent to a link."""
    operation = AddMember(link=parse_link(link), name=desk.known(name))
    return link_words(await desk.wire.call(operation))


async def close_link(desk: Desk, link: str) -> str:
    """Close a link."""
    return link_words(await desk.wire.call(CloseLink(link=parse_link(link))))


async def resume_link(desk: Desk, link: str) -> str:
    """Let a paused link go on."""
    return link_words(await desk.wire.call(ResumeLink(link=parse_link(link))))


def link_words(link: LinkRecord) -> str:
    """A link in one line."""
    members = ", ".join(clean(each.name) for each in link.members if not each.left_at)
    made = f" ({link.made})" if link.made else ""
    return f"{LINK}{link.id} is {link.status}{made}: {members}"


# -- agents -------------------------------------------------------------------------------------------


async def mute(desk: Desk, name: str, for_s: float | None = None, *, off: bool = False) -> str:
    """Do not wake an agent, or let it be woken again."""
    await desk.wire.call(MuteAgent(name=name, for_s=for_s, off=off))
    if off:
        return f"{name} may be woken again"
    return f"{name} is not woken" + (f" for {age_words(desk.now, desk.now + for_s)}" if for_s else "")


def muting(desk: Desk, words: list[str]) -> tuple[str, float | None]:
    """Whom to mute and for how long; a time alone is for the chosen agent."""
    if len(words) == 1 and words[0][:1].isdigit():
        return desk.named([]), seconds(words[0])
    return desk.named(words), seconds(words[1]) if len(words) > 1 else None


async def mute_all(desk: Desk, *, for_s: float) -> str:
    """Nobody is woken for a while; if all are muted already, all may be woken again."""
    online = [row for row in desk.model.agents.values() if row.online and row.name != OPERATOR]
    loud = [row.name for row in online if not row.muted]
    off = not loud
    names = loud or [row.name for row in online]
    for name in names:
        await mute(desk, name, None if off else for_s, off=off)
    count = f"{len(names)} agent{'' if len(names) == 1 else 's'}"
    return f"{count} may be woken again" if off else f"{count} not woken for {age_words(0.001, for_s)}"


async def quiet(desk: Desk, word: str) -> str:
    """No notices for a while, or again as usual."""
    for_s = 0.0 if word == "off" else seconds(word)
    told = await desk.wire.attend(focused=True, notifies=True, quiet_s=for_s)
    if not told.quiet_until:
        return "notices as usual"
    return f"no notices for {age_words(desk.now, told.quiet_until) or '0 s'}; then one tells what there was"


async def spawn(desk: Desk, name: str, client: str, task: str) -> str:
    """Start an agent as a child of the operator."""
    cwd = canonical(".", os.getcwd())
    operation = SpawnAgent(name=name, client=client, task=task, cwd=cwd, key=desk.wire.new_key())
    record = await desk.wire.call(operation)
    up = f"is up: {clean(record.place)}" if record.status != "ended" else "started, and has already ended"
    return f"{record.name} {up}"


async def stop(desk: Desk, name: str) -> str:
    """Stop a child."""
    return f"{(await desk.wire.call(StopAgent(name=name))).name} is being stopped"


async def policy(desk: Desk, words: list[str]) -> str:
    """Show or set who sees whom in the project of the chosen agent."""
    row = desk.model.agents.get(desk.agent)
    if row is None:
        raise TellwireError("unknown_agent", "No agent is chosen.", "Choose one of the project.")
    chosen = words[0] if words else None
    if chosen not in (None, "open", "peers"):
        raise TellwireError("bad_request", f"{chosen!r} is no policy.", "Use open or peers.")
    reply = await desk.wire.call(MeshPolicy(group=row.group, policy=chosen))
    return f"The policy of {clean(reply.group)} {'is now' if reply.changed else 'is'} {reply.policy}."


async def owns(desk: Desk, path: str) -> str:
    """Who may write to a path."""
    reply = await desk.wire.call(WhoOwns(path=canonical(path, os.getcwd())))
    owner = clean(reply.owner) or "nobody"
    rule = f" ({reply.rule.access} {clean(reply.rule.path)})" if reply.rule is not None else ""
    return f"{clean(reply.path)}: {owner}{rule}"


async def inside(desk: Desk, name: str) -> Sheet:
    """What an agent's session shows, the ways in, and its files."""
    record = await desk.wire.call(GetAgent(name=name))
    session = await desk.wire.call(GetSessionData(agent=name, tail=SESSION_CHARS))
    claim = desk.model.claims.get(record.id)
    rules = [] if claim is None else [f"{rule.access} {clean(rule.path)}" for rule in claim.rules]
    facts = _facts(desk, record, rules)
    text = clean_lines(session.text or session.note or "Nothing is known of its session.")

    def make(width: int) -> list[Line]:
        lines = [
            line("facts", Span(f" {pad(label, 10)}", "dim"), text)
            for label, value in facts
            for text in [cut(value, max(8, width - 11))]
        ]
        lines.append(line("", Span(f" {_source(session)}", "title")))
        lines += [line("text", each) for each in wrap(text, indent=" ", width=width)]
        return lines

    return Sheet(f"3 {record.name}, inside", make, f"inside {name}")


def _facts(desk: Desk, record: AgentRecord, rules: list[str]) -> list[tuple[str, str]]:
    age = ago(desk)
    state = record.activity or record.status
    rows = [("agent", f"{clean(record.kind)}, {clean(state)}, joined {age(record.connected_at)}")]
    rows += [("project", clean(record.group)), ("terminal", clean(record.terminal))]
    for path in record.paths:
        word = "works" if path.works else "unproved" if path.unproved else "not working now"
        last = f"last used {age(path.last_at)}" if path.last_at else "never used"
        note = f"{clean(path.note)}; " if path.note else ""
        rows.append((f"way {clean(path.name)}", f"{word}; {note}{last}"))
    rows += [("mail", f"{record.pending} waiting" + (f": {clean(record.waits)}" if record.waits else ""))]
    rows += [("files", ", ".join(rules))]
    return [(label, value) for label, value in rows if value]


def _source(session: SessionData) -> str:
    words = {"transcript": "from its client's transcript", "terminal": "from its terminal"}
    return words.get(session.source, "session")


async def hour(desk: Desk) -> Sheet:
    """Turns and messages of each agent in the last hour."""
    since, before = desk.now - HOUR_S, 0
    turns: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    got: Counter[str] = Counter()
    for _ in range(AUDIT_PAGES_MAX):
        page = await desk.wire.call(
            ReadAudit(types=["turn_ended", "message_queued"], before=before, limit=AUDIT_PAGE)
        )
        rows = [row for row in page.rows if row.at >= since]
        turns.update(row.who for row in rows if row.type == "turn_ended")
        sent.update(row.who for row in rows if row.type == "message_queued")
        got.update(name for row in rows if row.type == "message_queued" for name in row.whom)
        before = page.next
        if not page.more or not before or len(rows) < len(page.rows):
            break
    names = sorted({*turns, *sent, *got} - {""}, key=lambda name: (-turns[name], -sent[name], name))

    def make(_width: int) -> list[Line]:
        lines = [line("", Span(f" {pad('agent', 20)} {'turns':>6} {'sent':>6} {'got':>6}", "dim"))]
        lines += [
            line(
                f"hour {name}",
                f" {pad(cut(clean(name), 20), 20)} {turns[name]:>6} {sent[name]:>6} {got[name]:>6}",
            )
            for name in names
        ]
        return lines if names else [line("", Span(" Nothing happened in the last hour.", "dim"))]

    return Sheet("The last hour", make)
