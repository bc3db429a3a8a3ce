"""Foreign text on a terminal: harmless, and as wide as it looks. Widths are in columns, not characters.

What could move the cursor, reverse the reading order or hide is shown as an escape such as `\\x1b`. Knows
nothing of messages or agents. Imports are few: the fast commands pay for them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from typing, or Iterable for real, would cost the fast commands
if TYPE_CHECKING:
    from collections.abc import Iterable

ELLIPSIS = "…"
TAB_SPACES = 4
MARKS_MAX = 4
"""Marks stacked on one character; more only overflow the lines around it."""
LINE_SIGNS = {ord("\n"): None, ord("\t"): None}
HIDDEN = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164)),
    *((0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
)
"""Letters and marks that nothing is seen of; the other invisible ones are format characters."""
JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""They join or vary the characters around them; terminals do not agree on the width of the result."""


def clean(text: str) -> str:
    """One line of harmless text: line ends and tabs are spaces."""
    if text.isascii() and text.isprintable():
        return text
    return _escape(" ".join(text.split()), drop=JOINERS)


def clean_lines(text: str) -> list[str]:
    """Harmless text, line by line; tabs are spaces."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [
        line if line.isascii() and line.isprintable() else _escape(line.replace("\t", " " * TAB_SPACES))
        for line in lines
    ]


def width_of(text: str) -> int:
    """The columns that clean text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415 - most text is ASCII and needs none

    width = 0
    for sign in text:
        if sign in JOINERS or category(sign) in ("Mn", "Me"):
            continue
        width += 2 if east_asian_width(sign) in "WF" else 1
    return width


def cut(text: str, width: int) -> str:
    """Cut clean text to a number of columns; an ellipsis marks the cut."""
    if width_of(text) <= width:
        return text
    kept, used = "", 0
    for sign in text:
        used += width_of(sign)
        if used > width - 1:
            break
        kept += sign
    return kept + ELLIPSIS if width > 0 else ""


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad clean text with spaces to a number of columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def wrap(lines: Iterable[str], *, indent: str, width: int | None) -> list[str]:
    """Clean lines, indented, broken at spaces (a long word anywhere) to fit the width; None for no bound."""
    room = None if width is None else max(8, width - len(indent))
    wrapped: list[str] = []
    for line in lines:
        pieces = [line] if room is None or width_of(line) <= room else _break(line, room)
        wrapped += [(indent + piece).rstrip() for piece in pieces]
    return wrapped


def _break(line: str, room: int) -> list[str]:
    pieces: list[str] = []
    current = ""
    for word in line.split(" "):
        longer = f"{current} {word}" if current else word
        if width_of(longer) <= room:
            current = longer
            continue
        if current:
            pieces.append(current)
        while width_of(word) > room:
            head = cut(word, room + 1)[:-1]
            pieces.append(head)
            word = word[len(head) :]
        current = word
    return [*pieces, current]


def seal(text: str) -> str:
    """Any text as a terminal may have it: what is not harmless is escaped, except line ends and tabs.

    The escapes are those of JSON, so that a document stays one, with the same value.
    """
    if text.isascii() and text.translate(LINE_SIGNS).isprintable():
        return text
    signs: list[str] = []
    marks = 0
    for sign in text:
        if " " <= sign <= "~" or sign in "\n\t":
            marks = 0
            signs.append(sign)
            continue
        marks = marks + 1 if _is_mark(sign) else 0
        signs.append(sign if _is_harmless(sign) and marks <= MARKS_MAX else json_escape(sign))
    return "".join(signs)


def json_escape(sign: str) -> str:
    """A character as JSON escapes it, in one or two parts."""
    number = ord(sign)
    if number < 0x10000:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _escape(text: str, drop: str = "") -> str:
    signs: list[str] = []
    marks = 0
    for sign in text:
        marks = marks + 1 if _is_mark(sign) else 0
        if sign in drop or marks > MARKS_MAX:
            continue
        if _is_harmless(sign):
            signs.append(" " if sign.isspace() else sign)
        elif ord(sign) < 0x100:
            signs.append(f"\\x{ord(sign):02x}")
        elif ord(sign) < 0x10000:
            signs.append(f"\\u{ord(sign):04x}")
        else:
            signs.append(f"\\U{ord(sign):08x}")
    return "".join(signs)


def _is_mark(sign: str) -> bool:
    from unicodedata import category  # noqa: PLC0415 - most text is ASCII and needs none

    return category(sign) in ("Mn", "Me")


def _is_harmless(sign: str) -> bool:
    """Whether it neither moves the cursor, nor reverses the reading order, nor hides."""
    from unicodedata import bidirectional, category  # noqa: PLC0415 - as above

    kind = category(sign)
    if kind == "Cf":  # joiners belong to emoji and to scripts; the Arabic signs among them are visible
        return sign in "\u200c\u200d" or bidirectional(sign) == "AN"
    if kind[0] in "CZ":
        return kind == "Zs"
    return not any(first <= ord(sign) <= last for first, last in HIDDEN)
