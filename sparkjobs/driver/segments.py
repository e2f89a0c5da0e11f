"""Segments of a source's log between positions with known objects, and their followed tables."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.archive.files.data_files import new_attempt, read_file, table_folder, write_bytes
from holdfast.common.lsn import PG_CLASS, parse_position
from holdfast.point_in_time.target_contents import can_become, sequences_to_json
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical import ddl_effects
from holdfast.postgresql.logical import stream as streams
from holdfast.postgresql.logical.ddl_triggers import PG_ATTRIBUTE, PG_TYPE
from holdfast.postgresql.logical.objects_read import read_objects

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from holdfast.archive.format.block import Block, Born, Stream
    from holdfast.archive.format.document import FileRecord
    from holdfast.operations.marks import MarkRecord
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.logical.objects_read import ObjectsRead
    from holdfast.postgresql.logical.window_reader import SeenDefinition
    from sparkjobs.driver.application import Job
    from sparkjobs.driver.snapshot_reader import SnapshotReader

_LOOKS = 2
"""At the schema of a moment: temporary tables that come and go make it look changed, too."""


@dataclass(frozen=True)
class Cut:
    """The objects of a source at one position, with the files that record them."""

    catalog: Catalog
    catalog_file: FileRecord
    schema_dump: FileRecord | None
    sequences: FileRecord | None
    version: str
    digest: str
    not_included: tuple[str, ...]
    seen: streams.Seen


@dataclass(frozen=True)
class Following:
    """The tables that the blocks of one run follow.

    :param followed: by oid, each with the oid of its entry in the publication.
    :param to_begin: names of those that need a snapshot first.
    :param born: those that are followed from their first row on.
    :param dropped: by oid, what was there before.
    :param until_changed: those that are followed as long as no definition is changed, each with its entry.
    """

    followed: dict[int, int]
    not_followed: dict[str, str]
    to_begin: tuple[str, ...]
    born: tuple[Born, ...] = ()
    dropped: tuple[int, ...] = ()
    until_changed: dict[int, int] = field(default_factory=dict)

    def without(self, uncertain: Collection[int], now: Catalog) -> Following:
        """Return a copy without the tables that have an uncertain column."""
        labels = tuple(
            table.label for table in now.tables if table.oid in uncertain and table.label not in self.to_begin
        )
        return Following(
            {oid: entry for oid, entry in self.followed.items() if oid not in uncertain},
            {**self.not_followed, **dict.fromkeys(labels, ddl_effects.UNCERTAIN)},
            self.to_begin + labels,
            tuple(each for each in self.born if each.oid not in uncertain),
            self.dropped,
            self.until_changed,
        )

    def held(self, now: Catalog) -> dict[int, int]:
        """Return the tables that start over for a change of their own, each with its entry in the publication.

        Until that change, their rows are what the log tells.
        """
        return {
            table.oid: self.until_changed[table.oid]
            for table in now.tables
            if table.oid in self.until_changed
            and table.oid not in self.followed
            and self.not_followed.get(table.label) in ddl_effects.OF_THEIR_OWN
        }

    def holding(self, held: Mapping[int, int], now: Catalog) -> Following:
        """Return a copy that follows these tables, too."""
        labels = {table.label for table in now.tables if table.oid in held}
        return replace(
            self,
            followed={**self.followed, **held},
            not_followed={label: why for label, why in self.not_followed.items() if label not in labels},
            to_begin=tuple(label for label in self.to_begin if label not in labels),
        )


def touched_tables(change: SeenDefinition, tables: Collection[int]) -> set[int]:
    """Return the tables that a change of definitions may have touched.

    These are all where that is not known, and where it touched a type.
    """
    if change.objects is None or any(catalog == PG_TYPE for catalog, _ in change.objects):
        return set(tables)
    return {oid for catalog, oid in change.objects if catalog in (PG_CLASS, PG_ATTRIBUTE) and oid in tables}


@dataclass(frozen=True)
class Segment:
    """A part of the log between two positions with known objects.

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

    These are read behind the position. Where they have changed in between, both are taken anew; where they go on
    changing, nobody can say that these are those of the position.
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
    """Return the segment that ends with a mark that knows the source's objects.

    :param last: the newest block before it.
    :return: None where the mark left it to a block to tell the objects, and this one does not.
    """
    objects = record.objects()
    if objects.dump is None and objects.version != last.schema_version:
        return None
    cut = _stored(job, source, last, uuid.uuid4().hex, objects)
    return Segment(parse_position(record.position), record.at, cut, record.stream, record.since)


def snapshot_segment(reader: SnapshotReader, stream: Stream) -> Segment:
    """Return the segment that ends with the snapshot that a job was given."""
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
    """Read the source's current objects, and store their differences from the last block."""
    job.log.progress("reading the schema")
    return _stored(job, source, last, block, read_objects(address, last.schema_version))


def _stored(job: Job, source: str, last: Block, block: str, objects: ObjectsRead) -> Cut:
    """Store the differences from the last block, and return the cut.

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


def compare(segment: Segment, was: dict[int, int], before: Catalog, *, begins: bool = False) -> Following:
    """Return the tables that a segment continues to follow without a gap.

    :param was: those of which everything before it is here, each with its entry in the publication.
    :param before: what the objects were then.
    :param begins: `before` is of where the segment begins, so that tables which were made since may have no row there.
    """
    stream, now = segment.stream, segment.cut.catalog
    old = {table.oid: table for table in before.tables}
    new = {table.oid: table for table in now.tables}
    # A table that was dropped since was followed to its end.
    followed = {
        oid: entry for oid, entry in was.items() if stream.followed.get(oid) == entry or (oid in old and oid not in new)
    }
    born = tuple(each for each in stream.born if begins and each.oid in new and each.oid not in {**old, **was})
    followed |= {each.oid: stream.followed[each.oid] for each in born}
    both = [oid for oid in followed if oid in old and oid in new]
    rewritten = {oid for oid in both if new[oid].is_rewritten(old[oid])}
    # Of what a table was at first nothing is known but that a table's first heap has its own oid.
    rewritten |= {oid for oid in followed if oid in new and oid not in old and new[oid].filenode != oid}
    reasons = {oid: ddl_effects.UNLOGGED for oid in both if new[oid].may_have_been_unlogged(old[oid])}
    reasons |= dict.fromkeys(rewritten, ddl_effects.REWRITTEN)
    reasons |= {oid: ddl_effects.FILLED for oid in both if new[oid].is_filled(old[oid])}
    reasons |= {oid: ddl_effects.KEY_CHANGED for oid in both if not new[oid].has_key_of(old[oid])}
    reasons |= {oid: ddl_effects.RETYPED for oid in followed if oid in new and _is_retyped(new[oid], before, now)}
    reasons |= {oid: ddl_effects.RETYPED for oid in both if not can_become(old[oid], new[oid])}
    joined = [oid for oid in stream.followed if oid not in followed]
    reasons |= {oid: ddl_effects.CAME_BACK if oid in was else ddl_effects.NEW for oid in joined}
    labels = {oid: new[oid].label for oid in reasons if oid in new and new[oid].has_rows}
    return Following(
        {oid: entry for oid, entry in followed.items() if oid not in reasons},
        {**stream.not_followed, **{label: reasons[oid] for oid, label in labels.items()}},
        tuple(labels.values()),
        tuple(each for each in born if each.oid not in reasons),
        tuple(sorted(old.keys() - new.keys())),
        {oid: entry for oid, entry in followed.items() if oid in was},
    )


def _is_retyped(table: Table, before: Catalog, now: Catalog) -> bool:
    """Return whether values may be written otherwise than before.

    A label that was added and renamed is seen in changes, but not inside of other values; nor is what was altered in a
    composite type.
    """
    if not table.has_own_types:
        return False
    since = now.types_since(before)
    altered = bool(since.labels) or since.composites
    return now.types_altered(before, table) or (altered and now.may_hide_others(table))
