"""Hours of the day in which the person is not notified. Imports are few: the settings need it."""

from __future__ import annotations

import re

from tellwire.protocol.errors import TellwireError

_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def parse_quiet(text: str) -> tuple[int, int] | None:
    """Quiet hours such as `22:00-07:30`, in minutes of the day; None if there are none.

    Raises:
        TellwireError: `bad_request`.
    """
    if not text:
        return None
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise TellwireError("bad_request", f"{text!r} are no quiet hours.", "Write them as 22:00-07:30.")
    first, second, third, fourth = map(int, found.groups())
    return 60 * first + second, 60 * third + fourth


def is_quiet(hours: tuple[int, int] | None, minute: int) -> bool:
    """Whether a minute of the day lies in quiet hours, which may go over midnight."""
    if hours is None or hours[0] == hours[1]:
        return False
    begin, end = hours
    return begin <= minute < end if begin < end else minute >= begin or minute < end
