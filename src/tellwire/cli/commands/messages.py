"""Commands on messages: send, broadcast, inbox, message-status."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from tellwire.cli.documents import facts
from tellwire.cli.options import Duration, as_option, complete_addresses, json_option
from tellwire.cli.plain import command_for
from tellwire.cli.refusals import tell_unsent
from tellwire.cli.render import render_inbox, render_json, render_message, render_sent, render_status
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.shapes import whole_inbox, whole_message, whole_sent
from tellwire.cli.speaking import Speaker, ask, is_empty, speak
from tellwire.cli.words import (
    BODY_BYTES_MAX,
    KINDS,
    MODES,
    is_sendable,
    note_of_new,
    note_of_peek,
    read_body,
    split_names,
)
from tellwire.protocol.addresses import BROADCAST
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.operations.messages import (
    Inbox,
    MessageStatus,
    MessageStatusReply,
    PeekMessages,
)
from tellwire.sdk.broker_client import CALL_S

DURATION = Duration()
OFFER_S = 10.0
"""How long to wait for mail that was waiting on joining: its offer is on its way."""


@click.command()
@click.argument("to", shell_complete=complete_addresses)
@click.argument("body", required=False)
@as_option
@click.option("--re", metavar="ID", help="ID of the message you answer; its receipt becomes `answered`.")
@click.option("--mode", type=click.Choice(MODES), help="What kind of answer you want.")
@click.option("--kind", type=click.Choice(KINDS), help="Default: `response` with --re, otherwise `request`.")
@click.option("--ttl", type=DURATION, help="How long it may wait unread (default 1h).")
@click.option("--direct", is_flag=True, help="Use the direct link with TO (for agents only).")
@click.option("--listen", is_flag=True, help="Also be notified when TO finishes a turn.")
@click.option("--choice", "choices", multiple=True, help="To `operator`: an answer to offer; up to 9.")
@click.option("--wait", type=DURATION, help="Wait this long for the reply, and print it.")
@click.option("--confirm", is_flag=True, help="Required for a very large broadcast.")
@click.option("--key", help="Request id; resending with the same one is harmless.")
@json_option
def send(to: str, body: str | None, **options: Any) -> int:
    """Send a message.

    TO is an agent's name, several names joined by commas, `#topic`, or `broadcast` for every agent that is
    online in this project. BODY is the text; it is read from stdin if it is `-`, or left out in a pipe.

    The message is on disk when the command returns. It prints `received` if the message is in the inbox of an
    online agent; `queued` if it is kept for an agent that is offline or cannot be reached now, and why;
    `sent` if it went to several, with the outcome for each. The exit code is 68 if there is no such agent,
    and 75 if --wait ended without a reply; the message stays sent.

    \b
    Examples:
      tellwire send bob "Could you look at the parser?"
      tellwire send bob,carol "Release at noon." --as alice
      git diff | tellwire send reviewer - --wait 10min
      tellwire send alice "Looks good." --re m4f2k
      tellwire send "#builds" green --kind notification
    """
    return send_words(to, body_of(body), options)


@click.command()
@click.argument("body", required=False)
@as_option
@click.option("--mode", type=click.Choice(MODES), help="What kind of answer you want.")
@click.option("--kind", type=click.Choice(KINDS), help="Default: `request`.")
@click.option("--ttl", type=DURATION, help="How long it may wait unread (default 1h).")
@click.option("--confirm", is_flag=True, help="Required if it reaches very many agents.")
@click.option("--key", help="Request id; resending with the same one is harmless.")
@json_option
def broadcast(body: str | None, **options: Any) -> int:
    """Send to every agent that is online in this project.

    The same as `tellwire send broadcast BODY`. You do not get a copy.

    \b
    Examples:
      tellwire broadcast "Who has touched the build?"
      make 2>&1 | tail -5 | tellwire broadcast --as ci --kind notification
    """
    return send_words(BROADCAST, body_of(body), {"re": None, "wait": None, **options})


def send_words(to: str, body: str, options: dict[str, Any]) -> int:
    """Join, send, tell how far it got, and leave."""
    wait_s: float | None = options["wait"]
    as_json: bool = options["as_json"]

    async def work(me: Speaker) -> int:
        if wait_s is not None and me.attached:
            raise TellwireError(
                "forbidden",
                f"Nothing was sent: replies go to {me.name}'s own client, so --wait cannot work.",
                "Send without --wait.",
            )
        names = {name: options[name] for name in ("re", "mode", "kind", "confirm", "key")}
        more = {name: options.get(name, False) for name in ("direct", "listen")}
        choices = options.get("choices") or None
        sent = await me.send(split_names(to), body, ttl_s=options["ttl"], choices=choices, **names, **more)
        if sent.status == "timeout":
            raise TellwireError("timeout", f"The broker did not confirm it within {CALL_S:.0f} s.", sent.note)
        if not sent.id:
            return tell_unsent(facts(sent), as_json=as_json)
        if not as_json:
            write(render_sent(facts(sent), to, screen=find_screen()))
        elif wait_s is None:
            write(render_json(whole_sent(facts(sent))))
        return 0 if wait_s is None else await _await_reply(me, facts(sent), wait_s, as_json=as_json)

    return speak(options["speaker"], work)


async def _await_reply(me: Speaker, sent: dict[str, Any], wait_s: float, *, as_json: bool) -> int:
    reply = await me.reply_to(sent["id"], wait_s)
    if as_json:
        told = None if reply is None else whole_message(facts(reply))
        write(render_json({**whole_sent(sent), "reply": told}))
    elif reply is not None:
        write("\n" + render_message(facts(reply), now=time.time(), screen=find_screen()))
    if reply is not None:
        await me.confirm([reply.id])
        return 0
    if not as_json:
        write(f"No reply in time. See how far it got: tellwire message-status {sent['id']}\n", ERR)
    return ERRORS["timeout"].exit


def body_of(body: str | None) -> str:
    """What to say: the argument, or what is piped in.

    Raises:
        TellwireError: there is nothing, too much, or it is no text.
    """
    text = body
    if body is None or body == "-":
        if body is None and os.isatty(0):
            raise click.UsageError("Missing argument 'BODY': give it as an argument, or pipe it in.")
        text = read_body()
        if not text:
            raise TellwireError("bad_request", "The message is empty: stdin had no data.", "Give a BODY.")
    if text is None or not is_sendable(text):
        if text is not None and len(text) > BODY_BYTES_MAX:
            raise TellwireError("body_too_large", f"The body is longer than {BODY_BYTES_MAX} bytes.")
        raise TellwireError(
            "bad_request", "The body is not valid UTF-8.", "Put it in a file and send the path."
        )
    return text


# -- receiving ----------------------------------------------------------------------------------------


@click.command()
@as_option
@click.option("--peek", is_flag=True, help="Only look: take nothing, change no receipt.")
@click.option("--wait", type=DURATION, default=0.0, help="Wait this long if the inbox is empty.")
@json_option
def inbox(speaker: str | None, *, peek: bool, wait: float, as_json: bool) -> int:
    """Take waiting messages, and print them.

    What is printed counts as read, and its sender can see that. You get up to 128 messages at once; run it
    again for the rest. Without --as it is your own mail, as operator, or that of the agent that runs the
    command.

    An agent with a running client gets its mail there; then this only shows what waits, and says so. A name
    that nobody has is refused; with --wait it is registered, unless it looks like a typing mistake.

    \b
    Examples:
      tellwire inbox
      tellwire inbox --as bob --wait 10min
      tellwire inbox --as bob --peek --json | jq '.messages[].body'
    """
    if peek:
        return _show(ask(PeekMessages(name=speaker)), as_json=as_json)
    if is_empty(speaker, may_be_new=wait > 0) and not wait:
        return _show(Inbox(), as_json=as_json)

    async def work(me: Speaker) -> int:
        if me.attached:
            write(note_of_peek(me.name), ERR)
            return _show(await me.call(PeekMessages()), as_json=as_json)
        if speaker is not None and not me.resumed:
            write(note_of_new(me.name), ERR)
        messages = await me.messages(wait_s=max(wait, OFFER_S if me.promised else 0.0))
        code = _show(Inbox(messages=messages, waiting=me.waiting), as_json=as_json)
        if messages:
            await me.confirm(messages)
        return code

    try:
        return speak(speaker, work)
    except TellwireError as error:
        if error.code != "forbidden" or speaker is None:
            raise
        try:
            look = ask(PeekMessages(name=speaker))
        except TellwireError:
            raise error from None
        write(note_of_peek(speaker), ERR)
        return _show(look, as_json=as_json)


def _show(mail: Inbox, *, as_json: bool) -> int:
    if as_json:
        write(render_json(whole_inbox(facts(mail))))
    else:
        write(render_inbox(facts(mail), now=time.time(), screen=find_screen()))
    return 0


STATUS_HELP = """Show how far a message got, for each recipient.

`pending`: it waits. `delivered`: it was handed to the client. `read`: there is evidence that it entered
the recipient's context. Then `answered`, or `expired`. The operator can look up any message; a script
needs --as with the sender or a recipient.

\b
Examples:
  tellwire message-status m4f2k
  tellwire message-status m4f2k --json | jq -r '.recipients[].state'
"""


def _show_status(reply: MessageStatusReply) -> None:
    write(render_status(facts(reply), now=time.time(), screen=find_screen()))


message_status = command_for(MessageStatus, "message-status", help=STATUS_HELP, show=_show_status)
