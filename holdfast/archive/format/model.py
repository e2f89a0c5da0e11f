"""Models of the documents in an archive (formats 1 and 2).

They are immutable, and describe everything on the store. Every commit states the format it was written in and the least
reader and writer versions that may use the archive from then on, so that an old release refuses what it cannot
understand instead of misreading it. Unknown fields are ignored: a later format may add some without raising
`min_reader`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

import holdfast
from holdfast.archive.format.seal import check_seal, damaged_seal, seal
from holdfast.common.errors import DamagedError

FORMAT = 2
"""The newest format this release reads and writes, and the one of new archives."""

FORMATS = (1, 2)
"""1: commits alone. 2: checkpoints beside them, no document without a checksum, and blocks that stand for several."""

SEALED_SINCE = 2

WRITES = 3
"""The newest writers' version of this release. 2: format 2. 3: replicas, whose every commit follows an update log."""

REPLICAS_SINCE = 3
"""The version of writers that know replicas."""

READS = 4
"""The newest readers' version of this release. 2: format 2. 3: packs. 4: tables without a snapshot."""

PACKS_SINCE = 3
"""The version of readers that know packs."""

BORN_SINCE = 4
"""The version of readers that know tables without a snapshot."""

BORN_IN = 2
"""The format since which archives have such tables."""

PACKED_SINCE = 2
"""Archives of format 1 have none: those are kept for older releases."""

WRITER = f"holdfast {holdfast.__version__}"


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 with microseconds, in UTC (`Z`)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Moment = Annotated[AwareDatetime, PlainSerializer(iso, when_used="json")]
"""A point in time with its zone; written as ISO 8601 in UTC with microseconds."""


class Document(BaseModel):
    """Base of all stored documents: immutable, JSON, tolerant of fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_bytes(self) -> bytes:
        """Return the JSON that is stored."""
        return self.model_dump_json(indent=1).encode()

    @classmethod
    def from_bytes(cls, body: bytes, key: str) -> Self:
        """Parse a stored document.

        :raises DamagedError: the bytes under `key` are not such a document.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the document"
            raise DamagedError(
                f"{key} is damaged or not ours: {place}: {first['msg']}. "
                "Restore this object from a copy of the archive."
            ) from error


class SealedDocument(Document):
    """A document that carries its own checksum, since nothing else does.

    From format 2 on it must; of format 1 there are some that were written before there were any.
    """

    format: int

    def to_bytes(self) -> bytes:
        """Return the JSON that is stored, sealed."""
        return seal(super().to_bytes())

    @classmethod
    def from_bytes(cls, body: bytes, key: str) -> Self:
        """Parse a stored document.

        :raises DamagedError: the bytes under `key` are not such a document, or not those that were written.
        """
        sealed = check_seal(body, key)
        document = super().from_bytes(body, key)
        if document.format >= SEALED_SINCE and not sealed:
            raise damaged_seal(key, "its checksum is not there")
        return document


class Identity(SealedDocument):
    """Identity of an archive, stored as `archive.json`.

    It is written once, when the archive is created.

    :param format: of the first commits; later ones may have lifted it.
    """

    id: str
    name: str
    created: Moment
    min_reader: int = 1
    writer: str


_PART = "#"


def part_path(pack: str, offset: int) -> str:
    """Return the path of the part at an offset in a pack."""
    return f"{pack}{_PART}{offset}"


class FileRecord(Document):
    """One immutable file of a block.

    :param path: key in the store; of a part of a pack, the pack's key, `#`, and the offset of its first byte.
    :param size: bytes.
    :param sha256: of the file's bytes, in hex; checked at every read.
    :param rows: rows in it, for a data file.
    :param digest: the additive content hash of those rows (`rows:sum`).
    :param key_range: least and greatest value of the first key column, as text; None where unknown.
    :param footer: of a data file its last bytes, which tell of its columns and pages: how many, `:`, and their SHA-256
        in hex; None where an earlier version wrote it.
    """

    path: str
    size: int
    sha256: str
    rows: int = 0
    digest: str | None = None
    key_range: tuple[str, str] | None = None
    footer: str | None = None

    @property
    def key(self) -> str:
        """Return the key of the object that holds the file."""
        return self.path.partition(_PART)[0]

    @property
    def offset(self) -> int | None:
        """Return the file's offset in its pack.

        It is None for an object of its own.
        """
        _, mark, offset = self.path.partition(_PART)
        return int(offset) if mark else None


class TableRecord(Document):
    """The rows of one table in a block.

    `id` names its folder and its entry in the catalog record. In a block of changes its rows are changes of one form of
    the table: a table whose columns were changed between two of them has several records.

    :param digest: the additive content hash of the rows; "" for changes.
    :param columns: of that form, as the source describes them; empty in a snapshot, where the catalog tells.
    :param key: numbers of the columns that tell rows apart; empty where only all of them together do.
    :param first, last: log positions of the first and last commit with changes in it.
    """

    id: str
    table_schema: str
    name: str
    rows: int
    digest: str
    files: tuple[FileRecord, ...]
    columns: tuple[dict[str, Any], ...] = ()
    key: tuple[int, ...] = ()
    first: str | None = None
    last: str | None = None

    @property
    def label(self) -> str:
        """Return `schema.name`, for people."""
        return f"{self.table_schema}.{self.name}"


class SourceRecord(Document):
    """The database a block was read from.

    `name` is its name in the archive.

    :param database_oid: of `database` on its server; None where a release has not recorded it.
    """

    name: str
    kind: str
    database: str
    version: str
    system_identifier: str | None = None
    timeline: int | None = None
    database_oid: int | None = None


class Coverage(Document):
    """The source positions that a block covers, with their times.

    A snapshot has no `from_position`. `exact` says whether changes can be joined to `to_position`
    without loss (false where the position was read beside the snapshot, not with it).
    """

    from_position: str | None = None
    to_position: str
    from_time: Moment
    to_time: Moment
    exact: bool = True


class Born(Document):
    """A table with changes backed up from its first row on."""

    oid: int
    table_schema: str
    name: str


class WaitingTable(Document):
    """A table that waits for a snapshot of its own to start over.

    :param table: its `schema.name`.
    :param since: until then its rows are known.
    :param reason: why it begins anew, and why it did not yet.
    :param act: somebody has to do something about it; else the next backup tries again.
    """

    table: str
    since: Moment
    reason: str
    act: bool = False


class Stream(Document):
    """The stream of changes of a block.

    The block can be joined to it, or was read from it.

    :param slot: the logical replication slot that keeps the log until its changes are archived.
    :param position: up to which its changes were archived before this block was made.
    :param opened: this block is the first one of a new stream: no changes join it to what was there before.
    :param publication: what the slot reads, with its oid: one that was made anew has another.
    :param publication_version: changes with its options, also where they are changed back; "" where it is not known.
    :param followed: the tables whose changes it holds, by oid; each with the oid of its entry in the publication.
    :param not_followed: the others, by label, each with the reason.
    :param snapshot: `oldest:next:`, ids of transactions: those before the first had ended when the source's objects
        were looked at, and the second was not given yet; "" where that is not known.
    :param dropped: tables, by oid, that are not there any more where a block of changes ends.
    :param definitions: what made the log tell of every change of a definition when the objects were looked at; two
        blocks with the same one have all changes between them told. "" where nothing did.
    :param born: tables that were made since, as partitions of what was published then. Of a block of changes: that
        these had no row where it begins.
    :param waiting: by oid, the tables that begin anew and have no snapshot yet.
    """

    slot: str
    position: str
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
    """The transactions in a block of changes.

    The file has one row for each, with `lsn`, `end_lsn`, `xid` and `committed_at`.

    :param count: how many there are.
    :param first_time, last_time: the least and the greatest of their commit times, which are not in order.
    """

    file: FileRecord
    count: int
    first_time: Moment
    last_time: Moment


class Mark(Document):
    """A named restore point that was set in the source.

    :param position: just behind the transaction that set it.
    """

    name: str
    position: str
    at: Moment


class JoinedBlock(Document):
    """A block that was joined with its neighbours.

    It is kept as it was, but for its tables and transactions, whose files are joined.

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
    :param ddl: positions at which tables were seen to have other columns than before.
    :param defined: positions of commits that changed definitions, where the log tells of these.
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
    ddl: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    schema_version: str = ""
    schema_digest: str = ""
    sequences: FileRecord | None = None
    is_cut: bool = True
    schema_since: str = ""
    parts: tuple[JoinedBlock, ...] = ()
    after: int | None = None

    def files(self) -> tuple[FileRecord, ...]:
        """Return every stored object of the block.

        Packs are among them, and not the files in packs.
        """
        transactions = self.transactions.file if self.transactions else None
        extra = tuple(file for file in (self.catalog, self.schema_dump, self.sequences, transactions) if file)
        rows = (file for table in self.tables for file in table.files if file.offset is None)
        own = (*rows, *self.packs, *extra)
        if not self.parts:
            return own
        return tuple(dict.fromkeys((*own, *(file for part in self.parts for file in part.block.files()))))

    @property
    def rows(self) -> int:
        """Return the number of rows in the block."""
        return sum(table.rows for table in self.tables)

    @property
    def size(self) -> int:
        """Return the bytes stored for the block.

        Files of another block do not count.
        """
        return sum(file.size for file in self.files() if self.id in file.path.split("/"))


class Hold(Document):
    """A restore point that must stay restorable until it is released.

    :param position: of the source; `at`: the moment it stands for.
    :param owner: who answers for it; `reason`: why it has to stay, in words.
    :param created: by the store's clock.
    """

    id: str
    source: str
    position: str
    at: Moment
    owner: str
    reason: str
    created: Moment


class LogPlace(Document):
    """Position of a replica in its archive's update log.

    All replicas share that log.

    :param store: id of the coordination store that the log is in.
    :param replica: the name of this replica there.
    :param index: of the last entry whose change is here; 0: none was appended yet.
    :param entry: id of that entry; "" where the replica joined the others at this index. While it is being recovered:
        the id of that recovery.
    :param base: number of the commit by which the archive became the first replica: what entry 1 adds has the next one,
        on every replica, whatever commits each of them makes beside. 0: nobody knows.
    :param recovering: it is being made anew from another replica, and must not be read until that is done.
    """

    store: str
    replica: str
    index: int = Field(ge=0)
    base: int = 0
    entry: str = ""
    recovering: bool = False


class Adopted(Document):
    """State that a replica took over from another one.

    Blocks and holds, which it took over too, are not in it.

    :param ends: the position each source's backups have reached, by source name; `streams`: each one's changes.
    :param numbers: of all blocks that the other one has, by id: one commit brings them, in no order.
    """

    ends: dict[str, str]
    streams: dict[str, str]
    numbers: dict[str, int] = Field(default_factory=dict)


class ArchiveCommit(SealedDocument):
    """One atomic change to an archive: the only truth.

    :param fence: transaction id of the write lock it was made under.
    :param committed_at: by the store's clock, read just before the commit was created.
    :param remove: ids of blocks that are no longer part of the archive; their files stay until they are vacuumed.
    :param abandoned: ids of blocks that were begun and are never to be added: their files may go at any time.
    :param vacuumed: ids of removed or abandoned blocks whose files are gone.
    :param holds: new ones; `released`: ids of those that hold no more.
    :param reason: why, in words, where a person has to say so.
    :param log: of a replica, where it stands in the update log from then on. A commit that executes no entry repeats
        the last index.
    :param adopted: the replica was made equal to another one: what it has is in `add` or was here, and all else goes.
    :param aside: ids of blocks that the other one does not have: no part of the archive, and their files stay.
    """

    sequence: int = Field(ge=1)
    id: str
    parent: str | None
    kind: str
    min_reader: int
    min_writer: int
    fence: str | None
    committed_at: Moment
    writer: str
    add: tuple[Block, ...] = ()
    remove: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    vacuumed: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    released: tuple[str, ...] = ()
    reason: str = ""
    log: LogPlace | None = None
    adopted: Adopted | None = None
    aside: tuple[str, ...] = ()


class Versions(BaseModel):
    """The version fields that every future format keeps.

    They are read before anything else is believed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    min_reader: int = 1
    min_writer: int = 1


def read_versions(body: bytes, key: str) -> Versions:
    """Read the version fields of a sealed document.

    It may be newer than this release.

    :raises DamagedError: not even those fields are there, or the bytes are not those that were written.
    """
    check_seal(body, key)
    try:
        return Versions.model_validate_json(body)
    except ValidationError as error:
        raise DamagedError(
            f"{key} is damaged or not ours: it states no format. Restore this object from a copy of the archive."
        ) from error


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
