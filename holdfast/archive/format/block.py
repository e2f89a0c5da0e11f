"""Blocks: what one backup adds to an archive, with the description of its source, position and files."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from holdfast.archive.format.document import (
    Count,
    Document,
    FileRecord,
    Moment,
    Position,
    SourceName,
    TableRecord,
    iso,
)


class SourceRecord(Document):
    """Database a block was read from, with its name in the archive."""

    name: SourceName
    kind: str
    database: str
    version: str
    system_identifier: str | None = None
    timeline: int | None = None
    database_oid: int | None = None  # of `database` on its server; None where a release has not recorded it


class Coverage(Document):
    """Source positions that a block covers, with their times; a snapshot has no `from_position`."""

    from_position: Position | None = None
    to_position: Position
    from_time: Moment
    to_time: Moment
    exact: bool = True
    """Changes can be joined to `to_position` without loss; False where it was read beside the snapshot."""


class Born(Document):
    """A table with changes backed up from its first row on."""

    oid: int
    table_schema: str
    name: str


class PassedTable(Document):
    """A table that was made and dropped between two backups, though it was published: a partition."""

    oid: int
    table_schema: str
    name: str
    changes: Count  # that the log has of it
    # first, last: positions of the first and last commit with such changes
    first: Position
    last: Position
    kept: bool = False  # these changes are among those of the block

    @property
    def label(self) -> str:
        return f"{self.table_schema}.{self.name}"


class WaitingTable(Document):
    """Table that waits for a snapshot of its own to start over."""

    table: str  # its `schema.name`
    since: Moment  # until then its rows are known
    reason: str  # why it starts over, and why it did not yet
    act: bool = False  # a person has to do something about it; else the next backup tries again


class Stream(Document):
    """Stream of changes that a block was read from, or can be joined to."""

    slot: str  # the logical replication slot that keeps the log until its changes are archived
    position: Position  # up to which its changes were archived before this block was made
    opened: bool = False  # this block is the first one of a new stream: no changes join it to what was there before
    publication: str  # what the slot reads, with its oid: one that was made again has another
    publication_oid: int
    publication_version: str = ""
    """Changes with its options, also where they are changed back; "" where it is not known."""
    followed: dict[int, int] = Field(default_factory=dict)
    """The tables whose changes it holds, by oid; each with the oid of its entry in the publication."""
    not_followed: dict[str, str] = Field(default_factory=dict)  # the others, by label, each with the reason
    # `oldest:next:`, ids of transactions: those before the first had ended when the source's objects were looked at,
    # and the second was not given yet; "" where that is not known
    snapshot: str = ""
    # What made the log record every change of a definition when the objects were looked at; two blocks with the same
    # one have all changes between them recorded. "" where nothing did.
    definitions: str = ""
    # Tables that were made since, as partitions of what was published then. Of a block of changes: that these had no
    # row where it begins.
    born: tuple[Born, ...] = ()
    dropped: tuple[int, ...] = ()  # tables, by oid, that are not there any more where a block of changes ends
    waiting: dict[int, WaitingTable] = Field(default_factory=dict)
    """By oid, the tables that start over and have no snapshot yet."""


class Transactions(Document):
    """Transactions in a block of changes: a row each, with `lsn`, `end_lsn`, `xid` and `committed_at`."""

    file: FileRecord
    count: Count
    # first_time, last_time: the least and the greatest of their commit times, which are not in order
    first_time: Moment
    last_time: Moment


class Mark(Document):
    """Named restore point that was set in the source."""

    name: str
    position: Position  # just behind the transaction that set it
    at: Moment
    id: str = ""  # that it was announced by; "" where an earlier release set it


class DefinitionChange(Document):
    """Objects of a source whose definitions one commit changed."""

    position: Position  # of the commit
    # Each as the oid of its catalog and its own, and perhaps others that were not changed. Columns have the oid of
    # pg_attribute and their table's, comments that of pg_description and their object's. 0, 0 stands for the privileges
    # of any object.
    objects: tuple[tuple[int, int], ...]


class JoinedBlock(Document):
    """Block that was joined with its neighbours, kept without its tables and transactions."""

    commit: int  # the number that it had, which it goes on being named by
    block: Block


class Block(Document):
    """Immutable files added by one backup, with their description.

    A file may be named by several blocks, where nothing has changed in what it tells. A block of changes may stand for
    several that followed each other without a hole: its `parts`. Its tables and transactions are then those of all.
    """

    id: str
    kind: str  # "snapshot" or "changes"
    run: str
    source: SourceRecord
    covers: Coverage
    tables: tuple[TableRecord, ...]
    packs: tuple[FileRecord, ...] = ()  # objects that hold many small files of tables; those name their places there
    catalog: FileRecord  # our record of the source's tables, types and sequences
    schema_dump: FileRecord | None  # `pg_dump -Fc --schema-only`; None where no suitable pg_dump was there
    whole: bool = True  # no table's rows were left out by choice
    others: tuple[int, ...] = ()
    """Oids of the tables that are there and whose rows it was not to have; () where a release has not recorded them."""
    not_included: tuple[str, ...] = ()  # objects named but not backed up, each with its reason
    unlogged: tuple[str, ...] = ()
    """Tables whose rows are here, but would not survive a crash of the server they are on."""
    stream: Stream | None = None  # what changes are read from; None where a source's changes are not backed up
    supplement: bool = False  # a snapshot of only those tables that a stream had to begin anew with
    gap: str = ""  # why no changes join this block to what was there before; "" where that needs no saying
    transactions: Transactions | None = None  # of a block of changes; None where it holds none
    marks: tuple[Mark, ...] = ()
    ddl: tuple[Position, ...] = ()
    """Positions at which tables were seen to have other columns, or another name, than before."""
    passed: tuple[PassedTable, ...] = ()
    """Tables that neither catalog around it has; () where a release has not recorded them."""
    defined: tuple[Position, ...] = ()  # positions of commits that changed definitions, where the log tells of these
    definition_changes: tuple[DefinitionChange, ...] = ()  # what they changed, of those of which that is known
    schema_version: str = ""  # two blocks with the same one hold the same schema; "" where that is not known
    # Two with the same one have the same definitions, though one may have been changed and changed back in between; ""
    # where that is not known
    schema_digest: str = ""
    sequences: FileRecord | None = None  # where each sequence stood at its end or later, if that is not in the catalog
    is_cut: bool = True  # catalog and schema are those of its end; else those of an earlier block
    schema_since: str = ""  # position from which on they are those of its end; "" where that is not known of any before
    parts: tuple[JoinedBlock, ...] = ()  # the blocks that it stands for, in the order of the log
    after: int | None = None
    """Of a snapshot that was made of what was here, not of the source: the number of the block whose end it is."""

    def files(self) -> tuple[FileRecord, ...]:
        """Return every stored object of the block: packs, and not the files in packs."""
        transactions = self.transactions.file if self.transactions else None
        extra = tuple(file for file in (self.catalog, self.schema_dump, self.sequences, transactions) if file)
        rows = (file for table in self.tables for file in table.files if file.offset is None)
        own = (*rows, *self.packs, *extra)
        if not self.parts:
            return own
        return tuple(dict.fromkeys((*own, *(file for part in self.parts for file in part.block.files()))))

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def size(self) -> int:
        """Return the bytes stored for the block, without files of other blocks."""
        return sum(file.size for file in self.files() if self.id in file.path.split("/"))


def summary(block: Block) -> dict[str, Any]:
    """Return a block's summary for people and scripts."""
    return {
        "block": block.id,
        "kind": "full" if block.kind == "snapshot" else block.kind,
        "source": block.source.name,
        "rows": block.rows,
        "bytes": block.size,
        "tables": len(block.tables),
        "restorable_to": iso(block.covers.to_time),
        "position": block.covers.to_position,
        "whole": block.whole,
        "not_included": list(block.not_included),
        "unlogged": list(block.unlogged),
    }
