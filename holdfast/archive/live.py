"""Which snapshots have the newest rows of a table that is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.archive.model import Block, TableRecord
    from holdfast.archive.placed import Placed


def not_selected(label: str) -> str:
    """Return what a block says of a table whose rows were left out by choice."""
    return f"rows of {label}: not selected"


class Live:
    """Follows snapshots in order: which of them have the newest rows of a table that was not dropped since."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[TableRecord, Placed]] = {}

    def add(self, placed: Placed) -> None:
        """Go on to the next snapshot."""
        block = placed.head
        if not block.supplement:
            self._tables = {} if block.whole else self._still_there(block)
        self._tables.update((record.id, (record, placed)) for record in block.tables)

    def _still_there(self, block: Block) -> dict[str, tuple[TableRecord, Placed]]:
        """Return the tables that a full backup does not have the rows of, and knows all the same."""
        left_out = frozenset(block.not_included)
        followed = frozenset(map(str, block.stream.followed)) if block.stream else frozenset()
        named = block.stream.not_followed if block.stream else {}
        return {
            table: (record, placed)
            for table, (record, placed) in self._tables.items()
            if table in followed or record.label in named or not_selected(record.label) in left_out
        }

    @property
    def tables(self) -> Mapping[str, tuple[TableRecord, Placed]]:
        """Return the tables by id, each with the snapshot that has its rows."""
        return self._tables

    def blocks(self) -> Iterable[Placed]:
        """Return the snapshots, each once."""
        return {placed.id: placed for _, placed in self._tables.values()}.values()
