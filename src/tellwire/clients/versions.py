"""Whether tellwire is known to work with a version of a client: too old, tested, newer, or known not to.

Both who looks at the program on the PATH and who hears of a running session judge by this.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from tellwire.clients.client import Client

Level: TypeAlias = Literal["known", "untested", "doubtful", "unsupported", "old"]
PARTS_MIN, PARTS_MAX = 2, 4


class Judgement(NamedTuple):
    """What is known of a version."""

    level: Level = "known"
    """`untested`: newer than what was tested, of the same major version; `doubtful`: of a later one."""
    words: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether it is known not to work."""
        return self.level in ("unsupported", "old")

    @property
    def is_serious(self) -> bool:
        """Whether it is worth a warning."""
        return self.level in ("doubtful", "unsupported", "old")


KNOWN = Judgement()


def judge_version(client: Client, version: str) -> Judgement:
    """What is known of a version such as `2.1.325`; nothing is held against one that cannot be read."""
    numbers = parse_version(version)
    if not numbers:
        return KNOWN
    title = f"{client.title} {version}"
    if numbers < client.lowest:
        return Judgement("old", f"{title} is too old; {format_version(client.lowest)} or newer is needed.")
    for at, why in client.breaks:
        if numbers >= at:
            return Judgement("unsupported", f"{title} is not supported yet: {why}.")
    if numbers <= client.highest_known:
        return KNOWN
    newest = format_version(client.highest_known)
    if numbers[0] > client.highest_known[0]:
        return Judgement("doubtful", f"{title} is not known to work; the newest version tested is {newest}.")
    return Judgement("untested", f"{title} is newer than {newest}, the newest version tested.")


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a version, without what follows them; empty if it has none."""
    words = text.removeprefix("v").partition("-")[0].partition("+")[0].split(".")[:PARTS_MAX]
    if len(words) < PARTS_MIN or not all(
        word.isascii() and word.isdigit() and len(word) <= 6 for word in words
    ):
        return ()
    return tuple(map(int, words))


def format_version(numbers: tuple[int, ...]) -> str:
    """As people write it."""
    return ".".join(map(str, numbers))
