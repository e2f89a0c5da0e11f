"""The index of a block's files: what each holds, and what is wrong with it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.blocks import make_block
from holdfast.archive.files.file_index import (
    NamedFile,
    Problem,
    content_problem,
    files_of,
    size_problem,
    wrong_size,
)
from holdfast.archive.format.block import Transactions
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.document import FileRecord, TableRecord
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(path: str, body: bytes = b"", **more: object) -> FileRecord:
    return FileRecord.model_validate(
        {"path": path, "size": len(body), "sha256": hashlib.sha256(body).hexdigest(), **more}
    )


def table(number: int, *files: FileRecord) -> TableRecord:
    return TableRecord(id=str(number), table_schema="shop", name=f"t{number}", rows=1, digest="", files=files)


def parquet(rows: int) -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), body)
    return body.getvalue()


def named(file: FileRecord, *parts: FileRecord) -> NamedFile:
    return NamedFile(file, "b", 1, "shop", "shop.t1", parts=parts)


def test_every_file_of_a_block_says_what_it_holds() -> None:
    block = make_block(
        identity="b1",
        tables=(
            table(1, record("d/2.parquet"), record("d/p.pack#9")),
            table(2, record("d/p.pack#0")),
            table(1, record("d/1.parquet"), record("d/p.pack#4")),  # changes of another form of the table
        ),
    ).model_copy(
        update={
            "packs": (record("d/p.pack"),),
            "transactions": Transactions(file=record("d/times.parquet"), count=1, first_time=NOON, last_time=NOON),
            "sequences": record("d/sequences.json"),
        }
    )
    found = {file.path: file for file in files_of(Placed(block, 7))}
    assert list(found) == sorted(found)
    assert {path: file.holds for path, file in found.items()} == {
        "d/1.parquet": "shop.t1",
        "d/2.parquet": "shop.t1",
        "d/p.pack": "shop.t2 and 1 more tables",
        "d/sequences.json": "schema",
        "d/times.parquet": "transactions",
        block.catalog.path: "schema",
    }
    assert {(file.block, file.commit, file.source) for file in found.values()} == {("b1", 7, "shop_db")}
    pack = found["d/p.pack"]
    assert [part.path for part in pack.parts] == ["d/p.pack#0", "d/p.pack#4", "d/p.pack#9"]
    assert (pack.tables, found["d/1.parquet"].tables, found["d/times.parquet"].tables) == (("2", "1"), ("1",), ())
    assert not any(file.parts for path, file in found.items() if path != "d/p.pack")


@pytest.mark.parametrize(
    ("size", "said"),
    [(3, None), (2, "x has 2 bytes instead of 3"), (0, "x has 0 bytes instead of 3"), (None, "x is missing")],
)
def test_a_file_of_another_size_or_none_is_a_problem(size: int | None, said: str | None) -> None:
    expected = None if said is None else Problem(said)
    assert wrong_size(record("x", b"abc"), size) == expected
    store = MemoryStore()
    if size is not None:
        store.put("x", b"z" * size)
    asked = len(store.requests)
    assert size_problem(store, record("x", b"abc")) == expected
    assert store.requests[asked:] == ["head x"]


def test_a_file_with_other_bytes_is_a_problem_that_a_copy_may_mend() -> None:
    store, file = MemoryStore(), record("x.json", b"{}")
    for body in (b"[]", b"{} ", b""):
        store.put("x.json", body)
        for is_decoded in (False, True):
            problem = content_problem(store, replace(named(file), is_decoded=is_decoded))
            assert problem is not None
            assert "x.json in memory is damaged" in problem.said
            assert not problem.is_as_written
    store.put("x.json", b"{}")
    assert content_problem(store, named(file)) is None


WRONG: dict[str, tuple[bytes, int, str]] = {
    "fewer rows": (parquet(2), 3, "x.parquet holds 2 rows; its record says 3"),
    "no Parquet": (b"PAR1", 0, "x.parquet has the bytes that were written, and cannot be read as Parquet: "),
    "a broken page": (
        parquet(9)[:20] + b"\xff" * 20 + parquet(9)[40:],
        9,
        "x.parquet has the bytes that were written, and cannot be read as Parquet: ",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_parquet_that_was_written_wrong_is_a_problem_that_no_copy_mends(what: str) -> None:
    body, rows, said = WRONG[what]
    store, file = MemoryStore(), record("x.parquet", body, rows=rows)
    store.put("x.parquet", body)
    problem = content_problem(store, named(file))
    assert problem is not None
    assert problem.said.startswith(said)
    assert problem.is_as_written
    assert content_problem(store, replace(named(file), is_decoded=True)) is None


SPOIL: dict[str, tuple[Callable[[FileRecord], FileRecord], str]] = {
    "another checksum": (
        lambda part: part.model_copy(update={"sha256": "0" * 64}),
        "x.pack#5 is not what its record says, in a pack that has the bytes that were written",
    ),
    "another place": (
        lambda part: part.model_copy(update={"path": "x.pack#4"}),
        "x.pack#4 is not what its record says, in a pack that has the bytes that were written",
    ),
    "another number of rows": (
        lambda part: part.model_copy(update={"rows": 4}),
        "x.pack#5 holds 2 rows; its record says 4",
    ),
}


@pytest.mark.parametrize("what", SPOIL)
def test_each_part_of_a_pack_is_compared_with_its_record(what: str) -> None:
    one, other = parquet(2), parquet(3)
    body = b"PACK." + one + other
    parts = [record("x.pack#5", one, rows=2), record(f"x.pack#{5 + len(one)}", other, rows=3)]
    store, pack = MemoryStore(), record("x.pack", body)
    store.put("x.pack", body)
    assert content_problem(store, named(pack, *parts)) is None
    spoil, said = SPOIL[what]
    for spoilt in ([spoil(parts[0]), parts[1]], [parts[1], spoil(parts[0])]):
        assert content_problem(store, named(pack, *spoilt)) == Problem(said, is_as_written=True)
