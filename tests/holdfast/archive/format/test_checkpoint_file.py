"""The file of a checkpoint: it holds the state whole, and one that was not written so is not believed."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.support.blocks import make_block
from holdfast.archive.format.block import Block, Stream
from holdfast.archive.format.block_ref import Placed
from holdfast.archive.format.checkpoint import checkpoint_key
from holdfast.archive.format.checkpoint_file import from_bytes, to_bytes
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.format.model import ArchiveCommit, Hold, LogPlace
from holdfast.archive.format.state import Removed, State
from holdfast.archive.format.versions import FORMAT
from holdfast.common.errors import DamagedError
from holdfast.storage.contract.object_store import StoredDocument
from tests.support.stores.memory_store import MemoryStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = checkpoint_key(2)
OWN = FileRecord(path="data/shop_db/7/snapshot/b1/0-1.parquet", size=100, sha256="a" * 64, rows=10)
OTHERS = OWN.model_copy(update={"path": "data/shop_db/7/snapshot/b0/0-1.parquet"})


def block(identity: str, followed: int | None) -> Block:
    table = TableRecord(
        id="7", table_schema="shop", name="orders", rows=10, digest="10:1", files=(OWN, OTHERS), columns=({"n": "id"},)
    )
    made = make_block(identity=identity, tables=(table,))
    if followed is None:
        return made
    stream = Stream(
        slot="s", position="0/1", publication="s", publication_oid=1, followed={7: followed}, not_followed={"t": "why"}
    )
    return made.model_copy(update={"stream": stream})


BLOCKS = (block("b1", 70), block("b2", 70), block("b3", 71), block("b4", None))


@pytest.fixture
def store() -> MemoryStore:
    """A store with the commit that added all blocks."""
    made = MemoryStore()
    commit = ArchiveCommit(
        format=FORMAT, sequence=1, id="c1", parent=None, kind="backup", min_reader=1, min_writer=1, fence=None,
        committed_at=NOON, writer="a test", add=BLOCKS,
    )  # fmt: skip
    made.put(commit_key(1), commit.to_bytes())
    return made


def full_state() -> State:
    """A state with something in each of its parts."""
    gone = Removed(id="g", source="shop_db", added=1, removed=2, at=NOON)
    hold = Hold(id="h", source="shop_db", position="0/1", at=NOON, owner="me", reason="audit", created=NOON)
    return State(
        sequence=2,
        tip="c2",
        tip_checksum="0" * 64,
        format=FORMAT,
        min_reader=3,
        min_writer=4,
        vouched_by=2,
        documents={"archive.json": "0" * 64},
        void=frozenset({1}),
        superseded={"gone": 7},
        at=NOON,
        blocks={each.id: Placed(each, 1, number=9 if each.id == "b2" else None) for each in BLOCKS},
        removed={"g": gone},
        holds={"h": hold},
        abandoned=frozenset({"x", "y"}),
        ends={"shop_db": "0/100"},
        streams={"shop_db": "0/80"},
        log=LogPlace(store="etc", replica="one", index=5),
        aside={"a": gone.model_copy(update={"id": "a"})},
    )


def read(store: MemoryStore, archive: str, body: bytes) -> State:
    return from_bytes(store, archive, StoredDocument(body, body), KEY)


def test_the_state_is_read_as_it_was_written(store: MemoryStore) -> None:
    state = full_state()
    assert {each.name for each in fields(State) if getattr(state, each.name) == getattr(State(), each.name)} == {
        "cut_off"
    }
    found = read(store, "id", to_bytes("id", state, "c2", NOON))
    assert found == state
    assert [placed.number for placed in found.blocks.values()] == [1, 9, 1, 1]


def test_heads_are_read_without_a_request_and_lack_what_the_commit_tells(store: MemoryStore) -> None:
    found = read(store, "id", to_bytes("id", full_state(), "c2", NOON)).blocks
    assert store.requests == [f"put {commit_key(1)}"]
    assert [placed.head.stream for placed in found.values()] == [each.stream for each in BLOCKS]
    (table,) = found["b1"].head.tables
    assert (table.label, table.rows, table.columns, table.files) == ("shop.orders", 10, (), (OTHERS,))
    assert [placed.size for placed in found.values()] == [each.size for each in BLOCKS]
    assert [placed.rows for placed in found.values()] == [10] * 4
    assert store.requests == [f"put {commit_key(1)}"]
    assert found["b1"].block == BLOCKS[0]
    assert store.requests[1:] == [f"get {commit_key(1)}"]


def test_a_commit_that_does_not_add_the_block_is_named(store: MemoryStore) -> None:
    state = replace(full_state(), blocks={"b9": Placed(block("b9", None), 1)})
    found = read(store, "id", to_bytes("id", state, "c2", NOON))
    with pytest.raises(DamagedError, match=f"^{commit_key(1)} does not add block b9: it is not what was written$"):
        assert found.blocks["b9"].block


def rewritten(body: bytes, change: str) -> bytes:
    """Write a checkpoint anew with one value that is another, under the same header."""
    table = pq.read_table(pa.BufferReader(body))
    if change == "type":
        table = table.set_column(1, "commit", table["commit"].cast(pa.int32()))
    elif change == "fewer":
        table = table.slice(1)
    elif change == "header":
        table = table.replace_schema_metadata({})
    elif change == "order":
        table = table.take([1, 0, 2, 3])
    else:
        column = table.schema.field(change)
        values = table[change].to_pylist()
        values[0] = values[0] + 1 if pa.types.is_integer(column.type) else values[0][:-1]
        table = table.set_column(table.schema.get_field_index(change), column, pa.array(values, column.type))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "change",
    ["id", "commit", "source", "rows", "size", "head", "tables_followed", "type", "fewer", "header", "order"],
)
def test_a_file_with_any_other_value_is_not_believed(store: MemoryStore, change: str) -> None:
    body = to_bytes("id", full_state(), "c2", NOON)
    with pytest.raises(DamagedError, match=f"^{KEY} is damaged"):
        read(store, "id", rewritten(body, change))


@pytest.mark.parametrize(("archive", "key"), [("other", KEY), ("id", checkpoint_key(3))])
def test_a_checkpoint_of_another_archive_or_commit_is_not_believed(store: MemoryStore, archive: str, key: str) -> None:
    body = to_bytes("id", full_state(), "c2", NOON)
    with pytest.raises(DamagedError, match=f"^{key} is damaged: it is not what was written under this name$"):
        from_bytes(store, archive, StoredDocument(body, body), key)
