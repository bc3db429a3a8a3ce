"""How an MCP session becomes an agent: its kind, its name, and who else speaks as it."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePath
from typing import Any, Protocol, cast

from tellwire.clients import CLIENTS, parent_of
from tellwire.clients.client import McpTraits
from tellwire.clients.ports import PROBE
from tellwire.core.state import Agent
from tellwire.mcp.session import ShimSession
from tellwire.protocol.addresses import NAME_LENGTH_MAX, is_name, is_reserved
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import RegisterAgent, Registered, UnregisterAgent

_NOT_NAME = re.compile(r"[^A-Za-z0-9_]+")


TRAITS = {each.mcp.info: each for each in CLIENTS}
"""By the name that a client gives itself."""


class SessionThreads(Protocol):
    """Finds out which of a client's conversations a session serves."""

    def agent_of(self, thread: str, /) -> Agent | None:
        """The agent that a conversation is, if that is known for certain."""
        ...

    def joined(self, session: SessionMembership, /) -> None:
        """A session has joined."""
        ...

    def bind_thread(self, session: SessionMembership, thread: str, /) -> None:
        """A session serves this conversation."""
        ...


class SessionMembership:
    """Whether and as which agent one session takes part: joins it to its agent, and again after a restart."""

    def __init__(self, session: ShimSession, threads: SessionThreads) -> None:
        self._session = session
        self._threads = threads
        self._lock = asyncio.Lock()
        self._info: dict[str, Any] = {}
        self._parent = ""
        """Of a sub-agent: the conversation that started it."""
        self.note = ""
        """A note for the model if the name is not the one asked for."""

    @property
    def is_met(self) -> bool:
        """Whether the client has said which program it is."""
        return bool(self._info)

    def meet(self, info: dict[str, Any] | None) -> None:
        """The client says which program it is."""
        if info is not None and not self._info:
            self._info = info

    def add_note(self, note: str) -> None:
        """Give the model this note about its name, once."""
        self.note = note

    def take_note(self) -> str:
        """What the model has to be told about its name; returned once."""
        note, self.note = self.note, ""
        return note

    @property
    def agent(self) -> Agent | None:
        """The agent that the session is, if it is one now."""
        return self._session.agent

    @property
    def source(self) -> ShimSession:
        """Where its commands come from."""
        return self._session

    @property
    def owner(self) -> str:
        """The client's process."""
        return self._session.caller.owner

    @property
    def is_gone(self) -> bool:
        """Whether its connection has ended."""
        return self._session.connection.leaving

    def note_call(self, number: int, params: Any, conversation: str) -> None:
        """A tool call came in a conversation; one that tellwire had the client make is not the model's."""
        meta = cast("dict[str, Any]", params).get("_meta") if isinstance(params, dict) else None
        self._parent = parent_of(meta) or self._parent
        if conversation:
            self._threads.bind_thread(self, conversation)
        if not isinstance(meta, dict) or PROBE not in meta:
            self._session.note_call(number, conversation)

    @property
    def is_delegate(self) -> bool:
        """Whether a sub-agent speaks here, in the name of its main conversation."""
        return bool(self._parent and self._session.caller.agent) and not self._session.caller.is_own_client

    def label_for_instructions(self, *, shown: bool) -> str:
        """The label that ends peers' messages in this session, for its instructions; empty if there is none.

        `shown`: the client puts them before its model, so that the rule is known from now on.
        """
        agent = self.agent
        if agent is None:
            return ""
        if self._session.hello.alone:
            self._session.judge.labels.forget(agent.id)  # these instructions reach nobody
        elif shown:
            self._session.judge.labels.note_rule(agent)
        return self._session.judge.labels.label_of(agent)

    @property
    def gets_mail_by_itself(self) -> bool:
        """Whether nobody has to fetch: hooks of the client bring what comes into this very turn."""
        return self._session.caller.is_own_client and self._session.judge.brings(self._session.caller.agent)

    async def ensure(self) -> Agent:
        """Be an agent: the one this session was, or a new one; a sub-agent speaks as its main conversation.

        Raises:
            TellwireError: it may not.
        """
        async with self._lock:
            main = self._main()
            if main is not None:
                return await self._speak_for(main)
            if self._session.agent is None:
                before = self._session.known()
                await (self._resume(before) if before is not None else self._join())
                self._threads.joined(self)
        agent = self._session.agent
        if agent is None:
            raise TellwireError("not_registered", "This session has no agent at the moment.", "Try again.")
        return agent

    def _main(self) -> Agent | None:
        """The agent of the conversation that started this sub-agent, if that is certain."""
        if not self._parent:
            return None
        if self.is_delegate:
            return self._session.mesh.state.agents.get(self._session.caller.agent)
        caller = self._session.caller
        return self._threads.agent_of(self._parent) or self._session.origin.first_agent(
            caller.agent if caller.is_own_client else ""
        )

    async def _speak_for(self, main: Agent) -> Agent:
        """Be no agent of one's own any more: nobody writes to a sub-agent, and it takes no mail (REC-6)."""
        if self._session.agent is not None:
            await self._session.ask(UnregisterAgent(forget=True))
        if not self.is_delegate:
            self._session.attach(main.id, is_own_client=False)
            self.note = f"You are a sub-agent of {main.name!r} and speak as it."
        return main

    async def register(self, name: str, kind: str, capabilities: list[str] | None) -> Registered:
        """Become an agent under a name and kind of the client's choosing."""
        async with self._lock:
            await self._sit(named=True, chosen=True)
            return await self._register(name=name, kind=kind, capabilities=capabilities)

    async def _join(self) -> None:
        client = self.client
        usual = default_name(self._session.hello.cwd, client.short)
        asked = self._session.hello.name
        await self._sit(named=bool(asked))
        try:
            await self._register(name=asked or usual, kind=self.kind, capabilities=None)
        except TellwireError as error:
            if error.code != "name_invalid" or not asked:
                raise
            await self._sit(named=False)
            reply = await self._register(name=usual, kind=self.kind, capabilities=None)
            self.note = f"{error.message} You are {reply.name!r}."

    async def _resume(self, before: Agent) -> None:
        # After a restart of the broker the client has not said again who it is.
        owns = bool(before.owner)
        await self._sit(named=False, again=True)
        await self._register(
            name=before.name, kind=before.kind, capabilities=None, resume=before.id, owns=owns
        )
        self._session.evidence.recall(before)

    async def _register(
        self, *, name: str, kind: str, capabilities: list[str] | None, resume: str = "", owns: bool = False
    ) -> Registered:
        """Register the session as an agent that fetches its mail, and keep the broker's note."""
        session = self._session
        metadata = {"cwd": session.hello.cwd, "version": str(self._info.get("version", ""))[:64]}
        reply: Registered = await session.ask(
            RegisterAgent(
                name=name,
                kind=kind,
                capabilities=capabilities,
                metadata=None if resume else {key: value for key, value in metadata.items() if value},
                cwd=session.hello.cwd,
                session=session.hello.instance,
                resume=resume,
                owns_process=owns or self.client.owns,
                pulls=True,
            )
        )
        self.note = reply.note
        return reply

    async def _sit(self, *, named: bool, chosen: bool = False, again: bool = False) -> None:
        client = self.client
        variable = "" if again else client.conversation  # the client may be in another one by now
        usual = default_name(self._session.hello.cwd, client.short)
        await self._session.sit(usual, variable, named=named, chosen=chosen)

    @property
    def client(self) -> McpTraits:
        """The program, as far as it has said who it is."""
        name = str(self._info.get("name", ""))
        return TRAITS[name].mcp if name in TRAITS else McpTraits(short=_kind_of(name))

    @property
    def kind(self) -> str:
        """What agents of that program are listed as."""
        name = str(self._info.get("name", ""))
        return TRAITS[name].kind if name in TRAITS else _kind_of(name)


def _kind_of(name: str) -> str:
    """The kind of agents of a program that we do not know, by its name."""
    return _NOT_NAME.sub("-", name).strip("-").lower()[:32] or "mcp"


def default_name(cwd: str, short: str) -> str:
    """`folder-client`, made of what a name may hold; of a folder `operator` the client's name only."""
    folder = _NOT_NAME.sub("-", PurePath(cwd).name).strip("-_")
    room = NAME_LENGTH_MAX - len(short) - 4
    name = f"{folder[:room].rstrip('-_')}-{short}" if folder else short
    if is_name(name) and not is_reserved(name):
        return name
    return short if is_name(short) and not is_reserved(short) else "agent"
