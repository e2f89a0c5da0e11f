"""Tables that a target has: in which order they are filled, and what stays as it is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.common.errors import BusyError, RefusedError
from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.catalog.sequences import SequenceValue
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows import existing_tables
from holdfast.postgresql.restore.rows.staging_tables import set_aside

pytestmark = pytest.mark.service

Session = psycopg.Connection[tuple[Any, ...]]


def made(session: Session, *statements: str) -> list[Table]:
    for statement in statements:
        session.execute(statement.encode())
    return [table for table in read_tables(session) if table.has_rows]


def test_what_others_refer_to_comes_first_also_by_partitions(undone: Session) -> None:
    tables = made(
        undone,
        "create table public.c (id int primary key)",
        "create table public.b (id int, c int references public.c, primary key (id)) partition by range (id)",
        "create table public.b_1 partition of public.b default",
        "create table public.a (b int references public.b, c int references public.c)",
    )
    assert [table.name for table in existing_tables.filling_order(undone, tables)] == ["c", "b_1", "a"]


def test_partitions_that_refer_to_each_other_are_a_circle_and_one_table_is_none(undone: Session) -> None:
    alone = made(undone, "create table public.t (id int primary key, above int references public.t)")
    assert existing_tables.filling_order(undone, alone) == alone
    tables = made(
        undone,
        "create table public.p (id int primary key, above int references public.p) partition by range (id)",
        "create table public.p_1 partition of public.p for values from (0) to (10)",
        "create table public.p_2 partition of public.p default",
    )
    with pytest.raises(RefusedError, match=r"foreign keys of public\.p lead to each other"):
        existing_tables.filling_order(undone, tables)


def test_a_sequence_that_is_not_there_is_named_and_one_of_an_extension_left_alone(undone: Session) -> None:
    undone.execute("create sequence public.s")
    there, lacking, of_extension = (
        SequenceValue(sequence_schema="public", name=name, extension=extension, last_value=1, is_called=False)
        for name, extension in (("s", ""), ("none", ""), ("gone", "postgis"))
    )
    kept, left = existing_tables.present(undone, [there, lacking, of_extension])
    assert kept == (there,)
    assert [each.what for each in left] == ["where sequence public.none stood"]


def test_more_tables_than_can_be_locked_are_refused(undone: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = made(undone, "create table public.a ()", "create table public.b ()")
    monkeypatch.setattr(existing_tables, "most_locked", lambda session: 1)
    with pytest.raises(RefusedError, match="2 tables are to be filled in one transaction, and the server has locks"):
        existing_tables.check_existing(undone, "url", tables, is_trusted=False)


def test_policies_and_owners_that_are_in_the_way_are_named(begun: Session, address: Address) -> None:
    tables = made(begun, "create table public.a ()", "create table public.b ()")
    begun.execute("create role filling login password 'x'; alter table public.a owner to filling")
    try:
        begun.execute("alter table public.a enable row level security; alter table public.a force row level security")
        with (
            connect(Address(address.url.replace("postgres@", "filling@"), "x")) as own,
            pytest.raises(RefusedError) as refused,
        ):
            existing_tables.check_existing(own, "url", tables, is_trusted=False)
        said = str(refused.value)
        assert "policies of public.a hide rows from filling" in said
        assert "public.b belongs to postgres, and only its owner can fill it" in said
    finally:
        begun.execute("drop owned by filling; drop role filling")


def test_rows_that_came_meanwhile_and_work_of_others_end_it(
    begun: Session, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_tables, "LOCK_WAIT", "1ms")
    (table,) = made(begun, "create table public.t (id int)")
    set_aside(begun, [table], {table.oid: ["file"]}, is_begun=False)
    with connect(address) as other:
        with other.transaction():
            other.execute("insert into public.t values (1)")
            with pytest.raises(BusyError, match="others are at work"), begun.transaction():
                existing_tables.fill(begun, [table])
        with pytest.raises(RefusedError, match=r"public\.t has rows already"), begun.transaction():
            existing_tables.fill(begun, [table])
