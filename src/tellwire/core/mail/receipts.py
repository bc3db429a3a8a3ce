"""How far a message got with each recipient: leases, evidence, expiry, status.

    pending --hand-over--> delivered --evidence--> read --reply--> answered
       ^                       |
       +---- session ended ----+          pending --time to live--> expired

Handing over is a lease and proves nothing; `read` needs evidence. A lease returns when its session ends
without evidence, never by time alone. The time to live runs only while a message is pending.
"""

from __future__ import annotations

from math import inf

from tellwire.core.agents.roster import caller_agent
from tellwire.core.context import (
    Context,
    Decision,
    ExpireDue,
    OfferWaiting,
)
from tellwire.core.links.chains import chain_of
from tellwire.core.machines.elsewhere import state_there, why_there, withdraw
from tellwire.core.machines.outbox import note_receipts
from tellwire.core.mail.notices import notice
from tellwire.core.mail.waiting import Waiting
from tellwire.core.operator.person import is_operator
from tellwire.core.operator.questions import settle_asked
from tellwire.core.record.final_receipts import MAYBE_READ
from tellwire.core.record.stored import FinalState, Header
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.addresses import OPERATOR as OPERATOR_NAME
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AnyEvent,
    MessageAnswered,
    MessageQueued,
    MessagesDelivered,
    MessagesExpired,
    MessagesRead,
)
from tellwire.protocol.ids import format_id, parse_id, parse_message_id
from tellwire.protocol.operations.base import AGENT, OPERATOR
from tellwire.protocol.operations.messages import (
    Claimed,
    ClaimMessages,
    Confirmed,
    ConfirmMessages,
    Inbox,
    MessageStatus,
    MessageStatusReply,
    PeekMessages,
    RecipientStatus,
)

OVER = "its time to live ran out"
SEEN = "seen:"
"""What the evidence of a message that a person has seen begins with; the program that showed it follows."""
SEVERAL = "*"
"""In place of a session: more than one may have seen it, so to each of them it is a repeat."""

# -- handing over -------------------------------------------------------------------------------------


def decide_offer(state: State, command: OfferWaiting, context: Context) -> Decision:
    """Offer what waits, oldest first, as far as the client's window reaches."""
    agent = state.agents[command.agent]
    if not agent.pending or not agent.online:
        return Decision()
    room = context.limits.window_messages_max - len(agent.leased)
    room_bytes = context.limits.window_bytes_max - agent.leased_bytes
    seqs: list[int] = []
    for seq, receipt in agent.pending.items():
        room_bytes -= receipt.size
        # A message larger than the whole window still goes, alone.
        if len(seqs) >= room or (room_bytes < 0 and (seqs or agent.leased)):
            break
        seqs.append(seq)
    return Decision(None, [MessagesDelivered(agent.id, seqs)]) if seqs else Decision()


def apply_delivered(state: State, event: MessagesDelivered) -> None:
    """Lease the messages; their time to live does not run meanwhile."""
    agent = state.agents[event.agent]
    pending, leased, lease, awake = agent.pending, agent.leased, state.seq, state.awake
    moved = notices = hops = 0
    now = state.now
    for seq in event.seqs:
        receipt = pending.pop(seq)
        receipt.lease = lease
        receipt.since = now
        receipt.deadline -= awake
        leased[seq] = receipt
        moved += receipt.size
        if not receipt.sender:
            notices += 1
        if receipt.hops > hops:  # noqa: PLR1730 - on the hottest path, and faster than max()
            hops = receipt.hops
    if agent.turns or hops or agent.hops:
        agent.hops = chain_of(agent, [leased[seq] for seq in event.seqs])
    agent.handed += len(event.seqs)
    agent.noticed += notices
    if agent.listeners and agent.due == 0.0:
        agent.due = awake
    if event.call:
        live = {held.lease for held in leased.values()}
        agent.calls = {word: kept for word, kept in agent.calls.items() if kept in live} | {event.call: lease}
    agent.leased_bytes += moved
    agent.pending_bytes -= moved
    if not pending:
        agent.earliest = inf
    if state.machines:
        note_receipts(state, agent, [leased[seq] for seq in event.seqs], "delivered")


def note_seen(receipt: Receipt, session: str) -> None:
    """Note that this session may have seen it too."""
    receipt.seen_by = session if receipt.seen_by in ("", session) else SEVERAL


def return_leases(state: State, agent: Agent, seen: list[int]) -> None:
    """Make all that is on a lease pending again, in its old place.

    Messages the session had claimed, or was handed by an earlier life of the broker, may have been shown.
    """
    agent.calls = {}
    if not agent.leased:
        return
    shown = set(seen)
    for seq, receipt in agent.leased.items():
        if seq in shown or receipt.lease < state.epoch:
            note_seen(receipt, agent.session)
        receipt.lease = 0
        receipt.since = state.now
        receipt.deadline += state.awake
        agent.earliest = min(agent.earliest, receipt.deadline)
    if state.machines:
        note_receipts(state, agent, agent.leased.values(), "received")
    agent.pending = dict(sorted({**agent.leased, **agent.pending}.items()))
    agent.pending_bytes += agent.leased_bytes
    agent.leased = {}
    agent.leased_bytes = 0


# -- evidence -----------------------------------------------------------------------------------------


def decide_claim(state: State, operation: ClaimMessages, context: Context) -> Decision:
    """Grant what this very session holds; answered from memory, no event."""
    agent = holder(state, context)
    _check_count(operation.ids, context)
    if is_operator(agent):
        return Decision(Claimed(ids=_seen_by_all(agent, operation.ids, context)))
    leased, epoch = agent.leased, state.epoch
    granted: list[str] = []
    for text in operation.ids:
        receipt = leased.get(parse_id("m", text) or 0)
        if receipt is not None and receipt.lease > epoch:
            granted.append(text)
    return Decision(Claimed(ids=granted, waiting=len(agent.pending)))


def _seen_by_all(operator: Agent, ids: list[str], context: Context) -> list[str]:
    """What a terminal of the person's may show: also what another one has shown first."""
    granted: list[str] = []
    for text in ids:
        seq = parse_id("m", text) or 0
        header = None if seq in operator.pending else context.header(seq)
        if seq in operator.pending or (header is not None and operator.id in header.recipients):
            granted.append(text)
    return granted


def decide_confirm(state: State, operation: ConfirmMessages, context: Context) -> Decision:
    """Accept the recipient's confirmation that it read messages; a repeat changes nothing."""
    agent = holder(state, context)
    _check_count(operation.ids, context)
    leased, pending = agent.leased, agent.pending
    seqs: list[int] = []
    for text in operation.ids:
        seq = parse_message_id(text)
        if (seq in leased or seq in pending) and seq not in seqs:
            seqs.append(seq)
    if not seqs:
        return Decision(Confirmed())
    evidence = "confirm" if agent.name != OPERATOR_NAME else f"{SEEN}{context.caller.console}"
    return Decision(Confirmed(count=len(seqs)), [MessagesRead(agent.id, seqs, evidence)])


def evidence_of_reply(replier: Agent, header: Header, recipients: list[str]) -> list[AnyEvent]:
    """A reply by a recipient to the sender shows that it read the message, and answers it."""
    if replier.id not in header.recipients or header.sender not in recipients:
        return []
    answered = MessageAnswered(replier.id, header.seq)
    if header.seq in replier.leased or header.seq in replier.pending:
        return [MessagesRead(replier.id, [header.seq], "reply"), answered]
    return [answered]


def apply_read(state: State, event: MessagesRead) -> None:
    """The messages leave the inbox; the past is the store's."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    if state.machines:
        note_receipts(state, agent, _open_receipts(agent, event.seqs), "read", event.evidence)
    for seq in event.seqs:
        receipt = agent.leased.pop(seq, None)
        if receipt is not None:
            agent.leased_bytes -= receipt.size
            continue
        receipt = agent.pending.pop(seq, None)
        if receipt is not None:
            agent.pending_bytes -= receipt.size
            if not agent.pending:
                agent.earliest = inf


def apply_answered(state: State, event: MessageAnswered) -> None:
    """The reply is a message of its own; the receipt's last word is the store's."""
    settle_asked(state, event.agent, [event.seq])


def holder(state: State, context: Context) -> Agent:
    """The agent whose own client asks.

    Raises:
        TellwireError: `not_registered` or `forbidden`.
    """
    agent = state.agents.get(context.caller.agent) or caller_agent(state, context)
    if not context.caller.is_own_client and context.caller.kind != OPERATOR:
        raise TellwireError("forbidden", f"Only the client of {agent.name!r} itself can take its mail.")
    return agent


def _check_count(ids: list[str], context: Context) -> None:
    if len(ids) > context.limits.ids_max:
        raise TellwireError("limit_exceeded", f"More than {context.limits.ids_max} ids in one call.")


# -- expiry -------------------------------------------------------------------------------------------


def decide_expire(state: State, _command: ExpireDue, context: Context) -> Decision:
    """Expire what is due, a bounded number at a time, and notify each sender once."""
    due: list[tuple[Agent, list[int]]] = []
    room = context.limits.expire_batch_max
    for agent in state.agents.values():
        if agent.earliest > state.awake or room <= 0:
            continue
        seqs = [seq for seq, receipt in agent.pending.items() if receipt.deadline <= state.awake][:room]
        room -= len(seqs)
        if seqs:
            due.append((agent, seqs))
    if not state.machines:
        return _expire(state, due, context, OVER)
    here = [(agent, seqs) for agent, seqs in due if not agent.machine]
    expired = _expire(state, here, context, OVER)
    back = withdraw(state, [(agent, seqs) for agent, seqs in due if agent.machine], context)
    return Decision(None, [*expired.events, *back.events], [*expired.texts, *back.texts])


def expire_all(
    state: State, agent: Agent, context: Context, *, untold: str = "", held: list[int] | None = None
) -> Decision:
    """Expire everything that waits for an agent that is about to be forgotten; one sender may know.

    What it was handed may have been read, unless its client itself says what of that it has shown (`held`).
    """
    seqs = sorted([*agent.pending, *agent.leased])
    due = [(agent, seqs)] if seqs else []
    return _expire(state, due, context, "the agent was removed", untold=untold, held=held)


def _expire(
    state: State,
    due: list[tuple[Agent, list[int]]],
    context: Context,
    why: str,
    *,
    untold: str = "",
    held: list[int] | None = None,
) -> Decision:
    """Expire messages of several inboxes, with one notice for each sender that lost some."""
    events: list[AnyEvent] = []
    texts: list[str] = []
    told: dict[str, int] = {}
    for agent, seqs in due:
        shown = [seq for seq in seqs if _may_be_read(agent, seq, held)]
        events.append(MessagesExpired(agent.id, seqs, shown))
        by_sender: dict[str, list[int]] = {}
        for seq in seqs:
            receipt = agent.pending.get(seq) or agent.leased[seq]
            by_sender.setdefault(receipt.sender, []).append(seq)
        for sender_id, lost in by_sender.items():
            sender = state.agents.get(sender_id)  # the expiry of a notice is not reported
            if sender is None or sender.machine or sender is agent or sender_id == untold:
                continue  # another machine writes its own notice
            waiting = len(sender.pending) + len(sender.leased) + told.get(sender_id, 0)
            if waiting >= context.limits.mailbox_messages_max:
                continue  # the status still shows it
            told[sender_id] = told.get(sender_id, 0) + 1
            event, text = _loss_notice(sender, agent, lost, why, set(shown), context)
            events.append(event)
            texts.append(text)
    return Decision(None, events, texts)


def _may_be_read(agent: Agent, seq: int, held: list[int] | None) -> bool:
    receipt = agent.leased.get(seq)
    if receipt is None:
        return bool(agent.pending[seq].seen_by)
    return bool(receipt.seen_by) or held is None or seq in held


def _loss_notice(
    sender: Agent, recipient: Agent, lost: list[int], why: str, shown: set[int], context: Context
) -> tuple[MessageQueued, str]:
    """One notice for all that a sender lost; what may have been read is not called undelivered."""
    unread = [seq for seq in lost if seq not in shown]
    unsure = [seq for seq in lost if seq in shown]
    words: list[str] = []
    if unread:
        words.append(f"Not delivered to {recipient.name}: {_named(unread)} ({why}).")
    if unsure:
        words.append(f"Handed over to {recipient.name}, but not confirmed: {_named(unsure)} ({why}).")
    return notice(sender, " ".join(words), context, "lost", re=format_id("m", lost[0]))


def _named(seqs: list[int]) -> str:
    ids = ", ".join(format_id("m", seq) for seq in seqs[:10])
    return ids + (f" and {len(seqs) - 10} more" if len(seqs) > 10 else "")


def apply_expired(state: State, event: MessagesExpired) -> None:
    """The messages leave the inbox unread."""
    agent = state.agents[event.agent]
    settle_asked(state, event.agent, event.seqs)
    if state.machines:
        shown = _open_receipts(agent, event.shown)
        note_receipts(state, agent, shown, "expired", MAYBE_READ)
        unseen = _open_receipts(agent, [seq for seq in event.seqs if seq not in event.shown])
        note_receipts(state, agent, unseen, "expired")
    for seq in event.seqs:
        agent.heard.pop(seq, None)
        receipt = agent.pending.pop(seq, None)
        if receipt is not None:
            agent.pending_bytes -= receipt.size
        elif (receipt := agent.leased.pop(seq, None)) is not None:
            agent.leased_bytes -= receipt.size
    agent.earliest = min((receipt.deadline for receipt in agent.pending.values()), default=inf)


# -- looking ------------------------------------------------------------------------------------------


def decide_peek(state: State, operation: PeekMessages, context: Context) -> Decision:
    """What is not read yet, oldest first; nothing changes."""
    person = context.caller.kind == OPERATOR
    own = state.find(OPERATOR) if person else state.agents.get(context.caller.agent)
    agent = own if operation.name is None else state.find(operation.name)
    if context.caller.kind == AGENT and agent is not own:
        raise TellwireError("forbidden", "An agent can look only into its own inbox.")
    if agent is None and person and operation.name is None:
        return Decision(Inbox())
    if agent is None:
        code, text = ("not_registered", "This connection has no agent.")
        if operation.name is not None:
            code, text = "unknown_agent", f"There is no agent named {shorten(operation.name)}."
        raise TellwireError(code, text)
    limit = operation.limit
    if not 1 <= limit <= context.limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {context.limits.peek_max}.")
    seqs = sorted([*agent.leased, *agent.pending])
    records = context.records(seqs[:limit])
    return Decision(Inbox(messages=records, waiting=len(seqs) - len(records)))


def decide_status(state: State, operation: MessageStatus, context: Context) -> Decision:
    """The receipts of a message, for those it concerns."""
    seq = parse_message_id(operation.id)
    header = context.header(seq)
    caller = context.caller
    concerned = header is not None and caller.agent in (header.sender, *header.recipients)
    if header is None or not (caller.kind == OPERATOR or (caller.agent and concerned)):
        raise TellwireError("unknown_message", f"You have no message {operation.id!r}.")
    recipients = statuses_of(state, header, context.settled(seq), Waiting(context))
    return Decision(
        MessageStatusReply(
            id=operation.id, sender=header.sender_name, to=header.to, at=header.at, recipients=recipients
        )
    )


def statuses_of(
    state: State, header: Header, settled: dict[str, FinalState], waiting: Waiting
) -> list[RecipientStatus]:
    """How far a message got with each recipient, and why no further if it waits longer than it should."""
    recipients: list[RecipientStatus] = []
    for agent_id in header.recipients:
        agent = state.agents.get(agent_id)
        name = agent_id if agent is None else agent.name
        receipt = _open_receipt(agent, header.seq)
        final = settled.get(agent_id)
        if agent is not None and receipt is not None and agent.machine:
            why = why_there(state, agent, receipt)
            recipients.append(RecipientStatus(name=name, state=state_there(receipt), at=header.at, why=why))
        elif agent is not None and receipt is not None:
            word = "delivered" if receipt.lease else "pending"
            why = waiting.why(agent, header.seq, receipt, header.at)
            recipients.append(RecipientStatus(name=name, state=word, at=header.at, why=why))
        elif final is not None:
            recipients.append(
                RecipientStatus(name=name, state=final.state, evidence=final.evidence, at=final.at)  # pyright: ignore[reportArgumentType]  # the store holds only these words
            )
        else:
            recipients.append(RecipientStatus(name=name, state="expired", evidence="forgotten"))
    return recipients


def _open_receipts(agent: Agent, seqs: list[int]) -> list[Receipt]:
    found = (agent.leased.get(seq) or agent.pending.get(seq) for seq in seqs)
    return [receipt for receipt in found if receipt is not None]


def _open_receipt(agent: Agent | None, seq: int) -> Receipt | None:
    if agent is None:
        return None
    return agent.pending.get(seq) or agent.leased.get(seq)
