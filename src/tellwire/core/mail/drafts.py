"""A send before its recipients are known: its text within bounds, its digest, and whether it is a repeat."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from tellwire.core.context import Context
from tellwire.core.limits import Limits, check_depth
from tellwire.core.mail.framing import mode_rule
from tellwire.core.state import Agent, Request, State
from tellwire.protocol.addresses import LINK, shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.messages import SendMessage, SendStatus, Sent

RE_LENGTH_MAX = 64
REQUESTS_KEPT = 256
"""Remembered keys of one sender, at least; older ones are refused, never carried out twice.

Not a setting: applying an event must not depend on one. No client has that many sends in flight.
"""


EMPTY_JSON = ("null", "{}", "[]")


# -- the text -----------------------------------------------------------------------------------------


def size_of(text: str, bytes_max: int, what: str) -> int:
    """The bytes of a text.

    Raises:
        TellwireError: `body_too_large`.
    """
    size = len(text) if text.isascii() else len(text.encode())
    if size > bytes_max:
        raise TellwireError("body_too_large", f"The {what} has {size} bytes; the limit is {bytes_max}.")
    return size


def body_size(body: str, bytes_max: int, *, is_json: bool) -> int:
    """The bytes of a body that says something.

    Raises:
        TellwireError: `bad_request`: it is empty; `body_too_large`.
    """
    if not body or body.isspace() or (is_json and body in EMPTY_JSON):
        raise TellwireError("bad_request", "The message is empty.", "Say something in its body.")
    return size_of(body, bytes_max, "body")


def context_of(operation: SendMessage, limits: Limits) -> str:
    """The facts that travel along, as JSON.

    Raises:
        TellwireError: `body_too_large` or `limit_exceeded`.
    """
    check_depth(operation.context, "context")
    text = msgspec.json.encode(operation.context).decode()
    bytes_max = min(limits.context_bytes_max, mode_rule(operation.mode).context_bytes_max)
    what = f"context of mode {operation.mode!r}" if operation.mode else "context"
    size_of(text, bytes_max, what)
    return text


def check_re(re: str | None) -> None:
    """What is answered has a short id.

    Raises:
        TellwireError: `limit_exceeded`.
    """
    if re is not None and len(re) > RE_LENGTH_MAX:
        raise TellwireError("limit_exceeded", f"`re` is longer than {RE_LENGTH_MAX} characters.")


def ttl_of(ttl_s: float, limits: Limits) -> float:
    """How long a message may wait.

    Raises:
        TellwireError: `bad_request`.
    """
    if not 0 < ttl_s <= limits.ttl_s_max:
        raise TellwireError("bad_request", f"`ttl_s` must be above 0 and at most {limits.ttl_s_max:.0f}.")
    return ttl_s


# -- repeats ------------------------------------------------------------------------------------------


def _birth_us(key: str) -> int | None:
    """When a request key was made, in microseconds on the awake clock; None if it is malformed."""
    head, dash, _ = key.partition("-")
    try:
        return int(head, 16) if dash and len(head) <= 12 else None
    except ValueError:
        return None


def sent_earlier(sender: Agent, operation: SendMessage, digest: str, context: Context) -> Sent | None:
    """The answer to the same send, if it was carried out before; None if it is new.

    Raises:
        TellwireError: `conflict`: the same key with another message, or too old to be known.
    """
    request = known_request(sender, operation.key, context)
    if request is None:
        return _identical(sender, operation, digest, context) if operation.once_s else None
    if request.digest != digest:
        if operation.to[:5] == LINK:
            return None  # what was said there has another address, and is recognised there
        raise TellwireError("conflict", "This request id was already used for another message.")
    return sent_before(request)


def known_request(sender: Agent, key: str, context: Context) -> Request | None:
    """What this key was answered with; None if it is new.

    Raises:
        TellwireError: `bad_request`, or `conflict`: too old to be known.
    """
    birth_us = _birth_us(key)
    if birth_us is None or len(key) > context.limits.text_length_max:
        raise TellwireError("bad_request", f"{shorten(key)} is not a request id: `<birth, hex>-<word>`.")
    request = sender.requests.get(key)
    if request is None and birth_us <= sender.request_floor_us:
        raise TellwireError("conflict", "This request id is too old: it may already have been carried out.")
    return request


def _identical(sender: Agent, operation: SendMessage, digest: str, context: Context) -> Sent | None:
    """The first answer to the same message, sent with a key not long ago."""
    since_us = (context.awake - operation.once_s) * 1_000_000
    for key, request in sender.requests.items():
        if request.digest != digest or (_birth_us(key) or 0) < since_us:
            continue
        for first in context.records([request.seq]):
            if (first.re, first.mode, first.context) == (operation.re, operation.mode, operation.context):
                return sent_before(request)
    return None


def sent_before(request: Request) -> Sent:
    """The answer that the first send with this key got."""
    status: SendStatus = request.status  # pyright: ignore[reportAssignmentType]  # only such words are stored
    return Sent(id=format_id("m", request.seq), status=status, note="A repeat: it was already sent once.")


def remember(state: State, sender: Agent, event: MessageQueued) -> None:
    """Keep what a key was answered with, for a while."""
    requests = sender.requests
    first = state.agents[event.recipients[0]]
    status = "sent" if event.several else ("received" if first.online and not first.machine else "queued")
    requests[event.key] = Request(event.digest, state.seq, status)
    if len(requests) >= 2 * REQUESTS_KEPT:  # half at a time: taking one by one off a dict's front is slow
        keys = list(requests)
        sender.requests = {key: requests[key] for key in keys[-REQUESTS_KEPT:]}
        births = (_birth_us(key) or 0 for key in keys[:-REQUESTS_KEPT])
        # A key from the future must not shut its sender out.
        past = (birth for birth in births if birth <= state.awake * 1_000_000)
        sender.request_floor_us = max([sender.request_floor_us, *past])


def digest_of(to: str, body: str) -> str:
    """128 bits of SHA-256 over the address line and the body, in hex."""
    return sha256(f"{to}\n{body}".encode()).hexdigest()[:32]
