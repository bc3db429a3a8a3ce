"""The past: who may read which of it, by whom, when and with which words.

An agent sees what it sent or received, nothing else; the operator and scripts see all.
"""

from __future__ import annotations

from tellwire.core.agents.roster import caller_agent, find_agent
from tellwire.core.context import Context, Decision
from tellwire.core.links.links import check_member, find_link
from tellwire.core.mail.receipts import statuses_of
from tellwire.core.mail.waiting import Waiting
from tellwire.core.record.explain import as_history
from tellwire.core.record.stored import Query
from tellwire.core.record.terms import Term, parse_terms
from tellwire.core.state import State
from tellwire.protocol.addresses import ID, SYSTEM, parse_link
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id, parse_message_id
from tellwire.protocol.operations.base import AGENT
from tellwire.protocol.operations.history import History, ReadHistory, SearchMessages
from tellwire.protocol.operations.links import LinkHistory


def decide_history(state: State, operation: ReadHistory, context: Context) -> Decision:
    """A page of messages, newest first."""
    return _page(state, _query(state, operation, context, ()), context)


def decide_search(state: State, operation: SearchMessages, context: Context) -> Decision:
    """A page of messages that contain all the words asked for."""
    return _page(state, _query(state, operation, context, parse_terms(operation.query)), context)


def decide_link_history(state: State, operation: LinkHistory, context: Context) -> Decision:
    """A page of what was said on a link, for those who are or were in it."""
    link = find_link(state, operation.link)
    check_member(state, link, context, past=True)
    asked = ReadHistory(link=operation.link, before=operation.before, limit=operation.limit)
    return _page(state, _query(state, asked, context, ()), context)


def _query(
    state: State, operation: ReadHistory | SearchMessages, context: Context, terms: tuple[Term, ...]
) -> Query:
    """Check the bounds of a request and turn it into a query; an agent is limited to its own messages."""
    limits = context.limits
    if not 1 <= operation.limit <= limits.peek_max:
        raise TellwireError("limit_exceeded", f"`limit` must be from 1 to {limits.peek_max}.")
    agent = None if operation.agent is None else _party(state, operation.agent)
    peer = None if operation.peer is None else _party(state, operation.peer)
    if context.caller.kind == AGENT:
        own = caller_agent(state, context).id
        if agent not in (None, own):
            raise TellwireError("forbidden", "An agent can read only its own history.")
        agent = own
    elif agent is None:
        agent, peer = peer, None
    return Query(
        limit=operation.limit,
        bytes_max=limits.page_bytes_max,
        agent=agent,
        peer=peer,
        link=None if operation.link is None else parse_link(operation.link),
        since=operation.since,
        until=operation.until,
        before=0 if operation.before is None else parse_message_id(operation.before),
        after=0 if operation.after is None else parse_message_id(operation.after),
        terms=terms,
    )


def _party(state: State, name: str) -> str:
    """The id of an agent by its name, or by `id:a2`, also of one that is forgotten."""
    if name.lower() == SYSTEM and state.find(name) is None:
        return ""
    if name.startswith(ID) and parse_id("a", name[len(ID) :]) is not None:
        return name[len(ID) :]
    return find_agent(state, name).id


def _page(state: State, query: Query, context: Context) -> Decision:
    past = context.find(query)
    settled = context.receipts([header.seq for header, _ in past.messages])
    waiting = Waiting(context)
    messages = [
        as_history(record, statuses_of(state, header, settled.get(header.seq, {}), waiting))
        for header, record in past.messages
    ]
    older = format_id("m", past.next) if past.next else ""
    return Decision(History(messages=messages, more=bool(older), next=older))
