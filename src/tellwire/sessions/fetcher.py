"""Fetches waiting mail on a lease, and renders it as text for the model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Literal

import msgspec

from tellwire.broker.calls import OwnCalls
from tellwire.broker.labels import Labels
from tellwire.broker.ports import SessionMesh
from tellwire.clients.ports import NAMED, FetchedText, name_of
from tellwire.core.context import FetchFor, ReturnLease
from tellwire.core.mail.framing import announce, glimpse, remind, render_batch, render_message
from tellwire.core.state import Agent
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.ids import format_id, parse_id
from tellwire.protocol.operations.messages import MessageRecord, Taken
from tellwire.sessions.client_session import WAKING, ClientSession, mark_of
from tellwire.sessions.evidence import EvidenceWatcher
from tellwire.sessions.paths import PULL
from tellwire.sessions.remembered import RememberedSessions
from tellwire.sessions.turns import RETRY_LINE

log = logging.getLogger("tellwire.hooks")

HEADER_CHARS = 700
"""Of what a client takes at once, for the line above the messages and the one behind."""


class MailFetcher:
    """Fetches mail for the hooks, waiters, queues and plugins of all clients."""

    def __init__(
        self, mesh: SessionMesh, labels: Labels, remembered: RememberedSessions, evidence: EvidenceWatcher
    ) -> None:
        self._mesh = mesh
        self.labels = labels
        self._remembered = remembered
        self._evidence = evidence
        self._broker = OwnCalls(mesh)
        self._calls = 0

    async def fetch(
        self, session: ClientSession, channel: str, path: str, *, prompt: str = ""
    ) -> FetchedText:
        """What waits for an agent, on a lease, as text for its model; empty if there is nothing new.

        Messages that are in the `prompt` already are not repeated.
        """
        self._calls += 1
        call = f"{channel}:{self._mesh.state.epoch}:{self._calls}"
        limit = session.client.hooks.room
        room = (limit.bytes or limit.chars) - HEADER_CHARS
        try:
            taken: Taken = await self._broker.call(FetchFor(session.agent, call, room, limit.bytes > 0))
        except TellwireError as error:
            log.warning("mail could not be handed over: %s", error)
            return FetchedText()
        except asyncio.CancelledError:
            self._return(session.agent, call)  # behind the lease, which nobody waits for any more
            raise
        now, agent = self._mesh.state.now, self._mesh.state.agents[session.agent]
        label = self.labels.label_of(agent)
        told = self.labels.has_rule(agent, _uncut(session), session.client.cut_mark)
        fresh = _mark_repeats(taken.messages, self._known(session, taken.messages, prompt))
        parts = [render_message(each, now=now, label=label) for each in fresh]
        large = [each for each in taken.large if each.id not in session.leases.announced]
        session.leases.announced.update(each.id for each in large)
        parts += [announce(each, now=now, size=int(each.body)) for each in large]
        if taken.messages:
            # A text with an id of its own is searched by that id, whatever else is in the transcript.
            is_known = not parts and channel != NAMED
            self._lease(session, call, path, [each.id for each in taken.messages], due=is_known)
            if not parts and channel in WAKING:
                ids = [each.id for each in taken.messages]
                return FetchedText(remind(ids), call, glimpse(taken.messages))
        behind = taken.waiting - len(taken.large) if taken.messages else 0
        text = render_batch(parts, waiting=behind, told=told, label=label) if parts else ""
        if taken.messages:
            self.labels.count(agent, len(text), _uncut(session), ruled=not told)
        return FetchedText(text, call, glimpse(taken.messages, large=large))

    async def fetch_to_wake(self, session: ClientSession, channel: str, path: str) -> FetchedText:
        """The text that begins a turn: what waits, or that the last woken turn failed; empty for neither."""
        fetched = await self.fetch(session, channel, path)
        is_retry = not fetched.text and session.wakes.failures
        return FetchedText(RETRY_LINE, fetched.call) if is_retry else fetched

    def adopt(self, session: ClientSession | None, call: str, ids: list[str]) -> bool:
        """Whether a transcript will show what a tool's result hands out, so that no later call has to."""
        if session is None or session.leases.reader is None:
            return False
        session.leases.add(call, self._marks_of(session.agent, ids), path=PULL)
        self._evidence.watch(session)
        return True

    def give_back(self, session: ClientSession, call: str) -> None:
        """What was fetched by a call did not reach the client."""
        if session.open.pop(call, None) is not None:
            self._return(session.agent, call)

    def _return(self, name: str, call: str) -> None:
        agent = self._mesh.state.agents.get(name)
        if agent is not None:
            self._mesh.submit_own(ReturnLease(agent.id, agent.session, call))

    def _lease(self, session: ClientSession, call: str, path: str, ids: list[str], *, due: bool) -> None:
        agent = self._mesh.state.agents[session.agent]
        session.leases.add(call, self._sought(agent, call, ids), path=path, due=due)
        self._mesh.delivery.claim(self._mesh.state, session.agent, ids)
        self._remembered.save(agent, session)
        self._evidence.watch(session)

    def recall(self, agent: Agent, session: ClientSession) -> None:
        """Go on with the leases that an earlier broker gave this session."""
        before = self._remembered.load(agent, session.client.kind)
        for call in agent.calls:
            if call.partition(":")[0].isdigit() or call in session.open:
                continue
            marks = self._sought(agent, call, _leased_to(agent, call))
            if before is None:
                session.leases.add(call, marks)
                continue
            session.leases.add(
                call,
                marks,
                path=before.paths.get(call, ""),
                at=before.handed.get(call, 0.0),
                left=before.left.get(call),
                due=call in before.due,
            )

    def seek_marks(self, session: ClientSession, call: str) -> None:
        """A client does not keep the name of a text: look for the marks of its messages instead."""
        agent = self._mesh.state.agents.get(session.agent)
        if agent is not None and call in agent.calls and call in session.open:
            lease = session.open[call]
            marks = self._marks_of(agent.id, _leased_to(agent, call))
            session.leases.add(call, marks, path=lease.path, at=lease.at)

    def _sought(self, agent: Agent, call: str, ids: list[str]) -> list[str]:
        """What a transcript is searched for: the text's own name if it has one, else its messages' marks."""
        name = name_of(agent, call)
        return [name] if name else self._marks_of(agent.id, ids)

    def _marks_of(self, agent: str, ids: list[str]) -> list[str]:
        leased = self._mesh.state.agents[agent].leased
        senders = {each: leased.get(parse_id("m", each) or 0) for each in ids}
        return [
            mark_of(each, notice=receipt is not None and not (receipt.sender or receipt.quotes))
            for each, receipt in senders.items()
        ]

    def _known(
        self, session: ClientSession, messages: list[MessageRecord], prompt: str
    ) -> dict[str, Literal["present", "may return"]]:
        """Which messages the context has already, or may have again when the session is resumed."""
        leased = self._mesh.state.agents[session.agent].leased
        found: dict[str, Literal["present", "may return"]] = {}
        reader = session.leases.reader if session.leases.is_ready else None
        for each, mark in zip(messages, self._marks_of(session.agent, [m.id for m in messages]), strict=True):
            receipt = leased.get(parse_id("m", each.id) or 0)
            was_seen = receipt is not None and bool(receipt.seen_by)
            if _is_framed(mark, prompt) or (reader is not None and was_seen and reader.is_present(mark)):
                found[each.id] = "present"
            elif reader is not None and reader.may_return(mark):
                found[each.id] = "may return"
        return found


def _leased_to(agent: Agent, call: str) -> list[str]:
    """The messages that are leased to a call."""
    lease = agent.calls[call]
    return [format_id("m", seq) for seq, receipt in agent.leased.items() if receipt.lease == lease]


def _uncut(session: ClientSession) -> str:
    """The transcript by which to tell how much was said, for a client that does not report cuts."""
    return "" if session.client.tells_cuts else session.transcript


def _mark_repeats(messages: list[MessageRecord], known: Mapping[str, str]) -> list[MessageRecord]:
    """The messages to deliver: none if the context has all of them; else all, with the repeats marked."""
    if all(known.get(each.id) == "present" for each in messages):
        return []
    mark = msgspec.structs.replace
    return [mark(each, repeat=True) if each.id in known else each for each in messages]


def _is_framed(mark: str, prompt: str) -> bool:
    """Whether a prompt brings the message itself; peers and humans may name its id."""
    return any(opener + mark in prompt for opener in ("<", "[", "&lt;"))
