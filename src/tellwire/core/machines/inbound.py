"""What another machine says, decided: its items become events, and the number taken is one of them.

Nothing here raises for anything that can be decoded: what is not accepted is refused to the machine that
sent it, and the lane goes on. A machine speaks for its own agents only; the words of a notice are ours.
"""

from __future__ import annotations

import msgspec

from tellwire.core.context import (
    BeginIncarnation,
    Context,
    Decision,
    NoteAcked,
    NoteMachine,
    TakeItems,
    TellRoster,
)
from tellwire.core.limits import check_depth
from tellwire.core.machines.remote_agents import GONE, ROSTER_MAX, is_news, is_sound, may_see
from tellwire.core.mail.drafts import digest_of
from tellwire.core.mail.notices import Post, harmless
from tellwire.core.mail.receipts import evidence_of_reply
from tellwire.core.operator.person import is_operator
from tellwire.core.operator.questions import has_share
from tellwire.core.record.final_receipts import MAYBE_READ
from tellwire.core.record.stored import FinalState, Query
from tellwire.core.state import Agent, Machine, Receipt, State
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AgentForgotten,
    MessageAnswered,
    MessageQueued,
    MessagesExpired,
    MessagesRead,
)
from tellwire.protocol.events.machines import (
    IncarnationBegun,
    ItemRefused,
    MachineOffline,
    MachineOnline,
    MessagesRefused,
    ParcelsAcked,
    ParcelTaken,
    ReceiptGiven,
    ReceiptsTaken,
    RemoteAgentTold,
    RosterTaken,
    RosterTold,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.machines import remote_name
from tellwire.protocol.parcels import (
    ZERO,
    AnyItem,
    Message,
    Receipts,
    Refused,
    RemoteAgent,
    Roster,
    Unknown,
    Withdraw,
    next_mark,
)

MODES = frozenset({"", "challenge", "agree", "collaborate", "deduce"})
KINDS = frozenset({"request", "response", "notification"})
NOTE_LENGTH_MAX = 200
HOPS_MAX = 1 << 20
LOOKED_AT = 200
"""Messages of the same two agents among which one that comes again is looked for."""
PAGE_BYTES = 1 << 20
PUT_BACK = (
    "The store of this machine or of {label} was put back to an older copy. What {label} may not have is "
    "sent again, marked as a repeat."
)


# -- commands -------------------------------------------------------------------------------------------


def decide_take(state: State, command: TakeItems, context: Context) -> Decision:
    """Take the next items of a machine's lane, if they are the next; number and effect are one decision."""
    machine = state.machines.get(command.machine)
    if machine is None or not machine.is_paired or command.inc < machine.peer_inc:
        return Decision()
    taken, mark = machine.taken, machine.taken_mark
    if command.inc > machine.peer_inc:
        taken, mark = 0, ZERO
    if command.first != taken + 1 or command.base != mark or not command.items:
        return Decision()
    inbound = Inbound(state, machine, context)
    if command.inc > max(1, machine.peer_inc) and not command.follows:
        inbound.post.add(IncarnationBegun(machine.id, machine.inc + 1, follows=True))
    for item in command.items:
        inbound.take(item)
        mark = next_mark(mark, item.tag)
    last = taken + len(command.items)
    return Decision(
        None, [*inbound.post.events, ParcelTaken(machine.id, command.inc, last, mark)], inbound.post.texts
    )


def decide_acked(state: State, command: NoteAcked, _context: Context) -> Decision:
    """The other machine has everything up to a number on its disk."""
    machine = state.machines.get(command.machine)
    if machine is None or not machine.is_paired or command.inc != machine.inc:
        return Decision()
    if not machine.acked < command.number <= machine.sent:
        return Decision()
    return Decision(None, [ParcelsAcked(machine.id, machine.inc, command.number)])


def decide_incarnation(state: State, command: BeginIncarnation, context: Context) -> Decision:
    """Number our lane anew, once for each proof that a store was put back."""
    machine = state.machines.get(command.machine)
    if machine is None or not machine.is_paired or command.inc <= machine.inc:
        return Decision()
    post = Post(context)
    post.add(IncarnationBegun(machine.id, command.inc))
    operator = state.find(OPERATOR)
    if operator is not None:
        post.tell(operator, PUT_BACK.format(label=machine.label), "storage")
    return Decision(None, post.events, post.texts)


def decide_note_machine(state: State, command: NoteMachine, _context: Context) -> Decision:
    """A machine was heard again, or was silent for long."""
    machine = state.machines.get(command.machine)
    if machine is None or not machine.is_paired or machine.online == command.online:
        return Decision()
    event = MachineOnline(machine.id) if command.online else MachineOffline(machine.id, command.heard_at)
    return Decision(None, [event])


def decide_tell_roster(state: State, command: TellRoster, _context: Context) -> Decision:
    """Tell these machines who is here; a roster that waits for one is filled when it leaves."""
    told = [
        machine.id
        for each in command.machines
        if (machine := state.machines.get(each)) is not None
        and machine.is_paired
        and (machine.online or machine.told_item not in machine.out)
    ]
    return Decision(None, [RosterTold(told)]) if told else Decision()


# -- items ----------------------------------------------------------------------------------------------


class Inbound:
    """Decides the items of one run; what an item brings counts for those behind it."""

    def __init__(self, state: State, machine: Machine, context: Context) -> None:
        self._state = state
        self._machine = machine
        self._context = context
        self._made: dict[str, Agent] = {}
        self._more: dict[str, int] = {}
        self._over: set[tuple[str, int]] = set()
        """Receipts that an item of this run has brought to their end: the first word stands."""
        self.post = Post(context)

    def take(self, item: AnyItem | Unknown) -> None:
        """Turn one item into events."""
        if isinstance(item, Message):
            self._message(item)
        elif isinstance(item, Receipts):
            self._receipts(item)
        elif isinstance(item, Withdraw):
            self._withdraw(item)
        elif isinstance(item, Refused):
            self._refused(item)
        elif isinstance(item, Roster):
            self._roster(item)
        elif isinstance(item, Unknown):
            self.post.add(ItemRefused(self._machine.id, 0, "", "unknown_kind", harmless(item.word)))

    # -- messages -------------------------------------------------------------------------------------

    def _message(self, item: Message) -> None:
        limits = self._context.limits
        size = len(item.body.encode()) + len(item.context)
        sender = self._sender(item.sender)
        problem = ""
        if sender is None:
            problem = "its sender is not known here"
        elif len(item.body.encode()) > limits.body_bytes_max or len(item.context) > limits.context_bytes_max:
            problem = f"it has {size} bytes"
        elif item.mode not in MODES or item.kind not in KINDS or not _is_json(item):
            problem = "it is malformed"
        elif not item.recipients or len(item.recipients) > limits.recipients_max:
            problem = f"it has {len(item.recipients)} recipients"
        if sender is None or problem:
            for recipient in item.recipients[: limits.recipients_max]:
                self._refuse(item.seq, recipient, "limit_exceeded", f"Not taken: {problem}.")
            return
        reached = [
            agent
            for recipient in dict.fromkeys(item.recipients)
            if (agent := self._recipient(item, recipient, sender, size)) is not None
        ]
        if reached:
            self._queue(item, sender, reached, size)

    def _sender(self, told: RemoteAgent) -> Agent | None:
        """The agent that stands here for the sender; made if its roster has not come yet."""
        known = self._state.agents.get(self._machine.agents.get(told.id, "")) or self._made.get(told.id)
        if known is not None:
            return known
        if not is_sound(told, self._context.limits) or len(self._machine.agents) >= 2 * ROSTER_MAX:
            return None
        agent = Agent(
            id=format_id("a", self._state.seq + len(self.post.events) + 1),
            name=remote_name(self._machine.label, told.name),
            kind=told.kind,
            session="",
            machine=self._machine.id,
            there=told.id,
        )
        self.post.add(RemoteAgentTold(self._machine.id, told))
        self._made[told.id] = agent
        return agent

    def _recipient(self, item: Message, recipient: str, sender: Agent, size: int) -> Agent | None:
        agent = self._state.agents.get(recipient)
        if agent is None or not may_see(self._state, self._machine, agent):
            self._refuse(item.seq, recipient, "unknown_agent", "There is no such agent any more.")
            return None
        if item.repeat and (known := self._known(agent, item, sender)) is not None:
            self.post.add(ReceiptGiven(self._machine.id, agent.id, item.seq, known.state, known.evidence))
            return None
        more = self._more.get(agent.id, 0)
        limits = self._context.limits
        full = not agent.has_room(size, limits, more=more)
        if full or (is_operator(agent) and not has_share(self._state, sender, agent, limits)):
            self._refuse(item.seq, recipient, "mailbox_full", f"The mailbox of {agent.name!r} is full.")
            return None
        self._more[agent.id] = more + 1
        return agent

    def _known(self, agent: Agent, item: Message, sender: Agent) -> FinalState | None:
        """How far a message got that was taken before, in another incarnation of the lane."""
        for box in (agent.pending, agent.leased):
            for seq, receipt in box.items():
                if receipt.sender == sender.id and receipt.origin == item.seq and self._is_same(seq, item):
                    return FinalState("delivered" if receipt.lease else "received", "", 0.0)
        past = self._context.find(Query(LOOKED_AT, PAGE_BYTES, agent=sender.id, peer=agent.id))
        for header, _ in past.messages:
            if self._is_same(header.seq, item):
                return self._context.settled(header.seq).get(agent.id)
        return None

    def _is_same(self, seq: int, item: Message) -> bool:
        """Whether a stored message is this one: of this number there, with these words."""
        entries = self._context.entries(0, seq + 1, 1)
        event = entries[0].event if entries and entries[0].seq == seq else None
        return (
            isinstance(event, MessageQueued)
            and event.origin == item.seq
            and event.digest == digest_of(event.to, item.body)
        )

    def _queue(self, item: Message, sender: Agent, reached: list[Agent], size: int) -> None:
        context, limits = self._context, self._context.limits
        header = context.header(item.re) if item.re else None
        ids = [agent.id for agent in reached]
        if header is not None:
            self.post.add(*evidence_of_reply(sender, header, ids))
        hops = min(max(0, item.hops), HOPS_MAX)
        to = ",".join(agent.name for agent in reached)
        weak = item.weak or (hops > limits.chain_turns_max and any(agent.turns for agent in reached))
        self.post.put(
            MessageQueued(
                sender=sender.id,
                sender_name=sender.name,
                to=to,
                recipients=ids,
                size=size,
                digest=digest_of(to, item.body),
                ttl_s=min(max(0.0, item.ttl_left_s), limits.ttl_s_max),
                kind=item.kind,
                re=format_id("m", item.re) if header is not None else "",
                mode=item.mode,
                json=item.json,
                context=item.context,
                several=len(ids) > 1,
                hops=hops,
                weak=weak,
                origin=item.seq,
                repeat=item.repeat,
            ),
            item.body,
        )

    def _refuse(self, seq: int, recipient: str, code: str, note: str) -> None:
        self.post.add(ItemRefused(self._machine.id, seq, recipient[:64], code, note))

    def _withdraw(self, item: Withdraw) -> None:
        agent = self._state.agents.get(item.recipient)
        for origin in item.seqs[: self._context.limits.ids_max]:
            if agent is None or agent.machine:
                self._refuse(origin, item.recipient, "unknown_agent", "There is no such agent any more.")
                continue
            waiting = [seq for seq, receipt in agent.pending.items() if self._is_from(receipt, origin)]
            if waiting:
                shown = [seq for seq in waiting if agent.pending[seq].seen_by]
                self.post.add(MessagesExpired(agent.id, waiting, shown))
            elif not any(self._is_from(receipt, origin) for receipt in agent.leased.values()):
                self.post.add(ReceiptGiven(self._machine.id, agent.id, origin, "expired"))

    def _is_from(self, receipt: Receipt, origin: int) -> bool:
        sender = self._state.agents.get(receipt.sender)
        return receipt.origin == origin and sender is not None and sender.machine == self._machine.id

    # -- what became of ours --------------------------------------------------------------------------

    def _open(self, there: str, seq: int) -> tuple[Agent, Receipt] | None:
        """The receipt of a message of ours that an agent of that machine has not read."""
        agent = self._state.agents.get(self._machine.agents.get(there, ""))
        receipt = None if agent is None else agent.leased.get(seq) or agent.pending.get(seq)
        if agent is None or receipt is None or (agent.id, seq) in self._over:
            return None
        return agent, receipt

    def _receipts(self, item: Receipts) -> None:
        for row in item.rows[: self._context.limits.ids_max]:
            found = self._open(row.agent, row.seq)
            if found is None:
                continue
            agent, receipt = found
            evidence = harmless(row.evidence)[:64]
            if row.state not in ("received", "delivered"):
                self._over.add((agent.id, row.seq))
            if row.state in ("received", "delivered"):
                self.post.add(ReceiptsTaken(agent.id, [row.seq], row.state))
            elif row.state in ("read", "answered"):
                self.post.add(MessagesRead(agent.id, [row.seq], evidence or "told"))
                if row.state == "answered":
                    self.post.add(MessageAnswered(agent.id, row.seq))
            elif row.state == "expired":
                shown = [row.seq] if evidence == MAYBE_READ else []
                self.post.add(MessagesExpired(agent.id, [row.seq], shown))
                if receipt.there != "withdrawn":  # the sender knows of that
                    self._tell_sender(agent, row.seq, "its time to live ran out there", bool(shown))

    def _refused(self, item: Refused) -> None:
        found = self._open(item.recipient, item.seq)
        if found is None:
            return
        agent, _ = found
        code, note = harmless(item.code)[:64], harmless(item.note)[:NOTE_LENGTH_MAX]
        self.post.add(MessagesRefused(agent.id, [item.seq], code, note))
        self._tell_sender(agent, item.seq, f"{self._machine.label} says: {note or code}", shown=False)

    def _tell_sender(self, agent: Agent, seq: int, why: str, shown: bool) -> None:
        header = self._context.header(seq)
        sender = None if header is None else self._state.agents.get(header.sender)
        if sender is None or sender.machine:
            return
        what = "Handed over to {}, but not confirmed" if shown else "Not delivered to {}"
        text = f"{what.format(agent.name)}: {format_id('m', seq)} ({why})."
        self.post.tell(sender, text, "lost")

    # -- who is there ---------------------------------------------------------------------------------

    def _roster(self, item: Roster) -> None:
        machine, state = self._machine, self._state
        told: dict[str, RemoteAgent] = {}
        for agent in item.agents[:ROSTER_MAX]:
            if is_sound(agent, self._context.limits):
                told[agent.id] = agent
        for there, agent_id in machine.agents.items():
            known = state.agents.get(agent_id)
            if there in told or known is None:
                continue
            if known.pending or known.leased or self._is_awaited(known):
                gone = RemoteAgent(
                    there,
                    known.name.partition(":")[2],
                    known.kind,
                    known.group,
                    [],
                    online=False,
                    offline_reason=GONE,
                )
                if is_news(state, machine, gone):
                    self.post.add(RemoteAgentTold(machine.id, gone))
            else:
                self.post.add(AgentForgotten(known.id))
        for agent in told.values():
            if is_news(state, machine, agent) or agent.id in self._made:
                self.post.add(RemoteAgentTold(machine.id, agent))
        self.post.add(RosterTaken(machine.id, item.number))

    def _is_awaited(self, agent: Agent) -> bool:
        """Whether an agent of ours has mail of it that is open: its machine has to be told of the end."""
        return any(
            receipt.sender == agent.id
            for ours in self._state.agents.values()
            for box in (ours.pending, ours.leased)
            for receipt in box.values()
        )


def _is_json(item: Message) -> bool:
    """Whether the parts of a message that are JSON can be read as JSON."""
    try:
        for text in ([item.body] if item.json else []) + ([item.context] if item.context else []):
            check_depth(msgspec.json.decode(text), "body")
    except (msgspec.DecodeError, RecursionError, TellwireError):
        return False
    return True
