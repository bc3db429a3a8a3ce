"""Children: agents that an agent starts, from the reservation to the end.

    reserved --process runs--> started --it is up--> running --its process is gone--> (ended)
        |                         |                     |
        +---- it fails -----------+ (nothing is left)   +--stop is asked--> stopping

Each arrow is one commit. What happens to processes is found out elsewhere and told by commands; after a crash
at any step `decide_sweep` finds again what is to be done. Whatever a parent's model has to hear of its
children is a message in its inbox (AUD-4, AUD-6); what only the registry has to know never is (AUD-3).
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tellwire.core.agents.names import is_free, is_remembered, suffixed
from tellwire.core.agents.roster import SPEAKS_BY_COMMANDS, caller_agent, find_agent, has_ended
from tellwire.core.children.lifecycle import ANSWERED, SPAWNED, STARTING, record_of
from tellwire.core.children.reports import (
    OUTPUT_CHARS_MAX,
    children_left,
    end_asked,
    tell_unheard,
    where_it_is,
)
from tellwire.core.children.scopes import (
    ancestors,
    as_rules,
    check_delegation,
    check_path,
    check_rules,
    claims_of,
    is_scoped,
    release_stale_claims,
)
from tellwire.core.context import (
    Context,
    Decision,
    Ending,
    NoteChildEnd,
    NoteChildFailed,
    NoteChildStarted,
    NoteChildUp,
    ReserveAsk,
    ReserveChild,
    SweepChildren,
)
from tellwire.core.mail.drafts import digest_of, known_request
from tellwire.core.mail.notices import notice
from tellwire.core.mail.receipts import expire_all
from tellwire.core.operator.person import project_of
from tellwire.core.state import Agent, Child, State
from tellwire.protocol.addresses import OPERATOR as OPERATOR_NAME
from tellwire.protocol.addresses import SYSTEM, parse_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import (
    AgentForgotten,
    AgentOffline,
    AgentRegistered,
    AnyEvent,
    MessageQueued,
)
from tellwire.protocol.events.children import (
    ChildConfirmed,
    ChildEnded,
    ChildFailed,
    ChildReserved,
    ChildStarted,
    ChildStopAsked,
    ScopeSubDelegated,
)
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import Done
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.base import OPERATOR
from tellwire.protocol.operations.children import (
    ChildRecord,
    SpawnAgent,
    StopAgent,
)

BROKER_STOPPED = "The broker stopped while it was starting."
NEVER_STARTED = "It was stopped before it was started."
NO_MORE = "The child no longer exists: it failed to start, or has ended since the connection was lost."
ENDINGS = {"asked": "was ended", "exited": "has ended", "killed": "was killed"}


# -- reserving ----------------------------------------------------------------------------------------


def decide_spawn(state: State, operation: SpawnAgent, context: Context) -> Decision:
    """Reserve name and scope for a child; a repeated request finds the same child."""
    return reserve(state, operation, context)


def reserve(state: State, operation: SpawnAgent, context: Context, *, asked: bool = False) -> Decision:
    """Reserve name and scope for any child; one that is `asked` is started for a single question."""
    parent = caller_agent(state, context)
    earlier = parent.requests.get(operation.key) if operation.key else None
    if earlier is not None:
        return Decision(_spawned_before(state, earlier.seq, earlier.status, context))
    name = parse_name(operation.name)
    known = _bearer(state, name, operation.client, parent, context)
    _check_words(operation, context)
    rules = as_rules(operation.scope or [])
    check_rules(rules, context.limits.claims_max)
    _check_room(state, parent, context, asked=asked)
    check_delegation(state, parent, rules)
    # The children of a scoped agent are scoped, too.
    scoped = operation.scope is not None or is_scoped(state, parent.id)
    child_id = format_id("a", state.seq + 1) if known is None else known.id
    cwd = operation.cwd or str(parent.metadata.get("cwd", ""))
    born = AgentRegistered(
        name=name, kind=operation.client, session="", group=project_of(parent, context), metadata={"cwd": cwd}
    )
    events: list[AnyEvent] = [
        *([born] if known is None else []),
        AgentOffline(child_id, STARTING),
        ChildReserved(
            agent=child_id,
            parent=parent.id,
            task=operation.task,
            command=operation.command,
            cwd=cwd,
            scoped=scoped,
            rules=rules,
            listen=operation.listen,
            headless=operation.headless,
            key=operation.key,
            again=known is not None,
            asked=asked,
        ),
    ]
    reply = ChildRecord(
        id=child_id,
        name=name,
        kind=operation.client,
        parent=parent.name,
        status="reserved",
        scoped=scoped,
        rules=rules,
        since=context.now,
    )
    return Decision(reply, events)


def decide_reserve(state: State, command: ReserveChild, context: Context) -> Decision:
    """The same, on behalf of a caller whose answer waits until the child is up."""
    return decide_spawn(state, command.spawn, context)


def _bearer(state: State, name: str, kind: str, parent: Agent, context: Context) -> Agent | None:
    """The agent that was known by that name, and that the child goes on as: the same parent's earlier child.

    Raises:
        TellwireError: `conflict`.
    """
    known = state.find(name)
    taken = known is None and is_remembered(state, name)
    if known is not None:
        before = state.ended.get(known.id)
        own = parent.name == OPERATOR_NAME or (before is not None and before.parent == parent.id)
        taken = known.kind != kind or not own or not _is_over(state, known, parent, context)
    if taken:
        raise TellwireError("conflict", f"The name {name!r} is taken.", "Choose another name.")
    return known


def _is_over(state: State, agent: Agent, parent: Agent, context: Context) -> bool:
    """Whether an agent's session has ended, so that a child may continue it, with its mail."""
    related = agent is parent or agent.id in state.children or agent.id in state.children_of
    return has_ended(agent) and is_free(agent, context) and not related


def _spawned_before(state: State, seq: int, status: str, context: Context) -> ChildRecord:
    if status != SPAWNED:
        raise TellwireError("conflict", "This request id was already used for another call.")
    agent = state.agents.get(format_id("a", seq))
    if agent is None or agent.id not in state.children:
        raise TellwireError("child_failed", NO_MORE, "Start it again if it is still needed.")
    return record_of(state, agent, context)


def _check_words(operation: SpawnAgent, context: Context) -> None:
    """Check the texts of a request against their bounds."""
    limits = context.limits
    if not 0 < len(operation.client) <= limits.text_length_max:
        raise TellwireError("bad_request", f"`client` must have 1 to {limits.text_length_max} characters.")
    if len(operation.key) > limits.text_length_max:
        raise TellwireError("limit_exceeded", f"`key` is longer than {limits.text_length_max} characters.")
    if not operation.task.strip():
        raise TellwireError("bad_request", "`task` is empty.", "Say what the child should do.")
    size = len(operation.task.encode(errors="replace"))
    if size > limits.body_bytes_max:
        raise TellwireError(
            "body_too_large", f"The task has {size} bytes; the limit is {limits.body_bytes_max}."
        )
    words = sum(len(word) for word in operation.command)
    if len(operation.command) > limits.ids_max or words > limits.body_bytes_max:
        raise TellwireError("limit_exceeded", "The command is too long.")
    if operation.cwd:
        check_path(operation.cwd)


def _check_room(state: State, parent: Agent, context: Context, *, asked: bool) -> None:
    """Refuse a child beyond the bounds of its parent, of the machine, or of the depth."""
    limits = context.limits
    own = sum(child.parent == parent.id for child in state.children.values())
    if own >= limits.children_max:
        raise TellwireError("too_many_children", f"{parent.name!r} already has {own} children.")
    if not asked and not parent.has_reserve(0, limits, more=own):  # each of them has an end to tell
        raise TellwireError(
            "mailbox_full", "Your own mailbox is full.", "Read your mail before you start a child."
        )
    if len(state.children) >= limits.children_all_max:
        raise TellwireError(
            "too_many_children", f"{len(state.children)} children are already running on this machine."
        )
    if len(ancestors(state, parent.id)) >= limits.child_depth_max:
        deep = (
            f"Children may be {limits.child_depth_max} levels deep, and {parent.name!r} is at the last one."
        )
        raise TellwireError("too_deep", deep)
    if len(state.agents) >= limits.agents_max:
        raise TellwireError(
            "limit_exceeded",
            "Too many agents are registered.",
            "Remove some with `tellwire unregister NAME --forget`.",
        )


# -- coming up, or not --------------------------------------------------------------------------------


def decide_child_started(state: State, command: NoteChildStarted, _context: Context) -> Decision:
    """Record that the child's process was started."""
    child = state.children.get(command.agent)
    if child is None or child.status != "reserved":
        return Decision()
    event = ChildStarted(command.agent, command.process, command.session, command.place, command.held_by)
    return Decision(None, [event])


def decide_child_up(state: State, command: NoteChildUp, context: Context) -> Decision:
    """It is up: it gets its task, and those above its parent know of it."""
    agent, child = state.agents.get(command.agent), state.children.get(command.agent)
    if agent is None or child is None or child.status != "started":
        return Decision()
    rules = [claim.rule for claim in claims_of(state, agent.id)]
    line = ancestors(state, agent.id)
    climbing = [ScopeSubDelegated(above, via, agent.id, rules) for via, above in pairwise(line)]
    event, text = _task(state, agent, child, context)
    return Decision(None, [ChildConfirmed(agent.id), *climbing, event], [text])


def _task(state: State, agent: Agent, child: Child, context: Context) -> tuple[MessageQueued, str]:
    parent = state.agents.get(child.parent)
    event = MessageQueued(
        sender="" if parent is None else parent.id,
        sender_name=SYSTEM if parent is None else parent.name,
        to=agent.name,
        recipients=[agent.id],
        size=len(child.task.encode(errors="replace")),
        digest=digest_of(agent.name, child.task),
        ttl_s=context.limits.ttl_s_max,
    )
    return event, child.task


def decide_child_failed(state: State, command: NoteChildFailed, context: Context) -> Decision:
    """The child did not start: remove every trace of it, and notify the senders of its mail."""
    agent, child = state.agents.get(command.agent), state.children.get(command.agent)
    if agent is None or child is None or not child.task:  # it was up
        return Decision()
    return fail(state, agent, command.reason, command.output, context)


def fail(state: State, agent: Agent, reason: str, output: str, context: Context) -> Decision:
    """Remove every trace of a child, and notify the senders of its mail."""
    failed = ChildFailed(agent.id, reason, output[-OUTPUT_CHARS_MAX:])
    if state.children[agent.id].again:
        return Decision(None, [failed, AgentOffline(agent.id, "left", context.claimed(agent.id))])
    expired = expire_all(state, agent, context)
    return Decision(None, [failed, *expired.events, AgentForgotten(agent.id)], expired.texts)


# -- ending -------------------------------------------------------------------------------------------


def decide_stop_agent(state: State, operation: StopAgent, context: Context) -> Decision:
    """Ask for the end of a child; the launcher carries it out. Repeating it is harmless."""
    asker = state.agents.get(context.caller.agent)
    agent = find_agent(state, operation.name, asker, here="agent is stopped across machines")
    child = state.children.get(agent.id)
    if child is None:
        raise TellwireError(
            "forbidden",
            f"{agent.name!r} was not started by another agent.",
            "Ask it, or its user, to end it.",
        )
    if context.caller.kind != OPERATOR and context.caller.agent not in ancestors(state, agent.id):
        raise TellwireError("forbidden", f"{agent.name!r} is not your child.", "Ask its parent to end it.")
    record = record_of(state, agent, context, status="stopping")
    if child.status == "stopping":
        return Decision(record)
    if not child.process:  # the launcher ends what it has started
        failed = fail(state, agent, NEVER_STARTED, "", context)
        return Decision(record, failed.events, failed.texts)
    by = context.caller.agent or context.caller.kind
    return Decision(record, [ChildStopAsked(agent.id, by)])


def decide_child_end(state: State, command: NoteChildEnd, context: Context) -> Decision:
    """Its process is gone: scope and children are its parent's, who hears of it once (CHILD-4)."""
    agent, child = state.agents.get(command.agent), state.children.get(command.agent)
    if agent is None or child is None:
        return Decision()
    if child.asked:
        return end_asked(state, agent, child, command, context)
    if child.task:  # it was never up
        return fail(state, agent, "It ended before it was ready.", command.result, context)
    return _end(state, agent, child, command.how, command.result, context)


def _end(state: State, agent: Agent, child: Child, how: Ending, result: str, context: Context) -> Decision:
    if child.asked:
        return end_asked(state, agent, child, NoteChildEnd(agent.id, how), context)
    events: list[AnyEvent] = []
    if agent.online or agent.offline_reason in ("silent", "restart"):
        events.append(AgentOffline(agent.id, "disconnected", context.claimed(agent.id)))
    events.append(ChildEnded(agent.id, how))
    parent = state.agents.get(child.parent)
    if parent is None:
        return Decision(None, events)
    event, text = notice(parent, _end_notice(state, agent, child, how, result), context, "child_ended")
    return Decision(None, [*events, event], [text])


def _end_notice(state: State, agent: Agent, child: Child, how: str, result: str) -> str:
    """The notice to a parent: how its child ended, what it gets back, and where the result is."""
    words = [f"Your child {agent.name} {ENDINGS[how]}."]
    if claims_of(state, agent.id):
        words.append("Its scope is yours again.")
    below = children_left(state, agent)
    if below:
        words.append(f"Its children are yours now: {', '.join(below)}.")
    if result.strip():
        return f"{' '.join(words)} It said last:\n{result.strip()[-OUTPUT_CHARS_MAX:]}"
    if child.unheard:
        return f"{' '.join(words)} Your inbox was full when it spoke last. {where_it_is(agent)}"
    words.append(
        f"What it said last is {format_id('m', child.result)}, which you got."
        if child.result
        else "It left no result."
    )
    return " ".join(words)


def decide_sweep(state: State, command: SweepChildren, context: Context) -> Decision:
    """What happened to processes and claims while nobody looked; one thing at a time for each child."""
    look = _abandoned if command.begun else _sweep_child
    for agent_id, child in state.children.items():
        found = look(state, state.agents[agent_id], child, context)
        if found is not None:
            return found  # what comes next must be decided on the state that this leaves
    return Decision(None, [] if command.begun else list(release_stale_claims(state, context)))


def _abandoned(state: State, agent: Agent, child: Child, context: Context) -> Decision | None:
    """What an earlier broker was at; of a process that is gone the last words are to be read first."""
    if not child.process:
        return fail(state, agent, BROKER_STOPPED, "", context)
    return _unasked(state, agent, child, context) if context.alive(child.process) else None


def _unasked(state: State, agent: Agent, child: Child, context: Context) -> Decision | None:
    """Nobody waits any more for the answer of one that was asked something."""
    if not child.asked or child.status == "stopping":
        return None
    stop = Decision(None, [ChildStopAsked(agent.id, "broker")])
    return fail(state, agent, BROKER_STOPPED, "", context) if child.task else stop


def _sweep_child(state: State, agent: Agent, child: Child, context: Context) -> Decision | None:
    """What is overdue for one child: its failure, its end, its task or a report; None if nothing is."""
    late = context.awake - child.since > context.limits.child_up_s
    if not child.process:
        return fail(state, agent, "It was not started in time.", "", context) if late else None
    if not context.alive(child.process):
        if child.task:
            return fail(state, agent, "It ended before it was ready.", "", context)
        how: Ending = "asked" if child.status == "stopping" else "exited"
        return _end(state, agent, child, how, "", context)
    if not child.parent and child.asked and child.status != "stopping":
        return _unasked(state, agent, child, context)
    if child.status == "started":
        if agent.online and (late or agent.kind in SPEAKS_BY_COMMANDS):  # a client begins a turn first
            return decide_child_up(state, NoteChildUp(agent.id), context)
        return fail(state, agent, "It was not ready in time.", "", context) if late else None
    return tell_unheard(state, agent, child, context)


# -- a question to a fresh agent ----------------------------------------------------------------------


LOST = "The answer is lost: the broker stopped, or the agent was stopped, before it answered."
GIVEN_UP = "Nobody is waiting for its answer any more."


def decide_ask(state: State, ask: AskAgent, context: Context) -> Decision:
    """Reserve an agent for the question; a repeated request gets the answer, if there is one."""
    parent = caller_agent(state, context)
    _check(ask, context)
    earlier = known_request(parent, ask.key, context)
    if earlier is not None:
        records = context.records([earlier.seq]) if earlier.status == ANSWERED else []
        if not records:
            raise TellwireError("child_failed", LOST, "Ask again.")
        body, name = records[0].body, records[0].sender
        text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
        return Decision(Answered(client=ask.client, name=name, text=text, message=records[0].id))
    spawn = SpawnAgent(
        name=_free_name(state),
        client=ask.client,
        task=ask.question,
        scope=[],
        cwd=ask.cwd,
        command=ask.command,
        headless=True,
        key=ask.key,
    )
    return reserve(state, spawn, context, asked=True)


def decide_reserve_ask(state: State, command: ReserveAsk, context: Context) -> Decision:
    """The same, on behalf of a caller whose answer waits until there is one."""
    return decide_ask(state, command.ask, context)


def _check(ask: AskAgent, context: Context) -> None:
    limits = context.limits
    if not ask.question.strip():
        raise TellwireError("bad_request", "`question` is empty.", "Ask something.")
    if ask.timeout_s is not None and not 0 < ask.timeout_s <= limits.ask_s_max:
        raise TellwireError("bad_request", f"`timeout_s` must be above 0 and at most {limits.ask_s_max:.0f}.")


def _free_name(state: State) -> str:
    """Made of the id that it will have, so that nobody bears it but by intent."""
    name = f"ask-{format_id('a', state.seq + 1)}"
    number = 1
    while state.find(name) is not None or is_remembered(state, name):
        number += 1
        name = suffixed(f"ask-{format_id('a', state.seq + 1)}", number)
    return name


def decide_cancel_ask(state: State, operation: CancelAsk, context: Context) -> Decision:
    """End the agent that was started for a question; if it is ending, nothing changes."""
    parent = caller_agent(state, context)
    for agent_id, child in state.children.items():
        if child.asked and child.parent == parent.id and child.key == operation.key:
            if child.task:
                failed = fail(state, state.agents[agent_id], GIVEN_UP, "", context)
                return Decision(Done(), failed.events, failed.texts)
            if child.status != "stopping":
                return Decision(Done(), [ChildStopAsked(agent_id, parent.id)])
    return Decision(Done())
