"""A tool call, from its arguments to its answer: one operation, in the terms of one dialect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

from tellwire.core.limits import Limits
from tellwire.core.mail.framing import page_chars
from tellwire.mcp.dialects import agent_network as network
from tellwire.mcp.dialects import children as child_answers
from tellwire.mcp.dialects import f2
from tellwire.mcp.dialects import links as link_answers
from tellwire.mcp.dialects import tellwire as answers
from tellwire.mcp.dialects.answer import Answer, refusal, say_reply, with_waiting
from tellwire.mcp.dialects.tellwire import Voice
from tellwire.mcp.dialects.tool import Dialect, Tool, tools_of
from tellwire.mcp.forms import form_of
from tellwire.mcp.membership import SessionMembership
from tellwire.mcp.session import ShimSession
from tellwire.paths import canonical
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import (
    AgentList,
    AgentRecord,
    RegisterAgent,
    UnregisterAgent,
    UpdateAgent,
)
from tellwire.protocol.operations.asking import Answered, AskAgent, CancelAsk
from tellwire.protocol.operations.base import SCRIPT, Operation
from tellwire.protocol.operations.history import History
from tellwire.protocol.operations.links import LinkList, LinkRecord
from tellwire.protocol.operations.listeners import Listening
from tellwire.protocol.operations.messages import (
    Inbox,
    MessageStatusReply,
    PeekMessages,
    SendMessage,
    Sent,
    TakeMessages,
    Taken,
)
from tellwire.protocol.operations.sessions import SessionData
from tellwire.protocol.operations.topics import Topics
from tellwire.system.tasks import Tasks, alongside

MAIN_ONLY = (TakeMessages, PeekMessages, RegisterAgent, UpdateAgent, UnregisterAgent)
"""What a sub-agent may not do in the name of its main conversation: take its mail, or change who it is."""
DELEGATE = (
    "You are a sub-agent: mail, and the agent's name, belong to the main conversation.",
    "You can send and look around.",
)

Progress = Callable[[float, float, str], Awaitable[None]]
"""How far, of how much, and what."""


class Ask(NamedTuple):
    """One tool call, as the client sent it."""

    number: int
    birth_us: int
    call: str
    conversation: str
    progress: Progress


class Calls:
    """Runs the tool calls of one session."""

    def __init__(
        self, session: ShimSession, membership: SessionMembership, dialect: Dialect, limits: Limits
    ) -> None:
        self._session = session
        self._membership = membership
        self._dialect = dialect
        self._limits = limits
        self._tasks = Tasks()
        self._times = session.times
        self.tools = tools_of(dialect, session.hello.tools)

    async def call(self, tool: Tool, arguments: dict[str, Any], ask: Ask) -> Answer:
        """Carry a call out; a refusal is an answer too, for the model to read."""
        try:
            operation, wait_s = form_of(tool).parse(arguments, self._extra(tool, ask))
            if self._dialect.joins or SCRIPT not in operation.callers:
                await self._membership.ensure()
            answer = await self._carry_out(tool, operation, wait_s, ask)
        except TellwireError as error:
            sending = self._dialect.name == "agent-network" and tool.operation is SendMessage
            answer = network.say_refused(error) if sending else refusal(error)
        note = self._membership.take_note()
        answer = answer.noted(note) if note else answer
        agent = self._session.agent
        fetches = agent is not None and not self._membership.gets_mail_by_itself
        if agent is not None and fetches and tool.operation is not TakeMessages:
            answer = with_waiting(answer, len(agent.pending))
        return f2.as_json(answer) if self._dialect.name == "f2" else answer

    def _extra(self, tool: Tool, ask: Ask) -> dict[str, Any]:
        """What a repeat of the same line has in common with the first: it makes a repeat harmless."""
        if tool.operation.repeats:
            return {"key": f"{ask.birth_us:x}-{self._session.hello.instance[:16]}-{ask.number}"}
        if tool.operation is TakeMessages:
            room = self._membership.client.result_bytes
            return {"call": ask.call, **({"chars": room, "in_bytes": True} if room else {})}
        if tool.operation is RegisterAgent:
            return {"session": self._session.hello.instance}
        return {}

    async def _carry_out(
        self, tool: Tool, operation: Operation[Any], wait_s: float | None, ask: Ask
    ) -> Answer:
        if self._membership.is_delegate and isinstance(operation, MAIN_ONLY):
            raise TellwireError("forbidden", *DELEGATE)
        if isinstance(operation, TakeMessages):
            return self._say_taken(operation, await self._take(operation, wait_s or 0.0, ask))
        if isinstance(operation, RegisterAgent):
            return await self._register(operation)
        if isinstance(operation, AskAgent):
            return await self._ask(tool, operation, ask)
        reply = await self._session.ask(operation.resolved(self._session.hello.cwd, canonical))
        if tool.waits and isinstance(reply, Sent):
            held_s = self._times.request_s if wait_s is None else wait_s
            return await self._await_reply(reply, held_s if reply.status == "received" else 0.0, ask)
        return self._say(tool, operation, reply)

    # -- mail -----------------------------------------------------------------------------------------

    async def _take(self, operation: TakeMessages, wait_s: float, ask: Ask) -> Taken:
        """Fetch what waits; hold the call until something does, or its time is up."""

        async def look() -> Taken | None:
            reply: Taken = await self._session.ask(operation)
            return reply if reply.messages or reply.waiting else None

        reply = await self._hold(look, wait_s, ask) or Taken()
        if reply.messages and not reply.next_offset:
            self._session.note_fetch(
                ask.number, ask.call, [each.id for each in reply.messages], ask.conversation
            )
        return reply

    async def _hold(self, look: Callable[[], Awaitable[Any]], wait_s: float, ask: Ask) -> Any:
        """Look, and again whenever there is news, until something is found or the time is up."""
        clock = asyncio.get_running_loop().time
        # A call that is sent again to the next broker does not begin anew.
        began = clock() - max(0.0, self._session.mesh.clock.awake - ask.birth_us / 1_000_000)
        beats = 0
        mails = self._session.news.count
        while (found := await look()) is None:
            left = began + wait_s - clock()
            if left <= 0 or self._session.connection.leaving:
                return None
            has_come = await self._session.news.wait(mails, min(left, self._times.beat_s))
            if not has_come or self._session.connection.leaving:
                beats += 1
                if (beats - 1) * self._times.beat_s < wait_s:  # it has to grow, and a timer may be early
                    await ask.progress(
                        min(beats * self._times.beat_s, wait_s), wait_s, "waiting for messages"
                    )
            mails = self._session.news.count
        return found

    async def _await_reply(self, sent: Sent, wait_s: float, ask: Ask) -> Answer:
        """The deprecated blocking request: hold the call until the peer replies."""

        async def look() -> Taken | None:
            inbox: Inbox = await self._session.ask(PeekMessages(limit=self._limits.peek_max))
            if all(each.re != sent.id for each in inbox.messages):
                return None
            # With it comes what was there before: nothing overtakes.
            return await self._session.ask(TakeMessages(call=ask.call))

        taken = await self._hold(look, wait_s, ask) if wait_s else None
        if taken is not None:
            self._session.note_fetch(
                ask.number, ask.call, [each.id for each in taken.messages], ask.conversation
            )
        return network.say_request(sent, taken, now=self._session.mesh.state.now)

    # -- a question to a fresh agent ------------------------------------------------------------------

    async def _ask(self, tool: Tool, operation: AskAgent, ask: Ask) -> Answer:
        """Hold the call until the agent has answered; if the caller gives it up, so does the agent."""
        total_s = self._limits.ask_s if operation.timeout_s is None else operation.timeout_s
        beats = 0
        with alongside(self._session.ask(operation.resolved(self._session.hello.cwd, canonical))) as work:
            try:
                while not (await asyncio.wait({work}, timeout=self._times.beat_s))[0]:
                    beats += 1
                    done_s = min(beats * self._times.beat_s, total_s)
                    await ask.progress(done_s, total_s, f"{operation.client} is at work")
                return self._say(tool, operation, await work)
            finally:
                if not work.done():
                    work.cancel()
                    self._tasks.run(self._give_up(operation.key))

    async def _give_up(self, key: str) -> None:
        with contextlib.suppress(TellwireError, asyncio.CancelledError):
            await self._session.ask(CancelAsk(key=key))

    # -- joining --------------------------------------------------------------------------------------

    async def _register(self, operation: RegisterAgent) -> Answer:
        if self._session.known() is None:
            await self._membership.register(operation.name, operation.kind, operation.capabilities)
        else:
            await self._membership.ensure()
            changes = UpdateAgent(
                name=operation.name, kind=operation.kind, capabilities=operation.capabilities, suffix=True
            )
            record: AgentRecord = await self._session.ask(changes)
            if record.name.lower() != operation.name.lower():
                self._membership.add_note(
                    f"{operation.name!r} is in use by a live agent; you are {record.name!r}."
                )
        return f2.say_registered(await self._membership.ensure())

    # -- words ----------------------------------------------------------------------------------------

    def _say_taken(self, operation: TakeMessages, reply: Taken) -> Answer:
        now, voice = self._session.mesh.state.now, self._voice()
        if operation.id is not None:
            chars = operation.chars or self._limits.take_chars_max
            at = operation.offset
            chars = page_chars(reply.messages[0], chars, offset=at, in_bytes=operation.in_bytes)
            return self._counted(answers.say_page(reply, operation, voice, now=now, chars=chars), voice)
        if self._dialect.name == "f2":
            return f2.say_taken(reply, self._session)
        if self._dialect.name == "agent-network":
            return network.say_taken(reply, now=now)
        answer = answers.say_taken(reply, voice, now=now)
        return self._counted(answer, voice) if reply.messages else answer

    def _voice(self) -> Voice:
        agent, judge = self._session.agent, self._session.judge
        crosses = agent is not None and bool(agent.turns)  # its client tells of its turns
        voice = Voice(self._dialect.reply_with, crosses)
        if agent is None or not self._dialect.labels:
            return voice
        return voice._replace(label=judge.labels.label_of(agent), told=judge.labels.has_rule(agent))

    def _counted(self, answer: Answer, voice: Voice) -> Answer:
        agent, judge = self._session.agent, self._session.judge
        if agent is not None and voice.label:
            judge.labels.count(agent, len(answer.text), ruled=not voice.told)
        return answer

    def _say(self, tool: Tool, operation: Operation[Any], reply: Any) -> Answer:
        if self._dialect.name == "f2":
            return f2.say(tool, operation, reply, self._session)
        if self._dialect.name == "agent-network":
            return network.say(operation, reply)
        return self._say_own(operation, reply)

    def _say_own(self, operation: Operation[Any], reply: Any) -> Answer:
        """Render a reply in our own dialect, by the type of the reply."""
        agent = self._session.agent
        me = "" if agent is None else agent.name
        now, voice = self._session.mesh.state.now, self._voice()
        says: dict[type, Callable[[], Answer]] = {
            AgentList: lambda: answers.say_peers(reply, me, getattr(operation, "capability", None)),
            Sent: lambda: self._say_sent(cast("SendMessage", operation), reply),
            MessageStatusReply: lambda: answers.say_status(reply),
            AgentRecord: lambda: answers.say_agent(reply, own=isinstance(operation, UpdateAgent)),
            Topics: lambda: answers.say_topics(reply),
            SessionData: lambda: answers.say_session(reply),
            LinkRecord: lambda: link_answers.say_link(reply, me),
            LinkList: lambda: link_answers.say_links(reply),
            Listening: lambda: link_answers.say_listening(reply),
            Inbox: lambda: answers.say_inbox(reply, voice, now=now),
            History: lambda: answers.say_history(reply, now=now, me=me, label=voice.label),
        }
        if type(reply) in says:
            return says[type(reply)]()
        if isinstance(reply, Answered):
            room = self._membership.client.result_bytes or self._limits.take_chars_max
            return child_answers.say_answered(reply, room)
        if type(reply) in child_answers.SAYS:
            return child_answers.SAYS[type(reply)](reply)
        if isinstance(operation, UnregisterAgent):
            return say_reply(reply)._replace(text="You left; your next call joins again.")
        return say_reply(reply)

    def _say_sent(self, operation: SendMessage, reply: Sent) -> Answer:
        coming = answers.BY_ITSELF if self._membership.gets_mail_by_itself else answers.BY_FETCHING
        if self._membership.is_delegate:
            coming = answers.TO_MAIN
        answer = answers.say_sent(reply, operation, self._limits.ttl_s, coming)
        more = link_answers.say_direct(reply, str(operation.to))
        return answer._replace(text=f"{answer.text} {more}") if more else answer
