"""The delivery matrix as a document: it lists the cells that there are, each with an outcome."""

from __future__ import annotations

from tests.end_to_end import (
    test_first_contact,
    test_matrix_evidence,
    test_matrix_failures,
    test_matrix_faults,
    test_matrix_idle,
    test_matrix_life,
    test_matrix_plain,
    test_matrix_screen,
    test_matrix_turns,
)
from tests.end_to_end.matrix import (
    COLUMNS,
    DECLARED,
    LIMIT,
    LIMITS,
    OPEN,
    REMARKS,
    ROWS,
    WRITING,
    Cell,
    load_table,
    render_table,
)

PLAYED_IN = (
    test_first_contact,
    test_matrix_evidence,
    test_matrix_failures,
    test_matrix_faults,
    test_matrix_idle,
    test_matrix_life,
    test_matrix_plain,
    test_matrix_screen,
    test_matrix_turns,
)
"""Imported so that all their cells are declared."""


def test_every_cell_has_a_test_or_a_reason() -> None:
    assert {(row, column) for row in ROWS for column in COLUMNS} == DECLARED
    assert REMARKS.keys() <= DECLARED - LIMITS.keys()


def test_the_document_lists_the_same_cells() -> None:
    if WRITING:
        return  # it is written when this run has ended
    written = load_table()
    assert written.keys() == DECLARED
    assert not [place for place, cell in written.items() if cell.outcome == OPEN], (
        "cells that were never played"
    )
    told = {place: cell.note for place, cell in written.items() if cell.outcome == LIMIT}
    assert told == {place: reason for place, reason in LIMITS.items() if place in told}
    assert not [place for place in LIMITS if place not in told and not written[place].note]


def test_what_is_written_is_read_back() -> None:
    cells = {place: Cell(LIMIT, reason) for place, reason in LIMITS.items()}
    cells = {place: cells.get(place, Cell("unsteady", "first: a fault; then it held.")) for place in DECLARED}
    assert load_table(render_table(cells)) == cells
