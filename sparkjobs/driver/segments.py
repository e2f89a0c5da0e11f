"""Segments of a source's log, between positions at which its objects are known."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import new_attempt, read_file, table_folder, write_bytes
from holdfast.common.lsn import parse_position
from holdfast.point_in_time.target_contents import sequences_to_json
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.logical.objects_read import read_objects

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.archive.format.block import Block, Stream
    from holdfast.archive.format.document import FileRecord
    from holdfast.operations.marks import MarkRecord
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.objects_read import ObjectsRead
    from sparkjobs.driver.application import Job
    from sparkjobs.driver.snapshot_reader import SnapshotReader

_LOOKS = 2
"""At the schema of a moment: temporary tables that come and go make it look changed, too."""


@dataclass(frozen=True)
class Cut:
    """Objects of a source at one position, with the files that record them."""

    catalog: Catalog
    catalog_file: FileRecord
    schema_dump: FileRecord | None
    sequences: FileRecord | None
    version: str
    digest: str
    not_included: tuple[str, ...]
    seen: streams.Seen


@dataclass(frozen=True)
class Segment:
    """Part of the log between two positions with known objects.

    :param end: position; the last one, of now, may be overstepped by a transaction.
    :param at: when it was reached, by the server's clock.
    :param stream: as it was then.
    :param since: position from which on the objects are those of its end; "" where that is not known of any before.
    """

    end: int
    at: datetime
    cut: Cut
    stream: Stream
    since: str = ""


def read_now(job: Job, address: Address, source: str, last: Block, block: str, stream: Stream) -> Segment:
    """Return the segment that ends at the current position, with the objects there.

    These are read behind the position, and both again where they have changed in between; where they go on changing,
    it is unknown whether these are those of the position.
    """
    for _ in range(_LOOKS):
        with connect(address) as session:
            version = streams.schema_fingerprint(session)
            clock, position = streams.flush_position(session)
        cut = _cut(job, address, source, last, block)
        if cut.version == version:
            return Segment(parse_position(position), clock, cut, stream)
    return Segment(parse_position(position), clock, replace(cut, seen=cut.seen._replace(definitions="")), stream)


def mark_segment(job: Job, source: str, last: Block, record: MarkRecord) -> Segment | None:
    """Return the segment that ends with a mark; None where it left it to a block to record the objects.

    :param last: the newest block before it.
    """
    objects = record.objects()
    if objects.dump is None and objects.version != last.schema_version:
        return None
    cut = _stored(job, source, last, uuid.uuid4().hex, objects)
    return Segment(parse_position(record.position), record.at, cut, record.stream, record.since)


def snapshot_segment(reader: SnapshotReader, stream: Stream) -> Segment:
    begun, snapshot = reader.block.begun, reader.snapshot
    cut = Cut(
        reader.block.catalog,
        begun.catalog,
        begun.schema_dump,
        None,
        begun.schema_version,
        begun.schema_digest,
        begun.not_included,
        reader.seen(),
    )
    return Segment(parse_position(snapshot.position), snapshot.taken_at, cut, stream)


def _cut(job: Job, address: Address, source: str, last: Block, block: str) -> Cut:
    job.log.progress("reading the schema")
    return _stored(job, source, last, block, read_objects(address, last.schema_version))


def _stored(job: Job, source: str, last: Block, block: str, objects: ObjectsRead) -> Cut:
    """Store the differences from the last block.

    :param objects: with a dump, or of the last block's version.
    """
    catalog = objects.catalog
    attempt, folder = new_attempt(), table_folder(source, "schema", block)
    sequences = write_bytes(job.store, f"{folder}/sequences-{attempt}.json", sequences_to_json(catalog.sequences))
    path = f"{folder}/catalog-{attempt}.json"
    if objects.dump is None:
        before = known_cut(job, last)
        file = before.catalog_file
        if before.catalog.configuration != catalog.configuration:
            file = write_bytes(job.store, path, catalog.model_dump_json().encode())
        return replace(before, catalog=catalog, catalog_file=file, sequences=sequences, seen=objects.seen)
    return Cut(
        catalog,
        write_bytes(job.store, path, catalog.model_dump_json().encode()),
        write_bytes(job.store, f"{folder}/schema-{attempt}.dump", objects.dump),
        sequences,
        objects.version,
        objects.digest,
        objects.not_included,
        objects.seen,
    )


def known_cut(job: Job, block: Block) -> Cut:
    """Return the objects that a block records: those at its end, or the last ones known before."""
    catalog = Catalog.from_bytes(read_file(job.store, block.catalog), block.catalog.path)
    stream = block.stream if block.is_cut else None
    seen = streams.Seen(stream.snapshot, stream.definitions) if stream else streams.Seen()
    return Cut(
        catalog,
        block.catalog,
        block.schema_dump,
        block.sequences,
        block.schema_version,
        block.schema_digest,
        block.not_included,
        seen,
    )
