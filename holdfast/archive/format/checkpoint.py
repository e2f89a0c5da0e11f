"""Checkpoints: the state after a commit, so that archives open faster.

The truth is in the commits; a checkpoint only spares reading them. One that is missing or damaged costs time, and
nothing else. It holds of each block what is asked for when restore points are listed and looked up; the files of its
tables, of which there may be millions, are read from the commit that added it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.common.errors import DamagedError
from locking.one_line import line_logger
from locking.store import MOST_OBJECTS, ObjectExists, ObjectNotFound

if TYPE_CHECKING:
    from holdfast.archive.format.state import State
    from holdfast.storage import ObjectStore

log = line_logger(__name__)

CHECKPOINTS: Final = "checkpoints/"

_LAST: Final = 10**20 - 1

OURS: Final = f"{CHECKPOINTS}9999"
"""How the keys of ours begin, up to ten to the sixteenth commits: other objects of the folder are not looked at."""

_KEPT: Final = 3
"""So many are left: the older ones serve where the newest is damaged, and whoever is reading one at the moment."""


def checkpoint_key(sequence: int) -> str:
    """Return the key of the checkpoint after a commit; the newest one sorts first."""
    return f"{CHECKPOINTS}{_LAST - sequence:020d}.parquet"


def write_checkpoint(store: ObjectStore, archive: str, state: State) -> None:
    """Write a checkpoint of the state of an archive with this id, unless it exists; remove old ones."""
    if state.at is None or state.tip is None:  # nothing was committed yet
        return
    if store.signing.only_checks:  # as for a copy: nobody would believe it
        return
    from holdfast.archive.format.checkpoint_file import to_bytes  # pyarrow, which few commands need

    try:
        store.create(checkpoint_key(state.sequence), to_bytes(archive, state, state.tip, state.at))
    except ObjectExists:
        return
    for old in store.first(OURS, 2 * _KEPT)[_KEPT:]:
        store.delete(old.key)


def read_newest(store: ObjectStore, archive: str) -> State | None:
    """Return the state of the newest readable checkpoint, or None; UsageError: it needs a newer release."""
    for found in store.first(OURS, 1):
        if (state := _read(store, archive, found.key)) is not None:
            return state
        for older in store.list(OURS, start_after=found.key, most=MOST_OBJECTS).objects:
            if (state := _read(store, archive, older.key)) is not None:
                return state
    return None


def _read(store: ObjectStore, archive: str, key: str) -> State | None:
    from holdfast.archive.format.checkpoint_file import (
        from_bytes,  # young archives have none, and are opened without pyarrow
    )

    try:
        return from_bytes(store, archive, store.read(key), key)
    except ObjectNotFound:  # it was removed a moment ago, since there are newer ones
        return None
    except DamagedError as error:
        log.warning("%s; it is not needed: what it tells is read from older ones and the commits", error)
        return None
