"""Which number each column of an announced relation has, by the catalogs of before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.columns import Column
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.pgoutput import ProtocolError, RelationColumn, RelationMessage, TypeName
from holdfast.postgresql.logical.relation_schema import ChangeForm, Forms, TypeFacts, Types

INT, TEXT, MOOD, ORDER = 23, 25, 900, 7
NOWHERE = Address("postgresql://me@127.0.0.1:1/nowhere")
NAMES = {INT: ("pg_catalog", "int4"), TEXT: ("pg_catalog", "text"), MOOD: ("shop", "mood")}


def facts(kind: int) -> TypeFacts:
    schema, name = NAMES[kind]
    return TypeFacts(name, name, schema, "e" if kind == MOOD else "b", False, f"{schema}.{name}out", None, None)


class KnownTypes(Types):
    """Types that no server is asked for; no two of them are stored alike."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self._alike = {}

    def of(self, columns: Iterable[RelationColumn], named: Mapping[int, TypeName]) -> list[TypeFacts]:
        return [facts(column.type_oid) for column in columns]


def column(number: int, name: str, kind: int = INT, *, generated: str = "", missing: str | None = None) -> Column:
    return Column(
        name=name, number=number, not_null=False, generated=generated, identity="", missing=missing,
        **facts(kind)._asdict(),
    )  # fmt: skip


def catalog(*columns: Column, last: int | None = None, enums: Mapping[str, int] | None = None, **more: Any) -> Catalog:
    """Return a catalog of one table; `last` is the highest number that a column of it ever had."""
    told: dict[str, Any] = {"key": (), "replica_identity": "d", **more}
    table = Table(
        oid=ORDER, table_schema="shop", name="orders", kind="r", persistence="p", access_method="heap", parents=(),
        bound=None, owner="ann", columns=columns, pages=0, size=0, estimated_rows=0,
        form=f"{last or max(each.number for each in columns)}:x", **told,
    )  # fmt: skip
    return Catalog(
        database="shop", server_version=180000, encoding="UTF8", tables=(table,), sequences=(), materialized_views=(),
        references=(), roles=(), enum_oids=dict(enums or {}),
    )  # fmt: skip


def announced(*columns: tuple[str, int], identity: str = "d", key: tuple[str, ...] = ()) -> RelationMessage:
    told = tuple(RelationColumn(name, kind, -1, name in key) for name, kind in columns)
    return RelationMessage(ORDER, "shop", "orders", identity, told)


def form(before: Catalog | None, after: Catalog | None, relation: RelationMessage) -> ChangeForm:
    return Forms(KnownTypes(), before, after).of(relation, {})


def numbers(found: ChangeForm) -> list[tuple[int, str]]:
    return [(each.number, each.name) for each in found.columns]


PLAIN = catalog(column(1, "id"), column(2, "note", TEXT))


def test_columns_of_a_table_that_did_not_change_have_their_numbers() -> None:
    found = form(PLAIN, PLAIN, announced(("id", INT), ("note", TEXT)))
    assert (numbers(found), found.uncertain, found.label) == ([(1, "id"), (2, "note")], False, "shop.orders")


def test_a_column_that_was_renamed_keeps_its_number_and_has_the_name_of_its_time() -> None:
    found = form(PLAIN, catalog(column(1, "id"), column(2, "words", TEXT)), announced(("id", INT), ("old", TEXT)))
    assert numbers(found) == [(1, "id"), (2, "old")]


def test_a_column_that_took_the_place_of_another_is_told_by_its_type() -> None:
    after = catalog(column(1, "id"), column(3, "note", INT))
    first = form(PLAIN, after, announced(("id", INT), ("note", TEXT)))
    second = form(PLAIN, after, announced(("id", INT), ("note", INT)))
    assert (numbers(first), numbers(second)) == ([(1, "id"), (2, "note")], [(1, "id"), (3, "note")])
    assert (first.uncertain, second.uncertain) == (False, False)


def test_of_two_columns_of_one_type_nobody_knows_which_it_was() -> None:
    after = catalog(column(1, "id"), column(3, "note", TEXT))
    found = form(PLAIN, after, announced(("id", INT), ("note", TEXT)))
    # The number below zero stands for its place, and means nothing outside of its file.
    assert (numbers(found), found.uncertain) == ([(1, "id"), (-2, "note")], True)


def test_a_column_that_came_and_went_is_no_reason_for_a_new_snapshot() -> None:
    after = catalog(column(1, "id"), column(2, "note", TEXT), last=3)
    found = form(PLAIN, after, announced(("id", INT), ("note", TEXT), ("more", INT)))
    assert (numbers(found), found.uncertain) == ([(1, "id"), (2, "note"), (-3, "more")], False)


def test_of_a_table_that_is_gone_names_are_enough() -> None:
    found = form(PLAIN, None, announced(("note", TEXT), ("other", INT)))
    assert (numbers(found), found.uncertain) == ([(2, "note"), (-2, "other")], False)


def test_a_table_that_came_and_went_has_numbers_by_place_where_both_catalogs_are_known() -> None:
    others, relation = PLAIN.with_fields({"tables": ()}), announced(("id", INT), ("word", TEXT))
    assert numbers(form(others, others, relation)) == [(1, "id"), (2, "word")]
    assert numbers(form(None, others, relation)) == [(-1, "id"), (-2, "word")]


def test_a_table_that_was_made_in_between_has_the_numbers_of_the_later_catalog() -> None:
    found = form(None, PLAIN, announced(("id", INT), ("note", TEXT)))
    assert (numbers(found), found.uncertain) == ([(1, "id"), (2, "note")], False)


def test_generated_columns_are_not_announced() -> None:
    both = catalog(column(1, "id"), column(2, "twice", INT, generated="s"), column(3, "note", TEXT))
    assert numbers(form(both, both, announced(("id", INT), ("note", TEXT)))) == [(1, "id"), (3, "note")]


def test_a_column_has_the_type_that_it_had_then_and_no_value_for_older_rows() -> None:
    before = catalog(column(1, "id"), column(2, "note", TEXT, missing="x"))
    after = catalog(column(1, "id"), column(2, "note", MOOD, missing="sad"))
    was, now = (form(before, after, announced(("id", INT), ("note", kind))) for kind in (TEXT, MOOD))
    assert [(each.columns[1].base, each.columns[1].missing) for each in (was, now)] == [("text", "x"), ("mood", "sad")]


@pytest.mark.parametrize(
    ("before", "after", "identity", "shown", "key"),
    [
        (("id",), ("id",), "d", ("id",), (1,)),
        (("note", "id"), ("note", "id"), "d", ("id", "note"), (2, 1)),  # in the order of the primary key
        ((), (), "i", ("note",), (2,)),
        (("id",), ("id",), "f", ("id", "note"), (1,)),
        (("id",), ("note",), "f", ("id", "note"), ()),  # where whole rows are told, it must have been one all the time
        (None, ("id",), "f", ("id", "note"), ()),
        (("id",), None, "f", ("id", "note"), (1,)),
        (("id",), ("id",), "n", (), ()),
    ],
)
def test_rows_are_told_apart_by_the_key_of_their_time(
    before: tuple[str, ...] | None,
    after: tuple[str, ...] | None,
    identity: str,
    shown: tuple[str, ...],
    key: tuple[int, ...],
) -> None:
    columns = column(1, "id"), column(2, "note", TEXT)
    one, other = (
        None if each is None else catalog(*columns, key=each, key_oid=len(str(each))) for each in (before, after)
    )
    found = form(one, other, announced(("id", INT), ("note", TEXT), identity=identity, key=shown))
    assert found.key == key
    assert found.keeps_old_rows is (identity == "f")
    assert found.key_places == tuple(number - 1 for number in key)


def test_a_table_whose_key_is_another_one_by_now_needs_a_new_snapshot() -> None:
    columns = column(1, "id"), column(2, "note", TEXT)
    before, after = catalog(*columns, key=("id",)), catalog(*columns, key=("note",))
    told = announced(("id", INT), ("note", TEXT), key=("id",))
    assert form(before, after, told).uncertain
    assert not form(before, before, told).uncertain
    assert not form(before, None, told).uncertain


def test_changes_have_the_fields_of_their_table_and_those_of_a_change() -> None:
    schema = form(PLAIN, PLAIN, announced(("id", INT), ("note", TEXT))).schema
    assert schema.names == ["id", "note", "__lsn", "__seq", "__op", "__unchanged"]


def test_a_table_was_altered_where_it_shows_other_columns_than_were_recorded() -> None:
    moody = catalog(column(1, "id"), column(2, "m", MOOD), enums={"shop.mood": 900})
    renamed = catalog(column(1, "id"), column(2, "m", MOOD), enums={"shop.feeling": 900})
    forms = Forms(KnownTypes(), moody, renamed)
    assert forms.recorded(ORDER) == ("shop.orders", (("id", "int4", False), ("m", 900, False)))
    assert forms.shown(forms.of(announced(("id", INT), ("m", MOOD)), {})) == forms.recorded(ORDER)
    assert forms.shown(forms.of(announced(("id", INT), ("n", MOOD)), {})) != forms.recorded(ORDER)
    assert Forms(KnownTypes(), None, moody).recorded(ORDER) is None


def of(schema: str, name: str, output: str = "out") -> TypeFacts:
    return TypeFacts(name, name, schema, "b", False, output, None, None)


@pytest.mark.parametrize(
    ("was", "may_be"),
    [
        (of("pg_catalog", "int4"), True),
        (of("pg_catalog", "int8"), False),
        (of("pg_catalog", "int8", output=""), True),  # it is gone, and may have been called anything
        (of("shop", "int4"), False),
    ],
)
def test_a_column_was_of_its_own_type_or_of_one_that_nobody_knows(was: TypeFacts, may_be: bool) -> None:
    assert KnownTypes().may_have_been(was, column(1, "id")) is may_be


def test_types_that_are_not_the_servers_own_may_have_had_other_names() -> None:
    assert KnownTypes().may_have_been(of("shop", "feeling"), column(1, "m", MOOD))
    assert not KnownTypes().may_have_been(of("pg_catalog", "text"), column(1, "m", MOOD))


@pytest.mark.service
def test_types_are_known_below_their_domains_and_asked_for_once(address: Address) -> None:
    with connect(address) as session:
        session.execute("create domain public.price as numeric(10, 2); create domain public.fine as public.price")
        (fine,) = session.execute("select 'public.fine'::regtype::oid::int8").fetchone() or (0,)
    types = Types(address)
    asked = [RelationColumn("p", fine, -1, False), RelationColumn("n", 1700, (5 << 16 | 3) + 4, False)]
    first = types.of(asked, {})
    assert [(each.type, each.base, each.precision, each.scale) for each in first] == [
        ("public.fine", "numeric", 10, 2),
        ("numeric(5,3)", "numeric", 5, 3),
    ]
    with connect(address) as session:
        session.execute("drop domain public.fine")
    assert types.of(asked, {}) == first


@pytest.mark.service
def test_a_type_that_is_gone_is_known_by_what_the_stream_called_it(address: Address) -> None:
    (found,) = Types(address).of([RelationColumn("m", 99_999, -1, False)], {99_999: TypeName("shop", "mood")})
    assert (found.type, found.base_schema, found.base, found.output) == ('"shop"."mood"', "shop", "mood", "")
    with pytest.raises(ProtocolError, match="a type that is gone and has no name"):
        Types(address).of([RelationColumn("m", 99_999, -1, False)], {})


@pytest.mark.service
def test_types_that_are_stored_alike_may_have_been_each_other(address: Address) -> None:
    types = Types(address)
    text = column(1, "note", TEXT)
    assert types.may_have_been(of("pg_catalog", "varchar"), text)
    assert not types.may_have_been(of("pg_catalog", "int4"), text)
