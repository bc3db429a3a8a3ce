"""How an MCP session becomes an agent: its kind, its name, and who else speaks as it."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol, cast

from tellwire.core.state import Agent
from tellwire.gateways.sessions import ShimSession
from tellwire.protocol.addresses import NAME_LENGTH_MAX, is_name
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.operations.agents import RegisterAgent, Registered, UnregisterAgent

_NOT_NAME = re.compile(r"[^A-Za-z0-9_]+")
PROBE = "tellwire/thread"
"""In the metadata of a call that tellwire itself has a client make, to learn whose thread this is."""


class Client(NamedTuple):
    """A program that speaks MCP, by the name it gives itself."""

    kind: str
    short: str
    owns: bool = False
    """Its process is one agent: a command that it runs speaks as that agent. Not so for an editor."""
    text_only: bool = False
    """It shows its model the data of a result instead of the text, and so would drop the frame."""
    result_bytes: int = 0
    """It cuts the middle out of a result larger than about this; 0: it takes the usual whole."""
    shows: bool = False
    """It puts the server's instructions before its model."""
    cancels_late: bool = False
    """It sends a cancellation after every answer that it has used."""
    conversation: str = ""
    """The variable in which it tells its servers which conversation they are started for."""


CLIENTS = {
    "claude-code": Client(
        "claude-code", "claude", owns=True, shows=True, text_only=True, conversation="CLAUDE_CODE_SESSION_ID"
    ),
    "codex-mcp-client": Client("codex", "codex", owns=True, shows=True, text_only=True, result_bytes=8_500),
    "gemini-cli-mcp-client": Client("gemini-cli", "gemini", owns=True, shows=True),
    "opencode": Client("opencode", "opencode", owns=True, shows=True, cancels_late=True),
    "pi": Client("pi", "pi", owns=True, shows=True),
}
"""As seen with Claude Code 2.1.325, Codex 0.166.0, Gemini CLI 0.61.0 and OpenCode 1.18.33."""


class Threads(Protocol):
    """Who knows which of a client's conversations a session serves."""

    def agent_of(self, thread: str, /) -> Agent | None:
        """The agent that a conversation is, if that is known for certain."""
        ...

    def joined(self, seat: Joining, /) -> None:
        """A session has joined."""
        ...

    def know(self, seat: Joining, thread: str, /) -> None:
        """A session serves this conversation."""
        ...


class Joining:
    """One session's way to its name, and back to it."""

    def __init__(self, session: ShimSession, threads: Threads | None = None) -> None:
        self._session = session
        self._threads = threads
        self._lock = asyncio.Lock()
        self._info: dict[str, Any] = {}
        self._parent = ""
        """Of a sub-agent: the conversation that started it."""
        self.note = ""
        """Says so if the name is not the one asked for; told once."""

    @property
    def is_met(self) -> bool:
        """Whether the client has said which program it is."""
        return bool(self._info)

    def meet(self, info: dict[str, Any] | None) -> None:
        """The client says which program it is."""
        if info is not None and not self._info:
            self._info = info

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
        return self._session.leaving

    def hear(self, number: int, params: Any, conversation: str) -> None:
        """A tool call came in a conversation; one that tellwire had the client make is not the model's."""
        meta = cast("dict[str, Any]", params).get("_meta") if isinstance(params, dict) else None
        self._parent = _parent_of(meta) or self._parent
        if conversation and self._threads is not None:
            self._threads.know(self, conversation)
        if not isinstance(meta, dict) or PROBE not in meta:
            self._session.note_call(number, conversation)

    @property
    def is_delegate(self) -> bool:
        """Whether a sub-agent speaks here, in the name of its main conversation."""
        return bool(self._parent and self._session.caller.agent) and not self._session.caller.holds

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
                if self._threads is not None:
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
            return self._session.spoken_for
        known = None if self._threads is None else self._threads.agent_of(self._parent)
        return known or self._session.first_of_client()

    async def _speak_for(self, main: Agent) -> Agent:
        """Be no agent of one's own any more: nobody writes to a sub-agent, and it takes no mail (REC-6)."""
        if self._session.agent is not None:
            await self._session.ask(UnregisterAgent(forget=True))
        if not self.is_delegate:
            self._session.attach(main.id, holds=False)
            self.note = f"You are a sub-agent of {main.name!r} and speak as it."
        return main

    async def register(self, name: str, kind: str, capabilities: list[str] | None) -> Registered:
        """Become an agent under a name and kind of the client's choosing."""
        async with self._lock:
            self._sit(named=True)
            return await self._register(name=name, kind=kind, capabilities=capabilities)

    async def _join(self) -> None:
        client = self.client
        usual = default_name(self._session.hello.cwd, client.short)
        asked = self._session.hello.name
        self._sit(named=bool(asked))
        try:
            await self._register(name=asked or usual, kind=client.kind, capabilities=None)
        except TellwireError as error:
            if error.code != "name_invalid" or not asked:
                raise
            self._sit(named=False)
            reply = await self._register(name=usual, kind=client.kind, capabilities=None)
            self.note = f"{error.message} You are {reply.name!r}."

    async def _resume(self, before: Agent) -> None:
        # After a restart of the broker the client has not said again who it is.
        owns = bool(before.owner)
        self._sit(named=False, again=True)
        await self._register(
            name=before.name, kind=before.kind, capabilities=None, resume=before.id, owns=owns
        )
        self._session.recall(before)

    async def _register(
        self, *, name: str, kind: str, capabilities: list[str] | None, resume: str = "", owns: bool = False
    ) -> Registered:
        session = self._session
        metadata = {"cwd": session.hello.cwd, "version": str(self._info.get("version", ""))[:64]}
        reply: Registered = await session.ask(
            RegisterAgent(
                name=name,
                kind=kind,
                capabilities=capabilities,
                metadata=None if resume else {key: value for key, value in metadata.items() if value},
                cwd=session.hello.cwd,
                session=session.instance,
                resume=resume,
                owns_process=owns or self.client.owns,
                pulls=True,
            )
        )
        self.note = reply.note
        return reply

    def _sit(self, *, named: bool, again: bool = False) -> None:
        client = self.client
        variable = "" if again else client.conversation  # the client may be in another one by now
        self._session.sit(default_name(self._session.hello.cwd, client.short), variable, named=named)

    @property
    def client(self) -> Client:
        """The program, as far as it has said who it is."""
        name = str(self._info.get("name", ""))
        word = _NOT_NAME.sub("-", name).strip("-").lower()[:32] or "mcp"
        return CLIENTS.get(name, Client(word, word))


def default_name(cwd: str, short: str) -> str:
    """`folder-client`, made of what a name may hold."""
    folder = _NOT_NAME.sub("-", PurePath(cwd).name).strip("-_")
    room = NAME_LENGTH_MAX - len(short) - 4
    name = f"{folder[:room].rstrip('-_')}-{short}" if folder else short
    return name if is_name(name) else "agent"


def _parent_of(meta: Any) -> str:
    """The conversation that started the sub-agent whose call this is; empty for any other call."""
    turn = cast("dict[str, Any]", meta).get("x-codex-turn-metadata") if isinstance(meta, dict) else None
    if not isinstance(turn, dict) or cast("dict[str, Any]", turn).get("thread_source") != "subagent":
        return ""
    session = cast("dict[str, Any]", turn).get("session_id")
    return session if isinstance(session, str) else ""
