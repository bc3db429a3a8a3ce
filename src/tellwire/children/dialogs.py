"""What agent CLIs ask their human before they begin, as their windows show it; nothing is answered here."""

from __future__ import annotations

from collections.abc import Mapping

from tellwire.clients import BY_KIND


def find_dialog(kind: str, screen: str) -> str | None:
    """What a client's window asks; None if it asks nothing that is known."""
    dialogs = BY_KIND[kind].screen.dialogs if kind in BY_KIND else ()
    return next((what for what, words in dialogs if words.search(screen)), None)


def is_distrusted(kind: str, cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a client without a window would begin, unasked, in a folder that its human never trusted."""
    return kind in BY_KIND and BY_KIND[kind].screen.is_distrusted(cwd, env)
