"""The stream of a real server: each case is what a database does, and what the change rows say of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.common.lsn import parse_position, show_position
from holdfast.postgresql.connection import arrow_session
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.peek import DECODING_MEMORY, SkippedChangesError, peek_query
from holdfast.postgresql.logical.window_reader import SeenMark
from tests.support.databases.streams import Change, Stream, changes_of, open_stream, replayed
from tests.support.jobs.command import until
from tests.support.servers.versions import running

pytestmark = pytest.mark.service

_BIG = "(select string_agg(md5(i::text || {}), '') from generate_series(1, 300) i)"
"""Text that is moved out of its row, and stays large when it is compressed."""

OpenStream = Callable[..., Stream]


@pytest.fixture
def open_tables(address: Address) -> Iterator[OpenStream]:
    """Makes tables by statements, and opens a stream of all of them, or of some."""
    opened = []

    def make(*statements: str, tables: str = "public.t") -> Stream:
        with connect(address) as session:
            for statement in statements:
                session.execute(statement.encode())
        context = open_stream(address, tables)
        opened.append(context)
        return context.__enter__()

    yield make
    for context in opened:
        context.__exit__(None, None, None)


def run(stream: Stream, *statements: str) -> None:
    for statement in statements:
        stream.session.execute(statement.encode())


def rows_of(stream: Stream, table: str = "public.t") -> list[dict[int, Any]]:
    """Return a table's rows by the numbers of its columns."""
    names = stream.session.execute(
        "select attnum::int4, attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0 "
        "and not attisdropped and attgenerated = '' order by 1",
        (table,),
    ).fetchall()
    listed = ", ".join(f'"{name}"' for _, name in names)
    found = stream.session.execute(f"select {listed} from {table}".encode()).fetchall()
    return [dict(zip([number for number, _ in names], row, strict=True)) for row in found]


def shown(changes: list[Change]) -> list[tuple[str, Any]]:
    return [(change.op, change.values) for change in changes]


def test_rows_that_come_change_and_go(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key, word text, day date)")
    run(
        stream,
        "insert into public.t values (1, 'one', '2024-01-01'), (2, null, 'infinity')",
        "begin",
        "update public.t set word = 'two' where id = 2",
        "update public.t set id = 3 where id = 1",
        "delete from public.t where id = 2",
        "commit",
    )
    batches, window = stream.read()
    [batch] = batches
    changes = changes_of(batches, stream.oid("public.t"))
    assert [(change.op, change.seq) for change in changes] == [
        ("I", 0), ("I", 2), ("U", 0), ("D", 2), ("I", 3), ("D", 4),
    ]  # fmt: skip
    assert [change.values[1] for change in changes] == [1, 2, 2, 1, 3, 2]
    assert [change.values[2] for change in changes] == ["one", None, "two", None, "one", None]
    assert batch.rows.column("day__exact").to_pylist() == [None, "infinity", "infinity", None, None, None]
    first, second = sorted({change.lsn for change in changes})
    assert (batch.first, batch.last) == (first, second)
    assert batch.form.key == (1,)
    transactions = [row for part in window.transactions for row in part.to_pylist()]
    assert [row["lsn"] for row in transactions] == [first, second]
    assert all(row["lsn"] < row["end_lsn"] <= parse_position(window.to_position) for row in transactions)
    assert (window.ddl, window.marks, window.bounded, window.uncertain) == ((), (), False, frozenset())


_TABLES = {
    "a key": "create table public.t (id int, word text, n numeric(8,2), big text, primary key (id))",
    "a key of two, backwards": "create table public.t (id int, word text, n numeric(8,2), big text, unique (id), "
    "primary key (word, id))",
    "an index": "create table public.t (id int not null, word text not null, n numeric(8,2), big text, "
    "constraint u unique (id, word)); alter table public.t replica identity using index u",
    "a key that may be moved out": "create table public.t (id int, word text, n numeric(8,2), big text, "
    "extra text not null default 'x', primary key (id, extra)); alter table public.t alter extra set storage external",
    "whole rows and a key": "create table public.t (id int primary key, word text, n numeric(8,2), big text); "
    "alter table public.t replica identity full",
    "whole rows": "create table public.t (id int, word text, n numeric(8,2), big text); "
    "alter table public.t replica identity full",
}


@pytest.mark.parametrize("what", _TABLES)
@pytest.mark.parametrize("batch_bytes", [1, 8 << 20])
def test_changes_applied_to_nothing_give_the_table(
    open_tables: OpenStream, what: str, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_session, "BATCH_BYTES", batch_bytes)
    stream = open_tables(_TABLES[what])
    draw = random.Random(7)
    for number in range(120):
        keys = ", ".join(str(draw.randrange(number + 1)) for _ in range(8))
        choice = draw.choice(("insert", "insert", "insert", "update", "move", "toast", "delete", "begin", "end"))
        if what.startswith("a key that"):
            toasted = f"insert into public.t values ({number}, 'k', 1, null, repeat(md5('{number}'), 70))"
        else:
            toasted = f"insert into public.t values ({number}, 'k', 1, {_BIG.format(number)})"
        run(
            stream,
            {
                "insert": toasted,
                "update": f"update public.t set n = n + 0.25, word = word where id in ({keys})",
                "move": f"update public.t set id = id + 1000 + {number} where id in ({keys})",
                "toast": f"update public.t set big = {_BIG.format(-number)} where id in ({keys})",
                "delete": f"delete from public.t where id in ({keys})",
                "begin": "commit" if stream.session.info.transaction_status else "begin",
                "end": "rollback" if stream.session.info.transaction_status else "select 1",
            }[choice],
        )
    if stream.session.info.transaction_status:
        run(stream, "commit")
    batches, _ = stream.read()
    changes = changes_of(batches, stream.oid("public.t"))
    key = batches[0].form.key
    assert {batch.form for batch in batches} == {batches[0].form}
    assert [(each.lsn, each.seq) for each in changes] == sorted({(each.lsn, each.seq) for each in changes})
    assert bool(key) == (what != "whole rows")
    assert {"I", "D"} <= {change.op for change in changes}
    assert ("U" in {change.op for change in changes}) == (what != "whole rows")
    if "whole" not in what and "moved out" not in what:
        assert any(change.unchanged for change in changes)
    assert sorted(map(repr, replayed(changes, key, []))) == sorted(map(repr, rows_of(stream)))


def test_what_did_not_change_and_is_not_in_the_log_is_named(open_tables: OpenStream) -> None:
    stream = open_tables(
        "create table public.t (id int primary key, gone int, one text, two text)",
        "alter table public.t drop gone",
        f"insert into public.t values (1, {_BIG.format(1)}, {_BIG.format(2)})",
    )
    run(
        stream,
        "update public.t set two = 'short'",
        "update public.t set id = 2",
        "update public.t set one = null",
    )
    assert [(change.op, change.unchanged) for change in stream.changes("public.t")] == [
        ("U", (3,)), ("D", ()), ("I", (3,)), ("U", ()),
    ]  # fmt: skip


def test_one_statement_empties_tables_in_the_middle_of_a_transaction(open_tables: OpenStream) -> None:
    stream = open_tables(
        "create table public.t (id int primary key, day date)",
        "create table public.u (id int primary key references public.t)",
        "create table public.other (id int)",
        tables="public.t, public.u",
    )
    run(
        stream,
        "begin",
        "insert into public.t values (1)",
        "insert into public.u values (1)",
        "truncate public.t, public.u, public.other",
        "insert into public.t values (2)",
        "commit",
    )
    batches, _ = stream.read()
    t, u = (changes_of(batches, stream.oid(name)) for name in ("public.t", "public.u"))
    assert [(change.op, change.seq, change.values[1]) for change in t] == [("I", 0, 1), ("T", 4, None), ("I", 6, 2)]
    assert [(change.op, change.seq, change.values[1]) for change in u] == [("I", 2, 1), ("T", 4, None)]


def test_only_what_was_committed_comes_with_its_commit() -> None:
    with running(PostgresServer(settings={"max_prepared_transactions": "2"})) as server:
        address = Address(server.url(), server.password)
        with connect(address) as session:
            session.execute("create table public.t (id int primary key)")
        with open_stream(address, "public.t") as stream:
            run(stream, "begin", "insert into public.t values (1)", "savepoint a", "insert into public.t values (2)")
            run(stream, "rollback to a", "savepoint b", "insert into public.t values (3)", "release b", "commit")
            run(stream, "begin", "insert into public.t values (4)", "rollback")
            run(stream, "begin", "insert into public.t values (5)", "prepare transaction 'p'")
            run(stream, "insert into public.t values (6)")
            assert [change.values[1] for change in stream.changes("public.t")] == [1, 3, 6]
            run(stream, "commit prepared 'p'", "insert into public.t values (7)")
            assert [change.values[1] for change in stream.changes("public.t")] == [1, 3, 6, 5, 7]


def test_each_form_of_a_table_has_the_numbers_of_its_columns(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key, a int, b varchar(5))")
    insert = "insert into public.t values ({})"
    run(
        stream,
        insert.format("1, 10, 'x'"),
        "begin",
        "alter table public.t add c numeric(5,1) default 7",
        insert.format("2, 20, 'y', 1.5"),
        "commit",
        "alter table public.t drop a",
        "alter table public.t alter b type varchar(50)",
        insert.format("3, 'z', 2.5"),
        "alter table public.t alter b type text, add temporary_one int",
        insert.format("4, 'w', 3.5, 99"),
        "alter table public.t drop temporary_one",
        "alter table public.t rename b to bb",
        "alter table public.t alter c type numeric(9,1)",
        "alter table public.t add d int",
        insert.format("5, 'v', 12345.5, 6"),
    )
    batches, window = stream.read()
    assert [[(each.number, each.name, each.type) for each in batch.form.columns] for batch in batches] == [
        [(1, "id", "integer"), (2, "a", "integer"), (3, "b", "character varying(5)")],
        [(1, "id", "integer"), (2, "a", "integer"), (3, "b", "character varying(5)"), (4, "c", "numeric(5,1)")],
        [(1, "id", "integer"), (3, "b", "character varying(50)"), (4, "c", "numeric(5,1)")],
        [(1, "id", "integer"), (3, "b", "text"), (4, "c", "numeric(5,1)"), (-4, "temporary_one", "integer")],
        [(1, "id", "integer"), (3, "bb", "text"), (4, "c", "numeric(9,1)"), (-4, "d", "integer")],
    ]
    changes = changes_of(batches, stream.oid("public.t"))
    assert window.ddl == tuple(f"{change.lsn >> 32:X}/{change.lsn & 0xFFFFFFFF:X}" for change in changes[1:])
    assert [str(change.values.get(4)) for change in changes] == ["None", "1.5", "2.5", "3.5", "12345.5"]
    # The last column of the fourth form, and that of the fifth, may each be number 5 or number 6.
    assert window.uncertain == {stream.oid("public.t")}


def test_a_column_that_was_dropped_and_made_anew_is_not_taken_for_the_old_one(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key, a int)")
    run(
        stream,
        "insert into public.t values (1, 1)",
        "alter table public.t drop a, add a int",
        "insert into public.t values (2, 2)",
    )
    batches, window = stream.read()
    assert {tuple(each.number for each in batch.form.columns) for batch in batches} == {(1, -2)}
    assert window.uncertain == {stream.oid("public.t")}


def test_tables_and_types_that_are_gone_are_read_as_they_were(open_tables: OpenStream) -> None:
    stream = open_tables(
        "create type public.mood as enum ('sad', 'happy')",
        "create domain public.positive as int check (value > 0)",
        "create table public.t (id int primary key, mood public.mood, number public.positive)",
    )
    oid = stream.oid("public.t")
    run(
        stream,
        "insert into public.t values (1, 'sad', 7)",
        "drop table public.t",
        "drop type public.mood",
        "drop domain public.positive",
    )
    batches, window = stream.read()
    assert shown(changes_of(batches, oid)) == [("I", {1: 1, 2: "sad", 3: 7})]
    assert (window.ddl, window.uncertain) == ((), frozenset())
    batches, _ = stream.read(before=None)
    assert shown(changes_of(batches, oid)) == [("I", {-1: 1, -2: "sad", -3: 7})]


def test_generated_columns_and_tables_without_columns(open_tables: OpenStream) -> None:
    stream = open_tables(
        "create table public.t (id int primary key, twice int generated always as (id * 2) stored, word text)",
        "create table public.nothing ()",
        'create table public.odd ("__lsn" int primary key, "__op" text, "__op_" text)',
        tables="public.t, public.nothing, public.odd",
    )
    run(stream, "insert into public.t values (1, default, 'a')", "insert into public.nothing default values")
    run(stream, "insert into public.odd values (1, 'a', 'b')", "truncate public.nothing")
    batches, _ = stream.read()
    assert shown(changes_of(batches, stream.oid("public.t"))) == [("I", {1: 1, 3: "a"})]
    assert [change.op for change in changes_of(batches, stream.oid("public.nothing"))] == ["I", "T"]
    assert shown(changes_of(batches, stream.oid("public.odd"))) == [("I", {1: 1, 2: "a", 3: "b"})]
    assert batches[-1].rows.schema.names == ["__lsn", "__op", "__op_", "__lsn_", "__seq", "__op__", "__unchanged"]


def test_marks_and_the_transactions_that_count(open_tables: OpenStream) -> None:
    stream = open_tables(
        "create table public.t (id int primary key)", "create table public.u (id int)", tables="public.t, public.u"
    )
    emit = "select pg_logical_emit_message({}, '{}', '{}')"
    run(
        stream,
        "insert into public.u values (1)",
        emit.format("true", "holdfast", '{"mark": "before the sale"}'),
        emit.format("true", "somebody", '{"mark": "no"}'),
        emit.format("true", "holdfast", '["mark"]'),
        emit.format("true", "holdfast", "no json"),
        emit.format("false", "holdfast", '{"mark": "of no transaction"}'),
        "begin",
        "insert into public.t values (1)",
        emit.format("true", "holdfast", '{"mark": "é", "id": "abc"}'),
        "insert into public.t values (2)",
        "commit",
    )
    for size in (1, 8 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrow_session, "BATCH_BYTES", size)
            batches, window = stream.read(followed=frozenset({stream.oid("public.t")}))
        assert [batch.form.name for batch in batches] == ["t"] * len(batches)
        transactions = [row for part in window.transactions for row in part.to_pylist()]
        assert len(transactions) == 2
        assert list(window.marks) == [
            SeenMark(name, f"{row['end_lsn'] >> 32:X}/{row['end_lsn'] & 0xFFFFFFFF:X}", row["committed_at"], id)
            for (name, id), row in zip((("before the sale", ""), ("é", "abc")), transactions, strict=True)
        ]
        assert [change.seq for change in changes_of(batches, stream.oid("public.t"))] == [0, 4]
        commit_times = [row["committed_at"] for row in transactions]
        row = stream.session.execute("select now() - %s < interval '1 minute'", (commit_times[0],)).fetchone()
        assert row == (True,)


def test_windows_end_where_they_are_told_and_the_next_goes_on_there(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key)")
    ends = []
    for number in range(6):
        run(stream, f"insert into public.t values ({number}), ({number + 100})")
        ends.append(stream.position())
    seen: list[list[int]] = []
    upto = stream.position()
    while True:
        batches, window = stream.read(upto, most_changes=5)
        seen.append([change.values[1] for change in changes_of(batches, stream.oid("public.t"))])
        stream.session.execute("select pg_replication_slot_advance(%s, %s)", (stream.name, window.to_position))
        if not window.bounded:
            break
    assert parse_position(window.to_position) >= parse_position(upto)
    assert [each for part in seen for each in part] == [each for n in range(6) for each in (n, n + 100)]
    assert len(seen) > 3


def test_commits_that_begin_before_the_end_of_a_window_are_in_it_and_no_others(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key)")
    for number in range(3):
        run(stream, f"insert into public.t values ({number})")
    _, window = stream.read()
    commits = [row["lsn"] for part in window.transactions for row in part.to_pylist()]
    for shift, wanted in ((0, [0]), (1, [0, 1])):
        upto = commits[1] + shift
        batches, window = stream.read(show_position(upto))
        assert [change.values[1] for change in changes_of(batches, stream.oid("public.t"))] == wanted
        assert parse_position(window.to_position) <= commits[2]


def test_windows_of_which_each_begins_where_another_ends_hold_each_commit_once(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key)")
    start = stream.position()
    for number in range(3):
        run(stream, f"insert into public.t values ({number})")
    upto, slots = stream.position(), slots_of(stream)
    _, whole = stream.read(upto)
    commits = [row["lsn"] for part in whole.transactions for row in part.to_pylist()]
    for number, shift in itertools.product(range(3), (-1, 0, 1)):
        cut = show_position(commits[number] + shift)
        parts = [stream.read(cut, start=start), stream.read(upto, start=cut)]
        first = list(range(number + (shift > 0)))
        assert [
            [change.values[1] for change in changes_of(batches, stream.oid("public.t"))] for batches, _ in parts
        ] == [first, [each for each in range(3) if each not in first]]
        assert parse_position(parts[0][1].to_position) >= parse_position(cut)
        assert parts[1][1].to_position == whole.to_position
    until(lambda: slots_of(stream) == slots, "copies to go")


def slots_of(stream: Stream) -> list[tuple[Any, ...]]:
    """Return the name and the position of each slot of the database."""
    return stream.session.execute(
        "select slot_name, confirmed_flush_lsn from pg_replication_slots where database = current_database()"
    ).fetchall()


def test_changes_that_the_server_skips_without_an_error_fail_the_reading(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key)")
    run(stream, "insert into public.t values (1)")
    assert len(stream.changes("public.t")) == 1
    run(stream, f"alter publication {stream.name} rename to elsewhere", "insert into public.t values (2)")
    run(stream, f"alter publication elsewhere rename to {stream.name}", "insert into public.t values (3)")
    with pytest.raises(SkippedChangesError, match=f'WARNING: skipped loading publication "{stream.name}"'):
        stream.read()


def test_a_publication_older_than_what_the_slot_may_decode_needs_no_second_decoding(
    open_tables: OpenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_counting(*arguments: Any, what: str = "data") -> str:
        return peek_query(*arguments) if what == "data" else "select 1 / 0"

    stream = open_tables("create table public.t (id int primary key)")
    monkeypatch.setattr("holdfast.postgresql.logical.window_reader.peek_query", without_counting)
    run(stream, "insert into public.t values (1)")
    assert shown(stream.changes("public.t")) == [("I", {1: 1})]
    run(stream, f"alter publication {stream.name} set (publish = 'insert')")
    with pytest.raises(psycopg.errors.DivisionByZero):
        stream.read()
    for _ in range(2):  # the slot's catalog_xmin follows a step behind
        run(stream, "insert into public.t values (2)", "select pg_log_standby_snapshot()")
        stream.session.execute("select pg_replication_slot_advance(%s, %s)", (stream.name, stream.position()))
        run(stream, "delete from public.t where id = 2")
    run(stream, "insert into public.t values (3)")
    assert shown(stream.changes("public.t")) == [("I", {1: 3})]


def test_the_server_keeps_large_transactions_in_memory_while_it_decodes_them(open_tables: OpenStream) -> None:
    stream = open_tables("create table public.t (id int primary key, body text)")
    run(stream, f"alter database {stream.address.database} set logical_decoding_work_mem = '64kB'")
    run(stream, "insert into public.t select i, repeat('x', 100) from generate_series(1, 2000) i")
    assert len(stream.changes("public.t")) == 2000
    spilled = "select spill_count, total_txns > 0 from pg_stat_replication_slots where slot_name = %s"
    assert stream.session.execute(spilled, (stream.name,)).fetchone() == (0, True)


@pytest.mark.parametrize(("allowed", "taken"), [("1MB", "256MB"), ("1GB", "1GB")])
def test_a_server_that_allows_more_memory_for_decoding_is_not_bound(address: Address, allowed: str, taken: str) -> None:
    with connect(address) as session:
        session.execute(f"set logical_decoding_work_mem = '{allowed}'".encode())
        session.execute(DECODING_MEMORY)
        assert session.execute("show logical_decoding_work_mem").fetchone() == (taken,)


@pytest.mark.parametrize(("given", "why"), [("drop publication {}", "no publication"), ("select 1", "has not come to")])
def test_a_publication_that_is_gone_and_a_log_that_is_not_there_are_refused(
    open_tables: OpenStream, given: str, why: str
) -> None:
    stream = open_tables("create table public.t (id int primary key)")
    run(stream, given.format(stream.name))
    with pytest.raises(SkippedChangesError, match=why):
        stream.read("FFFF/0" if why.startswith("has") else "")
