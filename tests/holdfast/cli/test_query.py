"""`holdfast query`: what it shows of tables at a moment, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive, locks
from holdfast.cli.query import plain
from holdfast.storage import ObjectStore, open_store
from locking import Owner, RWLock
from tests.support.archives.queried import fill
from tests.support.jobs.command import RunCommand

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("queried") / "archive"
    return folder, fill(Archive.create(open_store(str(folder)), name="shop").store)


@pytest.fixture
def store(template: tuple[Path, list[str]], tmp_path: Path) -> ObjectStore:
    return open_store(str(shutil.copytree(template[0], tmp_path / "archive")))


@pytest.fixture
def files(template: tuple[Path, list[str]]) -> list[str]:
    return template[1]


def rows(holdfast: RunCommand, store: ObjectStore, sql: str, *more: str) -> list[list[Any]]:
    done = holdfast("query", store.url, sql, *more, "--json")
    assert done.code == 0, done.err
    return list(done.value["rows"])


def test_one_object_tells_the_moment_the_columns_and_what_is_not_as_in_the_database(
    holdfast: RunCommand, store: ObjectStore
) -> None:
    done = holdfast("query", store.url, "select * from orders where id = 4", "--json")
    assert done.value["at"] == {"time": "2026-03-01T13:00:00.000000Z", "position": "0/7D0", "commit": 2}
    assert [each["name"] for each in done.value["columns"]] == [
        "id", "day", "text", "note", "price", "day__exact", "price__exact",
    ]  # fmt: skip
    assert done.value["rows"] == [[4, None, "new", "n", "4.00", "infinity", None]]
    assert done.value["notes"] == ["shop.orders: generated columns are left out: twice"]
    assert done.value["notes"] == done.err.splitlines()[1:]
    assert "the newest restorable moment of shop_db is " in done.err


def test_people_get_a_table_and_are_told_where_it_is_cut(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("query", store.url, "select id, price from orders order by id", "--limit", "2")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[:3]] == [["id", "price"], ["1", "1.50"], ["3", "3.00"]]
    assert done.out.splitlines()[3] == "2 rows, and more; shop_db as of 2026-03-01T13:00:00.000000Z, 0/7D0"
    assert "only the first 2 rows shown: --limit shows more" in done.err


LONG = "select id, repeat('x', 300) as long, " + ", ".join(f"{n} as column_{n}" for n in range(60)) + " from orders"


def test_no_cell_and_no_column_is_cut(holdfast: RunCommand, store: ObjectStore) -> None:
    head, row, *_ = holdfast("query", store.url, f"{LONG} where id = 1").out.splitlines()
    assert head.split() == ["id", "long", *(f"column_{n}" for n in range(60))]
    assert row.split() == ["1", "x" * 300, *map(str, range(60))]


VALUES = """select id, null as nothing, '' as empty, 'a "b", c' as quoted, [1, 2] as list, true as yes
from orders where id < 4 order by id"""


def test_rows_alone_come_as_csv_or_as_lines_of_json(holdfast: RunCommand, store: ObjectStore) -> None:
    done = holdfast("query", store.url, VALUES, "--format", "csv")
    assert done.out.splitlines() == [
        "id,nothing,empty,quoted,list,yes",
        '1,,"","a ""b"", c","[1, 2]",true',
        '3,,"","a ""b"", c","[1, 2]",true',
    ]
    assert "2 rows; shop_db as of 2026-03-01T13:00:00.000000Z, 0/7D0" in done.err
    done = holdfast("query", store.url, VALUES, "--format", "jsonl")
    row = {"nothing": None, "empty": "", "quoted": 'a "b", c', "list": [1, 2], "yes": True}
    assert [json.loads(line) for line in done.out.splitlines()] == [{"id": 1, **row}, {"id": 3, **row}]
    whole = holdfast("query", store.url, VALUES, "--format", "json").value
    assert whole["rows"][0] == [1, *row.values()]
    done = holdfast("query", store.url, "select id, id from orders", "--format", "jsonl")
    assert (done.code, done.out) == (2, "")
    assert "two columns are called id: rename one with AS" in done.err
    assert holdfast("query", store.url, "selec", "--format", "json").value["exit_code"] == 2


def test_tables_can_be_listed_and_joined_with_themselves(holdfast: RunCommand, store: ObjectStore) -> None:
    listed = rows(holdfast, store, "select table_schema || '.' || table_name from information_schema.tables")
    assert ["shop.orders"] in listed
    assert rows(holdfast, store, "describe shop.orders")[0][:2] == ["id", "BIGINT"]
    twice = "with o as (select * from orders) select count(*) from o join shop.orders p using (id) where p.price > 2"
    assert rows(holdfast, store, twice) == [[2]]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("selec 1", "syntax error"),
        ("select * from '/etc/passwd'", "does not exist"),
        ("select * from read_csv('/etc/passwd')", "disabled by configuration"),
        ("select * from read_parquet('https://localhost/x')", "disabled by configuration"),
        ("select * from store", "does not exist"),
        ("copy orders to '/tmp/orders.csv'", "a query is one statement that reads"),
        ("set memory_limit = '1TB'", "a query is one statement that reads"),
        ("attach '/tmp/x.db'", "a query is one statement that reads"),
    ],
)
def test_what_is_wrong_with_a_query_is_one_sentence_and_code_2(
    holdfast: RunCommand, store: ObjectStore, sql: str, words: str
) -> None:
    done = holdfast("query", store.url, sql, "--json")
    assert done.code == 2
    assert words in done.value["error"]
    assert len(done.err.splitlines()) == 1


def test_a_damaged_file_is_said_and_code_4(holdfast: RunCommand, store: ObjectStore, files: list[str]) -> None:
    body = bytearray(store.get(files[0]))
    body[body.index(b"infinity")] ^= 0x40  # in a page
    store.put(files[0], bytes(body))
    done = holdfast("query", store.url, "select * from orders", "--json")
    assert (done.code, done.out.count("\n")) == (4, 1)
    assert "damaged" in done.value["error"] or files[0] in done.value["error"]


def test_a_vacuum_keeps_queries_out_and_nothing_stays_locked(holdfast: RunCommand, store: ObjectStore) -> None:
    with RWLock(store, "history", owner=Owner()).write(purpose="vacuum"):
        assert holdfast("query", store.url, "select 1").code == 3
    assert holdfast("query", store.url, "selec 1").code == 2
    assert locks.blockers(store, "vacuum") == []


def test_moments_that_are_not_there_and_sizes_that_are_none_are_refused(
    holdfast: RunCommand, store: ObjectStore
) -> None:
    assert holdfast("query", store.url, "select 1", "--at", "2020-01-01T00:00:00Z").code == 5
    assert holdfast("query", store.url, "select 1", "--memory", "much").code == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("nan"), "NaN"), (float("-inf"), "-Infinity"), (b"\x00\xff", "\\x00ff"), ([{"a": 1.5}], [{"a": 1.5}])],
)
def test_values_that_json_lacks_become_text(value: Any, shown: Any) -> None:
    assert plain(value) == shown
