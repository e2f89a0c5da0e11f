"""A shop as its backup tells it: a catalog and a dump's entries, written down without a server, and targets."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.common.lsn import PG_CLASS
from holdfast.postgresql.catalog.catalog import Catalog, NamedRelation
from holdfast.postgresql.catalog.sequences import SequenceValue
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.dump.dump_entries import DumpEntry, Section
from holdfast.postgresql.restore.plan.target_state import Target


def table(oid: int, name: str, *, parents: tuple[int, ...] = (), bound: str | None = None, kind: str = "r") -> Table:
    return Table(
        oid=oid,
        table_schema="public",
        name=name,
        kind=kind,
        persistence="p",
        replica_identity="d",
        access_method="heap",
        parents=parents,
        bound=bound,
        owner="postgres",
        columns=(),
        key=(),
        pages=1,
        size=8192,
        estimated_rows=1,
    )


CATALOG = Catalog(
    database="shop",
    server_version=180006,
    encoding="UTF8",
    tables=(
        table(11, "customers"),
        table(12, "orders"),
        table(13, "events", kind="p"),
        table(14, "events_1", parents=(13,), bound="DEFAULT"),
        table(15, "parent"),
        table(16, "child", parents=(15,)),
        table(17, "tickets"),
    ),
    sequences=(
        SequenceValue(sequence_schema="public", name="orders_id_seq", last_value=7, is_called=True),
        SequenceValue(sequence_schema="public", name="loose", last_value=1, is_called=False),
    ),
    materialized_views=(NamedRelation(relation_schema="public", name="totals"),),
    references=((12, 11),),
    roles=("clerk", "postgres"),
)

STORED = dict.fromkeys((11, 12, 14, 15, 16, 17), (10, 100, 2))


def entry(number: int, kind: str, name: str, needs: Iterable[int] = (), sql: str = "", *, oid: int = 0) -> DumpEntry:
    late = kind in (
        "CONSTRAINT",
        "FK CONSTRAINT",
        "INDEX",
        "INDEX ATTACH",
        "TRIGGER",
        "POLICY",
        "RULE",
        "EVENT TRIGGER",
    )
    section: Section = "post-data" if late else "pre-data"
    schema = "" if kind in ("SCHEMA", "EXTENSION", "PUBLICATION", "EVENT TRIGGER") else "public"
    return DumpEntry(number, section, kind, PG_CLASS if oid else 0, oid, schema, name, tuple(needs), sql)


ENTRIES = (
    entry(1, "TYPE", "state", sql="CREATE TYPE public.state AS ENUM ();"),
    entry(2, "FUNCTION", "touch()", sql="CREATE FUNCTION public.touch() AS $$ orders $$;"),
    entry(3, "TABLE", "customers", sql="CREATE TABLE public.customers ();", oid=11),
    entry(4, "TABLE", "orders", [1], "CREATE TABLE public.orders (s public.state);", oid=12),
    entry(5, "SEQUENCE", "orders_id_seq", [4], "CREATE SEQUENCE public.orders_id_seq;"),
    entry(
        6, "SEQUENCE OWNED BY", "orders_id_seq", [5], "ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;"
    ),
    entry(7, "DEFAULT", "orders id", [4, 5], "ALTER TABLE public.orders x nextval('public.orders_id_seq'::regclass);"),
    entry(8, "COMMENT", "TABLE orders", [4], "COMMENT ON TABLE public.orders IS 'x';"),
    entry(9, "ACL", "TABLE orders", [4], "GRANT SELECT ON TABLE public.orders TO clerk;"),
    entry(10, "VIEW", "v", [4], "CREATE VIEW public.v AS SELECT 1 FROM public.orders;"),
    entry(11, "VIEW", "v2", [10], "CREATE VIEW public.v2 AS SELECT 1 FROM public.v;"),
    entry(12, "TABLE", "events", sql="CREATE TABLE public.events () PARTITION BY x;", oid=13),
    entry(13, "TABLE", "events_1", [12], "CREATE TABLE public.events_1 ();", oid=14),
    entry(14, "TABLE ATTACH", "events_1", [13, 12], "ALTER TABLE ONLY public.events ATTACH PARTITION public.events_1;"),
    entry(15, "TABLE", "parent", sql="CREATE TABLE public.parent ();", oid=15),
    entry(16, "TABLE", "child", [15], "CREATE TABLE public.child () INHERITS (public.parent);", oid=16),
    entry(17, "SEQUENCE", "loose", sql="CREATE SEQUENCE public.loose;"),
    entry(
        18, "MATERIALIZED VIEW", "totals", [4], "CREATE MATERIALIZED VIEW public.totals AS SELECT 1 FROM public.orders;"
    ),
    entry(
        21,
        "TABLE",
        "tickets",
        [5],
        "CREATE TABLE public.tickets (n nextval('public.orders_id_seq'::regclass));",
        oid=17,
    ),
    entry(19, "PUBLICATION", "pub", sql="CREATE PUBLICATION pub;"),
    entry(20, "PUBLICATION TABLE", "pub orders", [19, 4], "ALTER PUBLICATION pub ADD TABLE ONLY public.orders;"),
    entry(
        30,
        "CONSTRAINT",
        "customers customers_pkey",
        [3],
        "ALTER TABLE public.customers ADD CONSTRAINT customers_pkey PRIMARY KEY (id);",
    ),
    entry(
        31,
        "CONSTRAINT",
        "orders orders_pkey",
        [4],
        "ALTER TABLE public.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);",
    ),
    entry(32, "INDEX", "by_state", [4], "CREATE INDEX by_state ON public.orders (s);"),
    entry(
        33,
        "FK CONSTRAINT",
        "orders to_customer",
        [3, 4, 30],
        "ALTER TABLE ONLY public.orders ADD CONSTRAINT to_customer REFERENCES public.customers(id);",
    ),
    entry(
        34,
        "TRIGGER",
        "orders touched",
        [4, 2],
        "CREATE TRIGGER touched ON public.orders EXECUTE FUNCTION public.touch('orders');",
    ),
    entry(
        35,
        "POLICY",
        "customers own",
        [3, 4],
        "CREATE POLICY own ON public.customers USING (x IN (SELECT 1 FROM public.orders));",
    ),
    entry(
        36,
        "CONSTRAINT",
        "events events_pkey",
        [12],
        "ALTER TABLE ONLY public.events ADD CONSTRAINT events_pkey PRIMARY KEY (id);",
    ),
    entry(
        37,
        "CONSTRAINT",
        "events_1 events_1_pkey",
        [13, 36],
        "ALTER TABLE ONLY public.events_1 ADD CONSTRAINT events_1_pkey PRIMARY KEY (id);",
    ),
    entry(
        38,
        "INDEX ATTACH",
        "events_1_pkey",
        [37, 36, 13, 12],
        "ALTER INDEX public.events_pkey ATTACH PARTITION public.events_1_pkey;",
    ),
    entry(39, "EVENT TRIGGER", "watch", [2], "CREATE EVENT TRIGGER watch;"),
)

EMPTY = Target(frozenset({("SCHEMA", "", "public")}))


def having(*objects: tuple[str, str]) -> Target:
    return Target(EMPTY.objects | {(kind, "public", name) for kind, name in objects})
