"""SQL on the tables of a moment: only what it names is read, and what is not as in the database is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.history import target_resolution
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.common.errors import DamagedError, HoldfastError, UsageError
from holdfast.point_in_time.query import ROWS, Query
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.evolving import ID, PRICE, WORD, Evolving, catalog, column, table
from tests.support.archives.queried import fill

MEMORY = 64 << 20


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An archive, and the files of its snapshot of `shop.orders`."""
    folder = tmp_path_factory.mktemp("queried") / "archive"
    return folder, fill(Archive.create(open_store(str(folder)), name="shop").store)


@pytest.fixture
def store(filled: tuple[Path, list[str]], tmp_path: Path) -> ObjectStore:
    return open_store(str(shutil.copytree(filled[0], tmp_path / "archive")))


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    (folder := tmp_path / "spill").mkdir()
    return folder


def moment_at(store: ObjectStore, at: str) -> RecoveryTarget:
    return target_resolution.resolve(Archive.open(store).state, store, "shop_db", at)


def query(
    store: ObjectStore, sql: str, spill: Path, at: str | RecoveryTarget = "latest", memory: int = MEMORY
) -> Query:
    moment = moment_at(store, at) if isinstance(at, str) else at
    return Query(store, moment, sql, memory_bytes=memory, spill=spill)


def rows(asked: Query) -> list[list[Any]]:
    return [list(row.values()) for batch in asked.rows() for row in batch.to_pylist()]


def test_rows_are_those_of_the_moment(store: ObjectStore, spill: Path) -> None:
    for number, (at, found) in enumerate(
        {
            "commit:1": [[1, "a"], [2, "b"], [3, "c"]],
            "before delete": [[1, "changed"], [2, "b"], [3, "c"]],
            "latest": [[1, "changed"], [3, "c"], [4, "new"]],
        }.items()
    ):
        (folder := spill / str(number)).mkdir()
        assert rows(query(store, "select id, text from shop.orders order by id", folder, at)) == found


def test_only_files_of_tables_that_are_named_are_read(
    store: ObjectStore, filled: tuple[Path, list[str]], spill: Path
) -> None:
    for path in filled[1]:
        store.delete(path)
    assert rows(query(store, "select 'o' as o, count(*) from old.places", spill)) == [["o", 1]]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select id as number from orders where id > 9", ["number"]),
        ("select id, text from orders limit 0", ["id", "text"]),
        ("select id, count(*) as n from orders where false group by id", ["id", "n"]),
    ],
)
def test_a_result_without_rows_has_its_columns(store: ObjectStore, spill: Path, sql: str, names: list[str]) -> None:
    (batch,) = query(store, sql, spill).rows()
    assert (batch.schema.names, batch.num_rows) == (names, 0)


def test_a_result_comes_in_batches_of_bounded_size(store: ObjectStore, spill: Path) -> None:
    found = list(query(store, f"select * from range({3 * ROWS})", spill).rows())
    assert [row for batch in found for row in batch.column(0).to_pylist()] == list(range(3 * ROWS))
    assert max(batch.num_rows for batch in found) <= ROWS


def test_what_is_not_as_in_the_database_is_said_of_the_tables_used(store: ObjectStore, spill: Path) -> None:
    asked = query(store, "select count(*) from orders, old.places", spill)
    rows(asked)
    assert asked.notes == [
        "shop.orders: generated columns are left out: twice",
        "old.places: as the text that PostgreSQL writes: at (point)",
    ]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select 1; select 2", "a query is one statement that reads, such as: select count"),
        ("", "a query is one statement that reads"),
        ("insert into orders values (1)", "a query is one statement that reads"),
        ("set memory_limit = '1TB'", "a query is one statement that reads"),
        (
            "select * from shop.nope",
            r"nope.* does not exist.*; tables here are shop\.orders, shop\.Places, old\.places",
        ),
        ("select nope from orders", '"nope" not found'),
        ("selec 1", "syntax error"),
        ("select text::int from orders", "Could not convert"),
        ("select * from '/etc/passwd'", "does not exist"),
        ("select * from store", "does not exist"),
    ],
)
def test_a_wrong_query_is_one_sentence_about_it(store: ObjectStore, spill: Path, sql: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        rows(query(store, sql, spill))
    assert "\n" not in str(refused.value)


def test_a_query_that_needs_more_memory_says_so(store: ObjectStore, spill: Path) -> None:
    sql = "select list(range) from range(10000000)"
    with pytest.raises(HoldfastError, match=r"^the query needs more memory than --memory allows: "):
        rows(query(store, sql, spill, memory=8 << 20))


def test_a_damaged_file_is_named_and_not_the_query(
    store: ObjectStore, filled: tuple[Path, list[str]], spill: Path
) -> None:
    (path,) = filled[1]
    store.put(path, store.get(path)[:-20])
    with pytest.raises(DamagedError, match=path):
        rows(query(store, "select * from orders", spill))


# Tables that differ from backup to backup; they have no rows here


def test_a_partitioned_table_has_the_rows_of_its_partitions_in_any_schema(store: ObjectStore, spill: Path) -> None:
    assert rows(query(store, "select * from all_places", spill)) == [["here", "(1,2)"]]
    made = Evolving()
    parent = table(1, kind="p")
    made.full(0x100, catalog(parent, table(2, column(WORD, number=1), parents=(1,), table_schema="other"), table(3)))
    (second := spill / "second").mkdir()
    assert rows(query(made.store, "select count(*) from shop.t1", second, made.moment(0x100))) == [[0]]
    alone = Evolving()
    alone.full(0x100, catalog(parent))
    (batch,) = query(alone.store, "select * from t1", spill, alone.moment(0x100)).rows()
    assert (batch.schema.names, batch.num_rows) == (["id", "word"], 0)


def test_rows_of_before_are_said_to_be_and_those_that_do_not_fit_are_refused(spill: Path) -> None:
    made = Evolving()
    made.full(0x100, catalog(table(1), table(2)))
    made.followed.clear()
    made.not_followed = {f"shop.t{number}": "it has no key" for number in (1, 2, 3)}
    made.changes(0x200, catalog(table(1), table(2, ID, WORD, PRICE, filenode=9), table(3)))
    moment = made.moment(0x200)
    asked = query(made.store, "select * from t1", spill, moment)
    assert (rows(asked), asked.notes) == ([], ["shop.t1 is shown as of 2026-03-01T12:01:00.000000Z: it has no key"])
    for name, why in (("t2", "it has no key; its rows of .* do not fit"), ("t3", "its rows are in no backup of that")):
        with pytest.raises(UsageError, match=rf"shop\.{name} cannot be read: {why}"):
            rows(query(made.store, f"select * from {name}", spill, moment))
        assert rows(query(made.store, f"describe {name}", spill, moment))[0][:2] == ["id", "BIGINT"]


def test_where_the_schema_is_not_known_that_is_said_first_and_of_a_name_that_is_not_there(spill: Path) -> None:
    made = Evolving()
    made.full(0x100, catalog(table(1)))
    made.changes(0x300, catalog(table(1), table(2)))
    moment = made.moment(0x200)
    asked = query(made.store, "select * from t2", spill, moment)
    assert asked.notes == [moment.approximate]
    with pytest.raises(UsageError, match=r"tables here are shop\.t1; the schema was changed between"):
        rows(asked)
