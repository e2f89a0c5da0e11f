"""Plans, made of a catalog and a dump's entries written down here: no server."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from holdfast.common.errors import RefusedError, UsageError
from holdfast.sources.postgresql.catalog.catalog import Catalog, NamedRelation
from holdfast.sources.postgresql.catalog.sequences import SequenceValue
from holdfast.sources.postgresql.catalog.table import Table
from holdfast.sources.postgresql.dump.toc import PG_CLASS, DumpEntry, Section
from holdfast.sources.postgresql.restore.plan.plan import RestorePlan
from holdfast.sources.postgresql.restore.plan.planning import make_plan
from holdfast.sources.postgresql.restore.plan.rename import Maps
from holdfast.sources.postgresql.restore.plan.target_state import Target


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

STORED = dict.fromkeys((11, 12, 14, 15, 16, 17), (10, 100))


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


def plan(
    *globs: str, target: Target = EMPTY, maps: Iterable[str] = (), stored: dict[int, tuple[int, int]] = STORED
) -> RestorePlan:
    return make_plan(CATALOG, ENTRIES, target, globs=globs, maps=Maps.parse(maps), stored=stored)


def created(made: RestorePlan) -> list[int]:
    return [each.id for each in made.entries]


def left(made: RestorePlan) -> dict[str, str]:
    return {each.what: each.reason for each in made.not_restored}


def test_a_table_brings_what_belongs_to_it_and_what_it_needs() -> None:
    made = plan("public.orders")
    assert created(made) == [1, 2, 4, 5, 6, 7, 8, 9, 31, 32, 34]
    assert [(each.target.label, each.rows, each.size) for each in made.tables] == [("public.orders", 10, 100)]
    assert [value.name for value in made.sequences] == ["orders_id_seq"]
    assert made.materialized_views == ()
    assert made.roles == ("clerk",)
    assert (made.skipped_existing, made.touches, made.renamed, made.unchanged) == ((), (), (), ())


def test_what_stays_out_is_named_with_its_reason() -> None:
    assert left(plan("public.orders")) == {
        "foreign key public.orders to_customer": "it needs table public.customers, which is neither chosen nor in the "
        "target",
        "view public.v": "views do not come with chosen tables",
        "view public.v2": "views do not come with chosen tables",
        "materialized view public.totals": "views do not come with chosen tables",
        "publication table public.pub orders": "what is published is not changed: add it when it is wanted",
        "policy public.customers own": "table public.customers is not chosen",
    }


def test_what_can_be_added_later_is_told_as_a_statement() -> None:
    statements = {each.what: each.statement for each in plan("public.orders").not_restored}
    assert statements["foreign key public.orders to_customer"].startswith("ALTER TABLE ONLY public.orders ADD")
    assert statements["view public.v"] == "CREATE VIEW public.v AS SELECT 1 FROM public.orders;"
    made = plan("public.orders", target=having(("RELATION", "v")))
    assert {each.what: each.statement for each in made.not_restored}["view public.v"] == ""


def test_what_the_target_has_is_left_as_it_is() -> None:
    target = having(("TYPE", "state"), ("ROUTINE", "touch()"), ("RELATION", "customers"), ("RELATION", "v"))
    made = plan("public.orders", target=target)
    assert created(made) == [4, 5, 6, 7, 8, 9, 31, 32, 33, 34]
    assert made.skipped_existing == ("function public.touch()", "table public.customers", "type public.state")
    assert made.borrowed == {33}
    assert made.touches == (
        "public.customers: writes to it wait while foreign key public.orders to_customer is checked; from then on it "
        "is bound by that key",
    )
    assert left(made)["view public.v"] == "views do not come with chosen tables; the target has it"


def test_both_sides_of_a_foreign_key_bring_it() -> None:
    made = plan("public.orders", "public.cust*")
    assert {33, 35} <= set(created(made))
    assert (made.borrowed, made.touches) == (frozenset(), ())


def test_a_partitioned_table_brings_its_partitions() -> None:
    made = plan("public.events")
    assert created(made) == [12, 13, 14, 36, 37, 38]
    assert made.to_analyze() == [("public", "events")]


def test_a_partition_alone_becomes_a_table_of_its_own() -> None:
    assert created(plan("public.events_1")) == [13, 37]
    made = plan("public.events_1", target=having(("RELATION", "events")))
    assert created(made) == [13, 37]
    assert left(made) == {
        "attached partition public.events_1": "table public.events is not chosen: the partition becomes a table of its "
        "own"
    }


def test_a_sequence_of_another_table_comes_without_its_owner() -> None:
    made = plan("public.tickets")
    assert created(made) == [5, 21]
    assert left(made) == {
        "owner of sequence public.orders_id_seq": "it needs table public.orders, which is neither chosen nor in the "
        "target"
    }


def test_tables_share_a_sequence_also_where_its_name_is_taken() -> None:
    made = plan("public.orders", "public.tickets", target=having(("RELATION", "orders_id_seq")))
    assert made.renamed == (("sequence public.orders_id_seq", "public.orders_id_seq1"),)
    sql = {each.id: each.sql for each in made.entries}
    assert sql[5] == 'CREATE SEQUENCE "public"."orders_id_seq1";'
    assert "orders_id_seq1" in sql[7]
    assert "orders_id_seq1" in sql[21]


def test_a_child_brings_its_parent_unless_the_target_has_it() -> None:
    made = plan("public.child")
    assert [each.target.name for each in made.tables] == ["parent", "child"]
    made = plan("public.child", target=having(("RELATION", "parent")))
    assert created(made) == [16]
    assert made.touches == ("public.parent: it shows the rows of table public.child, which inherits from it",)


def test_a_table_under_another_name_brings_what_it_owns_under_names_of_its_own() -> None:
    taken = having(("RELATION", "orders"), ("RELATION", "orders_id_seq"), ("RELATION", "by_state"))
    made = plan("public.orders", target=taken, maps=["public.orders=public.orders_old"])
    assert made.renamed == (
        ("sequence public.orders_id_seq", "public.orders_old_id_seq"),
        ("constraint public.orders_pkey", "public.orders_old_pkey"),
        ("index public.by_state", "public.by_state1"),
    )
    sql = {each.id: each.sql for each in made.entries}
    assert sql[4] == 'CREATE TABLE "public"."orders_old" (s public.state);'
    assert sql[7] == 'ALTER TABLE "public"."orders_old" x nextval(\'"public"."orders_old_id_seq"\'::regclass);'
    assert sql[31] == 'ALTER TABLE "public"."orders_old" ADD CONSTRAINT "orders_old_pkey" PRIMARY KEY (id);'
    assert sql[32] == 'CREATE INDEX "by_state1" ON "public"."orders_old" (s);'
    assert [value.name for value in made.sequences] == ["orders_old_id_seq"]
    assert made.unchanged == ("function public.touch()", "trigger public.orders touched")


def test_an_index_whose_name_is_taken_gets_a_number_also_without_a_map() -> None:
    made = plan("public.orders", target=having(("RELATION", "orders_pkey")))
    assert made.renamed == (("constraint public.orders_pkey", "public.orders_pkey1"),)


def test_a_table_goes_to_a_schema_that_is_made_for_it() -> None:
    made = plan("public.orders", maps=["public.orders=archive.orders"])
    assert made.entries[0].sql == 'CREATE SCHEMA "archive";'
    sql = {each.id: each.sql for each in made.entries}
    assert sql[5] == 'CREATE SEQUENCE "archive"."orders_id_seq";'
    assert sql[1] == "CREATE TYPE public.state AS ENUM ();"


def test_a_schema_is_mapped_with_all_that_comes_from_it() -> None:
    made = plan("public.orders", target=having(("RELATION", "orders"), ("TYPE", "state")), maps=["public=restored"])
    sql = {each.id: each.sql for each in made.entries}
    assert sql[1] == 'CREATE TYPE "restored"."state" AS ENUM ();'
    assert sql[4] == 'CREATE TABLE "restored"."orders" (s "restored"."state");'
    assert (made.skipped_existing, made.renamed) == ((), ())


def test_everything_under_other_names_leaves_the_target_itself_alone() -> None:
    made = plan(maps=["public=restored"])
    assert len(made.tables) == len(CATALOG.tables)
    assert left(made) == dict.fromkeys(("publication pub", "event trigger watch"), "it would act on the whole target")
    assert [view.relation_schema for view in made.materialized_views] == ["restored"]
    assert [value.name for value in made.sequences] == ["orders_id_seq", "loose"]


def test_the_password_of_a_subscription_is_not_told() -> None:
    secret = entry(90, "SUBSCRIPTION", "sub", sql="CREATE SUBSCRIPTION sub CONNECTION 'password=secret' PUBLICATION p;")
    made = make_plan(CATALOG, (*ENTRIES, secret), EMPTY, maps=Maps.parse(["public=x"]), stored=STORED)
    assert "secret" not in str(made.describe())
    assert "subscription sub" in {each.what.replace("public.", "") for each in made.not_restored}


def test_everything_as_it_was_is_everything() -> None:
    made = plan()
    assert set(created(made)) == {each.id for each in ENTRIES}
    assert made.not_restored == ()


@pytest.mark.parametrize(
    ("globs", "maps", "target", "words"),
    [
        (["public.orders"], [], having(("RELATION", "orders")), "--map public.orders=public.orders_restored"),
        ([], ["public.orders=public.events"], EMPTY, "orders and public.events would both become public.events"),
        (["*"], ["public=x"], Target(frozenset({("RELATION", "x", "child")})), "has x.child already"),
    ],
)
def test_what_would_meet_something_is_refused(globs: list[str], maps: list[str], target: Target, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        plan(*globs, maps=maps, target=target)


def test_tables_whose_rows_the_backup_lacks_are_refused_where_they_are_chosen() -> None:
    with pytest.raises(
        RefusedError, match=r"there are no rows of public\.customers for this moment, .*: take another one"
    ):
        plan("public.*", stored={oid: size for oid, size in STORED.items() if oid != 11})


@pytest.mark.parametrize(
    ("globs", "maps", "words"),
    [
        (["public.nothing"], [], "matches no table"),
        (["public.orders"], ["public.events=a.b"], "not among those that are restored"),
        ([], ["nothing=a"], "nothing that is restored is in a schema nothing"),
    ],
)
def test_what_is_about_nothing_is_wrong_usage(globs: list[str], maps: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(*globs, maps=maps)


def test_the_keys_of_a_described_plan_are_stable() -> None:
    described = plan("public.orders", maps=["public.orders=public.x"]).describe()
    assert sorted(described) == [
        "not_restored",
        "objects",
        "renamed",
        "skipped_existing",
        "tables",
        "touches",
        "unchanged",
    ]
    assert described["tables"] == [{"from": "public.orders", "to": "public.x", "rows": 10, "bytes": 100}]
    assert described["objects"][0] == {"kind": "type", "name": "public.state"}
