"""Rows that extensions keep for their users take the place of what the extensions made in a target."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.extension_rows import Configuration
from holdfast.postgresql.restore.objects.extension_configuration import restore_configuration

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

OBJECTS = """
create table public.kinds (id int primary key, name text);
create table public.jobs (id int, kind int references public.kinds, twice int generated always as (id * 2) stored);
insert into public.kinds values (1, 'built in'), (100, 'made as the user''s'); insert into public.jobs values (7, 100);
update pg_extension set extconfig = array['public.jobs'::regclass::oid, 'public.kinds'::regclass],
  extcondition = array['', 'where id >= 100'] where extname = 'plpgsql';
"""


@pytest.fixture
def session(undone: Session) -> Session:
    """Of a target with an extension that keeps rows of two tables, as pg_extension_config_dump() would say."""
    undone.execute(OBJECTS)
    return undone


def kept(name: str, *rows: str, columns: tuple[str, ...] = ("id", "name")) -> Configuration:
    return Configuration(extension="plpgsql", table_schema="public", name=name, columns=columns, rows=rows)


def jobs(*rows: str) -> Configuration:
    return kept("jobs", *rows, columns=("id", "kind"))


def rows(session: Session, name: str) -> list[Any]:
    return session.execute(f"select * from public.{name} order by id".encode()).fetchall()


def test_they_replace_the_users_rows_alone_whatever_refers_to_what(session: Session) -> None:
    assert restore_configuration(session, [jobs("10\t101"), kept("kinds", "101\tit's\\tmine", "102\t\\N")]) == {}
    assert rows(session, "kinds") == [(1, "built in"), (101, "it's\tmine"), (102, None)]
    assert rows(session, "jobs") == [(10, 101, 20)]


def test_it_is_done_once(session: Session) -> None:
    wanted = [jobs(), kept("kinds", "101\tx")]
    restore_configuration(session, wanted)
    session.execute("insert into public.kinds values (500, 'of later')")
    assert restore_configuration(session, wanted) == {}
    assert [row[0] for row in rows(session, "kinds")] == [1, 101, 500]


def test_what_the_target_does_not_take_leaves_the_others(session: Session) -> None:
    session.execute("update public.jobs set kind = 1")
    left = restore_configuration(session, [jobs("10\t999"), kept("kinds", "100\tmine")])
    assert list(left) == ["configuration rows of public.jobs"]
    assert "violates foreign key constraint" in left["configuration rows of public.jobs"]
    assert rows(session, "jobs") == [(7, 1, 14)]
    assert rows(session, "kinds") == [(1, "built in"), (100, "mine")]
    assert left == restore_configuration(session, [jobs("10\t999"), kept("kinds", "100\tmine")])


def test_a_table_that_no_extension_here_keeps_is_named(session: Session) -> None:
    others = Configuration(extension="keeper", table_schema="public", name="kinds", columns=("id",))
    assert restore_configuration(session, [others]) == {
        "configuration rows of public.kinds": "no extension of the target keeps any there"
    }
    assert len(rows(session, "kinds")) == 2


def test_rows_that_the_extension_changes_as_they_come_are_told(session: Session) -> None:
    session.execute(
        "create function public.shout() returns trigger language plpgsql as "
        "$$ begin new.name = upper(new.name); return new; end $$;"
        "create trigger shout before insert on public.kinds for each row execute function public.shout()"
    )
    left = restore_configuration(session, [jobs(), kept("kinds", "101\tmine")])
    assert left == {"configuration rows of public.kinds": "the extension has made others of them as they came"}


def test_tables_that_refer_to_each_other_are_restored_all_the_same(session: Session) -> None:
    session.execute("alter table public.kinds add job int; alter table public.jobs add primary key (id)")
    session.execute(
        "alter table public.kinds add foreign key (job) references public.jobs deferrable initially deferred; "
        "alter table public.jobs alter constraint jobs_kind_fkey deferrable initially deferred"
    )
    wanted = [jobs("10\t101"), kept("kinds", "101\t10", columns=("id", "job"))]
    assert restore_configuration(session, wanted) == {}
    assert rows(session, "jobs") == [(10, 101, 20)]


def test_without_such_tables_nothing_is_asked_or_noted(session: Session) -> None:
    assert restore_configuration(session, []) == {}
    assert session.execute("select count(*) from holdfast_restore.done").fetchone() == (0,)
