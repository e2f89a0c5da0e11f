"""A window of a stream as files in an archive."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.archive.files.blocks import read_batches
from holdfast.archive.format.document import TableRecord
from holdfast.common.errors import HoldfastError
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import open_store
from holdfast.storage.folder import FolderStore
from sparkjobs.tasks import changes as changes_module
from sparkjobs.tasks.changes import ChangeReader, FinishedWindow, WindowTask
from tests.support.databases.streams import Stream, open_stream

pytestmark = pytest.mark.service


@pytest.fixture
def stream(address: Address) -> Iterator[Stream]:
    with connect(address) as session:
        for number in range(5):
            session.execute(f"create table public.t{number} (word text primary key, n int)".encode())
    with open_stream(address, ", ".join(f"public.t{number}" for number in range(5))) as opened:
        yield opened


def reader(stream: Stream, store: Any, **given: Any) -> ChangeReader:
    after = stream.catalog()
    return ChangeReader(
        store,
        stream.address,
        **{
            "stream": stream.name,
            "most_changes": None,
            "source": "shop",
            "before": stream.before,
            "after": after,
            "followed": frozenset(table.oid for table in after.tables),
            "max_value_bytes": 1 << 20,
            "packs": True,
            **given,
        },
    )


def stretch(stream: Stream) -> WindowTask:
    """All that is in the log."""
    return WindowTask("block-1", stream.position())


def archived(
    stream: Stream, folder: Path, report: Callable[[int, int], None] = lambda rows, size: None, **given: Any
) -> FinishedWindow:
    read: ChangeReader = pickle.loads(pickle.dumps(reader(stream, open_store(str(folder)), **given)))  # noqa: S301
    (window,) = read(stretch(stream), report)
    found: FinishedWindow = pickle.loads(pickle.dumps(window))  # noqa: S301
    return found


def rows_of(folder: Path, record: TableRecord) -> list[dict[str, Any]]:
    store = open_store(str(folder))
    return [row for file in record.files for batch in read_batches(store, file) for row in batch.to_pylist()]


def test_a_window_becomes_files_of_each_form_and_of_its_transactions(stream: Stream, tmp_path: Path) -> None:
    told: list[int] = []
    for statement in (
        "insert into public.t0 values ('b', 1), ('a', 2)",
        "alter table public.t0 add extra date",
        "insert into public.t0 values ('c', 3, 'infinity')",
        "select pg_logical_emit_message(true, 'holdfast', '{\"mark\": \"here\"}')",
        "insert into public.t1 values ('x', 1)",
        "truncate public.t1",
        "create table public.other (id int)",
        "insert into public.other values (1)",
    ):
        stream.session.execute(statement.encode())
    window = archived(stream, tmp_path, lambda rows, size: told.append(rows))
    first, second, other = window.tables
    oid = stream.oid("public.t0")
    assert [(each.id, each.name, each.rows) for each in window.tables] == [
        (str(oid), "t0", 2), (str(oid), "t0", 1), (str(stream.oid("public.t1")), "t1", 2),
    ]  # fmt: skip
    assert sorted(told) == [1, 2, 2]
    assert first.files[0].path.startswith(f"data/shop/{oid}/changes/block-1/00000-")
    assert second.files[0].path.startswith(f"data/shop/{oid}/changes/block-1/00001-")
    assert (first.key, first.digest, first.files[0].key_range) == ((1,), "", ("a", "b"))
    assert [Column.from_dict(each).number for each in second.columns] == [1, 2, 3]
    assert [(row["word"], row["__op"], row["__seq"]) for row in rows_of(tmp_path, first)] == [
        ("b", "I", 0), ("a", "I", 2),
    ]  # fmt: skip
    assert [row["extra__exact"] for row in rows_of(tmp_path, second)] == ["infinity"]
    assert [row["__op"] for row in rows_of(tmp_path, other)] == ["I", "T"]
    assert window.ddl == (second.first,)
    assert window.transactions is not None
    transactions = [
        row for batch in read_batches(open_store(str(tmp_path)), window.transactions.file) for row in batch.to_pylist()
    ]
    assert window.transactions.count == len(transactions) == 5
    assert [row["lsn"] for row in transactions] == sorted(row["lsn"] for row in transactions)
    assert [(mark.name, mark.at) for mark in window.marks] == [("here", transactions[2]["committed_at"])]
    assert first.first == first.last == f"{transactions[0]['lsn'] >> 32:X}/{transactions[0]['lsn'] & 0xFFFFFFFF:X}"
    ids = [field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(tmp_path / second.files[0].path)]
    assert ids == [b"1", b"2", b"3", b"100003", b"200001", b"200002", b"200003", b"200004"]


def test_a_window_without_changes_has_no_files(stream: Stream, tmp_path: Path) -> None:
    window = archived(stream, tmp_path)
    assert (window.tables, window.transactions, window.marks, window.ddl) == ((), None, (), ())
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_is_written_before_it_fills_the_memory_is_packed_where_it_is_small(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgresql.connection.arrow_session.BATCH_BYTES", 1000)
    monkeypatch.setattr(changes_module, "MOST_BYTES", 40_000)
    monkeypatch.setattr(changes_module, "PACKED_FROM", 1)
    for _ in range(20):
        for number in range(5):
            insert = f"insert into public.t{number} select md5(random()::text), i from generate_series(1, 10) i"
            stream.session.execute(insert.encode())
    window = archived(stream, tmp_path)
    files = [file for table in window.tables for file in table.files]
    assert all(file.offset is not None for file in files)
    assert len(files) > len(window.packs) > 1
    assert {file.key for file in files} == {pack.path for pack in window.packs}
    for table in window.tables:
        assert len(table.files) > 1
        assert sum(file.rows for file in table.files) == table.rows == 200


def test_many_changes_of_many_tables_are_written_before_they_fill_the_memory(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgresql.connection.arrow_session.BATCH_BYTES", 1000)
    monkeypatch.setattr(changes_module, "FILE_BYTES", 60_000)
    monkeypatch.setattr(changes_module, "MOST_BYTES", 100_000)
    monkeypatch.setattr(changes_module, "MOST_BATCHES", 3)
    held: list[int] = []
    add = changes_module._Files.add

    def watched(files: Any, batch: Any) -> None:
        add(files, batch)
        held.append(sum(pile.size for pile in files._piles))
        assert files._size == held[-1]
        assert max(len(pile.batches) for pile in files._piles) < 3

    monkeypatch.setattr(changes_module._Files, "add", watched)
    for number in range(5):
        insert = f"insert into public.t{number} select md5(i::text), i from generate_series(1, {300 + 900 * number}) i"
        stream.session.execute(insert.encode())
    window = archived(stream, tmp_path)
    assert max(held) < 100_000
    assert [table.rows for table in window.tables] == [300 + 900 * number for number in range(5)]
    assert len(window.tables[4].files) > 2
    for number, table in enumerate(window.tables):
        found = rows_of(tmp_path, table)
        assert [row["n"] for row in found] == list(range(1, 301 + 900 * number))
        assert [row["__seq"] for row in found] == list(range(0, 2 * len(found), 2))
        assert sum(file.rows for file in table.files) == table.rows


class FullStore(FolderStore):
    """A store that has no room."""

    def open_write(self, key: str) -> Any:
        raise HoldfastError("no room")


def test_a_file_that_could_not_be_stored_fails_the_task(stream: Stream, tmp_path: Path) -> None:
    stream.session.execute("insert into public.t0 values ('a', 1)")
    with pytest.raises(HoldfastError, match="no room"):
        list(reader(stream, FullStore(tmp_path))(stretch(stream), lambda rows, size: None))
    read, first = reader(stream, FullStore(tmp_path)), stretch(stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes_module, "FILE_BYTES", 1)
        patch.setattr("holdfast.postgresql.connection.arrow_session.BATCH_BYTES", 1)
        stream.session.execute("insert into public.t0 select i::text, i from generate_series(1, 100) i")
        with pytest.raises(HoldfastError, match="no room"):
            list(read(first, lambda rows, size: None))
        with pytest.raises(HoldfastError, match="no room"):
            list(reader(stream, FullStore(tmp_path))(stretch(stream), lambda rows, size: None))
    assert pa.total_allocated_bytes() < 1 << 28
