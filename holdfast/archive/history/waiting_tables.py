"""Tables of a source that wait to start over.

Their newest rows are in no backup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.archive.history.timeline import told

if TYPE_CHECKING:
    from holdfast.archive.format.block import WaitingTable
    from holdfast.archive.format.state import State


def waiting_tables(state: State, source: str) -> tuple[WaitingTable, ...]:
    """Return the waiting tables, by name.

    There are none where the source is not followed, or a newer full backup has them.
    """
    backups = [placed.head for placed in told(state, source) if placed.head.after is None]
    newest = backups[-1] if backups else None
    if newest is None or newest.stream is None or (newest.kind == "snapshot" and not newest.supplement):
        return ()
    return tuple(sorted(newest.stream.waiting.values(), key=lambda each: each.table))
