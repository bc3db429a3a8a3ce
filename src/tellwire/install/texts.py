"""The text of a configuration file: what it means, what is left of it without us, and the proof of that.

Standard library only: the launcher takes our entries out without the rest of tellwire (`removal`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tellwire.clients.entries import Hooks, MemberEntry, Rule, our_hooks
from tellwire.install.entries import Record, TargetText, digest, find_lacks, foreign, has_some, hook_events
from tellwire.install.formats.file_format import format_of
from tellwire.install.formats.jsonc import BadTextError
from tellwire.protocol.errors import TellwireError

BOM = "\ufeff"


def read_target(target: TargetText, data: bytes | None) -> tuple[str, str, Any]:
    """A file's byte order mark, text and meaning.

    Raises:
        TellwireError: `bad_request`: it is not what it should be; tells the line and the column.
    """
    data = data or b""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        known = data[: error.start].decode()
        raise _bad(target.path, BadTextError(known, len(known), "this is not UTF-8")) from error
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    try:
        document = format_of(target).load(text)
    except BadTextError as error:
        raise _bad(target.path, error) from error
    if not isinstance(document, dict):
        raise _bad(target.path, BadTextError(text, 0, "this should be an object"))
    return bom, text, cast("dict[str, Any]", document)


def edited(target: TargetText, edit: Callable[[], str]) -> str:
    """An edited text.

    Raises:
        TellwireError: `bad_request`: it cannot be edited; tells the line and the column.
    """
    try:
        return edit()
    except BadTextError as error:
        raise _bad(target.path, error) from error


def cleared(
    target: TargetText, data: bytes, record: Record | None, read: Callable[[str], bytes | None]
) -> bytes | None:
    """The file without us: the copy from before if nobody else has changed it, else what is left of it.

    None if nothing is left. `read` reads a copy.

    Raises:
        TellwireError: `bad_request`: it cannot be edited safely.
    """
    if record is not None and digest(data) == record.written_sha256:
        if not record.existed:
            return None
        copy = read(record.backups[0]) if record.backups else None
        if copy is not None and digest(copy) == record.before_sha256:
            return copy
    bom, text, document = read_target(target, data)
    after = edited(target, lambda: format_of(target).strip(text, target.entries, record, target.path))
    if after == text:
        return data
    prove(target, document, after, installed=False, record=record)
    if record is not None and not record.existed and _is_hollow(target, after):
        return None
    return (bom + after).encode()


def _is_hollow(target: TargetText, text: str) -> bool:
    """Whether nothing is left, not even a comment."""
    rest = format_of(target).load(text)
    kept = {key: value for key, value in rest.items() if target.trimmings.get(key) != value}
    return not kept and "//" not in text.replace("://", "") and "/*" not in text and "#" not in text


def prove(
    target: TargetText, before: Any, text: str, *, installed: bool, record: Record | None = None
) -> None:
    """Nothing foreign may differ, and everything of ours must be there, or nothing.

    Raises:
        TellwireError: `bad_request`: that is not so.
    """
    after = format_of(target).load(text)
    trimmed = {key: value for key, value in after.items() if key in before or key not in target.trimmings}
    same = _foreign(before, target) == _foreign(trimmed, target)
    if installed:
        fine = not find_lacks(after, target.entries)
    else:
        hooks = any(our_hooks(after, event) for event in hook_events(after))
        kept = record.previous if record is not None else {}
        fine = not hooks and not any(
            has_some(after, entry)
            for entry in target.entries
            if isinstance(entry, MemberEntry) and entry.label not in kept
        )
    if not same or not fine:
        raise TellwireError(
            "bad_request",
            f"{target.path} is written in a way that tellwire cannot edit safely; it was not changed.",
            "Edit it by hand; `--dry-run --json` with an empty file shows the entries.",
        )


def _foreign(document: Any, target: TargetText) -> Any:
    rest = foreign(document, target.entries)
    for entry in target.entries:
        # A string that meant all keys, and is now one of them.
        if isinstance(entry, Rule) and isinstance(rest.get(entry.path[0]), dict):
            rules = rest[entry.path[0]]
            if set(rules) == {"*"}:
                rest[entry.path[0]] = rules["*"]
        if isinstance(entry, Hooks):
            cast("dict[str, Any]", rest.get("hooks", {})).pop("state", None)
    if not rest.get("hooks", True):
        del rest["hooks"]
    return rest


def _bad(path: str, error: BadTextError) -> TellwireError:
    words = f"{path}, line {error.line}, column {error.column}: {error.why}."
    return TellwireError("bad_request", words, "Fix the file first; it was not changed.")
