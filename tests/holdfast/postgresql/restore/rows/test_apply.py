"""Net changes applied to a loaded table give the rows that the source had, and the content hash that was foretold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from holdfast.common.errors import DamagedError, HoldfastError, RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.sql import ident
from holdfast.postgresql.restore.rows.apply import Applied, apply_net
from holdfast.postgresql.values.content_hash import ContentHash
from tests.support.archives.net_changes import apply, copies, deleted, keyed, nothing, record, rows, texts
from tests.support.databases.every_type import OBJECTS, VALUES
from tests.support.databases.tables import Tables, open_tables
from tests.support.databases.type_groups import Kinds, columns_of, in_groups, rows_of

pytestmark = pytest.mark.service


@pytest.fixture(scope="module", autouse=True)
def objects(tables: Tables) -> None:
    tables.session.execute(OBJECTS)


def test_every_kind_of_change_does_what_it_says(tables: Tables) -> None:
    definition = "id int4 not null, word text, body text, day date"
    base, wanted, absent = (tables.create(definition) for _ in range(3))
    tables.fill(absent, "values (99)")
    tables.fill(base, "select i, 'old', repeat('b', 9000) || i, 'infinity' from generate_series(1, 5) i")
    tables.fill(wanted, f"select id, 'new', case id when 4 then body else 'x' end, day from {base} where id in (2, 4)")
    tables.fill(wanted, "values (6, null, 'y', 'infinity')")
    done = apply(
        tables,
        base,
        (1,),
        keyed(rows(tables, wanted, "id in (2, 6)"), "I"),
        keyed(rows(tables, wanted, "id = 4"), "U", [3]),
        deleted(rows(tables, base, "id = 3"), [1]),
        deleted(rows(tables, absent), [1]),
    )
    tables.fill(wanted, f"select * from {base} where id in (1, 5)")
    assert texts(tables, base) == texts(tables, wanted)
    assert (done.emptied, done.deleted.rows, done.inserted.rows) == (False, 3, 3)


def test_an_update_may_keep_only_columns_that_were_dropped_since(tables: Tables) -> None:
    base, wanted = (tables.create("id int4, word text") for _ in range(2))
    tables.fill(base, "values (1, 'old'), (2, 'old')")
    tables.fill(wanted, "values (2, 'new')")
    apply(tables, base, (1,), keyed(rows(tables, wanted), "U", [9]))
    assert texts(tables, base) == ["(1,old)", "(2,new)"]


def test_an_emptied_table_has_only_what_came_after(tables: Tables) -> None:
    base, wanted = (tables.create("id int4, day date") for _ in range(2))
    tables.fill(base, "values (1, 'infinity'), (2, null)")
    tables.fill(wanted, "values (2, 'infinity'), (3, '-infinity')")
    new = keyed(rows(tables, wanted), "I")
    first = pa.Table.from_batches([keyed(nothing(tables, base), "T"), new]).combine_chunks().to_batches()[0]
    assert apply(tables, base, (1,), first).emptied
    assert texts(tables, base) == texts(tables, wanted)
    apply(tables, base, (), copies(nothing(tables, base), "T", 1), copies(rows(tables, wanted, "id = 3"), "I", 2))
    assert texts(tables, base) == ["(3,-infinity)"] * 2


def test_no_change_at_all_is_one_too(tables: Tables) -> None:
    base = tables.create("id int4")
    tables.fill(base, "values (1)")
    assert apply(tables, base, (1,)) == Applied(emptied=False, deleted=ContentHash(), inserted=ContentHash())
    assert texts(tables, base) == ["(1)"]


@pytest.mark.parametrize("kinds", in_groups(VALUES), ids=lambda kinds: next(iter(kinds)))
def test_values_of_every_type_are_inserted_kept_and_found(tables: Tables, kinds: Kinds) -> None:
    definition = f"id int4, word text, {columns_of(kinds)}"
    base, wanted, other = (tables.create(definition) for _ in range(3))
    tables.fill(base, "values " + ", ".join(f"({id_}, 'old', {row})" for id_, row in enumerate(rows_of(kinds))))
    tables.fill(other, f"select * from {base}")
    tables.fill(wanted, f"select * from {base}")
    tables.session.execute(f"update {wanted} set word = 'new'".encode())
    tables.fill(wanted, f"select * from {base}")
    tables.session.execute(f"update {wanted} set id = id + 1000, word = 'more' where word = 'old'".encode())
    values = [3 + number for number in range(len(kinds))]
    apply(
        tables,
        base,
        (1,),
        keyed(rows(tables, wanted, "id < 1000"), "U", values),
        keyed(rows(tables, wanted, "id >= 1000"), "I"),
    )
    assert texts(tables, base) == texts(tables, wanted)
    gone, came = rows(tables, other), rows(tables, wanted)
    apply(tables, other, (), copies(gone, "D", *[1] * gone.num_rows), copies(came, "I", *[1] * came.num_rows))
    assert texts(tables, other) == texts(tables, wanted)


@pytest.mark.parametrize(
    ("definition", "values"),
    [
        ("k int8", ["1", "-1", "9223372036854775807"]),
        ("k text", ["'a'", "'A'", "''", "'a '", r"E'\\'"]),
        ('k text collate "C"', ["'a'", "'A'"]),
        ("k char(5)", ["'a'", "'b  '", "''"]),
        ("k public.citext", ["'a'", "'B'"]),
        ("k uuid", ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"]),
        ("k numeric", ["'NaN'", "1.0", "2.00"]),
        ("k numeric(12,2)", ["'NaN'", "1.0", "2.00"]),
        ("k float8", ["'NaN'", "'-0'", "0.1"]),
        ("k timestamptz", ["'infinity'", "'0044-03-15 00:00:00+00 BC'", "now()"]),
        ("k date", ["'infinity'", "'2024-01-01'"]),
        ("k time", ["'24:00'", "'00:00'"]),
        ("k bytea", ["''", r"'\x00'", r"'\x0001'"]),
        ("k bool", ["true", "false"]),
        ("k public.mood", ["'sad'", "'so \"so\"'"]),
        ("k public.positive", ["1", "2"]),
        ("k int4[]", ["'{}'", "'{1,NULL}'"]),
        ("k int4range", ["'empty'", "'[1,5)'"]),
        ("k public.pair", ["row(1, null)", "row(null, 'x')"]),
    ],
)
def test_rows_are_found_by_keys_of_every_kind(tables: Tables, definition: str, values: list[str]) -> None:
    """The key stands behind other columns, the one that is found is always the second of two."""
    kind = definition.removeprefix("k ")
    base, wanted = (tables.create(f"word text, body text, k {kind} not null, part int2 not null") for _ in range(2))
    for part in (1, 2):
        for value in values:
            tables.fill(base, f"values ('old', 'body {part}', {value}, {part})")
    tables.fill(wanted, f"select 'new', body, k, part from {base} where part = 2")
    changed = rows(tables, wanted)
    apply(tables, base, (3, 4), keyed(changed, "U", [2]))
    tables.fill(wanted, f"select * from {base} where part = 1")
    assert texts(tables, base) == texts(tables, wanted)
    done = apply(tables, base, (3, 4), deleted(rows(tables, base), [3, 4]))
    assert done.deleted.rows == 2 * len(values)
    assert texts(tables, base) == []


def test_keys_are_compared_byte_by_byte_whatever_their_collation(older: Callable[[int], PostgresServer]) -> None:
    with open_tables(older(15), "odd_collation") as tables:
        tables.session.execute(
            "create collation public.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        base, wanted = (tables.create("id text collate public.any_case, word text, body text") for _ in range(2))
        tables.fill(base, "values ('a', 'old', 'x'), ('b', 'other', 'z'), ('B', 'old', 'y'), ('c', 'old', 'z')")
        tables.fill(wanted, "values ('A', 'new', 'x'), ('B', 'new', null)")
        apply(
            tables,
            base,
            (1,),
            deleted(rows(tables, base, "word = 'old'").slice(0, 1), [1]),
            keyed(rows(tables, wanted, "body is null"), "U", [3]),
            keyed(rows(tables, wanted, "body = 'x'"), "I"),
        )
        assert texts(tables, base) == ["(A,new,x)", "(B,new,y)", "(b,other,z)", "(c,old,z)"]


def test_a_table_without_a_key_loses_and_gets_as_many_copies_as_are_told(tables: Tables) -> None:
    definition = "word text, n float8, x numeric, j json"
    base, gone, came = (tables.create(definition) for _ in range(3))
    several = {
        "'a', 0, 1.0, '{}'": 3, "'a', '-0', 1.0, '{}'": 2, "'a', 0, 1.00, '{}'": 2, "'a', 0, 1.0, '{ }'": 2,
        "null, null, null, null": 3, "'', null, null, null": 1,
    }  # fmt: skip
    for row, count in several.items():
        tables.fill(base, "values " + ", ".join([f"({row})"] * count))
    tables.fill(gone, "values ('a', '-0', 1.0, '{}'), ('a', 0, 1.0, '{}')")
    tables.fill(came, "values ('a', 0, 1.0, '{}'), ('c', 'NaN', 'NaN', null)")
    done = apply(
        tables,
        base,
        (),
        copies(rows(tables, gone), "D", 2, 1),
        copies(rows(tables, gone, "n::text = '0'"), "D", 1),
        copies(rows(tables, base, "word is null").slice(0, 1), "D", 1),
        copies(rows(tables, came), "I", 5, 4),
    )
    assert (done.deleted.rows, done.inserted.rows) == (5, 9)
    left = {"a,0,1.0,{}": 6, "a,0,1.00,{}": 2, 'a,0,1.0,"{ }"': 2, ",,,": 2, '"",,,': 1, "c,NaN,NaN,": 4}
    assert Counter(texts(tables, base)) == {f"({row})": count for row, count in left.items()}


def test_a_table_without_columns_has_only_a_number_of_rows(tables: Tables) -> None:
    base = tables.create("")
    tables.session.execute(f"insert into {base} select from generate_series(1, 3)".encode())
    one = rows(tables, base).slice(0, 1)
    done = apply(tables, base, (), copies(one, "D", 2), copies(one, "I", 4))
    assert (done.deleted.rows, done.inserted.rows) == (2, 4)
    assert texts(tables, base) == ["()"] * 5


@pytest.mark.parametrize("unchanged", [None, [2]])
def test_generated_columns_are_computed_anew_and_their_hash_is_foretold(
    tables: Tables, unchanged: list[int] | None
) -> None:
    definition = (
        "id int8 generated always as identity, word text, twice int8 generated always as (id * 2) stored, "
        "long text generated always as (word || '!') stored, other int4 generated by default as identity"
    )
    base, wanted = tables.create(definition), tables.create(definition)
    tables.fill(base, "(word) select 'w' || i from generate_series(1, 5) i")
    tables.fill(
        wanted, f"(id, word, other) overriding system value select id, word, other + 10 from {base} where id > 3"
    )
    op = "I" if unchanged is None else "U"
    done = apply(
        tables, base, (1,), keyed(rows(tables, wanted), op, unchanged), deleted(rows(tables, base, "id = 1"), [1])
    )
    assert (done.deleted.rows, done.inserted.rows) == (3, 2)
    assert texts(tables, base) == ["(2,w2,4,w2!,2)", "(3,w3,6,w3!,3)", "(4,w4,8,w4!,14)", "(5,w5,10,w5!,15)"]


def test_virtual_columns_have_no_values_to_change(tables: Tables) -> None:
    definition = "id int4, twice int4 generated always as (id * 2) virtual, word text"
    base, wanted = tables.create(definition), tables.create(definition)
    tables.fill(base, "values (1, default, 'a'), (2, default, 'b')")
    tables.fill(wanted, "values (2, default, 'c')")
    apply(tables, base, (1,), keyed(rows(tables, wanted), "I"))
    assert texts(tables, base) == ["(1,2,a)", "(2,4,c)"]


def test_domains_that_take_no_null_are_no_obstacle_to_a_row_that_goes(tables: Tables) -> None:
    tables.session.execute("create domain public.never_null as text not null check (value <> '')")
    definition = "id int4, word public.never_null, amount public.amount not null"
    base, wanted = tables.create(definition), tables.create(definition)
    tables.fill(base, "values (1, 'a', 1), (2, 'b', 'NaN'), (3, 'c', 3)")
    tables.fill(wanted, "values (2, 'b', 5)")
    changed = rows(tables, wanted)
    apply(tables, base, (1,), deleted(rows(tables, base, "id = 1"), [1]), keyed(changed, "U", [2]))
    assert texts(tables, base) == ["(2,b,5.00)", "(3,c,3.00)"]


def test_names_may_be_anything_even_those_that_staging_has(tables: Tables) -> None:
    columns = [
        "c1",
        "op",
        "t",
        "c2_",
        'A "q" %',
        "unchanged",
        "copies",
        "gone",
        "__op",
        "__unchanged",
        "__count",
        "place",
    ]
    base = '"The ""Schema""".' + ident('T "x" %s')
    tables.session.execute('create schema "The ""Schema"""')
    tables.session.execute(f"create table {base} ({', '.join(f'{ident(column)} text' for column in columns)})".encode())
    for key in "12":
        tables.fill(base, f"values ('{key}', {', '.join(['repeat(chr(97), 9000)'] * (len(columns) - 1))})")
    [table] = (each for each in read_tables(tables.session) if each.name == 'T "x" %s')
    found = rows(tables, base, "c1 = '2'")
    before = tables.hash(base, table.columns)
    for numbers, changed in (((1,), keyed(found, "U", [2, 3])), ((), copies(found, "D", 1))):
        width = found.num_columns
        renamed = [*found.schema.names, *(f"{name}_" for name in changed.schema.names[width:])]
        with tables.session.transaction():
            done = apply_net(tables.session, table, numbers, [changed.rename_columns(renamed)])
        assert done.after(before) == tables.hash(base, table.columns)
    assert tables.session.execute(f"select c1 from {base}".encode()).fetchall() == [("1",)]


def test_a_partition_is_changed_alone_and_a_parents_children_are_left(tables: Tables) -> None:
    parent = tables.create("id int4, word text) partition by list (word")
    leaf = 'public."leaf of it"'
    tables.session.execute(f"create table {leaf} partition of {parent} for values in ('a', 'b')".encode())
    tables.fill(parent, "values (1, 'a'), (2, 'b')")
    wanted = tables.create("id int4, word text")
    tables.fill(wanted, "values (2, 'a'), (3, 'b')")
    apply(tables, leaf, (1,), keyed(rows(tables, wanted), "I"), deleted(rows(tables, leaf, "id = 1"), [1]))
    assert texts(tables, leaf) == ["(2,a)", "(3,b)"]
    base = tables.create("id int4, word text")
    child = tables.create(f") inherits ({base}")
    for table in (base, child):
        tables.fill(table, "values (1, 'a'), (2, 'b')")
    apply(tables, base, (), copies(rows(tables, base, "id = 1"), "D", 1))
    assert (texts(tables, base), texts(tables, child)) == (["(2,b)"], ["(1,a)", "(2,b)"])
    apply(tables, base, (), copies(nothing(tables, base), "T", 1))
    assert (texts(tables, base), texts(tables, child)) == ([], ["(1,a)", "(2,b)"])


def damaged(tables: Tables, table: str, key: tuple[int, ...], *batches: pa.RecordBatch, match: str) -> None:
    before = texts(tables, table)
    with pytest.raises(DamagedError, match=match), tables.session.transaction():
        apply_net(tables.session, record(tables, table), key, batches)
    assert texts(tables, table) == before


def test_changes_of_rows_that_the_base_has_not_are_damage(tables: Tables) -> None:
    base = tables.create("id int4, word text, body text")
    tables.fill(base, "values (1, 'a', 'x'), (2, 'b', 'y'), (2, 'b', 'y')")
    other = tables.create("id int4, word text, body text")
    tables.fill(other, "values (1, 'c', null), (7, 'd', null), (8, 'd', null)")
    misfit = "the archive's changes do not fit its base: "
    damaged(
        tables, base, (1,), keyed(rows(tables, other), "U", [3]),
        match=f"^public.table .*: {misfit}2 of 3 rows to be updated are missing$",
    )  # fmt: skip
    damaged(
        tables, base, (1,), keyed(rows(tables, base, "id = 2").slice(1), "U", [3]),
        match=f"{misfit}1 rows to be updated are there 2 times$",
    )  # fmt: skip
    damaged(
        tables, base, (), copies(rows(tables, base, "id = 2").slice(1), "D", 5),
        match=f"{misfit}3 of 5 rows to be deleted are missing$",
    )  # fmt: skip
    damaged(
        tables,
        base,
        (1,),
        keyed(nothing(tables, base), "T"),
        keyed(rows(tables, base, "id = 1"), "U", [3]),
        match="1 of 1 rows",
    )


def test_what_is_no_change_of_the_table_is_refused(tables: Tables) -> None:
    base, other = tables.create("id int4, word text"), tables.create("id int8, word text")
    tables.fill(other, "values (1, 'a')")
    table = record(tables, base)
    with pytest.raises(HoldfastError, match="do not have the columns of the table"), tables.session.transaction():
        apply_net(tables.session, table, (1,), [keyed(rows(tables, other), "I")])
    fits = tables.create("id int4, word text")
    tables.fill(fits, "values (1, 'a')")
    with pytest.raises(HoldfastError, match=r"of an unknown kind: \{'X'\}"), tables.session.transaction():
        apply_net(tables.session, table, (1,), [keyed(rows(tables, fits), "X")])
    with pytest.raises(HoldfastError, match=r"of an unknown kind: \{'U'\}"), tables.session.transaction():
        apply_net(tables.session, table, (), [copies(rows(tables, fits), "U", 1)])
    with (
        pytest.raises(HoldfastError, match="that tells its rows apart is not in its changes"),
        tables.session.transaction(),
    ):
        apply_net(tables.session, table, (7,), [keyed(rows(tables, fits), "I")])
    tables.session.execute(f"alter table {base} add check (id > 1)".encode())
    words = r"does not take its changes: .* violates check constraint"
    with pytest.raises(RefusedError, match=words), tables.session.transaction():
        apply_net(tables.session, record(tables, base), (1,), [keyed(rows(tables, fits), "I")])


def test_rows_that_come_otherwise_beside_generated_columns_are_seen_at_once(tables: Tables) -> None:
    base = tables.create("id int4, word text, twice int4 generated always as (id * 2) stored")
    tables.session.execute(
        "create function public.shout() returns trigger language plpgsql as "
        "$$ begin new.word := upper(new.word); return new; end $$"
    )
    tables.session.execute(
        f"create trigger shout before insert on {base} for each row execute function public.shout()".encode()
    )
    other = tables.create("id int4, word text, twice int4 generated always as (id * 2) stored")
    tables.fill(other, "values (1, 'a')")
    damaged(
        tables, base, (1,), keyed(rows(tables, other), "I"), match="the rows that came are not those of the archive"
    )


def test_hashes_are_the_same_in_a_database_of_another_encoding(postgres: PostgresServer) -> None:
    options = "encoding 'LATIN1' locale 'C' template template0"
    with open_tables(postgres, "apply_latin1", options) as latin:
        base, wanted = (latin.create("id text, word text, body text") for _ in range(2))
        latin.fill(base, "values ('é', 'ä', repeat('ö', 600)), ('e', 'a', repeat('ü', 600))")
        latin.fill(wanted, f"select id, 'ß', body from {base} where id = 'é'")
        apply(latin, base, (1,), keyed(rows(latin, wanted), "U", [3]))
        latin.fill(wanted, f"select * from {base} where id = 'e'")
        assert texts(latin, base) == texts(latin, wanted)
