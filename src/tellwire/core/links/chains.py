"""Chains: turns in a row, each begun by a message that came of the one before; and where they end (WAKE-3).

A message carries as `hops` how many such turns led to it, the sender's own included. A person's prompt, the
operator's message, a child's task and whatever a program sends of its own accord begin afresh: their hops
are 0, and the turn that they begin stays fresh whatever comes during it. Beyond the bound a message is weak:
it begins no turn and keeps none going, but waits for the next turn that something else begins. A program, or
a client that reports no turns, adds nothing to a chain and passes it on.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tellwire.core.context import Context, Decision
from tellwire.core.mail.notices import Post, is_held
from tellwire.core.state import Agent, Receipt, State
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.events import MessageQueued

FRESH = -1
"""Instead of a number of hops: the turn was started by new work."""
NAMES_MAX = 3
HELD = (
    "{bound} turns in a row came of messages alone, and {names} will not be woken for this one: it waits for "
    "a human's prompt, the operator's message or new work"
)
TOLD = (
    "{bound} turns in a row came of messages alone, the last by {sender}. {names} will not be woken for more "
    "of them: they wait until a human prompts {names}, the operator writes, or new work comes."
)


def hops_of(sender: Agent, context: Context) -> int:
    """How many turns in a row led to what it says now, its own included."""
    if sender.name == OPERATOR:
        return 0
    if not sender.turns:
        return max(0, sender.hops)
    return 1 if sender.hops == FRESH or context.prompted(sender.id) else sender.hops + 1


def chained(event: MessageQueued, sender: Agent, recipients: list[Agent], context: Context) -> MessageQueued:
    """What an agent sends, with its hops, and weak if it begins no turn any more."""
    hops = hops_of(sender, context)
    return replace(event, hops=hops, weak=is_over(hops, recipients, context)) if hops > 0 else event


def is_over(hops: int, recipients: Iterable[Agent], context: Context) -> bool:
    """Whether a message with this many hops begins no turn; clients that report no turns are never woken."""
    return hops > context.limits.chain_turns_max and any(agent.turns for agent in recipients)


def hold_back(
    state: State, sender: Agent, recipients: list[Agent], decision: Decision, context: Context
) -> Decision:
    """The decision to send what wakes nobody: the sender hears why, the others and the operator once."""
    bound = context.limits.chain_turns_max
    names = ", ".join(agent.name for agent in recipients[:NAMES_MAX])
    names += ", …" if len(recipients) > NAMES_MAX else ""
    told = [agent for agent in recipients if not is_held(agent)]
    person = state.find(OPERATOR)
    if told and person is not None and person not in told:
        told.append(person)
    post = Post(context)
    for agent in told:
        post.tell(agent, TOLD.format(bound=bound, sender=sender.name, names=names), "chain")
    why = HELD.format(bound=bound, names=names)
    sent = decision.reply
    if sent.status == "received":
        sent = replace(sent, status="queued", why=why)
    else:  # for several, or for one that nothing reaches anyway
        sent = replace(sent, note=f"{sent.note} {why}.".lstrip())
    return Decision(sent, [*decision.events, *post.events], [*decision.texts, *post.texts])


# -- applying events -----------------------------------------------------------------------------------


def chain_of(agent: Agent, receipts: list[Receipt]) -> int:
    """The hops of a turn that these messages, which are leased by now, began or entered."""
    most = _most(receipts)
    is_fresh = any(each.sender and not each.hops for each in receipts)
    if not agent.turns:
        return most if most or is_fresh else agent.hops
    if is_fresh:
        return FRESH
    if not agent.handed:  # they begin it; what was left of the turn before may have been read since
        return _most(agent.leased.values())
    return FRESH if agent.hops == FRESH else max(agent.hops, most)


def end_chain(agent: Agent, outcome: str) -> None:
    """Its turn is over: the next one begins with what was handed over and not seen to be read.

    One that failed is tried again: the chain stays as it was.
    """
    if outcome != "errored":
        agent.hops = _most(agent.leased.values())


def _most(receipts: Iterable[Receipt]) -> int:
    return max((each.hops for each in receipts if not each.weak), default=0)
