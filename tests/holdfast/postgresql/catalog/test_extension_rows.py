"""Which rows of an extension's tables are its user's, and why some could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog import extension_rows
from holdfast.postgresql.catalog.extension_rows import Configuration, of_moment, read_configuration, read_rows
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect


def kept(name: str, *rows: str) -> Configuration:
    return Configuration(extension="keeper", table_schema="public", name=name, columns=("id",), rows=rows)


BEFORE = "they are of the backup before this moment, and "


@pytest.mark.parametrize(
    ("after", "note"),
    [
        ([kept("jobs", "1")], ""),
        ([kept("jobs", "2")], BEFORE + "changed until the next one"),
        ([kept("others", "1")], BEFORE + "changed until the next one"),
        ([], BEFORE + "changed until the next one"),
        (None, BEFORE + "whether they changed by then is not known"),
    ],
    ids=["same", "other rows", "gone", "nothing", "not known"],
)
def test_between_two_backups_there_are_the_rows_of_the_earlier_one(
    after: Sequence[Configuration] | None, note: str
) -> None:
    [found] = of_moment([kept("jobs", "3")], [kept("jobs", "1"), kept("others", "9")], after)
    assert (found.rows, found.note) == (("1",), note)


def test_what_the_earlier_backup_had_not_is_as_the_moments_own_tells_it() -> None:
    [found] = of_moment([kept("new", "3")], [], [kept("new", "3")])
    assert (found.rows, found.note) == (("3",), "")
    assert (found.label, found.key) == ("configuration rows of public.new", ("keeper", "public", "new"))


@pytest.fixture
def session(address: Address) -> Iterator[psycopg.Connection[Any]]:
    """Of a database with an extension that says to keep rows of two tables and the number of a sequence."""
    with connect(address) as opened:
        opened.execute(
            'create table public.jobs (id int, "The Name" text, twice int generated always as (id * 2) stored);'
            "alter table public.jobs add gone int; alter table public.jobs drop gone; "
            "create table public.kinds (id int); create sequence public.ids;"
        )
        # As pg_extension_config_dump() in its script would.
        opened.execute(
            "update pg_extension set extconfig = array['public.jobs'::regclass::oid, 'public.kinds'::regclass, "
            "'public.ids'::regclass], extcondition = array['where id >= 100', '', ''] where extname = 'plpgsql'"
        )
        yield opened


@pytest.mark.service
def test_the_users_rows_are_read_as_copy_writes_them_in_an_order_of_their_own(session: psycopg.Connection[Any]) -> None:
    session.execute("insert into public.jobs values (1, 'its own'), (101, null), (100, E'a\\tb\\nc\\\\')")
    session.execute("create table public.below () inherits (public.jobs); insert into public.below values (102, 'x')")
    jobs, kinds = read_configuration(session)
    assert (jobs.extension, jobs.columns) == ("plpgsql", ("id", "The Name"))
    assert jobs.rows == ("100\ta\\tb\\nc\\\\", "101\t\\N")
    assert (kinds.name, kinds.rows, kinds.failed) == ("kinds", (), "")


@pytest.mark.service
def test_a_table_that_cannot_be_read_is_told_and_others_are_read(
    session: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension_rows, "MOST_BYTES", 1 << 20)
    session.execute("insert into public.jobs select 100 + i, repeat('x', 1 << 19) from generate_series(1, 3) i")
    session.execute("insert into public.kinds values (7)")
    jobs, kinds = read_configuration(session)
    assert (jobs.rows, jobs.failed) == ((), "they are more than 1 MiB")
    assert kinds.rows == ("7",)
    session.execute("update pg_extension set extcondition[1] = 'where id / 0 = 1' where extname = 'plpgsql'")
    jobs, kinds = read_configuration(session)
    assert "division by zero" in jobs.failed
    assert kinds.rows == ("7",)


@pytest.mark.service
def test_tables_that_the_role_may_not_read_are_left_out(session: psycopg.Connection[Any]) -> None:
    session.execute("create role extension_rows_reader; grant select on public.kinds to extension_rows_reader")
    try:
        session.execute("set role extension_rows_reader")
        assert [each.name for each in read_configuration(session)] == ["kinds"]
    finally:
        session.execute("reset role; drop owned by extension_rows_reader; drop role extension_rows_reader")


@pytest.mark.service
def test_a_connection_that_is_lost_is_no_reason_of_a_table(session: psycopg.Connection[Any], address: Address) -> None:
    reading = read_configuration(session)
    with connect(address) as other:
        other.execute("select pg_terminate_backend(%s, 10000)", (session.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        list(reading)


@pytest.mark.service
def test_a_condition_chooses_among_the_rows_of_one_table_alone(session: psycopg.Connection[Any]) -> None:
    session.execute("insert into public.kinds select generate_series(1, 11)")
    found = kept("kinds")
    assert read_rows(session, found, "where id > 8") == ("10", "11", "9")
    assert len(read_rows(session, found, "")) == 11
