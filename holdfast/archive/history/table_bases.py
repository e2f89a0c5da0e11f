"""Which snapshots have the newest rows of a table that is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.archive.format.block_ref import Placed
    from holdfast.archive.format.model import Block, TableRecord


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
        others = frozenset(map(str, block.others))

        def is_there(record: TableRecord) -> bool:
            if record.id in followed or record.id in others:
                return True
            # The name it had at its own snapshot is all that older releases tell it by.
            return not others and (record.label in named or not_selected(record.label) in left_out)

        return {table: found for table, found in self._tables.items() if is_there(found[0])}

    @property
    def tables(self) -> Mapping[str, tuple[TableRecord, Placed]]:
        """Return the tables by id, each with the snapshot that has its rows."""
        return self._tables

    def blocks(self) -> Iterable[Placed]:
        """Return the snapshots, each once."""
        return {placed.id: placed for _, placed in self._tables.values()}.values()
