"""What a plan changes, line by line, for people. Secrets are not for the screen: they are masked.

Values are masked by the name of their key, or by their own looks. Lines stay lines.
"""

from __future__ import annotations

import difflib
import re

from tellwire.install.plan import Change

MASK = "********"
_WORDS = (
    r"token|secret|passw(?:or)?d|passphrase|api[_-]?key|apikey|auth(?![a-z])|authorization|credential|cookie"
    r"|access[_-]?key|private[_-]?key"
)
_NAME = rf"[\w.-]*(?:{_WORDS})[\w.-]*"
_VALUE = r"""\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s"',;{}\[\]]+"""
_NAMED = re.compile(rf"""((?:"{_NAME}"|'{_NAME}'|\b{_NAME})\s*[:=]\s*)({_VALUE})""", re.IGNORECASE)
_OPTION = re.compile(rf"""(--?{_NAME}(?:=|[ "',]+))([^\s"',]+)""", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic)\s+[\w.~+/=-]{8,}")
_LOOKS = re.compile(
    r"\b(?:sk|pk|rk)-[\w-]{16,}|\bgh[opsu]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\bAKIA[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|\b[0-9a-fA-F]{40,}\b"
)
_URL = re.compile(r"(\w+://[^\s/:@\"']+:)[^\s/@\"']+@")
_PLAIN = ("true", "false", "null", "none")


def render_diff(change: Change, *, home: str) -> str:
    """A unified diff for people; the values of secrets are masked in it."""
    shown = shorten(change.path, home)
    before = _lines(change.seen.data)
    after = _lines(change.after)
    old = shown if change.seen.data is not None else "/dev/null"
    new = shown if change.after is not None else "/dev/null"
    return mask_secrets("".join(difflib.unified_diff(before, after, old, new)))


def shorten(path: str, home: str) -> str:
    """A path as people write it."""
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def mask_secrets(text: str) -> str:
    """The text with the values of secrets replaced."""
    text = _NAMED.sub(_masked, text)
    text = _OPTION.sub(rf"\g<1>{MASK}", text)
    text = _BEARER.sub(rf"\g<1> {MASK}", text)
    text = _URL.sub(rf"\g<1>{MASK}@", text)
    return _LOOKS.sub(MASK, text)


def _masked(found: re.Match[str]) -> str:
    value = found[2]
    quote = value[0] if value[0] in "\"'" else ""
    inside = value.strip("\"'")
    if not inside or inside.lower() in _PLAIN or inside.isdigit() or inside.startswith(("$", "{")):
        return found[0]
    return f"{found[1]}{quote}{MASK}{quote}"


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode(errors="backslashreplace").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
