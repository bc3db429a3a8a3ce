"""What is to be said to other machines: numbered when its event is applied, kept until it is acknowledged.

A message to an agent elsewhere waits in that agent's inbox here, and one item tells its machine of it. What
became of a message from elsewhere goes back the same way. Replaying the journal gives the same numbers again.

    pending --acknowledged--> received --> delivered --> read          (`there` of a receipt tells which)
       +--- time over --> withdrawn: what the other machine says decides
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from tellwire.core.state import Agent, Machine, OutItem, Receipt, State
from tellwire.protocol.events import MessageQueued
from tellwire.protocol.events.machines import (
    IncarnationBegun,
    ItemRefused,
    MessagesRefused,
    MessagesWithdrawn,
    ParcelsAcked,
    ParcelTaken,
    ReceiptGiven,
    ReceiptsTaken,
    RosterTold,
)
from tellwire.protocol.parcels import ZERO, make_tag, next_mark

RECEIVED, DELIVERED, WITHDRAWN = "received", "delivered", "withdrawn"
MESSAGE, WITHDRAW, RECEIPTS, REFUSED, ROSTER = "message", "withdraw", "receipts", "refused", "roster"
ROSTER_BYTES_MAX = 60 << 10
"""A roster is cut to this."""
ITEM_BYTES = 64
"""What an item counts against the bound of an outbox besides its body."""


def put(state: State, machine: Machine | None, item: OutItem, digest: str = "") -> None:
    """Give one more thing the next number of the lane to a machine."""
    if machine is None or not machine.is_paired:
        return
    item.tag = make_tag(item.kind, item.seq, state.now, digest)
    item.size += ITEM_BYTES
    machine.sent += 1
    machine.out[machine.sent] = item
    machine.out_bytes += item.size


# -- what is said ---------------------------------------------------------------------------------------


def note_queued(state: State, event: MessageQueued) -> None:
    """One item for each machine on which a message has recipients."""
    machines: dict[str, list[str]] = {}
    for agent_id in event.recipients:
        if machine := state.agents[agent_id].machine:
            machines.setdefault(machine, []).append(agent_id)
    for machine, agents in machines.items():
        item = OutItem(MESSAGE, state.seq, size=event.size, agents=agents)
        put(state, state.machines.get(machine), item, event.digest)


def note_receipts(
    state: State, agent: Agent, receipts: Iterable[Receipt], word: str, evidence: str = ""
) -> None:
    """Tell the machines where these messages were sent how far they got with an agent of ours."""
    machines: dict[str, list[int]] = {}
    for receipt in receipts:
        if receipt.origin and (sender := state.agents.get(receipt.sender)) is not None and sender.machine:
            machines.setdefault(sender.machine, []).append(receipt.origin)
    for machine, seqs in machines.items():
        item = OutItem(RECEIPTS, state.seq, agents=[agent.id], word=word, seqs=seqs, note=evidence)
        put(state, state.machines.get(machine), item, word)


def apply_roster_told(state: State, event: RosterTold) -> None:
    """What it says is gathered when it leaves."""
    for machine_id in event.machines:
        if (machine := state.machines.get(machine_id)) is not None:
            tell_roster(state, machine)


def tell_roster(state: State, machine: Machine) -> None:
    """Put our roster on the lane to a machine; one that is still there is void by now."""
    before = machine.out.get(machine.told_item)
    if before is not None:
        machine.out_bytes -= before.size - ITEM_BYTES
        before.size = ITEM_BYTES
    machine.told += 1
    put(state, machine, OutItem(ROSTER, state.seq, size=ROSTER_BYTES_MAX, word=str(machine.told)))
    machine.told_item = machine.sent


def apply_item_refused(state: State, event: ItemRefused) -> None:
    """The machine that sent it is told."""
    if event.seq:
        item = OutItem(REFUSED, state.seq, agents=[event.recipient], word=event.code, seqs=[event.seq])
        item.note = event.note
        put(state, state.machines.get(event.machine), item)


def apply_receipt_given(state: State, event: ReceiptGiven) -> None:
    """It is told how far the message got; if it was told of an end before, that one stands."""
    item = OutItem(RECEIPTS, state.seq, agents=[event.agent], word=event.state, seqs=[event.seq])
    item.note = event.evidence
    put(state, state.machines.get(event.machine), item)


# -- our receipts of what we sent -----------------------------------------------------------------------


def apply_acked(state: State, event: ParcelsAcked) -> None:
    """It is on the other machine's disk: the messages among it are received there."""
    machine = state.machines.get(event.machine)
    if machine is None or event.inc != machine.inc:
        return
    mark = machine.acked_mark
    for number in range(machine.acked + 1, event.number + 1):
        item = machine.out.pop(number)
        machine.out_bytes -= item.size
        mark = next_mark(mark, item.tag)
        if item.kind == MESSAGE:
            for agent_id in item.agents:
                if (agent := state.agents.get(agent_id)) is not None:
                    _hand_over(state, agent, item.seq, RECEIVED)
    machine.acked, machine.acked_mark = event.number, mark


def _hand_over(state: State, agent: Agent, seq: int, there: str) -> None:
    """A message is no longer in our hands alone: its time to live stands still here."""
    receipt = agent.pending.pop(seq, None)
    if receipt is None:
        return
    receipt.lease, receipt.there = state.seq, there
    receipt.deadline -= state.awake
    agent.leased[seq] = receipt
    agent.pending_bytes -= receipt.size
    agent.leased_bytes += receipt.size
    if not agent.pending:
        agent.earliest = inf


def apply_receipts_taken(state: State, event: ReceiptsTaken) -> None:
    """Handed over there, or waiting there again."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    for seq in event.seqs:
        _hand_over(state, agent, seq, event.state)
        if (receipt := agent.leased.get(seq)) is not None:
            receipt.there = event.state


def apply_withdrawn(state: State, event: MessagesWithdrawn) -> None:
    """Their time is over: they leave as nothing, and what may be on its way is taken back."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    for seq in event.seqs:
        _hand_over(state, agent, seq, WITHDRAWN)
    agent.earliest = min((receipt.deadline for receipt in agent.pending.values()), default=inf)
    machine = state.machines.get(agent.machine)
    put(state, machine, OutItem(WITHDRAW, state.seq, agents=[agent.id], seqs=event.seqs))


def apply_messages_refused(state: State, event: MessagesRefused) -> None:
    """They leave the inbox; the past is the store's."""
    agent = state.agents.get(event.agent)
    if agent is None:
        return
    for seq in event.seqs:
        if (receipt := agent.pending.pop(seq, None)) is not None:
            agent.pending_bytes -= receipt.size
        elif (receipt := agent.leased.pop(seq, None)) is not None:
            agent.leased_bytes -= receipt.size
    agent.earliest = min((receipt.deadline for receipt in agent.pending.values()), default=inf)


# -- the lanes ------------------------------------------------------------------------------------------


def apply_taken(state: State, event: ParcelTaken) -> None:
    """So far the other machine's lane has had its effect."""
    machine = state.machines.get(event.machine)
    if machine is not None:
        machine.peer_inc, machine.taken, machine.taken_mark = event.inc, event.number, event.mark


def apply_incarnation(state: State, event: IncarnationBegun) -> None:
    """Number anew what is not acknowledged, behind all that was and that nobody has read."""
    machine = state.machines.get(event.machine)
    if machine is None:
        return
    waiting = list(machine.out.values())
    machine.follows = event.follows
    machine.inc, machine.sent, machine.acked, machine.acked_mark = event.inc, 0, 0, ZERO
    machine.out, machine.out_bytes, machine.told_item = {}, 0, 0
    for item in [*_offered_again(state, machine, waiting), *waiting]:
        item.repeat = item.repeat or item.kind == MESSAGE
        if item.kind == ROSTER:
            item.size = ITEM_BYTES  # another one follows
        machine.sent += 1
        machine.out[machine.sent] = item
        machine.out_bytes += item.size
    tell_roster(state, machine)


def _offered_again(state: State, machine: Machine, waiting: list[OutItem]) -> list[OutItem]:
    """Items for messages that the other machine had, or may have had, and of whose end it has not told."""
    known = {(item.seq, agent) for item in waiting if item.kind == MESSAGE for agent in item.agents}
    messages: dict[int, list[Agent]] = {}
    withdrawn: list[OutItem] = []
    for agent_id in machine.agents.values():
        agent = state.agents.get(agent_id)
        if agent is None:
            continue
        gone = [seq for seq, receipt in agent.leased.items() if receipt.there == WITHDRAWN]
        if gone:
            tag = make_tag(WITHDRAW, state.seq, state.now, agent_id)
            withdrawn.append(OutItem(WITHDRAW, state.seq, tag, ITEM_BYTES, [agent_id], "", gone))
        for seq in [seq for seq in agent.leased if seq not in gone and (seq, agent_id) not in known]:
            messages.setdefault(seq, []).append(agent)
    items: list[OutItem] = []
    for seq, agents in sorted(messages.items()):
        size = agents[0].leased[seq].size + ITEM_BYTES
        for agent in agents:
            _take_back(state, agent, seq)
        tag = make_tag(MESSAGE, seq, state.now, "again")
        items.append(OutItem(MESSAGE, seq, tag, size, [agent.id for agent in agents]))
    return [*items, *withdrawn]


def _take_back(state: State, agent: Agent, seq: int) -> None:
    """Nobody can be sure that the other machine has it: it waits in our outbox again."""
    receipt = agent.leased.pop(seq)
    receipt.lease, receipt.there = 0, ""
    receipt.deadline += state.awake
    agent.earliest = min(agent.earliest, receipt.deadline)
    agent.leased_bytes -= receipt.size
    agent.pending_bytes += receipt.size
    agent.pending[seq] = receipt
    agent.pending = dict(sorted(agent.pending.items()))
