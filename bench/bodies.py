"""Message bodies: random slices of generated text, half prose, half code.

Repeated words would flatter compression, caches and full-text indexes, so the text has tens of thousands
of distinct tokens, and quotes, backslashes and line ends as real messages do.
"""

import random

_ONSETS = (
    *"bcdfghjklmnprstvwz",
    "bl",
    "br",
    "ch",
    "cl",
    "cr",
    "dr",
    "fl",
    "fr",
    "gl",
    "gr",
    "pl",
    "pr",
    "qu",
    "str",
)
_VOWELS = (*"aeiou", "ai", "ea", "ee", "io", "ou", "oa", "ie")
_CODAS = ("", "", *"nrlstx", "nd", "ck", "mp", "st")
_TEXT_CHARACTERS = 1_500_000
_SERIAL_WIDTH = 10


class Bodies:
    """A source of bodies, each led by a serial number that finds it again at the receiver."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._text = _generate(self._random)
        self._serial = 0

    def next(self, size: int) -> tuple[int, str]:
        """A new body of `size` ASCII characters, and its serial."""
        self._serial += 1
        length = size - _SERIAL_WIDTH - 1
        start = int(self._random.random() * (len(self._text) - length))
        return self._serial, f"{self._serial:0{_SERIAL_WIDTH}d} {self._text[start : start + length]}"


def serial_of(body: str) -> int:
    """The serial that leads this body."""
    return int(body[:_SERIAL_WIDTH])


def _generate(source: random.Random) -> str:
    words = [_word(source) for _ in range(40_000)]
    pieces: list[str] = []
    length = 0
    while length < _TEXT_CHARACTERS:
        piece = _sentence(source, words) if source.random() < 0.5 else _statement(source, words)
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces)


def _word(source: random.Random) -> str:
    syllables = source.choice((1, 2, 2, 3, 3, 4))
    return "".join(
        source.choice(_ONSETS) + source.choice(_VOWELS) + source.choice(_CODAS) for _ in range(syllables)
    )


def _sentence(source: random.Random, words: list[str]) -> str:
    said = [source.choice(words) for _ in range(source.randint(5, 18))]
    if source.random() < 0.3:
        said[-1] = f'"{said[-1]}"'
    return " ".join(said).capitalize() + source.choice((". ", ". ", "? ", ".\n"))


def _statement(source: random.Random, words: list[str]) -> str:
    a, b, c = (source.choice(words) for _ in range(3))
    number = source.randint(0, 99_999)
    return source.choice(
        (
            f"    {a}_{b} = {c}({number}, '{b}')\n",
            f"def {a}_{number}({b}: int, {c}: str) -> None:\n",
            f"{a}/{b}/{c}.py:{number % 900}: {b.title()}Error at 0x{number * 7919:08x}\n",
            f'{{"{a}": {number}, "{b}": "{c}\\n"}}\n',
        )
    )
