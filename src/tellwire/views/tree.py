"""Who started whom, and who may write where, as a tree in rows."""

from __future__ import annotations

from typing import NamedTuple

from tellwire.protocol.ids import parse_id
from tellwire.views.agents import state_word
from tellwire.views.model import Model
from tellwire.views.signs import UNICODE, Signs, fit
from tellwire.views.words import clean

DEPTH_MAX = 8


class TreeRow(NamedTuple):
    """One agent with its children beneath it, or one path that it claims."""

    agent: str
    depth: int
    name: str
    """Of the agent; empty in a row of a path."""
    state: str = ""
    status: str = ""
    """Of a child that is not up: `reserved`, `started` or `stopping`."""
    path: str = ""
    access: str = ""
    """`write` or `read`; the path itself only: `write (not beneath)`."""
    scoped: bool = False
    """It may write nowhere else."""
    refused: int = 0
    """Its writes that were refused lately."""


def tree_rows(model: Model) -> list[TreeRow]:
    """Agents with children, parents or claims, as they joined; each followed by its paths and children."""
    beneath: dict[str, list[str]] = {}
    for key in sorted(model.children, key=_joined):
        parent = model.children[key].parent
        beneath.setdefault(parent if parent in model.agents else "", []).append(key)
    roots = {*beneath, *model.claims} - {"", *model.children}
    rows: list[TreeRow] = []

    def add(key: str, depth: int) -> None:
        rows.extend(_rows(model, key, min(depth, DEPTH_MAX)))
        for child in beneath.get(key, ()):
            add(child, depth + 1)

    for key in sorted({*roots, *beneath.get("", ())}, key=_joined):
        add(key, 0)
    return rows


def _joined(key: str) -> int:
    return parse_id("a", key) or 0


def _rows(model: Model, key: str, depth: int) -> list[TreeRow]:
    row, child, claim = model.agents.get(key), model.children.get(key), model.claims.get(key)
    if row is None:
        return []
    refused = model.faults.get(f"refused:{key}")
    status = "" if child is None or child.status == "running" else clean(child.status)
    head = TreeRow(
        key,
        depth,
        clean(row.name),
        state=state_word(model, key),
        status=status,
        scoped=child is not None and child.scoped,
        refused=0 if refused is None else refused.count,
    )
    rules = [] if claim is None else claim.rules
    paths = [
        TreeRow(
            key,
            depth + 1,
            "",
            path=clean(rule.path),
            access=rule.access if rule.recursive else f"{rule.access} (not beneath)",
        )
        for rule in rules
    ]
    return [head, *paths]


def tree_line(row: TreeRow, *, width: int, signs: Signs = UNICODE) -> str:
    """One row: an agent with its state, or a path with what may be done there."""
    indent = "  " * row.depth
    if not row.name:
        line = f"{indent}{row.access} {row.path}"
    else:
        branch = f"{signs.child} " if row.depth else ""
        notes = [row.status, "only there" if row.scoped else ""]
        notes.append(f"{row.refused} writes refused" if row.refused else "")
        told = f" ({', '.join(note for note in notes if note)})" if any(notes) else ""
        line = f"{indent}{branch}{signs.states[row.state]} {row.name} {row.state}{told}"
    return fit(line, width, signs)
