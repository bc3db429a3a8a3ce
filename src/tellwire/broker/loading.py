"""From the journal back to the state: the newest snapshot that can be read, and the commits behind it."""

from __future__ import annotations

import msgspec

from tellwire.broker.ports import Journal
from tellwire.core.kernel import apply_batch
from tellwire.core.state import State, parse_snapshot
from tellwire.protocol.errors import TellwireError
from tellwire.protocol.events import parse_batch


def load_state(journal: Journal) -> State:
    """Rebuild the state.

    Raises:
        TellwireError: `database_corrupt`, `database_newer` or `storage_broken`.
    """
    state = State()
    for seq, data in journal.snapshots():
        try:
            state = parse_snapshot(data)
        except msgspec.DecodeError:
            continue  # of another version: the one before it, or the whole journal
        if state.seq == seq:
            break
        state = State()
    for commit in journal.replay(state.seq):
        try:
            batch = parse_batch(commit.data)
        except msgspec.DecodeError as error:
            raise TellwireError(
                "database_newer", f"The journal holds an event of a newer tellwire at {commit.seq}: {error}."
            ) from error
        apply_batch(state, batch, seq=commit.seq, now=commit.at, awake=commit.awake)
    return state
