"""Signs that a careless reader takes for Latin letters, or for a stroke or a dot.

NFKD gives most of them away (mathematical, circled, accented letters), the names of others say it (small
capitals, letters with a hook). The rest is in the table: Cyrillic, Greek, Armenian, Coptic, Cherokee, Lisu.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category, name, normalize

LOOKALIKES = {
    "a": "аɑαⲁАΑᎪꓮ",
    "b": "ЬВΒᏴꓐвß",
    "c": "сϲⲥСᏟꓚ",
    "d": "ԁᎠꓓ",
    "e": "еε℮ҽⲉЕΕᎬꓰ",
    "f": "ϝꓝ",
    "g": "ցԌᎶꓖɡ",
    "h": "һհНΗᎻꓧн",
    "i": "іїιıᎥІΙꓲ",
    "j": "јϳЈᎫꓙ",
    "k": "кκКΚᏦꓗ",
    "l": "ӏⅼᏞꓡ",
    "m": "мⲙМΜᎷꓟ",
    "n": "пոηⲛΝꓠ",
    "o": "оοօσⲟОΟꓳՕ",
    "p": "рρⲣРΡᏢꓑ",
    "q": "ԛզ",
    "r": "гⲅᎡꓣ",
    "s": "ѕꜱЅᏚꓢՏ",
    "t": "тτⲧТΤᎢꓔ",
    "u": "սυՍꓴ",
    "v": "ѵνᏙꓦ",
    "w": "ԝաѡωᎳꓪԜ",
    "x": "хχХΧꓫ",
    "y": "уүγУΥᎽꓬ",
    "z": "ΖꓜᏃ",
    "-": "‐‑‒–—―−⁃˗⎯─━ー─➖",
    "/": "⁄∕⧸╱⟋",
    "|": "ǀ∣│❘",
    ":": "∶꞉ː",
    ".": "․‧·•∙⋅",
    " ": "\u2800",
}
_TABLE = {ord(sign): letter for letter, signs in LOOKALIKES.items() for sign in signs}
_LATIN = re.compile(
    r"(?:NEGATIVE (?:CIRCLED|SQUARED) |REGIONAL INDICATOR SYMBOL )?(?:LATIN )?(?:SMALL |CAPITAL |MODIFIER )*"
    r"LETTER (?:SMALL |CAPITAL |SCRIPT |DOTLESS |OPEN |LONG |INSULAR )*([A-Z])(?: WITH .*)?"
)


@lru_cache(maxsize=4_096)
def fold(sign: str) -> str:
    """What a sign looks like, in ASCII if it looks like that; empty for a mark or something invisible."""
    if ord(sign) in _TABLE:
        return _TABLE[ord(sign)]
    parts = normalize("NFKD", sign)
    return "".join(_seen(part) for part in parts if category(part) not in ("Mn", "Me", "Cf"))


def _seen(sign: str) -> str:
    if sign.isascii():
        return sign
    letter = _TABLE.get(ord(sign))
    if letter is not None:
        return letter
    found = _LATIN.fullmatch(name(sign, ""))
    return found[1].lower() if found else sign
