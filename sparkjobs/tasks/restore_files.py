"""The work of a restore's tasks: files of the archive into tables."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.archive.files.blocks import read_batches
from holdfast.archive.files.packs import AtHand
from holdfast.archive.scan.engine import open_engine
from holdfast.archive.scan.net_changes import net_changes
from holdfast.common.errors import MissingRowsError
from holdfast.postgresql.catalog.large_objects import LARGE_OBJECTS
from holdfast.postgresql.catalog.table import UNKNOWN_BOUND
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan.ledger import note_result, once
from holdfast.postgresql.restore.rows.apply import Applied, apply_net
from holdfast.postgresql.restore.rows.generated_columns import hash_apart
from holdfast.postgresql.restore.rows.load import load_file
from holdfast.postgresql.restore.rows.staging_tables import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from holdfast.archive.format.document import FileRecord
    from holdfast.archive.scan.table_history import TableHistory
    from holdfast.postgresql.catalog.table import Table
    from holdfast.postgresql.connection.address import Address
    from holdfast.postgresql.connection.session import Connection
    from holdfast.postgresql.restore.rows.generated_columns import Apart
    from holdfast.storage import ObjectStore

    Reporter = Callable[[int, int], None]

NET_BYTES = 256 << 20
"""Memory in which one task works out the net of a table's changes; what is more goes to its disk."""


class FileLoader:
    """Work of a task: load a few files. Travels in its closure, with password and store settings.

    :param tolerated: oids of the tables whose rows need not fit yet.
    :param labels: of tables whose rows go aside first, by oid.
    :param pages_by: who writes large objects, which run no code.
    """

    def __init__(
        self,
        store: ObjectStore,
        address: Address,
        tolerated: Collection[int],
        labels: Mapping[int, str] | None = None,
        pages_by: Address | None = None,
    ) -> None:
        self._store = store
        self._address = address
        self._tolerated = tolerated
        self._labels = labels or {}
        self._pages_by = pages_by or address

    def __call__(self, files: Sequence[tuple[Table, FileRecord]], report: Reporter) -> Iterator[int]:
        """Yield the oids of tables that do not take the rows of a file as they were."""
        misfits: set[int] = set()
        with ExitStack() as opened:
            sessions: dict[Address, Connection] = {}
            for _, some in groupby(files, key=lambda pair: pair[1].key):
                together = list(some)
                store = AtHand(self._store, [record for _, record in together])
                for table, record in together:
                    if table.oid in misfits:
                        continue
                    by = self._pages_by if table.oid == LARGE_OBJECTS else self._address
                    session = sessions.get(by) or sessions.setdefault(by, opened.enter_context(connect(by)))
                    try:
                        label = self._labels.get(table.oid, "")
                        rows = load_file(session, table, record.path, read_batches(store, record), label=label)
                    except MisfitError:
                        if table.oid not in self._tolerated:
                            raise
                        misfits.add(table.oid)
                        yield table.oid
                    else:
                        report(rows, record.size)


class FileHasher:
    """Work of a task: hash the columns of a few files apart, as `hash_apart` does."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __call__(self, files: Sequence[tuple[Table, FileRecord]], report: Reporter) -> Iterator[tuple[int, Apart]]:
        for table, record in files:
            yield table.oid, hash_apart(table, read_batches(self._store, record))
            report(record.rows, record.size)


@dataclass(frozen=True)
class ChangedTable:
    """Table in the target with the changes since the snapshot that was loaded into it."""

    table: Table
    history: TableHistory

    @property
    def step(self) -> str:
        """Return the name of its changes in the ledger."""
        return f"changes {self.history.table}"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def files(self) -> Sequence[FileRecord]:
        return [file for record in self.history.changes for file in record.files]


class ChangeApplier:
    """Work of a task: bring loaded tables to a later position by the net of their changes.

    :param tolerated: oids of the tables whose rows need not fit.
    """

    def __init__(self, store: ObjectStore, address: Address, tolerated: Collection[int]) -> None:
        self._store = store
        self._address = address
        self._tolerated = tolerated

    def __call__(self, tables: Sequence[ChangedTable], report: Reporter) -> Iterator[int]:
        """Yield the oids of tables that do not take their rows."""
        with (
            connect(self._address) as session,
            tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as spill,
            open_engine(NET_BYTES, Path(spill)) as engine,
        ):
            store = AtHand(self._store, chain.from_iterable(each.files for each in tables))
            for changed in tables:
                rows = 0
                try:
                    with once(session, changed.step) as is_new:
                        if is_new:
                            with closing(net_changes(engine, store, changed.history, spill=Path(spill))) as net:
                                applied = apply_net(session, changed.table, changed.history.key, net)
                            note_result(session, changed.step, applied.to_json())
                            rows = applied.inserted.rows
                except MisfitError:
                    if changed.table.oid not in self._tolerated:
                        raise
                    yield changed.table.oid
                except MissingRowsError:  # it had some before it was published, and they are in no backup
                    if changed.table.bound != UNKNOWN_BOUND:
                        raise
                    with once(session, changed.step) as is_new:
                        if is_new:
                            note_result(session, changed.step, Applied.nothing().to_json())
                report(rows, changed.size)
