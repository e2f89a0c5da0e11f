"""Restores by a superuser, of a source one of whose ordinary owners would like to be one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
import pytest

from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from tests.support.databases.owners import TAKEN, loaders, passing_roles
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CreateOn = Callable[..., Address]

TAKE = """
create schema held authorization loading_plain;
set role loading_plain;
create function held.take() returns bool language plpgsql as $$
  begin
    if current_database() = '{source}' then return true; end if;
    begin
      reset role;
      reset session authorization;
    exception when others then null;
    end;
    begin
      create role loading_taken superuser;
    exception when insufficient_privilege or duplicate_object then null;
    end;
    return true;
  end $$;
create function held.taken(n int) returns int language plpgsql immutable as
  $$ begin perform held.take(); return n; end $$;
"""

GENERATED = "create table held.t (id int, g int generated always as (id + held.taken(1)) stored)"
KEYED = "create table held.t (id int) partition by range ((id + held.taken(1)))"
BOUND = """
create domain held.d as int check (held.take());
create table held.t (id held.d) partition by range (id);
create table held.t1 partition of held.t for values from (1) to (5);
"""
AGGREGATE = """
create domain held.d as int check (held.take());
create function held.plus(held.d, int) returns held.d language sql as 'select 1::held.d';
create aggregate held.many(int) (sfunc = held.plus, stype = held.d, initcond = '0');
"""
CAST = """
create type held.word as enum ('a');
create function held.number(held.word) returns int language plpgsql immutable as
  $$ begin perform held.take(); return 1; end $$;
create cast (held.word as int) with function held.number(held.word) as implicit;
create table held.pk (id int primary key);
create table held.fk (id held.word references held.pk);
insert into held.pk values (1);
insert into held.fk values ('a');
"""
VIEWED = """
create function held.swap() returns bool language plpgsql as $$
  begin
    if current_database() = '{source}' then return true; end if;
    alter table held.a rename to b;
    create view held.a as select * from held.b where held.take();
    return true;
  exception when others then return true;
  end $$;
create table held.a (id int);
create table held.z (id int check (held.swap()));
insert into held.a values (1);
insert into held.z values (1), (2);
"""
TYPED = """
create type held.word as (word text);
create function held.text(held.word) returns text language plpgsql as
  $$ begin perform held.take(); return $1.word; end $$;
create cast (held.word as text) with function held.text(held.word);
create function held.swap() returns bool language plpgsql as $$
  begin
    if current_database() = '{source}' then return true; end if;
    alter table held.a alter column id type held.word using row(id)::held.word;
    return true;
  exception when others then return true;
  end $$;
create table held.a (id text);
create table held.z (id int check (held.swap()));
insert into held.a values (1);
insert into held.z values (1), (2);
"""
DEFAULTS = """
create table held.pk (id int primary key default held.taken(1));
create domain held.d as int default held.taken(1) check (held.take());
create type held.r as range (subtype = held.d);
create table held.c (r held.r default '[1,2)', d held.d default 1);
create function held.f(d held.d default 1, n int default held.taken(1)) returns int language sql as 'select 1';
create view held.v as select 1::held.d, held.taken(1), '[1,2)'::held.r;
create materialized view held.m as select 1::held.d, held.taken(1), '[1,2)'::held.r;
create policy p on held.pk using (held.taken(1) = 1);
create table held.ex (id int, r int4range, exclude using gist (r with &&) where (held.taken(1) = 1));
create index on held.ex ((id + held.taken(1))) where held.taken(1) = 1;
create statistics held.st on (id + held.taken(1)), (id + held.taken(2)) from held.ex;
create function held.tr() returns trigger language plpgsql as 'begin return new; end';
create trigger tr before insert on held.ex for each row when (held.taken(1) = 1) execute function held.tr();
create rule ru as on insert to held.c where held.taken(1) = 2 do nothing;
create function held.atomic() returns int language sql begin atomic select held.taken(1); end;
create table held.parent (id int); create table held.child (check (held.taken(1) = 1)) inherits (held.parent);
insert into held.child values (1);
create table held.li (id held.d) partition by list (id);
create table held.li1 partition of held.li default;
insert into held.li values (1);
create table held.hh (id int) partition by hash (id);
create table held.h1 partition of held.hh for values with (modulus 1, remainder 0);
insert into held.ex values (1, '[1,2)');
"""


ATTACKS = {
    "a generated column": GENERATED,
    "a key of partitions": KEYED,
    "a bound of a partition": BOUND,
    "an aggregate": AGGREGATE,
    "a cast": CAST,
    "a view in a table's place": VIEWED,
    "a column of another type": TYPED,
    "constants": DEFAULTS,
}

OF_SUPERUSER = """
create schema super;
create function super.does() returns int language sql as 'select 1';
create function super.other() returns int language sql as 'select 1';
create table super.t (id int primary key, n int check (n > 0) default 1);
create table super.root (id int) partition by range (id);
create domain super.d as int check (value > 0);
create materialized view super.m as select 1 as id;
grant usage, create on schema super to loading_plain;
"""
"""What belongs to a superuser."""

CHANGING = """
create function held.fires() returns trigger language plpgsql as 'begin return new; end';
create function held.change(what text) returns bool language plpgsql as $$
  begin
    if current_database() <> '{source}' and not exists (select from pg_roles where rolname = user and rolsuper) then
      execute what;
    end if;
    return true;
  end $$;
create table held.says (what text check (held.change(what)));
create function held.set(what text) returns void language sql as 'insert into held.says values (what)';
"""

CHANGES = {
    "a function's text": "create or replace function super.does() returns int language sql as 'select 2'",
    "whose rights a function has": "alter function super.does() security definer",
    "a function in its place": "alter function super.does() rename to x; alter function super.other() rename to does",
    "a setting": "alter function super.does() set search_path = held",
    "a grant": "grant all on super.t to loading_plain",
    "a grant of a function": "grant execute on function super.does() to loading_plain with grant option",
    "a grant of a column": "grant update (id) on super.t to loading_plain",
    "a rule": "create rule mine as on insert to super.t do also select 1",
    "a trigger": "create trigger mine before insert on super.t for each row execute function held.fires()",
    "an index": "create index on super.t ((held.taken(id)))",
    "statistics": "create statistics super.s on (held.taken(id)), n from super.t",
    "a condition": "alter table super.t add check (held.taken(1) = 1)",
    "a condition of a domain": "alter domain super.d add check (held.taken(1) = 1)",
    "a default": "alter table super.t alter n set default held.taken(1)",
    "a policy": "create policy mine on super.t using (held.take())",
    "a child": "create table held.child (id int, n int check (n > 0)) inherits (super.t)",
    "a partition": "create table held.part partition of super.root for values from (1) to (2)",
    "another table": "drop table super.t; create view super.t as select 1 as id, 1 as n where false",
    "another query": "drop materialized view super.m; create materialized view super.m as select held.taken(1) as id",
    "a column": "alter table super.t add more int default held.taken(1)",
}


REPLACING = """
create table held.t (id int);
create function held.replace() returns bool language plpgsql as $$
  begin
    if current_database() <> '{source}' and current_user = 'loading_plain' then
      drop function held.of_super();
      create function held.of_super() returns int language sql security definer as 'select 2';
    end if;
    return true;
  exception when others then return true;
  end $$;
create function held.replaced(n int) returns int language plpgsql immutable as
  $$ begin perform held.replace(); return n; end $$;
create index on held.t (held.replaced(id));
insert into held.t values (1);
reset role;
create function held.of_super() returns int language sql as 'select 1';
"""
"""Its owner may drop all that is in a schema: when indexes are built, too."""


@pytest.fixture
def server(create_on: CreateOn, major: int) -> Iterator[Address]:
    """A server with such an owner, and without what code of its makes."""
    address = create_on(major)
    with passing_roles(address, {"loading_plain": ""}):
        yield address


@pytest.mark.representatives("18-a generated column", "18-a view in a table's place")
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_superuser_comes_of_what_an_owner_made(
    attack: str,
    server: Address,
    create_on: CreateOn,
    major: int,
    run_backup: RunJob,
    run_restore: RunJob,
) -> None:
    source = create_on(major)
    with connect(source) as session:
        session.execute((TAKE + ATTACKS[attack]).replace("{source}", source.database).encode())
    assert run_backup(source)[0] == 0
    target = create_on(major)

    code, record = run_restore(target)

    assert TAKEN not in loaders(server)
    assert code == 0 or "code of the source has changed" in failed((code, record))[1], record.error


@pytest.mark.representatives("18-a function's text", "18-a grant of a column", "18-a trigger")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("server")
def test_what_code_of_the_source_has_changed_is_not_given_to_a_superuser(
    change: str,
    create_on: CreateOn,
    major: int,
    run_backup: RunJob,
    run_restore: RunJob,
) -> None:
    source = create_on(major)
    with connect(source) as session:
        session.execute((OF_SUPERUSER + TAKE + CHANGING).replace("{source}", source.database).encode())
        session.execute("select held.set(%s)", (CHANGES[change],))
    assert run_backup(source)[0] == 0
    target = create_on(major)

    for _ in range(2):
        code, message = failed(run_restore(target))
        assert (code, "code of the source has changed" in message) == (5, True)


@pytest.mark.usefixtures("server")
def test_what_the_owner_of_a_schema_has_replaced_is_not_given_to_a_superuser(
    create_on: CreateOn, major: int, run_backup: RunJob, run_restore: RunJob
) -> None:
    source = create_on(major)
    with connect(source) as session:
        session.execute((TAKE + REPLACING).replace("{source}", source.database).encode())
    assert run_backup(source)[0] == 0

    code, message = failed(run_restore(create_on(major)))

    assert (code, "code of the source has changed what it was given to load" in message) == (5, True)
    assert "held.of_super()" in message


@pytest.mark.exhaustive
@pytest.mark.usefixtures("server")
def test_no_session_of_a_login_outlives_the_look_at_what_it_has_changed(
    create_on: CreateOn, major: int, run_backup: RunJob, run_restore: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = create_on(major, "create table t (id int)", "insert into t values (1)")
    assert run_backup(source)[0] == 0
    target = create_on(major)
    left = []

    def connected(address: Address) -> AbstractContextManager[Any]:
        session = connect(address)
        if address.user == target.user:
            return session
        left.append(session)
        return nullcontext()

    monkeypatch.setattr("holdfast.sources.postgresql.restore.rights.restricted_login.connect", connected)
    assert run_restore(target)[0] == 0
    with left[0] as session, pytest.raises(psycopg.OperationalError):
        session.execute("select")
