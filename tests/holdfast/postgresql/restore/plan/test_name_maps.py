from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.common.errors import RefusedError, UsageError
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.name_maps import (
    NameMaps,
    Names,
    check_routines,
    free_name,
    mentions,
    multiranges,
)
from tests.support.databases.planned_shop import table

ORDERS = ("public", "orders")
NAMES = Names(
    objects={
        ORDERS: ("public", "orders_old"),
        ("public", "orders_id_seq"): ("public", "orders_old_id_seq"),
        ("lib", "state"): ("moved", "state"),
        ("lib", "<<<"): ("moved", "<<<"),
    },
    schemas={"lib": "moved"},
    statistics={("public", "orders"): ("public", "orders1")},
    indexes={ORDERS: {"orders_pkey": "orders_old_pkey"}},
)


def entry(sql: str, kind: str = "TABLE", *, schema: str = "public", name: str = "orders") -> DumpEntry:
    return DumpEntry(1, "pre-data", kind, 1259, 1, schema, name, (), sql)


def rewritten(sql: str, kind: str = "TABLE") -> str:
    return NAMES.rewrite(entry(sql, kind), ORDERS)


@given(st.text(), st.sampled_from(["TABLE", "POLICY", "FUNCTION", "VIEW"]))
def test_nothing_changes_where_nothing_is_renamed(text: str, kind: str) -> None:
    assert Names().rewrite(entry(text, kind), ORDERS) == text


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE public.orders (id int)", 'CREATE TABLE "public"."orders_old" (id int)'),
        ('ALTER TABLE ONLY "public"."orders" ADD x', 'ALTER TABLE ONLY "public"."orders_old" ADD x'),
        ("COMMENT ON COLUMN public.orders.id IS 'public.orders'", None),
        ("x lib.state DEFAULT 'open'::lib.state", 'x "moved"."state" DEFAULT \'open\'::"moved"."state"'),
        ("x lib.state[]", 'x "moved"."state"[]'),
        ("nextval('public.orders_id_seq'::regclass)", 'nextval(\'"public"."orders_old_id_seq"\'::regclass)'),
        ("nextval(('public.orders_id_seq'::text)::regclass)", "nextval(('public.orders_id_seq'::text)::regclass)"),
        ("'lib.state'::regtype", '\'"moved"."state"\'::regtype'),
        ("'public.orders'::text", "'public.orders'::text"),
        ("x OPERATOR(lib.<<<) y", 'x OPERATOR("moved".<<<) y'),
        ("x OPERATOR(lib.<<) y", "x OPERATOR(lib.<<) y"),
        (
            "CREATE SCHEMA lib; GRANT USAGE ON SCHEMA lib TO lib",
            'CREATE SCHEMA "moved"; GRANT USAGE ON SCHEMA "moved" TO lib',
        ),
        ("lib.other(lib.unknown)", "lib.other(lib.unknown)"),
        ("-- public.orders\n", "-- public.orders\n"),
        ("db.public.orders", "db.public.orders"),
        (
            "CREATE STATISTICS public.orders ON a FROM public.orders",
            'CREATE STATISTICS "public"."orders1" ON a FROM "public"."orders_old"',
        ),
    ],
)
def test_names_are_replaced_where_they_stand_as_names(sql: str, expected: str | None) -> None:
    if expected is None:
        expected = 'COMMENT ON COLUMN "public"."orders_old".id IS \'public.orders\''
    assert rewritten(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "ADD CONSTRAINT orders_pkey PRIMARY KEY (orders_pkey)",
            'ADD CONSTRAINT "orders_old_pkey" PRIMARY KEY (orders_pkey)',
        ),
        ("CREATE UNIQUE INDEX orders_pkey ON t", 'CREATE UNIQUE INDEX "orders_old_pkey" ON t'),
        ("CREATE INDEX orders_pkey ON t", 'CREATE INDEX "orders_old_pkey" ON t'),
        ("ALTER TABLE t CLUSTER ON orders_pkey", 'ALTER TABLE t CLUSTER ON "orders_old_pkey"'),
        ("REPLICA IDENTITY USING INDEX orders_pkey", 'REPLICA IDENTITY USING INDEX "orders_old_pkey"'),
        ("COMMENT ON CONSTRAINT orders_pkey ON t IS 'x'", "COMMENT ON CONSTRAINT \"orders_old_pkey\" ON t IS 'x'"),
        ("DROP COLUMN orders_pkey", "DROP COLUMN orders_pkey"),
    ],
)
def test_an_index_is_renamed_where_its_name_stands_alone(sql: str, expected: str) -> None:
    assert rewritten(sql, "INDEX") == expected
    assert NAMES.rewrite(entry(sql, "INDEX"), ("public", "others")) == sql


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        ("VIEW", "SELECT orders.id FROM public.orders;", 'SELECT orders.id FROM "public"."orders_old" "orders";'),
        ("VIEW", "FROM (public.orders\n JOIN public.x", 'FROM ("public"."orders_old" "orders"\n JOIN public.x'),
        ("VIEW", "FROM x,\n public.orders WHERE", 'FROM x,\n "public"."orders_old" "orders" WHERE'),
        ("VIEW", "FROM public.orders o", 'FROM "public"."orders_old" o'),
        ("VIEW", "FROM public.orders AS o", 'FROM "public"."orders_old" AS o'),
        ("VIEW", 'FROM public.orders "O"', 'FROM "public"."orders_old" "O"'),
        ("RULE", "UPDATE public.orders SET x = 1", 'UPDATE "public"."orders_old" "orders" SET x = 1'),
        ("RULE", "INSERT INTO public.orders (x)", 'INSERT INTO "public"."orders_old" (x)'),
        ("POLICY", "ON public.orders USING (orders.a = 1)", 'ON "public"."orders_old" USING ("orders_old".a = 1)'),
        (
            "FUNCTION",
            "f(public.orders) BEGIN ATOMIC SELECT 1 FROM public.orders;",
            'f("public"."orders_old") BEGIN ATOMIC SELECT 1 FROM "public"."orders_old" "orders";',
        ),
        ("FK CONSTRAINT", "REFERENCES public.orders(id)", 'REFERENCES "public"."orders_old"(id)'),
    ],
)
def test_queries_go_on_to_call_a_renamed_table_by_its_old_name(kind: str, sql: str, expected: str) -> None:
    assert rewritten(sql, kind) == expected


def test_an_extension_keeps_its_schema() -> None:
    sql = "CREATE EXTENSION x WITH SCHEMA lib"
    assert rewritten(sql, "EXTENSION") == sql


@pytest.mark.parametrize(
    ("options", "schemas", "tables"),
    [
        (["public=restored"], {"public": "restored"}, {}),
        (["public.orders=archive.orders"], {}, {ORDERS: ("archive", "orders")}),
        (['"a.b"."c=d"=x."y ""z"""'], {}, {("a.b", "c=d"): ("x", 'y "z"')}),
        (["My schema.My table=Other.T"], {}, {("My schema", "My table"): ("Other", "T")}),
        (["a=b", "a.x=c.x"], {"a": "b"}, {("a", "x"): ("c", "x")}),
    ],
)
def test_maps_are_of_schemas_and_tables(
    options: list[str], schemas: dict[str, str], tables: dict[tuple[str, str], tuple[str, str]]
) -> None:
    assert NameMaps.parse(options) == NameMaps(schemas, tables)


@pytest.mark.parametrize(
    "options",
    [
        ["public"],
        ["=x"],
        ["x="],
        ["a=b=c"],
        ["a.b=c"],
        ["a=b.c"],
        ["a.b.c=d.e"],
        ["a=b", "a=c"],
        ["a.b=c.d", "a.b=c.e"],
        ["a=" + "é" * 32],
        ["a=pg_temp"],
        ["a=holdfast_restore"],
    ],
)
def test_what_is_no_map_is_wrong_usage(options: list[str]) -> None:
    with pytest.raises(UsageError, match="--map"):
        NameMaps.parse(options)


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        ("orders_pkey", set(), "orders_pkey"),
        ("orders_pkey", {"orders_pkey", "orders_pkey1"}, "orders_pkey2"),
        ("x" * 70, set(), "x" * 63),
        ("x" * 63, {"x" * 63}, "x" * 62 + "1"),
        ("é" * 40, set(), "é" * 31),
        ("é" * 31, {"é" * 31}, "é" * 31 + "1"),
    ],
)
def test_a_name_that_is_taken_gets_a_number_and_no_name_grows_too_long(wanted: str, taken: set[str], free: str) -> None:
    assert free_name(wanted, taken) == free


@pytest.mark.parametrize(
    ("kind", "sql", "found"),
    [
        ("FUNCTION", "AS $$ select * from orders $$", True),
        ("FUNCTION", "AS 'select * from public.orders'", True),
        ("FUNCTION", "AS $$ select * from orders_of_others $$", False),
        ("TRIGGER", "EXECUTE FUNCTION f('orders')", True),
        ("TABLE", "DEFAULT 'orders'::text", False),
        ("TABLE", "nextval(('public.orders_id_seq'::text)::regclass)", True),
        ("TABLE", "nextval('public.orders_id_seq'::regclass)", False),
        ("COMMENT", "IS 'orders'", False),
    ],
)
def test_texts_that_may_speak_of_what_is_renamed_are_found(kind: str, sql: str, found: bool) -> None:
    assert mentions(entry(sql, kind), NameMaps(tables={ORDERS: ("public", "orders_old")}), NAMES) is found


def test_a_range_type_brings_its_multirange() -> None:
    sql = "CREATE TYPE lib.r AS RANGE (subtype = text, multirange_type_name = lib.many)"
    assert list(multiranges(entry(sql, "TYPE"))) == [("lib", "many")]


def test_array_types_follow_their_elements() -> None:
    assert NAMES.of_type(("lib", "_state")) == ("moved", "_state")
    assert NAMES.of_type(("public", "_orders")) == ("public", "_orders_old")
    assert NAMES.of_type(("pg_catalog", "_int4")) == ("pg_catalog", "_int4")


def test_a_function_called_like_a_mapped_table_is_refused() -> None:
    maps = NameMaps(tables={ORDERS: ("public", "x")})
    with pytest.raises(RefusedError, match="is a table and a function"):
        check_routines([entry("", "FUNCTION", name="orders(integer)")], maps)
    check_routines([entry("", "FUNCTION", name="orders_of(integer)")], maps)


def test_each_partition_below_a_renamed_table_gets_a_name_of_its_own() -> None:
    tables = [
        table(1, "log", kind="p"),
        table(2, "log_a", parents=(1,), bound="DEFAULT", kind="p"),
        table(3, "log_a_1", parents=(2,), bound="DEFAULT"),
        table(4, "other", parents=(1,), bound="DEFAULT"),
        table(5, "logs"),
        table(6, "heir", parents=(1,)),
        table(7, "x" * 60, parents=(1,), bound="DEFAULT"),
    ]
    found = NameMaps.parse(["public.log=kept.log_old"]).with_partitions(tables).tables
    assert {old: new for (_, old), (_, new) in found.items() if len(old) < 60} == {
        "log": "log_old", "log_a": "log_old_a", "log_a_1": "log_old_a_1", "other": "log_old_other",
    }  # fmt: skip
    assert {schema for schema, _ in found.values()} == {"kept"}
    assert all(len(name) <= 63 for _, name in found.values())
    assert len(set(found.values())) == 5
