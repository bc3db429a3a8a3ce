"""Sending: from a request to a message in its recipients' inboxes.

Bounds are checked here, repeats recognised, order given: a message's sequence is its place for every pair.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tellwire.core.agents.roster import caller_agent
from tellwire.core.children.reports import answers, settle_sent
from tellwire.core.context import Context, Decision
from tellwire.core.limits import check_depth
from tellwire.core.links.chains import chained, hold_back
from tellwire.core.links.fanout import apply_fan_out
from tellwire.core.links.listeners import begin_listening
from tellwire.core.links.sends import decide_link_send
from tellwire.core.machines.outbox import note_queued
from tellwire.core.mail.drafts import (
    body_size,
    check_re,
    context_of,
    digest_of,
    remember,
    sent_earlier,
    ttl_of,
)
from tellwire.core.mail.receipts import SEVERAL
from tellwire.core.mail.routing import (
    ON_LINK,
    TO_SEVERAL,
    Route,
    admit,
    check_broadcast,
    correlate,
    route,
    status_of,
    told_again,
)
from tellwire.core.operator.person import note_speaker
from tellwire.core.operator.questions import note_asked, with_choices
from tellwire.core.record.space import check_kept
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.addresses import OPERATOR, SYSTEM, parse_address
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.messages import Outcome, SendMessage, Sent

NOBODY_ELSE: list[Outcome] = []
"""The outcomes of a send to one; never changed."""


def decide_send(state: State, operation: SendMessage, context: Context) -> Decision:
    """Queue a message for its recipients, or refuse it with the reason."""
    sender = state.agents.get(context.caller.agent) or caller_agent(state, context)
    if operation.direct or operation.listen or operation.choices is not None:
        return _decide_more(state, sender, operation, context)
    limits = context.limits
    to = operation.to if isinstance(operation.to, str) else ",".join(operation.to)
    body, is_json = (operation.body, False) if isinstance(operation.body, str) else _as_text(operation.body)
    extra = "" if operation.context is None else context_of(operation, limits)
    size = body_size(body, limits.body_bytes_max, is_json=is_json) + len(extra)
    ttl_s = limits.ttl_s if operation.ttl_s is None else ttl_of(operation.ttl_s, limits)
    check_re(operation.re)
    digest = digest_of(to, body)
    if operation.key and (earlier := sent_earlier(sender, operation, digest, context)) is not None:
        return Decision(told_again(state, earlier, context))
    if context.kept.get(sender.id, 0) + size > limits.sender_bytes_max:
        check_kept(sender, size, context)
    found = route(state, sender, operation.to, context)
    if (outcome := found.outcome) is not None:
        return (
            decide_link_send(state, sender, operation, context) if outcome is ON_LINK else Decision(outcome)
        )
    reached, outcomes = found.agents, NOBODY_ELSE
    first = reached[0] if reached else sender
    if found.several or first.name == OPERATOR or first.machine or not first.has_room(size, limits):
        reached, outcomes = _admit(state, sender, found, operation, size, context)
    if not reached:
        return Decision(Sent(status="sent", note="No recipient was reached.", recipients=outcomes))
    ids, re, several = [agent.id for agent in reached], operation.re or "", found.several
    evidence, note = correlate(sender, re, ids, context) if re else ([], "")
    status, said, why = TO_SEVERAL if several else status_of(state, reached[0], context)
    note = f"{note} {said}".strip() if said else note
    kind, mode, key = operation.kind or ("response" if re else "request"), operation.mode or "", operation.key
    event = MessageQueued(  # by position: this is the hottest line of all
        sender.id, sender.name, to, ids, size, digest, ttl_s, kind, re, mode, is_json, extra, key, several
    )
    if sender.turns or sender.hops > 0:
        event = chained(event, sender, reached, context)
    if sender.name == OPERATOR:
        evidence = [*note_speaker(sender, context), *evidence]
    seq = state.seq + len(evidence) + 1
    after = settle_sent(state, sender, event, seq, context) if state.children else []
    sent = Sent(id=format_id("m", seq), status=status, note=note, why=why, recipients=outcomes)
    decision = Decision(sent, [*evidence, event, *after], [body])  # `read` goes before the reply
    return hold_back(state, sender, reached, decision, context) if event.weak else decision


def _admit(
    state: State, sender: Agent, found: Route, operation: SendMessage, size: int, context: Context
) -> tuple[list[Agent], list[Outcome]]:
    """The recipients with room, where that takes more than checking one inbox."""
    check_broadcast(found, operation, context)
    recipients = [agent.id for agent in found.agents]
    if not found.several and answers(state, sender, recipients, operation.re or "", context):
        return found.agents, NOBODY_ELSE  # it is read at once and needs no room
    return admit(state, sender, found, size, context)


def _as_text(body: Any) -> tuple[str, bool]:
    check_depth(body, "body")
    return msgspec.json.encode(body).decode(), True


def _decide_more(state: State, sender: Agent, operation: SendMessage, context: Context) -> Decision:
    """A question with choices, a send on a link, or one whose sender wants to hear what comes of it."""
    if operation.choices is not None:
        return decide_send(state, with_choices(operation), context)
    if not operation.listen:
        return decide_link_send(state, sender, operation, context)
    if not isinstance(operation.to, str) or parse_address(operation.to).kind != "agent":
        raise TellwireError("bad_request", "`listen` is for one agent.", "Leave it out, or name one.")
    decision = decide_send(state, replace(operation, listen=False), context)
    agent = state.reach(operation.to)
    if agent is None or not decision.events:  # it was denied, or is a repeat
        return decision
    listener = begin_listening(sender, agent, context, waits=True)
    return Decision(decision.reply, [*decision.events, listener], decision.texts)


def apply_queued(state: State, event: MessageQueued) -> None:
    """The message waits in each recipient's inbox, behind all earlier ones."""
    sender = state.agents.get(event.sender)
    sender_id = event.sender if sender is None else sender.id
    deadline, now = state.awake + event.ttl_s, state.now
    for agent_id in event.recipients:
        agent = state.agents[agent_id]
        receipt = Receipt(sender_id, event.size, deadline, since=now)
        if event.hops or event.weak:
            receipt.hops, receipt.weak = event.hops, event.weak
        if agent.name == OPERATOR:
            note_asked(state, event, receipt)
        if not sender_id and event.sender_name != SYSTEM:
            receipt.quotes = True
        if event.origin:
            receipt.origin, receipt.seen_by = event.origin, SEVERAL if event.repeat else ""
        agent.pending[state.seq] = receipt
        agent.pending_bytes += event.size
        if receipt.deadline < agent.earliest:  # noqa: PLR1730 - on the hottest path, and faster than min()
            agent.earliest = receipt.deadline
    if event.link:
        apply_fan_out(state, event)
    if state.machines:
        note_queued(state, event)
    if sender is not None and event.key:
        remember(state, sender, event)
