"""Every reason to refuse a call, in one table: code, HTTP status, exit code, default advice.

An *outcome* (a send that is `denied` or `queued`) is a reply, not an error. An error means that the
operation could not run. Codes are part of the protocol: they are added, never changed in meaning.
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorRow(NamedTuple):
    """What every surface needs to know about one error code."""

    http: int
    exit: int
    advice: str


ERRORS: dict[str, ErrorRow] = {
    # the bytes on the wire
    "bad_frame": ErrorRow(400, 65, "Send one JSON object per line, UTF-8, ended by a newline."),
    "frame_too_large": ErrorRow(413, 65, "Split the message, or put the text in a file and send its path."),
    "wrong_version": ErrorRow(
        426, 76, "Upgrade the older side; `tellwire up --replace` restarts the broker."
    ),
    "greeting_missing": ErrorRow(408, 76, 'Begin the connection with {"tellwire": 1}.'),
    "too_many_connections": ErrorRow(503, 75, "Close idle clients, or raise the setting `connections_max`."),
    # the call
    "bad_request": ErrorRow(400, 64, "Fix the named field and call again."),
    "unknown_operation": ErrorRow(404, 64, "See docs/reference.md for the operations of this version."),
    "name_invalid": ErrorRow(
        400, 64, "Use at most 64 letters, digits, '.', '_' and '-', and no reserved word."
    ),
    "address_invalid": ErrorRow(400, 64, "Use a name, `#topic`, `link:ID`, `broadcast`, or a list of names."),
    "body_too_large": ErrorRow(413, 65, "Put the text in a file and send its path, or send it in parts."),
    "limit_exceeded": ErrorRow(413, 65, "Ask for less, or split it into several calls."),
    "confirmation_needed": ErrorRow(409, 75, "To go ahead, call again with `confirm`."),
    "conflict": ErrorRow(409, 65, "Use a new request id for a new message."),
    # the caller
    "not_registered": ErrorRow(403, 77, "Register first: `tellwire.connect(NAME)` does it."),
    "forbidden": ErrorRow(403, 77, "Ask the agent itself, or the operator at a terminal."),
    "session_replaced": ErrorRow(
        409, 75, "Another session has taken over this name; connect again to get a new one."
    ),
    "unknown_agent": ErrorRow(404, 68, "List the agents with `peers(all=True)`."),
    "agent_gone": ErrorRow(410, 68, "Its session has ended: start it again, then open the link."),
    "unknown_link": ErrorRow(404, 68, "List the links with `list_links`."),
    "link_closed": ErrorRow(410, 68, "Open a new link, or send to the agent itself."),
    "link_paused": ErrorRow(409, 75, "To continue the conversation, call `resume_link`."),
    "not_visible": ErrorRow(403, 77, "Ask the operator to introduce you, with `tellwire peer add`."),
    "peer_self": ErrorRow(400, 64, "Name another agent."),
    "unknown_message": ErrorRow(404, 68, "Use the exact id that a send returned."),
    "question_closed": ErrorRow(409, 65, "Send a new message instead."),
    # who may touch what
    "path_invalid": ErrorRow(400, 64, "Use an absolute path without `..`."),
    "scope_conflict": ErrorRow(409, 75, "Ask its owner, claim less, or wait until it is released."),
    "scope_outside": ErrorRow(403, 77, "Stay within your scope, or ask your parent for more."),
    "scope_given": ErrorRow(403, 77, "Ask your parent for another scope."),
    "child_failed": ErrorRow(502, 75, "Fix the problem above and try again."),
    "too_many_children": ErrorRow(429, 75, "Stop a child first."),
    "too_deep": ErrorRow(403, 77, "Give the task to a child of your own, or do it yourself."),
    # how much
    "mailbox_full": ErrorRow(
        507, 75, "Nothing was sent. Try again when the recipient has read some of its mail."
    ),
    "rate_limited": ErrorRow(429, 75, "Wait a second, then send more slowly."),
    # other machines
    "unknown_machine": ErrorRow(404, 68, "List the machines with `tellwire machine`."),
    "machine_removed": ErrorRow(410, 68, "It stays out; pair it again under a new identity."),
    "machine_full": ErrorRow(
        507, 75, "Nothing was sent. Try again when that machine has been heard; do not resend before."
    ),
    "machine_too_old": ErrorRow(426, 76, "Upgrade tellwire on that machine."),
    "label_taken": ErrorRow(409, 75, "Choose another label with `--as`."),
    "invite_invalid": ErrorRow(400, 65, "Copy the whole invite, or make a new one with `machine invite`."),
    "invite_used": ErrorRow(410, 65, "Make a new one with `tellwire machine invite`."),
    "not_paired": ErrorRow(403, 77, "Pair it first, with `tellwire machine add` or `invite`."),
    "not_across_machines": ErrorRow(400, 64, "Ask that agent in a message, or do it on its own machine."),
    "carrier_unreachable": ErrorRow(503, 69, "See `tellwire machine show` for the carrier's own words."),
    "identity_copied": ErrorRow(
        409, 75, "Give this home a new identity with `tellwire machine renew`, then pair it again."
    ),
    # the broker and its disk
    "storage_full": ErrorRow(
        507, 74, "Free disk space; the broker then continues automatically. Nothing was stored."
    ),
    "storage_broken": ErrorRow(500, 74, "See the broker's log, and restore the database from a backup."),
    "storage_gone": ErrorRow(
        500, 74, "Put the file back, or start with what is left: `tellwire up --replace`."
    ),
    "database_corrupt": ErrorRow(
        500, 74, "Restore a backup, or move the file away; tellwire never overwrites it."
    ),
    "database_newer": ErrorRow(500, 76, "Upgrade tellwire, or set TELLWIRE_HOME to another folder."),
    "already_running": ErrorRow(
        409, 75, "Use it, stop it with `tellwire down`, or replace it with `tellwire up --replace`."
    ),
    "unreachable": ErrorRow(503, 69, "Start it with `tellwire up`; if it does not start, its log says why."),
    "not_started": ErrorRow(503, 69, "Run `tellwire up` in a terminal to see why, or read the log."),
    "stopping": ErrorRow(503, 75, "Connect again; clients do so automatically."),
    "timeout": ErrorRow(504, 75, "Call again with the same request id; repeating it is harmless."),
    "internal": ErrorRow(500, 70, "This is a bug in tellwire: report it with the broker's log."),
}


class TellwireError(Exception):
    """A refused call: a stable `code`, a `message` for people, and `advice` on what to do next."""

    def __init__(self, code: str, message: str, advice: str | None = None) -> None:
        super().__init__(code, message, advice)
        self.code = code
        self.message = message
        self.advice = ERRORS[code].advice if advice is None else advice

    def __str__(self) -> str:
        return f"{self.message} [{self.code}] {self.advice}"
