"""Pairing from a terminal: the conversation with the other machine, by ssh or over Redis.

The broker gives the card and stores what comes of it; nothing is stored here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import shutil
import subprocess
import sys
import tty
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple

import msgspec

from tellwire.cli.speaking import ask
from tellwire.federation.carriers.redis_streams import PairStream, acl_line, hide_password, open_pair_stream
from tellwire.federation.carriers.ssh import NOT_FOUND, PLACES, check_destination, remote_command
from tellwire.federation.pairing import (
    INVITE_S,
    SECRET_BYTES,
    Guest,
    Host,
    Invite,
    Partner,
    check_labels,
    format_invite,
    make_invite,
)
from tellwire.federation.seal import fingerprint, read_card
from tellwire.protocol.errors import ERRORS, TellwireError
from tellwire.protocol.frames import Fault
from tellwire.protocol.machines import Trust
from tellwire.protocol.operations.agents import ListAgents
from tellwire.protocol.operations.machines import (
    ListMachines,
    MachineCard,
    MachineIdentity,
    MachineRecord,
    PairMachine,
)

MARK = "tellwire-accept 1"
"""Begins the line before the first message, since a shell may print a greeting."""
GREETING_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 16 * 1024
REFUSED = "!"
SSH_FAILED = 255
OFFER_S = 15.0
ANSWER_S = 60.0
READ_S = 15.0
INSTALL = "Install tellwire there, or say where it is with `--program PATH`."
OLD = ("No such command", "Usage:")

__all__ = ["INVITE_S", "acl_line", "fingerprint"]


class Names(NamedTuple):
    """What the two machines are to call each other; empty: as they call themselves."""

    other: str = ""
    me: str = ""


class Paired(NamedTuple):
    """What came of it."""

    record: MachineRecord
    words: str
    """The fingerprint of the other machine."""
    here: MachineIdentity
    agents: int = 0


def pair(here: MachineIdentity, partner: Partner, label: str, carrier: str) -> MachineRecord:
    """Have the broker store it; carriers that it had before are kept behind the new one.

    Raises:
        TellwireError: it is refused.
    """
    known = [each for each in ask(ListMachines()).machines if each.id == partner.card.id]
    former = [word for each in known for word in each.carriers if word != carrier]
    return ask(
        PairMachine(
            card=partner.card,
            label=label,
            trust=partner.trust,
            carriers=[carrier, *former][:8],
            here=read_card(here.card),
        )
    )


def check_partner(here: MachineIdentity, partner: Partner, label: str) -> str:
    """What to call it here, before anybody stores anything.

    Raises:
        TellwireError: `label_taken`, or `machine_removed`.
    """
    for each in ask(ListMachines()).machines:
        if each.id == partner.card.id:
            if each.status == "removed":
                raise TellwireError("machine_removed", f"{each.label} was removed, and stays out.")
            return check_labels(partner.card, label=label or each.label, taken=here.labels, whose="here")
    return check_labels(partner.card, label=label, taken=here.labels, whose="here")


# -- by ssh --------------------------------------------------------------------------------------------


def add_by_ssh(destination: str, *, program: str, names: Names, trust: Trust) -> Paired:
    """Log in to the other machine in this terminal, and pair with it.

    Raises:
        TellwireError: it cannot be reached, has no tellwire, or refuses.
    """
    check_destination(destination)
    here = ask(MachineCard(label=names.me))
    guest = Guest(here.card, trust=trust)
    with SshTalk(destination, program) as talk:
        guest.take(talk.read())
        if guest.partner is None:
            raise TellwireError("machine_too_old", f"{destination} did not answer with a card.")
        label = check_partner(here, guest.partner, names.other)
        talk.write(guest.join())
        answer = guest.take(talk.read())
        if answer is None:
            raise TellwireError("machine_too_old", f"{destination} did not say whether it is paired.")
    record = pair(here, guest.partner, label, f"ssh {destination} {talk.program}".strip())
    return Paired(record, guest.partner.words, here, answer.agents)


class SshTalk:
    """`tellwire machine accept` on the other machine, through an ssh in this terminal.

    It gets a terminal there as well: whoever is let in by sshd with one is the operator (SEC-1).
    """

    def __init__(self, destination: str, program: str) -> None:
        self._destination = destination
        self.program = program
        if shutil.which("ssh") is None:
            raise TellwireError("carrier_unreachable", "There is no ssh here.", "Install OpenSSH's client.")
        command = remote_command(program, ["machine", "accept", "--stdio"])
        words = ["ssh", "-tt", "-o", "LogLevel=ERROR", "-o", "ClearAllForwardings=yes"]
        self._process = subprocess.Popen(
            [*words, "--", destination, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> SshTalk:
        try:
            self._find_mark()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _find_mark(self) -> None:
        seen = 0
        said: list[str] = []
        while seen < GREETING_BYTES_MAX:
            line = self._line()
            if not line:
                break
            if MARK in line:
                self.program = self.program or line.partition(MARK)[2].strip()
                return
            seen += len(line)
            said.append(line.strip())
        raise self._explain([each for each in said if each])

    def _explain(self, said: list[str]) -> TellwireError:
        """Why the other end did not begin."""
        code = self._process.wait()
        last = said[-1] if said else ""
        if code == SSH_FAILED:
            return TellwireError(
                "carrier_unreachable",
                f"ssh cannot log in to {self._destination}. {last}".rstrip(),
                "What ssh says is above. Try `ssh " + self._destination + "` yourself.",
            )
        if any(word in line for word in OLD for line in said):
            return TellwireError(
                "machine_too_old", f"The tellwire on {self._destination} is too old to be paired.", ""
            )
        if code in (NOT_FOUND, 126):
            tried = self.program or ", ".join(["PATH", *PLACES])
            return TellwireError(
                "carrier_unreachable",
                f"tellwire was not found on {self._destination}. Looked in: {tried}.",
                INSTALL,
            )
        words = f"tellwire on {self._destination} ended with exit code {code}. {last}".rstrip()
        return TellwireError(
            "carrier_unreachable", words, f"Try `ssh {self._destination} tellwire --version`."
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline(LINE_BYTES_MAX).decode("utf-8", "replace")

    def read(self) -> bytes:
        """The next message.

        Raises:
            TellwireError: what the other side refuses with, or that it has ended.
        """
        return _parse_line(self._line(), self._destination)

    def write(self, message: bytes) -> None:
        """Send one."""
        assert self._process.stdin is not None
        self._process.stdin.write(_format_line(message))
        self._process.stdin.flush()


def accept(stdin: IO[bytes], stdout: IO[bytes], program: str) -> None:
    """The other end: tell who we are, and pair with who comes."""
    if os.isatty(stdin.fileno()):
        tty.setraw(stdin.fileno())  # nothing is echoed, and lines may be long
    stdout.write(f"{MARK} {program}\n".encode())
    stdout.flush()
    host: Host | None = None
    try:
        here = ask(MachineCard())
        host = Host(here.card)
        stdout.write(_format_line(host.offer()))
        stdout.flush()
        partner = host.take(_parse_line(stdin.readline(LINE_BYTES_MAX).decode("utf-8", "replace"), "it"))
        if partner is None:
            raise TellwireError("bad_request", "What came is no request to pair.")
        label = check_labels(partner.card, label=_known_label(partner), taken=here.labels, whose="there")
        pair(here, partner, label, "ssh")
        stdout.write(_format_line(host.accept(_agents())))
    except TellwireError as error:
        refusal = msgspec.json.encode(Fault.of(error))
        stdout.write(REFUSED.encode() + _format_line(refusal))
    stdout.flush()


def _known_label(partner: Partner) -> str:
    known = [each.label for each in ask(ListMachines()).machines if each.id == partner.card.id]
    return known[0] if known else ""


def _agents() -> int:
    return len(ask(ListAgents(all=True)).agents)


def _format_line(message: bytes) -> bytes:
    return base64.b64encode(message) + b"\n"


def _parse_line(line: str, whose: str) -> bytes:
    text = line.strip()
    try:
        message = base64.b64decode(text.removeprefix(REFUSED), validate=True)
        if text.startswith(REFUSED):
            fault = msgspec.json.decode(message, type=Fault)
            code = fault.code if fault.code in ERRORS else "bad_request"
            raise TellwireError(code, f"{whose}: {fault.message}", fault.advice)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        message = b""
    if not message:
        raise TellwireError("carrier_unreachable", f"The conversation with {whose} broke off.", "Try again.")
    return message


# -- over Redis ----------------------------------------------------------------------------------------


def invite(
    carrier: str, *, names: Names, trust: Trust, show: Callable[[str, str], None], note: Callable[[str], None]
) -> Paired:
    """Make an invite, show it, and wait for the machine that uses it.

    Raises:
        TellwireError: there is no Redis to use, or nobody came.
    """
    here = ask(MachineCard(label=names.me, carrier_url=carrier))
    if not here.carrier_url:
        raise TellwireError(
            "bad_request",
            "No Redis is known yet.",
            "Name one: `tellwire machine invite --carrier redis://USER:PASSWORD@HOST:6379/0`.",
        )
    made = make_invite(os.urandom(SECRET_BYTES), host=here.id, carrier=here.carrier_url, trust=trust)
    host = Host(here.card, trust=trust, key=made.key)

    async def work() -> Paired:
        async with open_pair_stream(made.carrier, made.stream, waits_s=READ_S) as stream:
            await stream.post(host.offer())
            show(format_invite(made), here.words)
            try:
                return await _await_guest(stream, host, here, names, note)
            except asyncio.CancelledError:
                withdrawn = TellwireError("invite_invalid", "The invite was withdrawn.")
                await stream.post(host.refuse(withdrawn))
                raise

    return asyncio.run(work())


async def _await_guest(
    stream: PairStream, host: Host, here: MachineIdentity, names: Names, note: Callable[[str], None]
) -> Paired:
    loop = asyncio.get_running_loop()
    until = loop.time() + INVITE_S
    spec = f"redis {hide_password(here.carrier_url)}"
    while (left := until - loop.time()) > 0:
        for message in await stream.read(min(left, READ_S)):
            try:
                partner = host.take(message)
                if partner is None:
                    continue
                label = await asyncio.to_thread(check_partner, here, partner, names.other)
                record = await asyncio.to_thread(pair, here, partner, label, spec)
            except TellwireError as error:
                await stream.post(host.refuse(_for_guest(error)))
                note(f"A machine could not join: {error.message}")
                continue
            await stream.post(host.accept(await asyncio.to_thread(_agents)))
            return Paired(record, partner.words, here)
    raise TellwireError(
        "invite_invalid", f"Nobody has joined within {INVITE_S / 60:g} minutes; the invite is over."
    )


def _for_guest(error: TellwireError) -> TellwireError:
    """What is taken here is taken there for the one that joins."""
    return TellwireError(
        error.code, error.message.replace(" here", " there"), error.advice.replace("--as", "--me")
    )


def join(
    made: Invite,
    carrier: str,
    *,
    names: Names,
    trust: Trust,
    confirm: Callable[[Partner], None],
    note: Callable[[str], None],
) -> Paired:
    """Use an invite up; `carrier` is this machine's own way to the same Redis, if it has one.

    Raises:
        TellwireError: it is over or used, or the other machine refuses.
    """
    address = carrier or made.carrier
    here = ask(MachineCard(label=names.me, carrier_url=address))
    guest = Guest(here.card, trust=trust, key=made.key, host=made.machine)

    async def work() -> Paired:
        async with open_pair_stream(address, made.stream, waits_s=READ_S) as stream:
            await _await_offer(stream, guest)
            assert guest.partner is not None
            label = await asyncio.to_thread(check_partner, here, guest.partner, names.other)
            await asyncio.to_thread(confirm, guest.partner)
            await stream.post(guest.join())
            note("Waiting for the other machine …")
            agents = await _await_answer(stream, guest)
            record = await asyncio.to_thread(pair, here, guest.partner, label, here.carrier)
            return Paired(record, guest.partner.words, here, agents)

    return asyncio.run(work())


async def _await_offer(stream: PairStream, guest: Guest) -> None:
    """Read all that is there: an answer to another machine behind the offer means that the invite is used."""
    wait_s = OFFER_S
    while messages := await stream.read(wait_s):
        for message in messages:
            guest.take(message)
        wait_s = 0.05 if guest.partner is not None else OFFER_S
    if guest.partner is None:
        raise TellwireError("invite_invalid", "Nobody answers to this invite: it is over, or was withdrawn.")


async def _await_answer(stream: PairStream, guest: Guest) -> int:
    loop = asyncio.get_running_loop()
    until = loop.time() + ANSWER_S
    while (left := until - loop.time()) > 0:
        for message in await stream.read(min(left, READ_S)):
            answer = guest.take(message)
            if answer is not None:
                return answer.agents
    raise TellwireError(
        "timeout", "The other machine does not answer.", "See there whether it still waits, and try again."
    )


def own_program() -> str:
    """Where this program is, as the other machine is to call it."""
    found = os.path.abspath(sys.argv[0]) if os.path.sep in sys.argv[0] else shutil.which(sys.argv[0])
    return found or ""
