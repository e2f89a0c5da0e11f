"""References to the blocks of an archive: the commit that added each, and how much is in memory.

Of a block from a checkpoint only the head is there: the files of its tables are read from its commit when they are
asked for.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from holdfast.archive.format.block import Block, Coverage
from holdfast.archive.format.document import TableRecord
from holdfast.common.side_by_side import do_side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOADED_AT_ONCE = 8


class Recall(Protocol):
    """Block that may be only partly in memory."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> int: ...

    def head(self) -> Block:
        """Return the part that is always in memory: tables may lack columns and the block's own files."""
        ...

    def block(self) -> Block:
        """Return the whole block; DamagedError: the commit that it is read from is not what was written."""
        ...


class LoadedBlock:
    """A block that is whole in memory."""

    def __init__(self, block: Block) -> None:
        self._block = block

    @property
    def id(self) -> str:
        return self._block.id

    @property
    def source(self) -> str:
        return self._block.source.name

    @property
    def rows(self) -> int:
        return self._block.rows

    @property
    def size(self) -> int:
        return self._block.size

    def head(self) -> Block:
        return self._block

    def block(self) -> Block:
        return self._block


class Placed:
    """Block and the commit that added it.

    :param block: the block, or what recalls it.
    :param commit: the commit's own number, in this archive.
    :param home: id of the block whose files it is read from, where it was joined with others; else "".
    :param number: by which blocks are ordered, and named by people. Of an archive at one place that of the commit; of
        replicas the same on all of them. None: that of the commit.
    """

    def __init__(self, block: Block | Recall, commit: int, home: str = "", number: int | None = None) -> None:
        self._recall: Recall = LoadedBlock(block) if isinstance(block, Block) else block
        self.commit = commit
        self.home = home
        self.number = commit if number is None else number

    def numbered(self, number: int) -> Placed:
        return Placed(self._recall, self.commit, self.home, number)

    @cached_property
    def block(self) -> Block:
        """Return the whole block, for which its commit may be read; DamagedError: not what was written."""
        return self._recall.block()

    @cached_property
    def head(self) -> Block:
        """Return the block as far as it is in memory; see :meth:`Recall.head`."""
        return self._recall.head()

    @property
    def begins(self) -> bool:
        """Return whether it stands for tables created in a block, and counts behind its position only."""
        return isinstance(self._recall, Beginning)

    @property
    def id(self) -> str:
        return self._recall.id

    @property
    def source(self) -> str:
        return self._recall.source

    @property
    def rows(self) -> int:
        return self._recall.rows

    @property
    def size(self) -> int:
        return self._recall.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placed):
            return NotImplemented
        mine, theirs = ((each.commit, each.home, each.number, each.id) for each in (self, other))
        return mine == theirs and self.block == other.block

    def __hash__(self) -> int:
        return hash((self.commit, self.home, self.id))

    def __repr__(self) -> str:
        return f"Placed({self.id}, commit {self.commit})"


class JoinedPart:
    """Block that was joined with others: its own document, with the tables and transactions of all."""

    def __init__(self, joined: Placed, told: Block) -> None:
        self._joined = joined
        self._told = told
        self.id = told.id
        self.source = told.source.name
        self.rows = 0
        self.size = 0

    def head(self) -> Block:
        return self._with(self._joined.head)

    def block(self) -> Block:
        return self._with(self._joined.block)

    def _with(self, joined: Block) -> Block:
        return self._told.model_copy(update={"tables": joined.tables, "transactions": joined.transactions})


class Beginning:
    """Empty snapshot of tables that a block of changes records as created without rows."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self.id = f"{placed.id} begins"
        self.source = placed.source
        self.rows = 0
        self.size = 0

    def head(self) -> Block:
        return self._of(self._placed.head)

    def block(self) -> Block:
        return self._of(self._placed.block)

    def _of(self, changes: Block) -> Block:
        covers = changes.covers
        born = changes.stream.born if changes.stream else ()
        return Block(
            id=self.id,
            kind="snapshot",
            run=changes.run,
            source=changes.source,
            covers=Coverage(
                to_position=covers.from_position or covers.to_position,
                from_time=covers.from_time,
                to_time=covers.from_time,
            ),
            tables=tuple(
                TableRecord(
                    id=str(each.oid), table_schema=each.table_schema, name=each.name, rows=0, digest="", files=()
                )
                for each in born
            ),
            catalog=changes.catalog,
            schema_dump=None,
            stream=changes.stream,
            supplement=True,
            is_cut=False,
        )


def load(blocks: Iterable[Placed]) -> None:
    """Read the missing parts of blocks, several at a time."""
    do_side_by_side(lambda placed: placed.block, blocks, at_once=_LOADED_AT_ONCE)
