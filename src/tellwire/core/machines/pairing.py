"""Who is paired: pair, rename, share, remove; and what people see of it. All of it is the operator's.

A machine is known by its id. A label is unique here; one that is taken is refused before anything is stored.
Removal is at once and for ever: no card and no introduction of that id counts after it (FED-4).
"""

from __future__ import annotations

import msgspec

from tellwire.core.context import Context, Decision, NameMachine, NoteParcels
from tellwire.core.machines.outbox import tell_roster
from tellwire.core.machines.remote_agents import project_key, relabel
from tellwire.core.mail.notices import Post
from tellwire.core.state import Machine, State
from tellwire.protocol.addresses import shorten
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentForgotten, AnyEvent
from tellwire.protocol.events.links import LinkLeft
from tellwire.protocol.events.machines import (
    MachineNamed,
    MachineOffline,
    MachineOnline,
    MachinePaired,
    MachineRemoved,
    MachineUpdated,
    MessagesRefused,
    ParcelsRefused,
    RosterTaken,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.machines import SPEAKS, Card, parse_label
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.machines import (
    ListMachines,
    MachineList,
    MachineRecord,
    PairMachine,
    RemoveMachine,
    RenameMachine,
    SetTrust,
    ShowMachine,
)
from tellwire.protocol.suggestions import nearest

MACHINES_MAX = 64
FORMER_LABELS_MAX = 8
SHARES_MAX = 256
CARRIERS_MAX = 8
BOXES_KEPT = 3
KEY_BYTES = 32
NAMED_MAX = 10
"""Messages that a notice names; it counts the rest."""


# -- looking --------------------------------------------------------------------------------------------


def decide_list_machines(state: State, _operation: ListMachines, context: Context) -> Decision:
    """This machine and all others, paired ones first."""
    machines = sorted(state.machines.values(), key=lambda each: (not each.is_paired, each.label.lower()))
    return Decision(
        MachineList(
            id=state.here,
            label=state.here_label,
            machines=[record_of(state, machine, context) for machine in machines],
        )
    )


def decide_show_machine(state: State, operation: ShowMachine, context: Context) -> Decision:
    return Decision(record_of(state, find_machine(state, operation.machine, removed=True), context))


def find_machine(state: State, word: str, *, removed: bool = False) -> Machine:
    """The machine of a label or an id.

    Raises:
        TellwireError: `unknown_machine` or `machine_removed`.
    """
    machine = state.machines.get(state.labels.get(word.lower(), word))
    if machine is None:
        labelled = (each for each in state.machines.values() if each.label.lower() == word.lower())
        machine = next(labelled, None)  # removed ones bear their label without owning it
    if machine is None:
        near = nearest(word, [each.label for each in state.machines.values() if each.is_paired])
        advice = f"Did you mean {', '.join(near)}?" if near else None
        raise TellwireError("unknown_machine", f"There is no machine named {shorten(word)}.", advice)
    if not machine.is_paired and not removed:
        raise TellwireError("machine_removed", f"{machine.label!r} was removed.")
    return machine


def record_of(state: State, machine: Machine, context: Context) -> MachineRecord:
    """A machine as the operator sees it."""
    way = context.way(machine.id)
    heard_at = max(machine.heard_at, way.heard_at)
    status = "online" if machine.online else ("unreachable" if heard_at else "paired")
    introducer = state.machines.get(machine.by)
    return MachineRecord(
        id=machine.id,
        label=machine.label,
        status=status if machine.is_paired else "removed",
        trust=machine.trust,
        by=machine.by if introducer is None else introducer.label,
        shares=machine.shares,
        former=machine.former,
        carriers=machine.carriers,
        heard_at=heard_at,
        carrier=way.carrier,
        problem=way.problem,
        outbox=len(machine.out),
        outbox_bytes=machine.out_bytes,
        agents=len(machine.agents),
        version=machine.version,
        knows=machine.knows,
        sign_key=machine.sign_key,
        paired_at=machine.paired_at,
        removed_at=machine.removed_at,
        incarnation=machine.inc,
        round_trip_s=way.round_trip_s,
    )


# -- pairing --------------------------------------------------------------------------------------------


def decide_pair(state: State, operation: PairMachine, context: Context) -> Decision:
    """Pair with a machine whose card was checked, or learn what is new of one that is paired."""
    card, here = operation.card, operation.here
    _check_card(card)
    _check_card(here)
    if card.id == here.id:
        raise TellwireError("bad_request", "That is this machine itself.", "Name another one.")
    if state.here and state.here != here.id:
        raise TellwireError(
            "conflict", "This machine has another identity.", "Use the one in its home: `machine.key`."
        )
    known = state.machines.get(card.id)
    if known is not None and not known.is_paired:
        raise TellwireError("machine_removed", f"{known.label!r} was removed, and stays out.")
    if known is None and sum(each.is_paired for each in state.machines.values()) >= MACHINES_MAX:
        raise TellwireError("limit_exceeded", f"More than {MACHINES_MAX} machines.", "Remove one first.")
    label = parse_label(operation.label or (card.label if known is None else known.label))
    _check_free(state, label, card.id, here.label)
    events: list[AnyEvent] = []
    if not state.here:
        events.append(MachineNamed(here.id, parse_label(here.label)))
    carriers = operation.carriers or ([] if known is None else known.carriers)
    if len(carriers) > CARRIERS_MAX or any(len(each) > 2_048 for each in carriers):
        raise TellwireError("limit_exceeded", f"More than {CARRIERS_MAX} carriers, or a long one.")
    events.append(MachinePaired(card.id, label, card, operation.trust, carriers))
    record = record_after(state, events[-1], context)
    return Decision(record, events)


def record_after(state: State, event: AnyEvent, context: Context) -> MachineRecord:
    """What a machine looks like once this event is applied."""
    machine = _updated(state, event)
    return record_of(state, machine, context)


def _check_card(card: Card) -> None:
    """A card that the exchange can work with.

    Raises:
        TellwireError: `bad_request` or `machine_too_old`.
    """
    keys = [card.sign_key, *(box.key for box in card.boxes)]
    if not card.boxes or any(len(key) != KEY_BYTES for key in keys):
        raise TellwireError("bad_request", "The card has no keys, or keys of a strange length.")
    if len(card.boxes) > 8 or len(card.knows) > 64 or len(card.version) > 64:
        raise TellwireError("limit_exceeded", "The card is too long.")
    if card.speaks[0] > SPEAKS[1] or card.speaks[1] < SPEAKS[0]:
        raise TellwireError(
            "machine_too_old",
            f"It speaks versions {card.speaks[0]} to {card.speaks[1]}, we {SPEAKS[0]} to {SPEAKS[1]}.",
            "Upgrade tellwire on the older of the two.",
        )


def _check_free(state: State, label: str, machine: str, here: str) -> None:
    """A label is one machine's.

    Raises:
        TellwireError: `label_taken`, with one that is free.
    """
    taken = {*state.labels, (state.here_label or here).lower()}
    if (
        state.labels.get(label.lower(), machine) == machine
        and label.lower() != (state.here_label or here).lower()
    ):
        return
    number = 2
    while f"{label}-{number}".lower() in taken:
        number += 1
    raise TellwireError(
        "label_taken", f"The label {label!r} is taken.", f"Use another one: `--as {label}-{number}`."
    )


# -- changing -------------------------------------------------------------------------------------------


def decide_rename_machine(state: State, operation: RenameMachine, context: Context) -> Decision:
    """Another label for a machine, or for this one."""
    label = parse_label(operation.label)
    if operation.machine.lower() in (state.here_label.lower(), state.here) and state.here:
        if state.labels.get(label.lower()) is not None:
            _check_free(state, label, state.here, "")
        return Decision(_own_record(state, label), [MachineNamed(state.here, label)])
    machine = find_machine(state, operation.machine)
    if machine.label == label:
        return Decision(record_of(state, machine, context))
    _check_free(state, label, machine.id, "")
    event = MachineUpdated(machine.id, label=label)
    return Decision(record_after(state, event, context), [event])


def _own_record(state: State, label: str) -> MachineRecord:
    return MachineRecord(id=state.here, label=label, status="online")


def decide_set_trust(state: State, operation: SetTrust, context: Context) -> Decision:
    """How a machine is trusted, what it may see, how it is reached."""
    machine = find_machine(state, operation.machine)
    shares = [each for each in machine.shares if each not in map(project_key, operation.unshare)]
    shares = list(dict.fromkeys([*shares, *map(project_key, operation.share)]))
    if len(shares) > SHARES_MAX or any(not each or len(each) > 128 for each in shares):
        raise TellwireError("limit_exceeded", f"More than {SHARES_MAX} projects, or one without a name.")
    event = MachineUpdated(
        machine.id,
        carriers=operation.carriers,
        trust=operation.trust,
        shares=None if shares == machine.shares else shares,
    )
    if (event.carriers, event.trust, event.shares) == (None, None, None):
        return Decision(record_of(state, machine, context))
    return Decision(record_after(state, event, context), [event])


def decide_remove_machine(state: State, operation: RemoveMachine, context: Context) -> Decision:
    """A machine is out: its mail is denied, its agents are gone, and senders hear of it once."""
    machine = find_machine(state, operation.machine)
    post = Post(context)
    lost: dict[str, list[int]] = {}
    for agent_id in machine.agents.values():
        agent = state.agents.get(agent_id)
        if agent is None:
            continue
        post.add(*(LinkLeft(link, agent.id, "machine removed") for link in agent.links))
        seqs = sorted([*agent.pending, *agent.leased])
        if seqs:
            post.add(MessagesRefused(agent.id, seqs, "machine_removed", f"{machine.label} was removed"))
        for seq in seqs:
            receipt = agent.pending.get(seq) or agent.leased[seq]
            lost.setdefault(receipt.sender, []).append(seq)
        post.add(AgentForgotten(agent.id))
    post.add(MachineRemoved(machine.id))
    for sender_id, seqs in lost.items():
        sender = state.agents.get(sender_id)
        if sender is not None and not sender.machine:
            ids = ", ".join(format_id("m", seq) for seq in seqs[:NAMED_MAX])
            more = f" and {len(seqs) - NAMED_MAX} more" if len(seqs) > NAMED_MAX else ""
            post.tell(
                sender, f"The machine {machine.label} was removed: {ids}{more} will not be read.", "lost"
            )
    record = record_of(state, _updated(state, MachineRemoved(machine.id)), context)
    return Decision(record, post.events, post.texts)


def decide_name_machine(state: State, command: NameMachine, _context: Context) -> Decision:
    """Another identity under the same label."""
    return Decision(Done(), [MachineNamed(command.id, state.here_label)])


def decide_note_parcels(_state: State, command: NoteParcels, _context: Context) -> Decision:
    return Decision(None, list(command.refused))


# -- applying events ------------------------------------------------------------------------------------


def _updated(state: State, event: AnyEvent) -> Machine:
    """A copy of a machine as it is after an event."""
    if isinstance(event, MachinePaired):
        known = state.machines.get(event.id)
        machine = Machine(id=event.id, label=event.label) if known is None else _copy(known)
        _take_label(machine, event.label)
        _take_card(machine, event.card)
        machine.trust, machine.carriers, machine.by = event.trust, event.carriers, event.by
        machine.paired_at = machine.paired_at or state.now
        return machine
    if isinstance(event, MachineUpdated):
        machine = _copy(state.machines[event.id])
        if event.label is not None:
            _take_label(machine, event.label)
        if event.card is not None:
            _take_card(machine, event.card)
        machine.carriers = machine.carriers if event.carriers is None else event.carriers
        machine.trust = machine.trust if event.trust is None else event.trust
        machine.shares = machine.shares if event.shares is None else event.shares
        return machine
    assert isinstance(event, MachineRemoved)
    known = state.machines[event.id]
    return Machine(
        id=known.id,
        label=known.label,
        former=known.former,
        status="removed",
        trust=known.trust,
        by=known.by,
        paired_at=known.paired_at,
        removed_at=state.now,
        heard_at=known.heard_at,
        inc=known.inc,
        peer_inc=known.peer_inc,
    )


def _copy(machine: Machine) -> Machine:
    """The same values; boxes and lanes are shared."""
    return msgspec.structs.replace(machine)


def _take_label(machine: Machine, label: str) -> None:
    if machine.label != label:
        kept = [each for each in machine.former if each.lower() != label.lower()]
        machine.former = [*kept, machine.label][-FORMER_LABELS_MAX:]
        machine.label = label


def _take_card(machine: Machine, card: Card) -> None:
    machine.sign_key, machine.boxes = card.sign_key, card.boxes[-BOXES_KEPT:]
    machine.speaks = min(card.speaks[1], SPEAKS[1])
    machine.knows, machine.version = card.knows, card.version
    machine.body_bytes_max = card.body_bytes_max


def apply_named(state: State, event: MachineNamed) -> None:
    state.here, state.here_label = event.id, event.label


def apply_paired(state: State, event: MachinePaired) -> None:
    """It is known from now on, and hears who is here."""
    known = state.machines.get(event.id)
    machine = _updated(state, event)
    _put(state, machine, known)
    tell_roster(state, machine)


def apply_updated(state: State, event: MachineUpdated) -> None:
    known = state.machines.get(event.id)
    if known is None:
        return
    machine = _updated(state, event)
    _put(state, machine, known)
    if event.trust is not None or event.shares is not None:
        tell_roster(state, machine)


def apply_removed(state: State, event: MachineRemoved) -> None:
    """What is left is that it was removed."""
    known = state.machines.get(event.id)
    if known is None:
        state.machines[event.id] = Machine(
            id=event.id, label=event.id, status="removed", removed_at=state.now
        )
        return
    state.machines[event.id] = _updated(state, event)
    state.labels = {label: owner for label, owner in state.labels.items() if owner != event.id}


def _put(state: State, machine: Machine, before: Machine | None) -> None:
    state.machines[machine.id] = machine
    if before is not None and before.label != machine.label:
        relabel(state, machine, machine.label)
    others = {label: owner for label, owner in state.labels.items() if owner != machine.id}
    mine = dict.fromkeys([label.lower() for label in (*machine.former, machine.label)], machine.id)
    current = {each.label.lower(): each.id for each in state.machines.values() if each.is_paired}
    state.labels = {**mine, **others, **current}


def apply_machine_online(state: State, event: MachineOnline) -> None:
    if (machine := state.machines.get(event.id)) is not None:
        machine.online, machine.heard_at = True, state.now


def apply_machine_offline(state: State, event: MachineOffline) -> None:
    if (machine := state.machines.get(event.id)) is not None:
        machine.online, machine.heard_at = False, event.heard_at


def apply_roster_taken(state: State, event: RosterTaken) -> None:
    if (machine := state.machines.get(event.machine)) is not None:
        machine.roster = event.number


def apply_parcels_refused(_state: State, _event: ParcelsRefused) -> None:
    """It is on record; nothing else changes."""
