"""Snapshots with the newest rows of each existing table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.archive.format.block import Block
    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.document import TableRecord


def not_selected(label: str) -> str:
    """Return a block's note on a table whose rows were left out by choice."""
    return f"rows of {label}: not selected"


class TableBases:
    """Existing tables, each with the snapshot of its newest rows, by snapshots in order."""

    def __init__(self) -> None:
        self._tables: dict[str, tuple[TableRecord, Placed]] = {}

    def add(self, placed: Placed) -> None:
        block = placed.head
        if not block.supplement:
            self._tables = {} if block.whole else self._still_there(block)
        self._tables.update((record.id, (record, placed)) for record in block.tables)

    def _still_there(self, block: Block) -> dict[str, tuple[TableRecord, Placed]]:
        """Return the tables that a full backup reports as existing, with or without their rows."""
        left_out = frozenset(block.not_included)
        followed = frozenset(map(str, block.stream.followed)) if block.stream else frozenset()
        named = block.stream.not_followed if block.stream else {}
        others = frozenset(map(str, block.others))

        def is_there(record: TableRecord) -> bool:
            if record.id in followed or record.id in others:
                return True
            # The name it had at its own snapshot is all that older releases tell it by.
            return not others and (record.label in named or not_selected(record.label) in left_out)

        return {table: base for table, base in self._tables.items() if is_there(base[0])}

    @property
    def tables(self) -> Mapping[str, tuple[TableRecord, Placed]]:
        return self._tables

    def blocks(self) -> Iterable[Placed]:
        return {placed.id: placed for _, placed in self._tables.values()}.values()
