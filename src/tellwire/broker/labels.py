"""The label that ends each peer's message in one session, and whether its model knows the rule about it.

The label is derived from a secret of the home and the session: the next broker derives the same, no peer can.
The rule, who wrote such a message and what it does not permit, is in the instructions at the start. It comes
again with the first delivery after the context was cut, or when so much was said that it may have been.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tellwire.core.state import Agent
from tellwire.system.bounded import BoundedDict
from tellwire.system.files import write_atomically

REMIND_CHARS = 100_000
"""After this much text the rule is repeated, for a client that does not report when it cuts its context."""
SECRET_BYTES = 32
KEPT_MAX = 10_000
_LETTERS = "bcdfghjkmnpqrstvwxyz"
_DIGITS = "23456789"


class Told(NamedTuple):
    """When a session was last given the trust rule."""

    session: str
    """The agent's session at that time."""
    chars: int
    """Characters delivered since then."""
    size: int
    """The size of the transcript at that time."""


class Labels:
    """The labels of all agents' sessions."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._secret = b""
        self._told: BoundedDict[str, Told] = BoundedDict(KEPT_MAX)

    def label_of(self, agent: Agent) -> str:
        """The label of an agent's session: short, no word of a language, no tag of a markup."""
        number = int.from_bytes(hmac.digest(self._key(), agent.session.encode(), hashlib.sha256))
        signs = ""
        for choice in (_LETTERS, _DIGITS, _LETTERS, _LETTERS):
            number, place = divmod(number, len(choice))
            signs += choice[place]
        return signs

    def note_rule(self, agent: Agent, transcript: str = "") -> None:
        """Note that the rule is in the context now."""
        self._told.renew(agent.id, Told(agent.session, 0, _size(transcript)))

    def forget(self, agent: str) -> None:
        """Note that the context was cut: the rule may be gone."""
        self._told.pop(agent, None)

    def has_rule(self, agent: Agent, transcript: str = "", cut_mark: bytes = b"") -> bool:
        """Whether the rule is in the context of an agent's model.

        `cut_mark` is what the transcript says once the client has cut the context.
        """
        told = self._told.get(agent.id)
        if told is None or told.session != agent.session:
            return False
        grown = max(0, _size(transcript) - told.size)
        if told.chars + grown >= REMIND_CHARS:
            return False
        return not (cut_mark and grown and cut_mark in _read(transcript, told.size, grown))

    def count(self, agent: Agent, chars: int, transcript: str = "", *, ruled: bool) -> None:
        """Count text that was delivered, with the rule or without."""
        if ruled:
            self.note_rule(agent, transcript)
        elif (told := self._told.get(agent.id)) is not None:
            self._told[agent.id] = told._replace(chars=told.chars + chars)

    def _key(self) -> bytes:
        if not self._secret:
            self._secret = self._load() or self._make()
        return self._secret

    def _load(self) -> bytes:
        with suppress(OSError):
            secret = self._path.read_bytes()
            return secret if len(secret) == SECRET_BYTES else b""
        return b""

    def _make(self) -> bytes:
        secret = secrets.token_bytes(SECRET_BYTES)
        with suppress(OSError):  # then the next broker makes other labels
            write_atomically(self._path, secret)
        return secret


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


def _read(path: str, start: int, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(size)
    except OSError:
        return b""
