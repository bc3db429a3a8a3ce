"""`tellwire chat`: a conversation line by line, with an agent or on a link."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import click

from tellwire.cli.commands.links import parse_link
from tellwire.cli.commands.watching import LinkReader
from tellwire.cli.documents import facts
from tellwire.cli.options import Duration, as_option, complete_addresses, jsonl_option
from tellwire.cli.refusals import OUTCOMES, tell_unsent
from tellwire.cli.render import render_json, render_message, render_sent
from tellwire.cli.screen import ERR, LINE_WIPED, find_screen, write
from tellwire.cli.shapes import whole_message, whole_sent
from tellwire.cli.speaking import Speaker, speak
from tellwire.cli.words import BODY_BYTES_MAX, is_sendable
from tellwire.protocol.addresses import BROADCAST, LINK
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.sdk.agent import Message
from tellwire.system.tasks import owned

PROMPT = "you> "
LOOK_S = 3_600.0
LINE_BYTES_MAX = BODY_BYTES_MAX


@click.command()
@click.argument("to", metavar="NAME", shell_complete=complete_addresses)
@as_option
@click.option(
    "--wait",
    "wait_s",
    type=Duration(),
    default=None,
    metavar="TIME",
    help="After the last line, wait this long for an answer (default: 0s, or 5min for piped lines).",
)
@jsonl_option
def chat(to: str, speaker: str | None, wait_s: float | None, *, as_json: bool) -> int:
    """Talk to an agent or on a link, line by line.

    NAME is an agent or `link:ID`. Each line that you type is sent as a message. What the agent sends you is
    shown when it comes, and counts as read; mail from others stays in your inbox. Ctrl-D ends the chat, and
    Ctrl-C does too; the agent keeps running.

    With piped lines it ends after the answer to the last one, or after --wait.

    \b
    Examples:
      tellwire chat shop-codex
      tellwire chat link:l4f2k
      echo "Is the parser done?" | tellwire chat shop-codex --wait 10min
    """
    if to == BROADCAST or to.startswith("#") or "," in to:
        raise click.UsageError("NAME must be one agent, or link:ID. Use `tellwire send` for several.")
    typed = os.isatty(0)
    patience_s = wait_s if wait_s is not None else (0.0 if typed else 300.0)
    view = View(as_json=as_json, prompts=typed and os.isatty(1) and not as_json)

    async def work(me: Speaker) -> int:
        if me.attached:
            words = f"Replies go to {me.name}'s own client, so a chat cannot work beneath it."
            raise TellwireError("forbidden", words, f"Use `tellwire send {to}`.")
        if to.startswith(LINK):
            return await talk_on_link(me, parse_link(to), view)
        return await Talk(me, to, view).run(patience_s)

    return speak(speaker, work)


class View:
    """What is shown of a conversation; a line that is being typed is begun again below it."""

    def __init__(self, *, as_json: bool, prompts: bool) -> None:
        self.as_json = as_json
        self._prompts = prompts

    def prompt(self) -> None:
        if self._prompts:
            write(find_screen().paint(PROMPT, "dim"))

    def tell(self, text: str) -> None:
        write((LINE_WIPED if self._prompts else "") + text)

    def show(self, message: Message) -> None:
        if self.as_json:
            write(render_json({"event": "message", **whole_message(facts(message))}))
            return
        self.tell(render_message(facts(message), now=time.time(), screen=find_screen()))
        self.prompt()

    def sent(self, sent: dict[str, Any], to: str) -> None:
        if self.as_json:
            write(render_json({"event": "sent", **whole_sent(sent)}))
        else:
            self.tell(render_sent(sent, to, screen=find_screen()))


class Talk:
    """With one agent: only its messages are taken, and answering one says so."""

    def __init__(self, me: Speaker, to: str, view: View) -> None:
        self._me = me
        self._to = to
        self._view = view
        self._answers = ""
        """The message of theirs that the next line answers."""
        self._last = ""
        """What was sent last."""
        self._answered = asyncio.Event()

    async def run(self, patience_s: float) -> int:
        """Until the input ends, or the agent cannot be written to."""
        peer = await self._me.peer(self._to)
        self._to = peer.name
        if find_screen().person and not self._view.as_json:
            self._view.tell(f"Talking to {peer.name}, who is {peer.status}. Ctrl-D ends the chat.\n")
        hearing = owned(self._hear())
        try:
            code = await self._speak()
            if code == 0 and self._last and patience_s:
                waiting = owned(self._answered.wait())
                await asyncio.wait(
                    [waiting, hearing], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
                )
                waiting.cancel()
                code = 0 if self._answered.is_set() else ERRORS["timeout"].exit
            if hearing.done():
                await hearing
            return code
        finally:
            hearing.cancel()
            with suppress(asyncio.CancelledError, TellwireError):
                await hearing

    async def _speak(self) -> int:
        async for line in lines_of_input(self._view.prompt):
            sent = await self._me.send(self._to, line, re=self._answers or None)
            self._answers = ""
            if not sent.id:
                code = tell_unsent(facts(sent), as_json=self._view.as_json)
                return code or ERRORS[OUTCOMES.get(sent.status, "internal")].exit
            self._last = sent.id
            self._answered.clear()
            self._view.sent(facts(sent), self._to)
        return 0

    async def _hear(self) -> None:
        while True:
            message = await self._me.message_from(self._to, LOOK_S)
            if message is None:
                continue
            self._view.show(message)
            await self._me.confirm([message.id])
            self._answers = message.id
            if message.re == self._last:
                self._answered.set()


async def talk_on_link(me: Speaker, link: str, view: View) -> int:
    """With all members: what is said there is shown, our own words too."""
    reader = LinkReader(link, as_json=view.as_json)
    following = owned(reader.run(0))
    speaking = owned(_speak_on(me, link, view, reader.ready))
    try:
        await asyncio.wait([following, speaking], return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            await following
            return 0
        return await speaking
    finally:
        for task in (following, speaking):
            task.cancel()
        await asyncio.gather(following, speaking, return_exceptions=True)


async def _speak_on(me: Speaker, link: str, view: View, ready: asyncio.Event) -> int:
    await ready.wait()
    async for line in lines_of_input(view.prompt):
        sent = await me.send(f"{LINK}{link}", line)
        if not sent.id:
            return tell_unsent(facts(sent), as_json=view.as_json)
    return 0


async def lines_of_input(prompt: Callable[[], None]) -> AsyncGenerator[str]:
    """What is typed or piped in, line by line, without blank ones.

    Raises:
        TellwireError: a line is too long, or is not text.
    """
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except ValueError:  # a file
        for data in sys.stdin.buffer:
            if line := _line(data):
                yield line
        return
    while True:
        prompt()
        try:
            data = await reader.readline()
        except ValueError as error:
            words = f"A line is longer than {LINE_BYTES_MAX} bytes."
            raise TellwireError("body_too_large", words, "Put it in a file and send the path.") from error
        if not data:
            return
        if line := _line(data):
            yield line


def _line(data: bytes) -> str:
    text = data.decode("utf-8", "surrogateescape").strip()
    if not is_sendable(text):
        write("That line is not valid UTF-8; it was not sent.\n", ERR)
        return ""
    return text
