"""Sends on a link: on the one addressed, or on the direct link of sender and recipient."""

from __future__ import annotations

from typing import cast

import msgspec

from tellwire.core.context import Context, Decision
from tellwire.core.limits import check_depth
from tellwire.core.links.fanout import Words, admit_members, fan_out, is_person
from tellwire.core.links.links import LINKS, check_member, direct_link, live_link, open_link, resume
from tellwire.core.mail.drafts import (
    body_size,
    check_re,
    context_of,
    digest_of,
    known_request,
    sent_before,
    ttl_of,
)
from tellwire.core.mail.notices import Post
from tellwire.core.mail.routing import correlate, route, status_of
from tellwire.core.record.space import check_kept
from tellwire.core.state import Agent, Link, State
from tellwire.protocol.addresses import LINK, link_of
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.links import NewMember
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.links import Made
from tellwire.protocol.operations.messages import SendMessage, SendStatus, Sent


def decide_link_send(state: State, sender: Agent, operation: SendMessage, context: Context) -> Decision:
    """Say something on a link: the one addressed, or the direct one of sender and recipient."""
    words = _words_of(operation, context)
    earlier = _sent_earlier(sender, operation, words.body, context)
    if earlier is not None:
        return Decision(earlier)
    check_kept(sender, words.size, context)
    post = Post(context)
    made: Made = ""
    if isinstance(operation.to, str) and operation.to.startswith(LINK):
        link = live_link(state, operation.to)
        check_member(state, link, context)
    else:
        found = route(state, sender, operation.to, context)
        if found.outcome is not None:
            return Decision(found.outcome)
        if found.several:
            raise TellwireError("bad_request", "`direct` is for one agent.", "Use open_link for several.")
        (peer,) = found.agents
        link, made = _direct(state, sender, peer, context, post)
    if link.status == "paused" and is_person(sender):
        resume(state, link, sender.id, post)
    elif link.status == "paused":
        raise TellwireError(
            "link_paused",
            f"{LINK}{link.id} is paused ({link.reason}).",
            f'resume_link("{link.id}") lets it go on.',
        )
    return _send_on(state, link, sender, words, operation, context, post, made)


def _send_on(
    state: State,
    link: Link,
    sender: Agent,
    words: Words,
    operation: SendMessage,
    context: Context,
    post: Post,
    made: Made,
) -> Decision:
    """Queue the words for the members that have room; the link may have been opened in the same decision."""
    reached = admit_members(state, link, sender, words.size, context, several=not link.direct)
    if not reached.recipients:
        nobody = Sent(
            status="sent", note="No recipient was reached.", recipients=reached.outcomes, link=link.id
        )
        return Decision(nobody, post.events, post.texts)
    note = ""
    if operation.re:
        evidence, note = correlate(sender, operation.re, [each.id for each in reached.recipients], context)
        post.add(*evidence)
    message_id = format_id("m", state.seq + len(post.events) + 1)
    fan_out(state, link, sender, words, reached, post, human=is_person(sender))
    status: SendStatus = "sent"
    why = ""
    if link.direct and len(reached.recipients) == 1:
        status, told, why = status_of(state, reached.recipients[0], context)
        note = f"{note} {told}".strip()
    sent = Sent(
        id=message_id,
        status=status,
        note=note,
        why=why,
        recipients=reached.outcomes,
        link=link.id,
        made=made,
    )
    return Decision(sent, post.events, post.texts)


def _direct(state: State, sender: Agent, peer: Agent, context: Context, post: Post) -> tuple[Link, Made]:
    """The one link of the two (SC-1): found, or opened."""
    known = direct_link(state, sender, peer.id)
    if known is not None:
        return known, "reused"
    if peer.machine:
        raise TellwireError("not_across_machines", f"{peer.name!r} is on another machine: no {LINKS}.")
    pair = [sender, peer]
    seats = [NewMember(agent.id, agent.name, number) for number, agent in enumerate(pair, 1)]
    return open_link(state, pair, seats, context, post), "created"


def _words_of(operation: SendMessage, context: Context) -> Words:
    """The text of a send with all its bounds checked."""
    limits = context.limits
    body, is_json = operation.body, False
    if not isinstance(body, str):
        check_depth(body, "body")
        body, is_json = msgspec.json.encode(body).decode(), True
    size = body_size(body, limits.body_bytes_max, is_json=is_json)
    extra = "" if operation.context is None else context_of(operation, limits)
    check_re(operation.re)
    return Words(
        body=body,
        size=size + len(extra),
        ttl_s=limits.ttl_s if operation.ttl_s is None else ttl_of(operation.ttl_s, limits),
        json=is_json,
        context=extra,
        kind=operation.kind or ("response" if operation.re else "request"),
        re=operation.re or "",
        mode=operation.mode or "",
        key=operation.key,
    )


def _sent_earlier(sender: Agent, operation: SendMessage, body: str, context: Context) -> Sent | None:
    """The answer to the same send, if it was carried out before; its place on the link was not known then."""
    request = known_request(sender, operation.key, context) if operation.key else None
    if request is None:
        return None
    header = context.header(request.seq)
    link = "" if header is None else link_of(header.to)
    if header is None or not link or digest_of(header.to, body) != request.digest:
        raise TellwireError("conflict", "This request id was already used for another message.")
    if not operation.direct and link_of(cast("str", operation.to)) != link:
        raise TellwireError("conflict", "This request id was already used on another link.")
    return msgspec.structs.replace(sent_before(request), link=link)
