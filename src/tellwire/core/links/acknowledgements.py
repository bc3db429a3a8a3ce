"""Words that add nothing: a bare acknowledgement.

A text is one if it is made of nothing but the phrases below, eight words at most, whatever its case and
punctuation; or if it has no words at all, such as a thumb. Only turns on a link are judged by it, and only
when two members do it one after the other.
"""

from __future__ import annotations

import re

WORDS_MAX = 8

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_PHRASES = """
    ack|acknowledged|agreed|all clear|all good|all right|alright|awesome|bye|cheers|confirmed|cool|copy that|
    correct|done|exactly|excellent|fine|good|goodbye|got it|great|k|likewise|much appreciated|my pleasure|
    nice|no problem|no worries|noted|ok|okay|perfect|received|right|roger|see you|sounds good|sounds great|
    standing by|sure|sure thing|thank you|thank you so much|thank you very much|thanks|thanks a lot|
    thanks again|thanks so much|that's fine|that's good|that's great|that's perfect|understood|very good|
    will do|wonderful|yep|yes|you're welcome
"""
_BARE = re.compile(f"(?:(?:{'|'.join(each.strip() for each in _PHRASES.split('|'))}) )*")


def is_acknowledgement(text: str) -> bool:
    """Whether a text is only an acknowledgement."""
    words = _WORD.findall(text.casefold().replace("\u2019", "'"))
    return len(words) <= WORDS_MAX and _BARE.fullmatch("".join(f"{word} " for word in words)) is not None
