"""Recovery targets with a schema put together of two backups': where there can be one, and what it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import FileRecord
from holdfast.common.errors import DamagedError, HoldfastError
from holdfast.point_in_time.composed_target import dump_reader, with_composed_schema
from holdfast.point_in_time.target_contents import catalog_reader
from holdfast.postgresql.dump.dump_objects import DumpObjects
from holdfast.postgresql.logical.schema_composition import Side
from tests.support.archives.archive_fixture import FIXTURES
from tests.support.archives.evolving import touched_between
from tests.support.stores.memory_store import MemoryStore

KNOWN: dict[int, tuple[int, ...]] = {0x180: (1,), 0x280: (2,)}
UNKNOWN = {0x180: (1, 2), 0x280: (1,)}


def earlier(table: int) -> Side:
    return "earlier"


def no_doubt(table: int) -> Side:
    raise AssertionError(f"what table {table} was is known")


def test_it_is_the_same_moment_with_nothing_in_doubt() -> None:
    made, moment, read_dump = touched_between(KNOWN)
    found = with_composed_schema(catalog_reader(made.store), read_dump, moment, no_doubt)
    assert found is not None
    assert (found.position, found.at, found.full, found.chain) == (0x200, moment.at, moment.full, moment.chain)
    assert (found.doubt, found.touches, found.approximate, found.pair) == (None, None, "", moment.doubt)
    assert [len(each.columns) for each in found.composed.catalog.tables] == [3, 2]


def test_it_needs_the_blocks_that_tell_both_schemas() -> None:
    made, moment, read_dump = touched_between(KNOWN)
    found = with_composed_schema(catalog_reader(made.store), read_dump, moment, no_doubt)
    assert found is not None
    assert moment.doubt is not None
    assert found.commit == max(placed.number for placed in moment.doubt) == 2
    assert {placed.id for placed in found.blocks()} == {placed.id for placed in moment.doubt}
    assert len(found.blocks()) == len({placed.id for placed in found.blocks()})
    bare = replace(found, schema=moment.full, chain=replace(found.chain, changes=()))
    assert bare.commit == 2  # though nothing else of it is needed


def test_what_was_touched_on_both_sides_is_weighed_and_named() -> None:
    made, moment, read_dump = touched_between(UNKNOWN)
    found = with_composed_schema(catalog_reader(made.store), read_dump, moment, earlier)
    assert found is not None
    assert found.composed.doubtful == {1: "earlier"}
    assert found.approximate == (
        "definitions were changed between 2026-03-01T12:01:00.000000Z and 2026-03-01T12:02:00.000000Z more than once; "
        "these may not be as they were then: table shop.t1"
    )


def failing(file: FileRecord) -> DumpObjects:
    raise HoldfastError("there is no pg_restore")


def test_where_a_schema_cannot_be_read_there_is_none() -> None:
    made, moment, read_dump = touched_between(KNOWN)
    read = catalog_reader(made.store)
    assert with_composed_schema(read, failing, moment, no_doubt) is None
    assert moment.doubt is not None
    made.store.put(moment.doubt[1].block.catalog.path, b"damaged")
    assert with_composed_schema(catalog_reader(made.store), read_dump, moment, no_doubt) is None


def test_where_it_is_not_known_what_was_touched_when_there_is_none() -> None:
    made, moment, _ = touched_between(KNOWN)
    for unknown in (replace(moment, doubt=None), replace(moment, touches=None)):
        assert with_composed_schema(catalog_reader(made.store), failing_loudly, unknown, no_doubt) is None


def failing_loudly(file: FileRecord) -> DumpObjects:
    raise AssertionError(file)


def test_without_a_dump_of_either_there_is_none() -> None:
    made, moment, read_dump = touched_between(KNOWN)
    assert moment.doubt is not None
    first, second = moment.doubt
    blind = type(second)(second.block.model_copy(update={"schema_dump": None}), second.commit)
    for pair in ((first, blind), (blind, second)):
        assert with_composed_schema(
            catalog_reader(made.store), read_dump, replace(moment, doubt=pair), no_doubt
        ) is None  # fmt: skip


def test_a_dump_is_read_once_and_a_damaged_one_named() -> None:
    store, body = MemoryStore(), next(FIXTURES.glob("format-1/data/**/*.dump")).read_bytes()
    file = write_bytes(store, "schema.dump", body)
    store.requests.clear()
    read = dump_reader(store)
    found = read(file)
    assert {"sale", "customer"} <= {each.name for each in found.entries if each.kind == "TABLE"}
    assert read(file) is found
    assert store.requests == ["get schema.dump"]
    store.put("schema.dump", body[:-1])
    with pytest.raises(DamagedError, match=r"^schema\.dump in memory is damaged"):
        dump_reader(store)(file)
