"""Names that restored objects get: mapped ones, those that follow their table's, and free ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.make_plan import name_objects
from holdfast.postgresql.restore.plan.name_maps import NameMaps, Names
from holdfast.postgresql.restore.plan.selection import Selection
from holdfast.postgresql.restore.plan.target_state import Target
from tests.support.databases.planned_shop import CATALOG, EMPTY, ENTRIES, entry, having

ORDERS = ("public", "orders")


def named(
    *names: str, target: Target = EMPTY, maps: Iterable[str] = (), more: Sequence[DumpEntry] = ()
) -> tuple[Names, list[tuple[str, str]]]:
    chosen = {table.oid for table in CATALOG.tables if table.name in names}
    entries = (*ENTRIES, *more)
    selection = Selection(entries, CATALOG, target, NameMaps.parse(maps), chosen)
    selection.run()
    return name_objects(selection, [each for each in entries if each.id in selection.created], selection.maps)


def test_a_table_takes_its_name_before_what_belongs_to_others() -> None:
    """The new name of a table is that of an index of another."""
    _, renamed = named("orders", "customers", maps=["public.customers=public.by_state"])
    assert ("index public.by_state", "public.by_state1") in renamed


def test_statistics_have_names_of_their_own() -> None:
    made = entry(
        70, "STATISTICS", "orders_stat", [4], "CREATE STATISTICS public.orders_stat ON a, b FROM public.orders;"
    )
    names, renamed = named("orders", more=[made], target=having(("RELATION", "orders_stat")))
    assert (names.statistics, renamed) == ({("public", "orders_stat"): ("public", "orders_stat")}, [])
    names, renamed = named("orders", more=[made], target=having(("STATISTICS", "orders_stat")))
    assert names.statistics == {("public", "orders_stat"): ("public", "orders_stat1")}
    assert renamed == [("statistics public.orders_stat", "public.orders_stat1")]


def test_only_constraints_with_an_index_take_a_name_in_their_schema() -> None:
    check = entry(
        71, "CONSTRAINT", "orders positive", [4], "ALTER TABLE public.orders ADD CONSTRAINT positive CHECK (id > 0);"
    )
    names, renamed = named("orders", more=[check], target=having(("RELATION", "positive")))
    assert renamed == []
    assert "positive" not in names.indexes[ORDERS]


def test_a_schema_is_mapped_with_its_types_functions_and_multiranges() -> None:
    ranged = entry(
        72, "TYPE", "span", sql="CREATE TYPE public.span AS RANGE (subtype = int, multirange_type_name = public.spans);"
    )
    names, renamed = named("orders", maps=["public=restored", "public.orders=other.past"], more=[ranged])
    assert names.schemas == {"public": "restored"}
    for old in ("state", "touch", "span", "spans", "customers"):
        assert names.of(("public", old)) == ("restored", old)
    assert names.of(ORDERS) == ("other", "past")
    assert names.of(("public", "orders_id_seq")) == ("other", "past_id_seq")
    assert dict(renamed)["sequence public.orders_id_seq"] == "other.past_id_seq"
