"""The operator: the one person who runs all this. It is known from the first start, and has no session.

A caller at a person's terminal is the operator, on as many connections as there are terminals. So nothing is
leased to one of them: the mail waits until it is seen on any.
"""

from __future__ import annotations

from tellwire.core.agents.names import next_name
from tellwire.core.context import Context, Decision
from tellwire.core.mail.notices import Post
from tellwire.core.state import Agent, State
from tellwire.protocol.addresses import NAME_LENGTH_MAX, OPERATOR, is_name, is_reserved
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import AgentRegistered, AgentUpdated, SessionStarted
from tellwire.protocol.ids import format_id
from tellwire.protocol.operations.agents import RegisterAgent, Registered

RENAMED = (
    "Your name {old} looks like a reserved one, so you are {new} from now on. What is sent to {old} still "
    "reaches you."
)


def is_operator(agent: Agent) -> bool:
    """Whether an agent is the person who runs all this; no program can take that name."""
    return agent.name == OPERATOR


def project_of(agent: Agent, context: Context) -> str:
    """The project that an agent speaks in: a person's is that of the terminal, which is not the only one."""
    return context.group if is_operator(agent) else agent.group


def begin_operator(state: State, context: Context) -> Decision:
    """At the start of a broker: the operator is known, and no agent has its name."""
    operator = state.find(OPERATOR)
    post = Post(context)
    if operator is None:
        post.add(_born())
    else:
        # What an earlier version leased to one terminal waits again, for all of them.
        post.add(
            SessionStarted(operator.id, "", capabilities=operator.capabilities, metadata=operator.metadata)
        )
        if operator.kind != OPERATOR:
            post.add(AgentUpdated(operator.id, kind=OPERATOR))
    _rename_lookalikes(state, post)
    return Decision(None, post.events, post.texts)


def _born() -> AgentRegistered:
    return AgentRegistered(name=OPERATOR, kind=OPERATOR, session="")


def _rename_lookalikes(state: State, post: Post) -> None:
    """Agents that took such a name before it was reserved get another name and a notice."""
    taken = {name.lower() for name in (*state.names, *state.former)}
    for agent in state.agents.values():
        if is_operator(agent) or agent.machine or not is_reserved(agent.name):
            continue
        name = _other_name(agent, taken)
        taken.add(name.lower())
        post.add(AgentUpdated(agent.id, name))
        post.tell(agent, RENAMED.format(old=agent.name, new=name), "renamed")


def _other_name(agent: Agent, taken: set[str]) -> str:
    asked = agent.kind[:NAME_LENGTH_MAX]
    asked = asked if is_name(asked) and not is_reserved(asked) else "agent"
    name, number = asked, 1
    while name.lower() in taken:
        number, name = next_name(asked, number)
    return name


def join_operator(state: State, operation: RegisterAgent) -> Decision:
    """A terminal of the person joins: it is offered the mail, as every other one is; nothing changes."""
    operator = state.find(OPERATOR)
    if operator is None:
        return Decision(Registered(id=format_id("a", state.seq + 1), name=OPERATOR), [_born()])
    found = Registered(id=operator.id, name=OPERATOR, resumed=True, waiting=len(operator.pending))
    if not operation.looks:
        return Decision(found)
    looks = Registered(
        id=operator.id, name=OPERATOR, resumed=True, waiting=found.waiting, attached=True, looking=True
    )
    return Decision(looks)


def note_speaker(operator: Agent, context: Context) -> list[SessionStarted]:
    """Which process speaks as the operator, for the audit; nothing if it is the one that spoke before."""
    process = context.caller.process
    if not process or operator.process == process:
        return []
    return [
        SessionStarted(
            operator.id,
            "",
            capabilities=operator.capabilities,
            metadata=operator.metadata,
            process=process,
        )
    ]


def check_stays(agent: Agent) -> None:
    """The operator does not leave, and is not forgotten.

    Raises:
        TellwireError: `forbidden`.
    """
    if is_operator(agent):
        raise TellwireError(
            "forbidden", "The operator stays: agents have to be able to write to it.", "Name another."
        )
