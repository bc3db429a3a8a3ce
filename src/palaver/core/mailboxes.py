"""Sending: from a request to a message in its recipients' inboxes.

Bounds are checked here, repeats recognised, order given: a message's sequence is its place for every pair.
"""

from __future__ import annotations

import msgspec

from palaver.core.context import Context, Decision
from palaver.core.digests import digest_of
from palaver.core.limits import Limits, check_depth
from palaver.core.modes import mode_rule
from palaver.core.receipts import evidence_of_reply
from palaver.core.roster import caller_agent
from palaver.core.routing import Route, check_broadcast, route
from palaver.core.state import Agent, Receipt, Request, State
from palaver.protocol.addresses import shorten
from palaver.protocol.errors import PalaverError
from palaver.protocol.events import AnyEvent, MessageQueued
from palaver.protocol.ids import format_id, parse_id
from palaver.protocol.operations.messages import Outcome, SendMessage, SendStatus, Sent

RE_LENGTH_MAX = 64
NOBODY_ELSE: list[Outcome] = []
"""The outcomes of a send to one; never changed."""
REQUESTS_KEPT = 256
"""Remembered keys of one sender, at least; older ones are refused, never carried out twice.

Not a setting: applying an event must not depend on one. No client has so many sends in flight.
"""


def decide_send(state: State, operation: SendMessage, context: Context) -> Decision:
    """Queue a message, or say why not."""
    sender = state.agents.get(context.caller.agent) or caller_agent(state, context)
    limits = context.limits
    to = operation.to if isinstance(operation.to, str) else ",".join(operation.to)
    body, is_json = operation.body, False
    if not isinstance(body, str):
        check_depth(body, "body")
        body, is_json = msgspec.json.encode(body).decode(), True
    size = _size_of(body, limits.body_bytes_max, "body")
    extra = "" if operation.context is None else _context_of(operation, limits)
    ttl_s = limits.ttl_s if operation.ttl_s is None else _ttl(operation.ttl_s, limits)
    _check_re(operation.re)
    digest = digest_of(to, body)
    if operation.key and (earlier := _sent_earlier(sender, operation, digest, context)) is not None:
        return Decision(earlier)
    found = route(state, sender, operation.to, context)
    if found.outcome is not None:
        return Decision(found.outcome)
    size += len(extra)
    reached, outcomes = found.agents, NOBODY_ELSE
    if found.several or not _has_room(reached[0], size, limits):
        check_broadcast(found, operation, context)
        reached, outcomes = _admit(found, size, limits)
    if not reached:
        return Decision(Sent(status="sent", note="Nobody was reached.", recipients=outcomes))
    # Evidence comes first in the journal: the reply shows that the message it answers was read.
    recipients = [agent.id for agent in reached]
    evidence, note = _correlate(sender, operation.re, recipients, context) if operation.re else ([], "")
    message_id = format_id("m", state.seq + len(evidence) + 1)
    status: SendStatus = "sent" if found.several else ("received" if reached[0].online else "queued")
    event = MessageQueued(  # by position: this is the hottest line of all
        sender.id,
        sender.name,
        to,
        recipients,
        size,
        digest,
        ttl_s,
        operation.kind or ("response" if operation.re else "request"),
        operation.re or "",
        operation.mode or "",
        is_json,
        extra,
        operation.key,
        found.several,
    )
    sent = Sent(id=message_id, status=status, note=note, recipients=outcomes)
    return Decision(sent, [*evidence, event], [body])


def apply_queued(state: State, event: MessageQueued) -> None:
    """The message waits in each recipient's inbox, behind all earlier ones."""
    sender = state.agents.get(event.sender)
    sender_id = event.sender if sender is None else sender.id
    deadline = state.awake + event.ttl_s
    for agent_id in event.recipients:
        agent = state.agents[agent_id]
        agent.pending[state.seq] = Receipt(sender_id, event.size, deadline)
        agent.pending_bytes += event.size
        if deadline < agent.earliest:  # noqa: PLR1730 - on the hottest path, and faster than min()
            agent.earliest = deadline
    if sender is not None and event.key:
        _remember(state, sender, event)


# -- the text -----------------------------------------------------------------------------------------


def _size_of(text: str, bytes_max: int, what: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    if size > bytes_max:
        raise PalaverError("body_too_large", f"The {what} has {size} bytes; at most {bytes_max} fit.")
    return size


def _context_of(operation: SendMessage, limits: Limits) -> str:
    check_depth(operation.context, "context")
    text = msgspec.json.encode(operation.context).decode()
    bytes_max = min(limits.context_bytes_max, mode_rule(operation.mode).context_bytes_max)
    what = f"context of mode {operation.mode!r}" if operation.mode else "context"
    _size_of(text, bytes_max, what)
    return text


def _check_re(re: str | None) -> None:
    if re is not None and len(re) > RE_LENGTH_MAX:
        raise PalaverError("limit_exceeded", f"`re` is longer than {RE_LENGTH_MAX} characters.")


def _ttl(ttl_s: float, limits: Limits) -> float:
    if not 0 < ttl_s <= limits.ttl_s_max:
        raise PalaverError("bad_request", f"`ttl_s` must be above 0 and at most {limits.ttl_s_max:.0f}.")
    return ttl_s


# -- repeats ------------------------------------------------------------------------------------------


def _birth_us(key: str) -> int | None:
    head, dash, _ = key.partition("-")
    try:
        return int(head, 16) if dash and len(head) <= 12 else None
    except ValueError:
        return None


def _sent_earlier(sender: Agent, operation: SendMessage, digest: str, context: Context) -> Sent | None:
    """The answer to the same send, if it was carried out before."""
    earlier = _repeated(sender, operation.key, digest, context)
    if earlier is None and operation.once_s:
        earlier = _identical(sender, operation, digest, context)
    return earlier


def _repeated(sender: Agent, key: str, digest: str, context: Context) -> Sent | None:
    """The first answer to this key, if it is a repeat; None if it is new.

    Raises:
        PalaverError: `conflict`: the same key with another message, or too old to be known.
    """
    birth_us = _birth_us(key)
    if birth_us is None or len(key) > context.limits.text_length_max:
        raise PalaverError("bad_request", f"{shorten(key)} is not a request id: `<birth, hex>-<word>`.")
    request = sender.requests.get(key)
    if request is None:
        if birth_us <= sender.request_floor_us:
            raise PalaverError("conflict", "This request id is too old: it may have been carried out before.")
        return None
    if request.digest != digest:
        raise PalaverError("conflict", "This request id was used for another message.")
    return _sent_before(request)


def _identical(sender: Agent, operation: SendMessage, digest: str, context: Context) -> Sent | None:
    """The first answer to the same message, sent with a key not long ago."""
    since_us = (context.awake - operation.once_s) * 1_000_000
    for key, request in sender.requests.items():
        if request.digest != digest or (_birth_us(key) or 0) < since_us:
            continue
        for first in context.records([request.seq]):
            if (first.re, first.mode, first.context) == (operation.re, operation.mode, operation.context):
                return _sent_before(request)
    return None


def _sent_before(request: Request) -> Sent:
    status: SendStatus = request.status  # pyright: ignore[reportAssignmentType]  # only such words are stored
    return Sent(id=format_id("m", request.seq), status=status, note="A repeat: sent once, before.")


def _remember(state: State, sender: Agent, event: MessageQueued) -> None:
    requests = sender.requests
    status = (
        "sent" if event.several else ("received" if state.agents[event.recipients[0]].online else "queued")
    )
    requests[event.key] = Request(event.digest, state.seq, status)
    if len(requests) >= 2 * REQUESTS_KEPT:  # half at a time: taking one by one off a dict's front is slow
        keys = list(requests)
        sender.requests = {key: requests[key] for key in keys[-REQUESTS_KEPT:]}
        births = (_birth_us(key) or 0 for key in keys[:-REQUESTS_KEPT])
        # A key from the future must not shut its sender out.
        past = (birth for birth in births if birth <= state.awake * 1_000_000)
        sender.request_floor_us = max([sender.request_floor_us, *past])


# -- recipients ---------------------------------------------------------------------------------------


def _has_room(agent: Agent, size: int, limits: Limits) -> bool:
    return (
        len(agent.pending) + len(agent.leased) < limits.mailbox_messages_max
        and agent.pending_bytes + agent.leased_bytes + size <= limits.mailbox_bytes_max
    )


def _admit(found: Route, size: int, limits: Limits) -> tuple[list[Agent], list[Outcome]]:
    """Who has room for the message.

    Raises:
        PalaverError: `mailbox_full`, if it was for one agent only.
    """
    reached: list[Agent] = []
    outcomes: list[Outcome] = list(found.missed)
    for agent in found.agents:
        if not _has_room(agent, size, limits):
            if not found.several:
                count = len(agent.pending) + len(agent.leased)
                raise PalaverError(
                    "mailbox_full", f"The mailbox of {agent.name!r} is full ({count} messages)."
                )
            outcomes.append(Outcome(name=agent.name, status="denied", note="Its mailbox is full."))
            continue
        reached.append(agent)
        if found.several:
            outcomes.append(Outcome(name=agent.name, status="received" if agent.online else "queued"))
    return reached, outcomes


def _correlate(sender: Agent, re: str, recipients: list[str], context: Context) -> tuple[list[AnyEvent], str]:
    seq = parse_id("m", re)
    header = None if seq is None else context.header(seq)
    if header is None:
        return [], f"`re` {re!r} is unknown here; sent all the same."
    return evidence_of_reply(sender, header, recipients), ""
