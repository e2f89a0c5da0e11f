"""Restore a PostgreSQL database, or chosen tables of it: schema, rows in parallel, indexes, then compare.

Each Spark task checks a file's checksum and streams its rows into the target by COPY. Nothing counts as
restored before row counts and content hashes of every table, computed by the target, equal the archive's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.archive import Archive
from holdfast.archive.blocks import read_batches, read_file
from holdfast.archive.model import FileRecord, iso
from holdfast.archive.points import only_source, resolve
from holdfast.errors import DamagedError, ReportedError, exit_code_of, sentence
from holdfast.sources.postgresql import ledger, load, objects
from holdfast.sources.postgresql.catalog import Catalog, Table
from holdfast.sources.postgresql.dump import restore_post_data, restore_pre_data
from holdfast.sources.postgresql.hashing import ContentHash
from holdfast.sources.postgresql.plan import RestorePlan, make_plan
from holdfast.sources.postgresql.rename import Maps
from holdfast.sources.postgresql.session import connect
from holdfast.sources.postgresql.target import read_target
from holdfast.sources.postgresql.toc import read_entries
from sparkjobs.driver import Job, database_address, pack, run_application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from holdfast.archive.model import Block
    from holdfast.archive.state import Placed
    from holdfast.sources.postgresql.address import Address
    from holdfast.sources.postgresql.catalog import Relation, SequenceValue
    from holdfast.sources.postgresql.plan import NotRestored
    from holdfast.sources.postgresql.rename import Name
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

_TASK_BYTES = 8 << 20
"""How many stored bytes one task loads, unless a single file is larger."""

_SESSIONS = max(2, os.cpu_count() or 2)

_TOLD = 20
"""How many things that are not restored are told before the work begins; all are in the summary."""


@dataclass(frozen=True)
class Wish:
    """What is to be restored.

    :param at: `latest`, a time or `commit:N`.
    :param tables: globs; none means everything.
    :param dry_run: only plan.
    """

    source: str | None
    at: str
    tables: tuple[str, ...] = ()
    maps: Maps = field(default_factory=Maps)
    dry_run: bool = False

    @property
    def is_beside(self) -> bool:
        """Say whether other things may be in the target."""
        return bool(self.tables or self.maps)


class FileLoader:
    """The work of one Spark task: load a few files. Travels in the task's closure, with password and store settings."""

    def __init__(self, store: ObjectStore, address: Address) -> None:
        self._store = store
        self._address = address

    def __call__(self, files: Sequence[tuple[Table, FileRecord]], report: Reporter) -> Iterator[int]:
        """Yield the rows loaded from each file."""
        with connect(self._address) as session:
            for table, record in files:
                rows = load.load_file(session, table, record.path, read_batches(self._store, record))
                report(rows, record.size)
                yield rows


class Everything:
    """Brings back a whole database, by pg_restore."""

    def __init__(self, address: Address, dump: bytes, catalog: Catalog) -> None:
        self._address = address
        self._dump = dump
        self.tables: Mapping[str, Table] = {str(table.oid): table for table in catalog.tables}
        self.sequences: Sequence[SequenceValue] = catalog.sequences
        self.views: Sequence[Relation] = catalog.materialized_views
        self.analyzed: Sequence[Name] | None = None

    def create_tables(self, session: Any) -> None:
        """Create all that rows need, and before it the mark of an unfinished target."""
        ledger.create_ledger(session)
        restore_pre_data(self._address, self._dump, server_version=session.info.server_version)

    def create_rest(self, session: Any) -> tuple[NotRestored, ...]:
        """Create all that follows the rows."""
        restore_post_data(self._address, self._dump, server_version=session.info.server_version, jobs=_SESSIONS)
        return ()


class Chosen:
    """Brings back what a plan says, beside whatever is there."""

    def __init__(self, address: Address, plan: RestorePlan) -> None:
        self._address = address
        self._plan = plan
        self.tables: Mapping[str, Table] = {str(table.source.oid): table.target for table in plan.tables}
        self.sequences: Sequence[SequenceValue] = plan.sequences
        self.views: Sequence[Relation] = plan.materialized_views
        self.analyzed: Sequence[Name] | None = plan.to_analyze()

    def create_tables(self, session: Any) -> None:
        """Create all that rows need."""
        objects.create_tables(self._address, self._plan)

    def create_rest(self, session: Any) -> tuple[NotRestored, ...]:
        """Create all that follows the rows; returns what the target did not allow."""
        return objects.create_rest(self._address, self._plan, sessions=_SESSIONS)


def restore(job: Job, wish: Wish) -> dict[str, Any]:
    """Restore and return what was restored, or would be."""
    started = time.monotonic()
    archive = Archive.open(job.store)
    name = only_source(archive.state, wish.source)
    placed = resolve(archive.state, name, wish.at)
    block = placed.block
    address = database_address("target")
    catalog = Catalog.model_validate_json(read_file(job.store, block.catalog))
    if block.schema_dump is None:
        raise DamagedError(f"block {block.id} holds no schema dump: its schema must be created by hand")
    dump = read_file(job.store, block.schema_dump)
    with load.hold_target(address) as session:
        if not wish.dry_run and (dropped := load.undo_unfinished(session)):
            job.say(f"dropped what an unfinished restore had left: {', '.join(dropped)}")
        load.check_target(session, address, catalog)
        if not wish.is_beside:
            load.check_empty(session, address)
        plan = _plan(session, address, dump, catalog, block, wish) if wish.is_beside or wish.dry_run else None
        load.check_roles(session, address, plan.roles if plan and wish.is_beside else catalog.roles)
        summary = _summary(name, placed)
        if wish.dry_run and plan is not None:
            return {**summary, "dry_run": True, "plan": plan.describe(), **_size(plan)}
        if plan is None:
            _restore_into(job, address, session, block, Everything(address, dump, catalog))
        else:
            summary |= _size(plan) | _restore_chosen(job, address, session, block, plan)
    return {**summary, "seconds": round(time.monotonic() - started, 3), "equal": True}


def _plan(session: Any, address: Address, dump: bytes, catalog: Catalog, block: Block, wish: Wish) -> RestorePlan:
    stored = {int(record.id): (record.rows, sum(file.size for file in record.files)) for record in block.tables}
    entries = read_entries(dump, server_version=session.info.server_version)
    return make_plan(catalog, entries, read_target(session), globs=wish.tables, maps=wish.maps, stored=stored)


def _restore_chosen(job: Job, address: Address, session: Any, block: Block, plan: RestorePlan) -> dict[str, Any]:
    told = [f"not restored: {each.what}: {each.reason}" for each in plan.not_restored]
    job.say(*told[:_TOLD], *([f"not restored: {len(told) - _TOLD} more, in the summary"] if told[_TOLD:] else []))
    with _undone_where_it_fails(address):
        late = _restore_into(job, address, session, block, Chosen(address, plan))
    job.say(*(f"not restored: {each.what}: {each.reason}" for each in late))
    return {
        "not_restored": [each.describe() for each in (*plan.not_restored, *late)],
        "skipped_existing": list(plan.skipped_existing),
    }


@contextmanager
def _undone_where_it_fails(address: Address) -> Iterator[None]:
    """Take back what was created where the restore does not come to its end.

    What a kill leaves, the next restore drops.
    """
    try:
        yield
    except BaseException as error:
        try:
            with connect(address) as session:
                dropped = load.undo_unfinished(session)
            said = f"what it had created in the target was dropped again ({len(dropped)} objects)" if dropped else ""
        except Exception as trouble:  # noqa: BLE001 - the first error matters more
            said = f"what it had created is still there, and the next restore drops it ({sentence(trouble)})"
        if isinstance(error, Exception):
            raise ReportedError("; ".join(filter(None, (sentence(error), said))), exit_code_of(error)) from error
        raise


def _restore_into(
    job: Job, address: Address, session: Any, block: Block, way: Everything | Chosen
) -> tuple[NotRestored, ...]:
    _ = job.spark
    records = [record for record in block.tables if record.id in way.tables]
    rows, size = sum(record.rows for record in records), sum(file.size for record in records for file in record.files)
    job.log.progress("creating tables")
    way.create_tables(session)
    files = [(way.tables[record.id], file) for record in records for file in record.files if file.rows]
    tasks = pack(files, lambda pair: pair[1].size, room=_TASK_BYTES)
    job.map("loading rows", tasks, FileLoader(job.store, address), estimated_rows=rows)
    job.check()
    load.set_sequences(session, way.sequences)
    job.log.progress("building indexes and constraints", rows=rows, size=size)
    late = way.create_rest(session)
    job.check()
    job.log.progress("refreshing views and statistics", rows=rows, size=size)
    load.refresh_views(session, way.views)
    load.analyze(session, way.analyzed)
    job.log.progress("comparing with the archive", rows=rows, size=size)
    expected = {int(record.id): ContentHash.parse(record.digest) for record in records}
    load.compare(address, expected, [way.tables[record.id] for record in records], sessions=_SESSIONS)
    ledger.drop_ledger(session)
    return late


def _size(plan: RestorePlan) -> dict[str, int]:
    """Return what of the backup a plan restores."""
    loaded = [table for table in plan.tables if table.source.has_rows]
    return {
        "tables": len(loaded),
        "rows": sum(table.rows for table in loaded),
        "bytes": sum(table.size for table in loaded),
    }


def _summary(name: str, placed: Placed) -> dict[str, Any]:
    block = placed.block
    return {
        "commit": placed.commit,
        "source": name,
        "block": block.id,
        "tables": len(block.tables),
        "rows": block.rows,
        "bytes": block.size,
        "restored_to": iso(block.covers.to_time),
        "position": block.covers.to_position,
        "not_included": list(block.not_included),
        "not_restored": [],
        "skipped_existing": [],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="restore.py", description="Restore a database (started by holdfast).")
    parser.add_argument("--archive", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--source")
    parser.add_argument("--at", default="latest")
    parser.add_argument("--tables", action="append", default=[])
    parser.add_argument("--map", action="append", default=[])
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)

    def work(job: Job) -> dict[str, Any]:
        wish = Wish(given.source, given.at, tuple(given.tables), Maps.parse(given.map), given.dry_run)
        return restore(job, wish)

    return run_application("restore", archive=given.archive, run=given.run, work=work)


if __name__ == "__main__":
    sys.exit(main())
