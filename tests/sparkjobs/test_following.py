"""A source whose changes are backed up comes back as it was after any of its transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.archive import Archive, points
from holdfast.sources.postgresql.address import Address
from holdfast.sources.postgresql.session import connect
from holdfast.storage import ObjectStore
from tests.support.jobs import RunJob
from tests.support.truth import Truth, rows_of

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

SHOP = (
    "create type mood as enum ('sad', 'happy')",
    "create table orders (id int primary key, name text, price numeric(10,2), at timestamptz, mood mood, doc jsonb)",
    "insert into orders select i, 'order ' || i, i * 1.5, '2026-01-01'::timestamptz + i * interval '1 h', 'sad', "
    "jsonb_build_object('n', i) from generate_series(1, 500) i",
    "create table docs (id int primary key, hits int, body text)",
    "alter table docs alter body set storage external",
    "insert into docs select i, 0, repeat(md5(i::text), 200) from generate_series(1, 20) i",
    "create table events (at date, id int, note text, primary key (at, id)) partition by range (at)",
    "create table events_a partition of events for values from ('2026-01-01') to ('2026-02-01')",
    "create table events_b partition of events for values from ('2026-02-01') to ('2026-03-01')",
    "insert into events select '2026-01-01'::date + i, i, 'e' from generate_series(1, 50) i",
    "create table words (word text, n int)",
    "alter table words replica identity full",
    "insert into words values ('a', 1), ('a', 1), ('b', 2), (null, null)",
    "create table counters (id int generated always as identity primary key, n int default 0, twice int "
    "generated always as (n * 2) stored)",
    "insert into counters (n) select generate_series(1, 10)",
)


@pytest.fixture
def truth(address: Address) -> Truth:
    found = Truth(address)
    for statement in SHOP:
        found.run(statement)
    found.moments.clear()
    return found


def restored(run_restore: RunJob, new_database: NewDatabase, at: str) -> Address:
    target = new_database()
    code, record = run_restore(target, "--at", at)
    assert code == 0, record.error
    return target


def test_each_transaction_can_be_brought_back(
    truth: Truth, run_backup: RunJob, run_restore: RunJob, new_database: NewDatabase, store: ObjectStore
) -> None:
    code, record = run_backup(truth.address, "--kind", "changes")
    assert (code, record.result and record.result["kind"]) == (0, "full"), record.error
    truth.run("insert into orders values (1000, 'new', 3.14, 'infinity', 'happy', '{}')")
    truth.run("update orders set price = price + 1 where id <= 10", "delete from orders where id = 11")
    truth.run("update docs set hits = hits + 1")
    code, record = run_backup(truth.address, "--kind", "changes")
    assert (code, record.result and record.result["kind"]) == (0, "changes"), record.error
    truth.run("update docs set id = id + 100 where id <= 5", "update docs set hits = 7 where id = 101")
    truth.run("update events set at = at + 31 where id = 3")
    truth.run(
        "insert into words values ('a', 1)", "delete from words where n = 2", "update words set n = 5 where n = 1"
    )
    truth.run("truncate events_b")
    truth.run("insert into events select '2026-02-03', i, 'again' from generate_series(1, 5) i")
    truth.run("update counters set n = n + 1 where id < 4", "insert into counters (n) values (77)")
    code, record = run_backup(truth.address)
    assert (code, record.result and record.result["kind"]) == (0, "changes"), record.error

    described = points.describe(Archive.open(store).state)["sources"][0]
    assert len(described["intervals"]) == 1
    assert described["gaps"] == []
    for position, rows in truth.moments:
        target = restored(run_restore, new_database, f"lsn:{position}")
        assert rows_of(target) == rows, position


def test_full_backups_do_not_interrupt_the_changes(
    truth: Truth, run_backup: RunJob, run_restore: RunJob, new_database: NewDatabase, store: ObjectStore
) -> None:
    assert run_backup(truth.address, "--kind", "changes")[0] == 0
    truth.run("insert into orders (id) values (2000)")
    assert run_backup(truth.address, "--kind", "full")[0] == 0
    truth.run("insert into orders (id) values (2001)")
    assert run_backup(truth.address, "--kind", "changes")[0] == 0
    (interval,) = points.intervals(Archive.open(store).state, "shop")
    assert [placed.commit for placed in interval.snapshots] == [1, 2]
    for position, rows in truth.moments:
        assert rows_of(restored(run_restore, new_database, f"lsn:{position}")) == rows


def test_tables_may_change_between_backups(
    truth: Truth, run_backup: RunJob, run_restore: RunJob, new_database: NewDatabase, store: ObjectStore
) -> None:
    assert run_backup(truth.address, "--kind", "changes")[0] == 0
    truth.run("insert into orders (id, name) values (3000, 'before')")
    before = truth.moments[-1]
    truth.run("alter table orders add column extra int default 5", "alter table orders rename name to title")
    truth.run("insert into orders (id, title, extra) values (3001, 'after', 6)")
    truth.run("alter table orders drop column doc")
    truth.run("create table late (id int primary key, v text)", "insert into late values (1, 'x')")
    code, record = run_backup(truth.address, "--kind", "changes")
    assert code == 0, record.error
    assert record.result is not None
    assert record.result["begun"] == ["public.late"]
    state = Archive.open(store).state
    (source,) = points.source_names(state)
    for at in (record.result["restorable_to"], f"commit:{record.result['commit']}"):
        assert points.resolve(state, store, source, at).position == points.intervals(state, source)[-1].last
    after = (truth.run("insert into late values (2, 'y')"), rows_of(truth.address))
    assert run_backup(truth.address, "--kind", "changes")[0] == 0
    for position, rows in (before, after):
        assert rows_of(restored(run_restore, new_database, f"lsn:{position}")) == rows
    with connect(restored(run_restore, new_database, "latest")) as session:
        assert session.execute("select extra from public.orders where id = 1").fetchone() == (5,)


def test_key_that_older_rows_do_not_satisfy_is_left_out_and_named(
    address: Address, run_backup: RunJob, run_restore: RunJob, new_database: NewDatabase
) -> None:
    source = Truth(address)
    source.run("create table orders (id int primary key)", "insert into orders select generate_series(1, 5)")
    source.run("create table visits (path text, order_id int references orders)", "insert into visits values ('/', 5)")
    source.run("create table items (order_id int primary key references orders)", "insert into items values (1)")
    assert run_backup(address, "--kind", "changes")[0] == 0
    source.run("delete from visits", "delete from orders where id > 3")
    assert run_backup(address)[0] == 0
    target = new_database()
    code, record = run_restore(target)
    assert (code, record.error) == (0, None)
    assert record.result is not None
    (stale,) = record.result["stale"]
    assert (stale["table"], record.result["rows"]) == ("public.visits", 5)
    (key,) = record.result["not_restored"]
    assert key["object"] == "foreign key public.visits visits_order_id_fkey"
    assert "is not present in table" in key["reason"]
    assert "ADD CONSTRAINT visits_order_id_fkey FOREIGN KEY" in key["statement"]
    with connect(target) as session:
        keys = session.execute("select conname::text from pg_constraint where contype = 'f'").fetchall()
    assert keys == [("items_order_id_fkey",)]
