"""Whole drills: from nothing but a copy of an archive, into a server of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.maintenance.copy_archive import copy
from holdfast.common.errors import DamagedError, ReportedError
from holdfast.drill import Drill, drills_of, new_run
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.operations.requests.drill import DrillRequest
from holdfast.operations.requests.restore import RestoreRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs import command
from tests.support.jobs.command_here import run_here
from tests.support.jobs.inline_jobs import RunJob
from tests.support.servers.postgres import create_database, drop_slots

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def shop(postgres: PostgresServer) -> Iterator[Address]:
    """A table with an owner that another server lacks."""
    address = create_database(postgres)
    with connect(address) as session:
        for statement in (
            "drop role if exists drilled",
            "create role drilled",
            "create table public.orders (id int primary key, word text)",
            "alter table public.orders owner to drilled",
            "insert into public.orders select i, 'order ' || i from generate_series(1, 100) i",
        ):
            session.execute(statement.encode())
    yield address
    drop_slots(address)


@pytest.fixture
def followed(template: Path, store: ObjectStore, run_backup: RunJob, shop: Address) -> ObjectStore:
    """A full backup and one of changes; the first test makes them, the others copy them."""
    kept = open_store(str(template / "archive"))
    if not Path(kept.url).exists():
        assert run_backup(shop, "--kind", "changes")[0] == 0
        with connect(shop) as session:
            session.execute("update public.orders set word = 'changed' where id <= 10")
        assert run_backup(shop, "--kind", "changes")[0] == 0
        copy(store, kept)
    for found in store.list("").objects:
        if not found.key.startswith("locks/"):
            store.delete(found.key)
    copy(kept, store)
    return store


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the servers, which their user can come to."""
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def drill(store: ObjectStore, run_restore: RunJob, to: Address | None = None, **asked: Any) -> dict[str, Any]:
    def restore(address: Address, request: RestoreRequest) -> Mapping[str, Any]:
        code, record = run_restore(address, *request.to_arguments())
        if record.error:
            raise ReportedError(record.error.message, code)
        assert record.result is not None
        return record.result

    work = Drill(store, DrillRequest(**asked), to=to)
    work.prepare()
    return work.run(new_run(work.name), restore)


@pytest.mark.e2e
def test_a_random_moment_comes_back_from_a_copy_alone(followed: ObjectStore, temporary: Path, tmp_path: Path) -> None:
    url = str(tmp_path / "copy")
    copy(followed, open_store(url))
    shutil.rmtree(followed.url)
    holds = "select count(*) = 100 and count(*) filter (where word = 'changed') in (0, 10) from orders"
    done = command.run(
        *("drill", url, "--assert", holds, "--seed", "3", "--json"),
        more={"TMPDIR": str(temporary), FORCED_VARIABLE: "inline"},
    )
    assert done.code == 0, done.err
    assert (done.value["rows"], done.value["equal"], done.value["seed"]) == (100, True, 3)
    assert done.value["assertions"] == [{"sql": holds, "holds": True, "said": ""}]
    assert 0 < done.value["restore_s"] <= done.value["seconds"]
    shown = run_here("drill", url, "--history", "--json").value["drills"]
    assert [(each["run"], each["state"], each["at"]) for each in shown] == [
        (done.value["run"], "succeeded", done.value["at"])
    ]
    assert list(temporary.iterdir()) == []


HOSTILE = r"""
create role hostile superuser;
create function public.take(n int) returns bool language plpgsql as $$
  begin
    if current_database() <> 'drill' then return true; end if;
    reset role;
    reset session authorization;
    execute 'create role taken superuser';
    return true;
  exception when insufficient_privilege or read_only_sql_transaction then return true;
  end $$;
alter function public.take(int) owner to hostile;
create table public.bait (
  id int primary key, n int check (public.take(n)), twice int generated always as (n * 2) stored);
alter table public.bait owner to hostile;
alter table public.bait enable row level security;
alter table public.bait force row level security;
create table public.changed (id int primary key, n int check (public.take(n)));
alter table public.changed owner to hostile;
create table public.looped (id int primary key);
create function public.take(public.looped) returns bool language plpgsql as $$ begin return public.take($1.id); end $$;
alter table public.looped add check (public.take(looped.*));
insert into public.looped select i from generate_series(1, 5) i;
insert into public.bait select i, i from generate_series(1, 10) i;
insert into public.changed select i, i from generate_series(1, 20) i;
create materialized view public.sums as select sum(n) as n from public.changed where public.take(n);
create index on public.changed ((n + 1));
create function public.note() returns event_trigger language plpgsql as $$ begin null; end $$;
create event trigger hostile_trigger on ddl_command_end execute function public.note();
select lo_from_bytea(0, 'a large object');
"""


@pytest.mark.exhaustive
def test_code_of_a_source_has_no_superusers_rights_in_a_drill(
    postgres: PostgresServer, store: ObjectStore, run_backup: RunJob, run_restore: RunJob, temporary: Path
) -> None:
    address = create_database(postgres)
    with connect(address) as session:
        session.execute(HOSTILE.encode())
    for change in ("update public.changed set n = n + 1", "insert into public.changed values (21, 21)"):
        assert run_backup(address, "--kind", "changes")[0] == 0
        with connect(address) as session:
            session.execute(change.encode())
    assert run_backup(address, "--kind", "changes")[0] == 0
    holds = (
        "select count(*) = 0 from pg_roles where rolsuper and rolname !~ '^holdfast_drill_'",
        "select count(*) = 10 from bait",
        "select count(*) = 21 from changed",
        "select n > 0 from sums",
        "select count(*) = 1 from pg_constraint where conrelid = 'looped'::regclass and contype = 'c' and convalidated",
        "select count(*) = 1 from pg_event_trigger",
        "select not rolsuper and current_setting('is_superuser') = 'off' from pg_roles where rolname = session_user",
        "select count(*) = 0 from pg_roles where rolname = 'taken'",
    )
    found = drill(store, run_restore, at="latest", assertions=tuple(holds))
    assert [each["holds"] for each in found["assertions"]] == [True] * len(holds)
    drop_slots(address)
    with connect(Address(postgres.url(), postgres.password)) as session:
        session.execute(f"drop database {address.database} with (force)".encode())
        session.execute("drop role hostile")


def test_an_assertion_that_does_not_hold_is_told_and_no_server_stays(
    followed: ObjectStore, run_restore: RunJob, temporary: Path
) -> None:
    asserted = ["select count(*) = 10 from orders where word = 'changed'", "select count(*) > 100 from orders"]
    with pytest.raises(DamagedError, match=r"1 of 2 .* > 100 from orders: returned false"):
        drill(followed, run_restore, at="latest", assertions=tuple(asserted))
    (kept,) = drills_of(followed)
    assert (kept["state"], kept["equal"], [each["holds"] for each in kept["assertions"]]) == (
        "failed",
        True,
        [True, False],
    )
    assert list(temporary.glob("holdfast-drill-*")) == []
