"""Plans, made of a catalog and a dump's entries written down here: no server."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from holdfast.common.errors import RefusedError, UsageError
from holdfast.postgresql.restore.plan.make_plan import make_plan
from holdfast.postgresql.restore.plan.name_maps import NameMaps
from holdfast.postgresql.restore.plan.plan import RestorePlan
from holdfast.postgresql.restore.plan.target_state import Target
from tests.support.databases.planned_shop import CATALOG, EMPTY, ENTRIES, STORED, entry, having


def plan(
    *globs: str, target: Target = EMPTY, maps: Iterable[str] = (), stored: dict[int, tuple[int, int, int]] = STORED
) -> RestorePlan:
    return make_plan(CATALOG, ENTRIES, target, globs=globs, maps=NameMaps.parse(maps), stored=stored)


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


def test_a_partitioned_table_brings_its_partitions() -> None:
    made = plan("public.events")
    assert created(made) == [12, 13, 14, 36, 37, 38]
    assert made.to_analyze(100) == [("public", "events")]


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
    made = make_plan(CATALOG, (*ENTRIES, secret), EMPTY, maps=NameMaps.parse(["public=x"]), stored=STORED)
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


def test_partitions_of_a_renamed_table_are_named_after_it() -> None:
    taken = having(("RELATION", "events"), ("RELATION", "events_1"))
    made = plan("public.events", target=taken, maps=["public.events=public.events_old"])
    assert {each.target.label for each in made.tables} == {"public.events_old", "public.events_old_1"}
    made = plan("public.events", maps=["public.events=archive.events", "public.events_1=public.first"])
    assert {each.target.label for each in made.tables} == {"archive.events", "public.first"}
