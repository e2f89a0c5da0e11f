"""Composition of a schema, without a server: which of two definitions is taken, and what is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.dump.dump_entries import DumpEntry
from holdfast.postgresql.dump.dump_objects import DumpObjects
from holdfast.postgresql.logical.schema_composition import ComposedSchema, KnownSchema, Side, compose

ORDERS, NOTES = 10, 20
FUNCTION = 30

Objects = dict[tuple[int, int], list[int]]


def catalog(*oids: int) -> Catalog:
    tables = tuple(
        Table.model_validate(
            {
                "oid": oid,
                "table_schema": "public",
                "name": f"t{oid}",
                "kind": "r",
                "persistence": "p",
                "replica_identity": "d",
                "access_method": "heap",
                "parents": (),
                "bound": None,
                "owner": "postgres",
                "columns": (),
                "key": (),
                "pages": 1,
                "size": 1,
                "estimated_rows": 1,
            }
        )
        for oid in oids
    )
    return Catalog(
        database="shop",
        server_version=180006,
        encoding="UTF8",
        tables=tables,
        sequences=(),
        materialized_views=(),
        references=(),
        roles=(),
    )


def table(oid: int, text: str, number: int) -> DumpEntry:
    return DumpEntry(number, "pre-data", "TABLE", 1259, oid, "public", f"t{oid}", (), text)


def function(text: str) -> DumpEntry:
    return DumpEntry(9, "pre-data", "FUNCTION", 1255, FUNCTION, "public", "f()", (), text)


def known(*entries: DumpEntry) -> KnownSchema:
    oids = [each.oid for each in entries if each.kind == "TABLE"]
    return KnownSchema(catalog(*oids), DumpObjects(entries))


BEFORE = known(table(ORDERS, "orders 1", 1), table(NOTES, "notes 1", 2), function("f 1"))
AFTER = known(table(ORDERS, "orders 2", 1), table(NOTES, "notes 2", 2), function("f 2"))


def texts(found: ComposedSchema | None) -> list[str]:
    assert found is not None
    return [each.sql for each in found.entries]


def at(position: int, touches: Objects) -> ComposedSchema | None:
    return compose(BEFORE, AFTER, touches, position, "later", lambda _: "earlier")


def test_each_object_has_the_definition_that_it_had() -> None:
    touches: Objects = {(1259, ORDERS): [100], (1259, NOTES): [200], (1255, FUNCTION): [300]}
    assert texts(at(150, touches)) == ["orders 2", "notes 1", "f 1"]
    assert texts(at(250, touches)) == ["orders 2", "notes 2", "f 1"]
    assert texts(at(100, touches)) == ["orders 1", "notes 1", "f 1"]  # a commit counts behind its own position
    found = at(150, touches)
    assert found is not None
    assert found.unsure == ()


def _no_doubt(table: int) -> Side:
    raise AssertionError(f"what table {table} was is known")


def test_what_is_touched_on_both_sides_is_named_and_a_table_is_weighed() -> None:
    touches: Objects = {(1259, ORDERS): [100], (1259, NOTES): [200], (1255, FUNCTION): [110, 190]}
    found = at(150, touches)
    assert texts(found) == ["orders 2", "notes 1", "f 2"]
    assert found is not None
    assert found.unsure == ("function public.f()",)
    found = at(150, {**touches, (1259, ORDERS): [100, 200]})
    assert texts(found) == ["orders 1", "notes 1", "f 2"]
    assert found is not None
    assert found.doubtful == {ORDERS: "earlier"}


def test_columns_decide_where_a_table_was_touched_on_both_sides() -> None:
    touches: Objects = {(1259, ORDERS): [100, 200], (1249, ORDERS): [100], (1259, NOTES): [90], (1255, FUNCTION): [90]}
    found = at(150, touches)
    assert texts(found) == ["orders 2", "notes 2", "f 2"]
    assert found is not None
    assert found.unsure == ("table public.t10",)


def test_what_was_touched_by_nothing_that_is_told_is_not_known() -> None:
    found = at(150, {(1259, ORDERS): [100], (1255, FUNCTION): [200]})
    assert found is not None
    assert found.doubtful == {NOTES: "earlier"}


@pytest.mark.parametrize(("position", "there"), [(50, False), (150, True)])
def test_a_table_is_there_from_when_it_was_made(position: int, there: bool) -> None:
    later = known(table(ORDERS, "orders 1", 1), table(NOTES, "notes 1", 2))
    found = compose(known(table(ORDERS, "orders 1", 1)), later, {(1259, NOTES): [100]}, position, "earlier", _no_doubt)
    assert ("notes 1" in texts(found)) is there
    assert found is not None
    assert {each.oid for each in found.catalog.tables} == ({ORDERS, NOTES} if there else {ORDERS})


def test_two_objects_of_one_name_do_not_fit_together() -> None:
    """The first was dropped, the other made under its name, and of one it is not known when."""
    old = replace(function("old"), oid=31)
    new = replace(function("new"), oid=32)
    orders = table(ORDERS, "orders 1", 1)
    touches: Objects = {(1255, 31): [200], (1255, 32): [100]}
    assert compose(known(orders, old), known(orders, new), touches, 150, "later", _no_doubt) is None


def test_what_came_and_went_is_named() -> None:
    touches: Objects = {(1259, ORDERS): [100], (1259, NOTES): [200], (1255, FUNCTION): [300], (1255, 77): [110, 190]}
    for position, is_named in ((105, False), (150, True), (195, False)):
        found = at(position, touches)
        assert found is not None
        assert bool(found.unsure) is is_named
