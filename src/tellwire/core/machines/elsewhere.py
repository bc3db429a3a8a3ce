"""What a sender is told of agents on other machines: why a message waits, is denied, or was taken back."""

from __future__ import annotations

from tellwire.core.context import Context, Decision
from tellwire.core.machines.outbox import DELIVERED, RECEIVED, WITHDRAWN
from tellwire.core.mail.notices import Post
from tellwire.core.mail.waiting import format_span
from tellwire.core.state import Agent, Machine, Receipt, State
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events.machines import MessagesWithdrawn
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.messages import ReceiptState, Sent
from tellwire.protocol.suggestions import nearest

OUT_ITEMS_MAX = 10_000
OUT_BYTES_MAX = 64 << 20
"""What may wait for one machine."""
IN_OUTBOX = "in the outbox: {} has not confirmed it yet"
AWAY = "{} was last heard {} ago; it gets this when it is back. Do not resend."
NEVER = "{} has not been heard yet; it gets this when it is there. Do not resend."
TAKEN_BACK = "not confirmed in time and withdrawn; it may still have arrived"
NAMED_MAX = 10


def away_note(state: State, agent: Agent, context: Context) -> str:
    """What to say of a message to a machine that is not heard now."""
    machine = state.machines[agent.machine]
    if machine.online:
        return ""
    heard_at = max(machine.heard_at, context.way(machine.id).heard_at)
    if not heard_at:
        return NEVER.format(machine.label)
    return AWAY.format(machine.label, format_span(context.now - heard_at))


def denied_elsewhere(state: State, sender: Agent, word: str, context: Context) -> Sent:
    """Why nobody answers to `label:name`, and who is near."""
    label, _, name = word.partition(":")
    machine = state.machines.get(state.labels.get(label.lower(), ""))
    if label.lower() == state.here_label.lower() and state.here_label:
        near = nearest(name, [each.name for each in state.agents.values() if not each.machine])
        return Sent(status="denied", note=f"There is no agent named {name!r} here.", suggestions=near)
    if machine is None:
        removed = any(
            each.label.lower() == label.lower() for each in state.machines.values() if not each.is_paired
        )
        note = f"The machine {label!r} was removed." if removed else f"There is no machine {label!r}."
        labels = [each.label for each in state.machines.values() if each.is_paired]
        near = [f"{each}:{name}" for each in nearest(label, labels)]
        near = [each for each in near if state.find(each) is not None]
        return Sent(status="denied", note=note, suggestions=near)
    names = [state.agents[each].name for each in machine.agents.values() if each in state.agents]
    near = [each for each in nearest(f"{machine.label}:{name}", names) if each != sender.name]
    note = f"There is no agent {name!r} on {machine.label}."
    if not machine.roster:
        note = f"{machine.label} has not told yet who is there: {shorten(name)} is not known."
    elif not machine.online:
        note = f"{note} {away_since(machine, context)}"
    return Sent(status="denied", note=note, suggestions=near)


def away_since(machine: Machine, context: Context) -> str:
    """How old what we know of a machine is."""
    return f"It was last heard {format_span(context.now - machine.heard_at)} ago."


def why_not_sent(state: State, agent: Agent, size: int) -> TellwireError | None:
    """Why nothing more can wait for an agent's machine; None if it can."""
    machine = state.machines[agent.machine]
    if size > machine.body_bytes_max:
        return TellwireError(
            "body_too_large",
            f"The body has {size} bytes; {machine.label} takes {machine.body_bytes_max}.",
        )
    if "message" not in machine.knows:
        return TellwireError("machine_too_old", f"{machine.label} takes no messages.")
    if len(machine.out) >= OUT_ITEMS_MAX or machine.out_bytes + size > OUT_BYTES_MAX:
        return TellwireError("machine_full", f"{len(machine.out)} items wait for {machine.label} already.")
    return None


# -- how far it got ---------------------------------------------------------------------------------------


def state_there(receipt: Receipt) -> ReceiptState:
    """The state of a message that an agent elsewhere has not read, as far as its machine has told."""
    if receipt.there == DELIVERED:
        return "delivered"
    return "received" if receipt.there == RECEIVED else "pending"


def why_there(state: State, agent: Agent, receipt: Receipt) -> str:
    """What such a message waits for."""
    machine = state.machines[agent.machine]
    if receipt.there == WITHDRAWN:
        return TAKEN_BACK
    return "" if receipt.there else IN_OUTBOX.format(machine.label)


def withdraw(state: State, due: list[tuple[Agent, list[int]]], context: Context) -> Decision:
    """Take back what was not confirmed in time, and tell each sender once; it may have arrived."""
    post = Post(context)
    for agent, seqs in due:
        post.add(MessagesWithdrawn(agent.id, seqs))
        senders: dict[str, list[int]] = {}
        for seq in seqs:
            senders.setdefault(agent.pending[seq].sender, []).append(seq)
        for sender_id, lost in senders.items():
            sender = state.agents.get(sender_id)
            if sender is None or sender.machine:
                continue
            ids = ", ".join(format_id("m", seq) for seq in lost[:NAMED_MAX])
            ids += f" and {len(lost) - NAMED_MAX} more" if len(lost) > NAMED_MAX else ""
            label = state.machines[agent.machine].label
            text = f"{label} did not confirm in time: {ids} to {agent.name}. Withdrawn; it may still arrive."
            post.tell(sender, text, "lost")
    return Decision(None, post.events, post.texts)
