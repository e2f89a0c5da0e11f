"""Restores by a superuser, of a source one of whose ordinary owners would like to be one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rights.hand_over import mark_owners
from tests.support.databases.owners import TAKEN, loaders, passing_roles
from tests.support.databases.roundtrips import hashes, schema_of
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
    begin
      copy (select 1) to program 'cat > {file}';
    exception when insufficient_privilege then null;
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
    "a condition of an attached partition": """
      create table held.r (id int) partition by range (id);
      create table held.p (id int, check (held.taken(1) = 1));
      alter table held.r attach partition held.p for values from (1) to (9);
      insert into held.r values (1);""",
    "an index of a foreign key's table": """
      create table held.pk (id int primary key);
      create index on held.pk ((id + held.taken(1))) where held.taken(2) = 2;
      create table held.fk (id int references held.pk);
      create index on held.fk ((id + held.taken(1)));
      insert into held.pk values (1);
      insert into held.fk values (1);""",
    "statistics of a foreign key's table": """
      create table held.pk (id int primary key);
      create statistics held.st on (id + held.taken(1)), (id + held.taken(2)) from held.pk;
      create table held.fk (id int references held.pk);
      insert into held.pk select generate_series(1, 9);
      insert into held.fk values (1);
      analyze held.pk;""",
    "an attached index": """
      create table held.r (id int) partition by range (id);
      create table held.r1 partition of held.r for values from (1) to (9);
      create index on held.r ((id + held.taken(1)));
      insert into held.r values (1);""",
    "a function in SQL": """
      create function held.inlined(n int) returns int language sql immutable as 'select n + held.taken(1)';
      create table held.g (id int, g int generated always as (held.inlined(id)) stored);
      create table held.k (id int) partition by range (held.inlined(id));
      create table held.k1 partition of held.k for values from (1) to (9);
      insert into held.g values (1);
      insert into held.k values (1);""",
    "an exclusion": """
      create table held.e (id int, exclude using btree ((held.taken(id)) with =) where (held.taken(1) = 1));
      insert into held.e values (1);""",
    "a unique index of a view": """
      create table held.b (id int);
      insert into held.b values (1);
      create materialized view held.m as select held.taken(id) as id from held.b;
      create unique index on held.m ((held.taken(id)));""",
    "a sequence's column": """
      create table held.s (id serial, check (held.taken(1) = 1));
      create index on held.s ((held.taken(id)));
      insert into held.s values (default);""",
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
    if current_database() <> '{source}' then
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

OTHERS_ROWS = """
reset role;
create table super.rows (id int primary key, what text);
insert into super.rows values (1, 'as it was');
grant all on super.rows to loading_plain;
set role loading_plain;
create table held.t (id int);
create function held.change() returns bool language plpgsql as $$
  begin
    if current_database() <> '{source}' then
      update super.rows set what = 'changed';
    end if;
    return true;
  exception when insufficient_privilege then return true;
  end $$;
create function held.changed(n int) returns int language plpgsql immutable as
  $$ begin perform held.change(); return n; end $$;
create index on held.t (held.changed(id));
insert into held.t values (1);
reset role;
"""
"""Rows of another owner are changed when indexes are built, behind the comparison."""

SETTINGS = """
create operator held.> (leftarg = int, rightarg = int, procedure = int4lt);
create function held.sets() returns bool language plpgsql as $$
  begin
    perform pg_catalog.set_config('search_path', 'held, pg_catalog', false);
    return true;
  end $$;
create function held.setting(n int) returns int language plpgsql immutable as
  $$ begin perform held.sets(); return n; end $$;
create table held.a (id int) partition by range ((id + held.setting(1)));
reset role;
set search_path = pg_catalog;
create table super.b (id int check (id > 0));
create index super_b_large on super.b (id) where id > 5;
insert into super.b values (1), (9);
"""
"""Where a setting stayed, a superuser's condition would have another operator."""

PASSWORD = """
create function held.password() returns bool language plpgsql as $$
  begin
    if pg_catalog.starts_with(session_user, 'holdfast_loader') then
      execute pg_catalog.format('alter role %I password %L', session_user, 'known');
    end if;
    return true;
  end $$;
create table held.t (id int check (held.password()));
insert into held.t values (1);
"""


@dataclass(frozen=True)
class Restored:
    """A source that was restored, and what became of it."""

    source: Address
    target: Address
    record: Any


Restore = Callable[..., Restored]


@pytest.fixture
def server(create_on: CreateOn, major: int) -> Iterator[Address]:
    """A server with such an owner, and without what code of its makes."""
    address = create_on(major)
    with passing_roles(address, {"loading_plain": ""}):
        yield address


@pytest.fixture
def restore(server: Address, create_on: CreateOn, major: int, run_backup: RunJob, run_restore: RunJob) -> Restore:
    """Makes a source by SQL, backs it up and restores it into an empty database."""

    def run(sql: str, *more: tuple[str, tuple[str, ...]], file: Path | None = None, code: int = 0) -> Restored:
        source = create_on(major)
        with connect(source) as session:
            session.execute(sql.replace("{source}", source.database).replace("{file}", str(file)).encode())
            for statement, values in more:
                session.execute(statement.encode(), values)
        assert run_backup(source)[0] == 0
        target = create_on(major)
        ended, record = run_restore(target)
        assert ended == code, record.error
        return Restored(source, target, record)

    return run


def assert_same(found: Restored) -> None:
    assert hashes(found.target) == hashes(found.source)
    assert schema_of(found.target) == schema_of(found.source)


@pytest.mark.representatives(
    "18-a generated column",
    "18-a condition of an attached partition",
    "18-an index of a foreign key's table",
    "18-statistics of a foreign key's table",
    "18-an attached index",
    "18-a function in SQL",
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_superuser_comes_of_what_an_owner_made(
    attack: str, server: Address, restore: Restore, tmp_path: Path
) -> None:
    file = Path(tempfile.gettempdir()) / f"taken-{tmp_path.name}"
    found = restore(TAKE + ATTACKS[attack], file=file)
    assert TAKEN not in loaders(server)
    assert not file.exists()
    assert (found.record.result["equal"], found.record.result["not_restored"]) == (True, [])


@pytest.mark.representatives("18-a function's text", "18-a grant of a column", "18-a trigger")
@pytest.mark.parametrize("change", CHANGES)
def test_code_of_the_source_changes_no_definition(change: str, restore: Restore) -> None:
    found = restore(OF_SUPERUSER + TAKE + CHANGING, ("select held.set(%s)", (CHANGES[change],)))
    (left,) = found.record.result["not_restored"]
    assert left["object"] == "CHECK says_what_check of held.says"
    assert "code of the source may not change what is being restored" in left["reason"]
    assert without_check(schema_of(found.target)) == without_check(schema_of(found.source))
    assert hashes(found.target) == hashes(found.source)


def without_check(lines: list[str]) -> str:
    """Return a schema without the condition that fails, which stands elsewhere where it is NOT VALID."""
    text = "\n".join(line for line in lines if "says_what_check" not in line)
    return re.sub(
        r"what text,?\n", "what text\n", re.sub(r"(\n|ALTER TABLE held.says|--[^\n]*says[^\n]*|--)+", "\n", text)
    )


def test_the_owner_of_a_schema_replaces_nothing_in_it(restore: Restore) -> None:
    assert_same(restore(TAKE + REPLACING))


def test_code_of_one_owner_changes_no_rows_of_another(restore: Restore) -> None:
    assert_same(restore(OF_SUPERUSER + TAKE + OTHERS_ROWS))


def test_a_setting_that_code_makes_gives_no_definition_another_meaning(restore: Restore) -> None:
    assert_same(restore(OF_SUPERUSER + TAKE + SETTINGS))


def test_a_login_whose_password_code_has_changed_hands_nothing_over(restore: Restore) -> None:
    found = restore(TAKE + PASSWORD, code=5)
    _, message = failed((5, found.record))
    assert "code of the source has changed the password of holdfast_loader" in message


def test_others_cannot_enter_a_database_while_it_is_filled_and_can_afterwards(
    restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    may = "select has_database_privilege('loading_plain', current_database(), 'connect')"
    seen = []

    def mark(session: Any, *more: Any) -> Any:
        seen.append(session.execute(may).fetchone())
        return mark_owners(session, *more)

    monkeypatch.setattr("sparkjobs.driver.building.mark_owners", mark)
    found = restore("create table public.t as select 1 as id")
    with connect(found.target) as session:
        seen.append(session.execute(may).fetchone())
    assert seen == [(False,), (True,)]


@pytest.mark.exhaustive
def test_no_session_of_a_login_outlives_the_hand_over(restore: Restore, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def connected(address: Address) -> AbstractContextManager[Any]:
        session = connect(address)
        if not address.user.startswith("holdfast_loader"):
            return session
        left.append(session)
        return nullcontext()

    monkeypatch.setattr("holdfast.postgresql.restore.rights.restricted_login.connect", connected)
    restore("create table public.t as select 1 as id")
    with left[0] as session, pytest.raises(psycopg.OperationalError):
        session.execute("select")
