"""From numbers of an outbox to items that can be sealed: what each says now.

A message leaves with the time it has left. What is void by now leaves as nothing, under the tag it had, so
that the numbers and marks of the lane stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tellwire.core.machines.outbox import MESSAGE, RECEIPTS, REFUSED, ROSTER, WITHDRAW
from tellwire.core.machines.remote_agents import described, our_roster
from tellwire.core.record.stored import StoredMessage
from tellwire.core.state import Agent, Machine, OutItem, Receipt, State
from tellwire.protocol.ids import parse_id
from tellwire.protocol.parcels import (
    AnyItem,
    Message,
    ReceiptRow,
    Receipts,
    Refused,
    RemoteAgent,
    Roster,
    Skip,
    Withdraw,
)

VERSION = 1


def load_items(
    state: State,
    machine: Machine,
    numbers: Sequence[int],
    *,
    messages: Callable[[Sequence[int]], list[StoredMessage]],
    origin: Callable[[int], tuple[str, int]],
) -> list[AnyItem]:
    """What these numbers say now; `origin` tells of a message here its sender, and its number there."""
    outs = [machine.out[number] for number in numbers]
    wanted = [out.seq for out in outs if out.kind == MESSAGE]
    stored = {row.seq: row for row in messages(wanted)} if wanted else {}
    return [_load(state, machine, out, stored, origin) for out in outs]


def _load(
    state: State,
    machine: Machine,
    out: OutItem,
    stored: Mapping[int, StoredMessage],
    origin: Callable[[int], tuple[str, int]],
) -> AnyItem:
    if out.kind == MESSAGE and out.seq in stored:
        return _message(state, machine, out, stored[out.seq], origin)
    if out.kind == RECEIPTS:
        rows = [ReceiptRow(seq, out.agents[0], out.word, out.note) for seq in out.seqs]
        return Receipts(VERSION, out.tag, rows)
    if out.kind == WITHDRAW and (agent := state.agents.get(out.agents[0])) is not None:
        return Withdraw(VERSION, out.tag, out.seqs, agent.there)
    if out.kind == REFUSED:
        return Refused(VERSION, out.tag, out.seqs[0], out.agents[0], out.word, out.note)
    if out.kind == ROSTER and out.word == str(machine.told):
        return Roster(VERSION, out.tag, machine.told, our_roster(state, machine))
    return Skip(VERSION, out.tag)


def _message(
    state: State,
    machine: Machine,
    out: OutItem,
    row: StoredMessage,
    origin: Callable[[int], tuple[str, int]],
) -> AnyItem:
    open_for: list[tuple[Agent, Receipt]] = []
    for agent_id in out.agents:
        agent = state.agents.get(agent_id)
        receipt = None if agent is None else agent.pending.get(out.seq)
        if agent is not None and receipt is not None:
            open_for.append((agent, receipt))
    if not open_for or not row.sender:
        return Skip(VERSION, out.tag)
    receipt = open_for[0][1]
    sender = state.agents.get(row.sender)
    return Message(
        VERSION,
        out.tag,
        out.seq,
        RemoteAgent(row.sender, row.sender_name) if sender is None else described(sender),
        [agent.there for agent, _ in open_for],
        row.body,
        max(0.001, receipt.deadline - state.awake),
        max(0.0, state.now - row.at),
        bool(row.json),
        row.kind,
        _answered(state, machine, row.re, origin),
        row.mode,
        row.context,
        receipt.hops,
        receipt.weak,
        len(row.recipients.split()) > 1,
        out.repeat,
    )


def _answered(state: State, machine: Machine, re: str, origin: Callable[[int], tuple[str, int]]) -> int:
    """The number, on the other machine, of the message that is answered; 0 if it is none of its own."""
    seq = parse_id("m", re) if re else None
    if seq is None:
        return 0
    sender_id, number = origin(seq)
    sender = state.agents.get(sender_id)
    return number if sender is not None and sender.machine == machine.id else 0
