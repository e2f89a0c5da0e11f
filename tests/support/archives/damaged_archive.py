"""An archive with every kind of file, what is read of it while it is whole, and what must be told when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import read_batches, write_parquet
from holdfast.archive.files.data_files import read_file, table_folder, write_bytes
from holdfast.archive.format.document import TableRecord
from holdfast.archive.format.runs import RunLog
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore, open_store

T = TypeVar("T")
E = TypeVar("E", bound=Exception)
Truth = tuple[object, ...]


def nothing() -> None:
    """A lock check that finds the locks held."""


def outcome(action: Callable[[], T], kind: type[E]) -> T | E:
    """Return what an action returns, or the error of this kind that it ends with."""
    try:
        return action()
    except kind as error:
        return error


@dataclass(frozen=True)
class Place:
    """An archive, the bytes of its files, and what is read of it while it is whole.

    :param url: of a folder or a bucket.
    """

    url: str
    written: dict[str, bytes]
    truth: Truth

    @cached_property
    def store(self) -> ObjectStore:
        return open_store(self.url)

    def keys(self, part: str) -> list[str]:
        return [key for key in self.written if part in key]

    def put(self, key: str, body: bytes | None) -> None:
        """Make a file these bytes, or take it away; in a folder without the care that the store takes."""
        if "://" in self.url:
            self.store.delete(key) if body is None else self.store.put(key, body)
            return
        path = Path(self.url, key)
        path.unlink(missing_ok=True)
        if body is not None:
            path.write_bytes(body)

    def read(self) -> Truth:
        return everything_in(self.store)

    def must_tell(self, key: str, label: str, *, deep_only: bool = False) -> None:
        """Check that a data file is named by whoever reads it, and by verify, with what it costs and what to do."""
        with pytest.raises(DamagedError, match=r"copy of the archive, or restore another restore point") as raised:
            self.read()
        assert key in str(raised.value), label
        archive = Archive.open(self.store)
        (found,) = verify(archive, deep=True).damage
        assert found.what.startswith(key), label
        assert "restore point commit:" in str(found), label
        found_by_size = [damage.what.split()[0] for damage in verify(archive).damage]
        assert found_by_size == ([] if deep_only else [key]), label

    def must_tell_or_be_harmless(self, key: str, label: str) -> bool:
        """Check that a document is named by whoever opens the archive, unless all that it says is still right."""
        found = outcome(self.read, DamagedError)
        if not isinstance(found, DamagedError):
            assert found == self.truth, label
            return False
        assert key in str(found), label
        assert "estore" in str(found), label
        assert "from a copy of the archive" in str(found), label
        return True


def everything_in(store: ObjectStore) -> Truth:
    """Return all that a restore could read: the commits, and every file of theirs."""
    archive = Archive.open(store)
    files: list[object] = []
    for block in (placed.block for placed in archive.state.blocks.values()):
        assert block.schema_dump is not None
        files += [read_file(store, block.catalog), read_file(store, block.schema_dump)]
        files += [
            pa.Table.from_batches(read_batches(store, file)).to_pylist()
            for table in block.tables
            for file in table.files
        ]
    return (archive.identity, list(archive.commits()), archive.state, files)


def add_backup(archive: Archive, number: int) -> None:
    """Commit a block of two tables, of the same sizes as every other one."""
    store, block_id = archive.store, f"block{number}"
    tables = []
    for oid in (1, 2):
        batch = pa.record_batch(
            {
                "id": pa.array([oid * 1000 + number * 100 + row for row in range(20)]),
                # So long that the file is compressed, with a dictionary.
                "word": pa.array([f"{'ab'[row % 2]}{number}{oid}" * 100 for row in range(20)]),
            }
        )
        (file,) = write_parquet(store, f"{table_folder('shop', str(oid), block_id)}/00000", batch.schema, [batch])
        tables.append(
            TableRecord(
                id=str(oid), table_schema="public", name=f"t{oid}", rows=20, digest=f"20:{number}", files=(file,)
            )
        )
    folder = table_folder("shop", "schema", block_id)
    block = make_block(
        identity=block_id, source="shop", position=f"0/{number}00", at=datetime(2026, 3, number, 12, tzinfo=UTC),
        tables=tuple(tables),
    ).model_copy(
        update={
            "catalog": write_bytes(store, f"{folder}/catalog-1.json", b'{"database": "shop", "number": %d}' % number),
            "schema_dump": write_bytes(store, f"{folder}/schema-1.dump", b"PGDMP\x01\x10\x00 table %d " % number * 9),
        }
    )  # fmt: skip
    archive.add(lambda state: Change(kind="backup", add=(block,)), check=nothing, fence="txn-1")


def fill(url: str) -> Place:
    """Make an archive of three commits, with something in every folder that an archive may have."""
    store = open_store(url)
    archive = Archive.create(store, name="shop")
    for number in (1, 2, 3):
        add_backup(archive, number)
        with RunLog(store, f"run-{number}", "backup") as log:
            log.progress("reading tables", rows=20)
            log.result = {"rows": 40, "commit": number, "source": "shop"}
    store.put("probes/20260301T120000Z-00000000.json", b'{"create_if_absent": true}')
    written = {info.key: store.get(info.key) for info in store.list("").objects}
    return Place(url, written, everything_in(store))
