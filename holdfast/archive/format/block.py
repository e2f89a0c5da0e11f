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
    """Database a block was read from, with its name in the archive.

    :param database_oid: of `database` on its server; None where a release has not recorded it.
    """

    name: SourceName
    kind: str
    database: str
    version: str
    system_identifier: str | None = None
    timeline: int | None = None
    database_oid: int | None = None


class Coverage(Document):
    """Source positions that a block covers, with their times; a snapshot has no `from_position`.

    :param exact: changes can be joined to `to_position` without loss; False where it was read beside the snapshot.
    """

    from_position: Position | None = None
    to_position: Position
    from_time: Moment
    to_time: Moment
    exact: bool = True


class Born(Document):
    """A table with changes backed up from its first row on."""

    oid: int
    table_schema: str
    name: str


class PassedTable(Document):
    """A table that was made and dropped between two backups, though it was published: a partition.

    :param changes: that the log has of it.
    :param first, last: positions of the first and last commit with such changes.
    :param kept: these changes are among those of the block.
    """

    oid: int
    table_schema: str
    name: str
    changes: Count
    first: Position
    last: Position
    kept: bool = False

    @property
    def label(self) -> str:
        return f"{self.table_schema}.{self.name}"


class WaitingTable(Document):
    """Table that waits for a snapshot of its own to start over.

    :param table: its `schema.name`.
    :param since: until then its rows are known.
    :param reason: why it starts over, and why it did not yet.
    :param act: a person has to do something about it; else the next backup tries again.
    """

    table: str
    since: Moment
    reason: str
    act: bool = False


class Stream(Document):
    """Stream of changes that a block was read from, or can be joined to.

    :param slot: the logical replication slot that keeps the log until its changes are archived.
    :param position: up to which its changes were archived before this block was made.
    :param opened: this block is the first one of a new stream: no changes join it to what was there before.
    :param publication: what the slot reads, with its oid: one that was made again has another.
    :param publication_version: changes with its options, also where they are changed back; "" where it is not known.
    :param followed: the tables whose changes it holds, by oid; each with the oid of its entry in the publication.
    :param not_followed: the others, by label, each with the reason.
    :param snapshot: `oldest:next:`, ids of transactions: those before the first had ended when the source's objects
        were looked at, and the second was not given yet; "" where that is not known.
    :param dropped: tables, by oid, that are not there any more where a block of changes ends.
    :param definitions: what made the log record every change of a definition when the objects were looked at; two
        blocks with the same one have all changes between them recorded. "" where nothing did.
    :param born: tables that were made since, as partitions of what was published then. Of a block of changes: that
        these had no row where it begins.
    :param waiting: by oid, the tables that start over and have no snapshot yet.
    """

    slot: str
    position: Position
    opened: bool = False
    publication: str
    publication_oid: int
    publication_version: str = ""
    followed: dict[int, int] = Field(default_factory=dict)
    not_followed: dict[str, str] = Field(default_factory=dict)
    snapshot: str = ""
    definitions: str = ""
    born: tuple[Born, ...] = ()
    dropped: tuple[int, ...] = ()
    waiting: dict[int, WaitingTable] = Field(default_factory=dict)


class Transactions(Document):
    """Transactions in a block of changes: a row each, with `lsn`, `end_lsn`, `xid` and `committed_at`.

    :param first_time, last_time: the least and the greatest of their commit times, which are not in order.
    """

    file: FileRecord
    count: Count
    first_time: Moment
    last_time: Moment


class Mark(Document):
    """Named restore point that was set in the source.

    :param position: just behind the transaction that set it.
    :param id: that it was announced by; "" where an earlier release set it.
    """

    name: str
    position: Position
    at: Moment
    id: str = ""


class DefinitionChange(Document):
    """Objects of a source whose definitions one commit changed.

    :param position: of the commit.
    :param objects: each as the oid of its catalog and its own, and perhaps others that were not changed. Columns have
        the oid of pg_attribute and their table's, comments that of pg_description and their object's. 0, 0 stands for
        the privileges of any object.
    """

    position: Position
    objects: tuple[tuple[int, int], ...]


class JoinedBlock(Document):
    """Block that was joined with its neighbours, kept without its tables and transactions.

    :param commit: the number that it had, which it goes on being named by.
    """

    commit: int
    block: Block


class Block(Document):
    """Immutable files added by one backup, with their description.

    A file may be named by several blocks, where nothing has changed in what it tells. A block of changes may stand for
    several that followed each other without a hole: its `parts`. Its tables and transactions are then those of all.

    :param kind: "snapshot" or "changes".
    :param stream: what changes are read from; None where a source's changes are not backed up.
    :param supplement: a snapshot of only those tables that a stream had to begin anew with.
    :param gap: why no changes join this block to what was there before; "" where that needs no saying.
    :param transactions: of a block of changes; None where it holds none.
    :param ddl: positions at which tables were seen to have other columns, or another name, than before.
    :param passed: tables that neither catalog around it has; () where a release has not recorded them.
    :param defined: positions of commits that changed definitions, where the log tells of these.
    :param definition_changes: what they changed, of those of which that is known.
    :param schema_version: two blocks with the same one hold the same schema; "" where that is not known.
    :param schema_digest: two with the same one have the same definitions, though one may have been changed and changed
        back in between; "" where that is not known.
    :param is_cut: catalog and schema are those of its end; else those of an earlier block.
    :param schema_since: position from which on they are those of its end; "" where that is not known of any before.
    :param sequences: where each sequence stood at its end or later, if that is not in the catalog.
    :param packs: objects that hold many small files of tables; those name their places there.
    :param catalog: our record of the source's tables, types and sequences.
    :param schema_dump: `pg_dump -Fc --schema-only`; None where no suitable pg_dump was there.
    :param whole: no table's rows were left out by choice.
    :param others: oids of the tables that are there and whose rows it was not to have; () where a release has not
        recorded them.
    :param not_included: objects named but not backed up, each with its reason.
    :param unlogged: tables whose rows are here, but would not survive a crash of the server they are on.
    :param parts: the blocks that it stands for, in the order of the log.
    :param after: of a snapshot that was made of what was here, not of the source: the number of the block whose end
        it is.
    """

    id: str
    kind: str
    run: str
    source: SourceRecord
    covers: Coverage
    tables: tuple[TableRecord, ...]
    packs: tuple[FileRecord, ...] = ()
    catalog: FileRecord
    schema_dump: FileRecord | None
    whole: bool = True
    others: tuple[int, ...] = ()
    not_included: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()
    stream: Stream | None = None
    supplement: bool = False
    gap: str = ""
    transactions: Transactions | None = None
    marks: tuple[Mark, ...] = ()
    ddl: tuple[Position, ...] = ()
    passed: tuple[PassedTable, ...] = ()
    defined: tuple[Position, ...] = ()
    definition_changes: tuple[DefinitionChange, ...] = ()
    schema_version: str = ""
    schema_digest: str = ""
    sequences: FileRecord | None = None
    is_cut: bool = True
    schema_since: str = ""
    parts: tuple[JoinedBlock, ...] = ()
    after: int | None = None

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
