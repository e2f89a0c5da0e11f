"""Which entries of a dump come with chosen tables, which the target has, and which stay out for what reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.restore.plan.name_maps import NameMaps
from holdfast.postgresql.restore.plan.selection import Selection
from holdfast.postgresql.restore.plan.target_state import Target
from tests.support.databases.planned_shop import CATALOG, EMPTY, ENTRIES, entry, having


def select(
    *names: str, target: Target = EMPTY, maps: Iterable[str] = (), entries: Sequence[DumpEntry] = ENTRIES
) -> Selection:
    """Return what is selected for tables; without names, for everything."""
    chosen = {table.oid for table in CATALOG.tables if not names or table.name in names}
    made = Selection(entries, CATALOG, target, NameMaps.parse(maps), chosen, whole=not names)
    made.run()
    return made


def left(made: Selection) -> dict[str, str]:
    return {each.entry.label: each.reason for each in made.left_out.values()}


def test_what_stays_out_is_named_with_its_reason() -> None:
    made = select("orders")
    assert left(made) == {
        "foreign key public.orders to_customer": "it needs table public.customers, which is neither chosen nor in the "
        "target",
        "view public.v": "views do not come with chosen tables",
        "view public.v2": "views do not come with chosen tables",
        "materialized view public.totals": "views do not come with chosen tables",
        "publication table public.pub orders": "what is published is not changed: add it when it is wanted",
        "policy public.customers own": "table public.customers is not chosen",
    }
    assert all(each.add_later for each in made.left_out.values())


def test_both_sides_of_a_foreign_key_bring_it() -> None:
    made = select("orders", "customers")
    assert {33, 35} <= made.created.keys()
    assert list(made.references()) == []


def test_a_partitioned_table_alone_brings_none_of_its_partitions_rows() -> None:
    made = select("events")
    assert sorted(made.created) == [12, 36]
    assert left(made) == {
        "table public.events_1": "it uses a chosen table, and is not chosen itself",
        "attached partition public.events_1": "table public.events_1 is not chosen",
    }


@pytest.mark.parametrize("target", [EMPTY, having(("RELATION", "events"))], ids=["empty", "with its root"])
def test_a_partition_alone_becomes_a_table_of_its_own(target: Target) -> None:
    made = select("events_1", target=target)
    assert sorted(made.created) == [13, 37]
    assert left(made)["attached partition public.events_1"] == (
        "table public.events is not chosen: the partition becomes a table of its own"
    )


def test_a_sequence_of_another_table_comes_without_its_owner() -> None:
    made = select("tickets")
    assert sorted(made.created) == [5, 21]
    assert left(made) == {
        "owner of sequence public.orders_id_seq": "it needs table public.orders, which is neither chosen nor in the "
        "target"
    }


def test_what_is_looked_for_in_the_target_has_its_mapped_name() -> None:
    made = select("orders", maps=["public=restored"], target=having(("TYPE", "state"), ("RELATION", "customers")))
    assert 1 in made.created
    assert 33 in made.left_out
    there = Target(frozenset({("TYPE", "restored", "state"), ("RELATION", "restored", "customers")}))
    made = select("orders", maps=["public=restored"], target=there)
    assert 1 in made.existing
    assert 33 in made.created


def test_everything_under_other_names_leaves_what_acts_on_the_whole_target() -> None:
    defaults = entry(91, "DEFAULT ACL", "TABLES")
    subscription = entry(90, "SUBSCRIPTION", "sub", sql="CREATE SUBSCRIPTION sub CONNECTION 'password=secret';")
    entries = (*ENTRIES, subscription, defaults)
    made = select(maps=["public=restored"], entries=entries)
    assert {each.entry.kind: each.add_later for each in made.left_out.values()} == {
        "PUBLICATION": True,
        "EVENT TRIGGER": True,
        "SUBSCRIPTION": False,  # its statement holds a password
    }
    assert 91 in made.created
    assert 91 in select(maps=["public.orders=public.other"], entries=entries).left_out


def test_a_trigger_that_comes_from_a_root_needs_the_root() -> None:
    altered = entry(95, "TRIGGER", "events_1 seen", [13, 2], "ALTER TABLE public.events_1 ENABLE ALWAYS TRIGGER seen;")
    entries = (*ENTRIES, altered)
    assert left(select("events_1", entries=entries))[altered.label] == (
        "it comes from a partitioned table that is not chosen"
    )
    assert 95 in select("events", "events_1", entries=entries).created


def test_a_constraint_over_ranges_brings_the_extension_that_pg_dump_does_not_name() -> None:
    gist = entry(40, "EXTENSION", "btree_gist", sql="CREATE EXTENSION btree_gist;")
    excluded = entry(
        41, "CONSTRAINT", "orders apart", [4], "ALTER TABLE public.orders ADD CONSTRAINT apart EXCLUDE USING gist (x);"
    )
    assert 40 in select("orders", entries=(*ENTRIES, gist, excluded)).created
    assert 40 not in select("orders", entries=(*ENTRIES, gist)).created


def test_what_needs_something_left_out_says_what() -> None:
    own = entry(50, "RULE", "orders noted", [4, 33], "CREATE RULE noted AS ON INSERT TO public.orders DO NOTHING;")
    made = select("orders", entries=(*ENTRIES, own))
    assert left(made)[own.label] == "it needs foreign key public.orders to_customer, which is not restored"


def test_an_entry_that_names_two_relations_belongs_to_the_one_that_its_sql_names_first() -> None:
    made = select("orders")
    by_id = {each.id: each for each in ENTRIES}
    for number, owner in ((33, 4), (35, 3), (9, 4), (6, 5)):
        assert made.owner(by_id[number]) is by_id[owner]
    assert made.owner(by_id[10]) is None
    server = entry(60, "SERVER", "far")
    mapping = entry(61, "USER MAPPING", "USER MAPPING ann SERVER far")
    assert select(entries=(*ENTRIES, server, mapping)).owner(mapping) is server


def test_what_the_target_has_is_neither_made_nor_changed() -> None:
    target = having(("TYPE", "state"), ("ROUTINE", "touch()"), ("RELATION", "customers"), ("RELATION", "v"))
    made = select("orders", target=target)
    assert sorted(made.created) == [4, 5, 6, 7, 8, 9, 31, 32, 33, 34]
    assert sorted(made.existing) == [1, 2, 3, 30]
    assert [(key.id, table.id) for key, table in made.references()] == [(33, 3)]
    assert left(made)["view public.v"] == "views do not come with chosen tables; the target has it"


def test_a_child_of_a_table_of_the_target_inherits_from_that() -> None:
    assert sorted(select("child").created) == [15, 16]
    made = select("child", target=having(("RELATION", "parent")))
    assert sorted(made.created) == [16]
    assert [(child.id, parent.id) for child, parent in made.inherited()] == [(16, 15)]
