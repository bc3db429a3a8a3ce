"""Refusals at the command line: message and advice on stderr, and the exit code of the error table.

Imported only when there is something to refuse.
"""

from __future__ import annotations

import re
from typing import Any

from tellwire.cli.render import render_error, render_json, render_sent
from tellwire.cli.screen import ERR, find_screen, write
from tellwire.cli.shapes import whole_sent
from tellwire.protocol.errors import ERRORS

ADVICE = {
    "not_registered": "Say who you are with `--as NAME`.",
    "name_invalid": "Say who you are with `--as NAME`: letters, digits, '.', '_' and '-'.",
    "unknown_agent": "List all agents with `tellwire list --all`.",
    "unknown_link": "List the links with `tellwire link list`.",
    "link_paused": "To continue the conversation, run `tellwire link resume LINK`.",
    "unknown_message": "Use the id that `tellwire send` printed; in a script also give `--as NAME`.",
    "confirmation_needed": "To go ahead, add `--confirm`.",
    "conflict": "For a new message, leave out `--key`.",
    "timeout": "Try again; with the same `--key` it is safe to repeat a send.",
}
"""What to do, said for the command line; used where a refusal brings only the table's own advice."""
COMMANDS = {
    "list_links": "tellwire link list",
    "open_link": "tellwire link open",
    "resume_link": "tellwire link resume",
    "close_link": "tellwire link close",
}
"""Operations that advice of the broker names, which are tools of the same name to a model."""
_OPERATION = re.compile(rf'`?\b({"|".join(COMMANDS)})\b(?:\("([^"]*)"\))?`?')
OUTCOMES = {"denied": "unknown_agent", "refused": "address_invalid", "timeout": "timeout"}
"""Outcomes of a send, and the error whose exit code a command then has."""


def tell_refusal(code: str, message: str, advice: str, *, as_json: bool) -> int:
    """Print a refusal on stderr; returns the exit code."""
    if code in ADVICE and advice in (ERRORS[code].advice, "Give it a name."):
        advice = ADVICE[code]
    advice = _OPERATION.sub(_command, advice)
    row = ERRORS.get(code, ERRORS["internal"])
    if as_json:
        write(render_json({"error": {"code": code, "message": message, "advice": advice}}), ERR)
    else:
        write(render_error(message, advice, find_screen(ERR)), ERR)
    return row.exit


def _command(named: re.Match[str]) -> str:
    words = (COMMANDS[named[1]], named[2] or "")
    return f"`{' '.join(words).rstrip()}`"


def tell_unsent(sent: dict[str, Any], *, as_json: bool) -> int:
    """Tell that a send reached nobody; the exit code: 0 if there was nobody to reach."""
    status = sent["status"]
    if status == "sent" and sent.get("recipients"):
        status = "denied"
    if as_json:
        write(render_json(whole_sent(sent)))
    elif sent["status"] == "sent":
        write(render_sent(sent, "", screen=find_screen()))
    else:
        code = OUTCOMES[status]
        advice = ADVICE.get(code, ERRORS[code].advice) if not sent.get("suggestions") else ""
        write(render_error(f"{status}: {sent.get('note', '')}", advice, find_screen(ERR)), ERR)
    return ERRORS[OUTCOMES[status]].exit if status in OUTCOMES else 0
