"""Tables that change names between two backups: rows never come back under another table's name in silence."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.point_in_time.table_coverage import table_report
from holdfast.point_in_time.target_contents import catalog_of, catalog_reader
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.logical import ddl_triggers
from tests.sparkjobs.restore.test_rows_first import rows
from tests.support.following.followed import Followed, agree_at, open_followed

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

TABLES = (
    "create table t (id int primary key, x text)",
    "create table blue (id int primary key, x text)",
    "create table green (id int primary key, x text)",
    "create table calm (id int primary key)",
    "insert into t select i, 'old' from generate_series(1, 5) i",
    "insert into blue values (1, 'blue')",
    "insert into green values (1, 'green')",
)

EXCHANGE = (
    "alter table blue rename to other",
    "alter table green rename to blue",
    "alter table other rename to green",
)

TOLD = pytest.mark.parametrize(
    "is_told",
    [pytest.param(False, id="log of rows", marks=pytest.mark.exhaustive), pytest.param(True, id="log of definitions")],
)


@pytest.fixture
def followed(address: Address, tmp_path: Path, is_told: bool) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as made:
        if is_told:
            made.make(ddl_triggers.CREATED)
        made.make(TABLES)
        made.back_up()
        yield made


def stretches_of(followed: Followed, table: str) -> list[dict[str, Any]]:
    """Return what is said of a table by `points --tables`."""
    report = table_report(followed.archive().state, followed.store, "shop").describe([table])
    return [stretch for each in report["tables"] for stretch in each["stretches"]]


@TOLD
def test_a_copy_that_takes_its_tables_name_is_not_that_table_before(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    followed.run("create table t_new (id bigint primary key, n serial, x text)")
    followed.run("insert into t_new select id, id, x from t where id < 4")
    at = followed.run("insert into calm values (1)")
    followed.run("insert into t_new select id, id, x from t where id > 3")
    followed.run("alter table t rename to t_old", "alter table t_new rename to t")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert rows(target, "select count(*), min(x) from public.t") == [(5, "old")]
    assert rows(target, "select count(*) from public.calm") == [(1,)]
    assert said["unproved_names"] == ["public.t"]
    open_name = (
        "left out is what another backup has as public.t" if is_told else "not proved that public.t had this name"
    )
    assert open_name in said["schema_note"]
    assert said["equal"] is False


@TOLD
def test_names_that_were_exchanged_and_back_are_said_not_to_be_proved(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    followed.run(*EXCHANGE)
    at = followed.run("insert into calm values (1)")
    followed.run(*EXCHANGE)
    followed.back_up()

    said = followed.restore(f"lsn:{at}", new_database())

    assert said["unproved_names"] == ["public.blue", "public.green"]
    assert all(name in said["schema_note"] for name in said["unproved_names"])
    assert said["equal"] is False
    assert "not proved" in {each["name"] for each in stretches_of(followed, "public.blue")}
    assert {each["name"] for each in stretches_of(followed, "public.calm")} == {"known"}


@TOLD
def test_the_log_proves_names_on_both_sides_of_an_exchange(
    followed: Followed, new_database: NewDatabase, is_told: bool
) -> None:
    before = followed.run("insert into blue values (2, 'blue')", "insert into green values (2, 'green')")
    followed.run("update blue set x = 'blue!' where id = 2", "update green set x = 'green!' where id = 2")
    followed.run(*EXCHANGE)
    followed.run("insert into blue values (3, 'green')", "insert into green values (3, 'blue')")
    after = followed.run("insert into calm values (1)")
    followed.run("update blue set x = 'x' where id = 3", "update green set x = 'x' where id = 3")
    followed.back_up()

    for at, (blue, green) in ((before, ("blue", "green")), (after, ("green", "blue"))):
        target = new_database()
        said = followed.restore(f"lsn:{at}", target)
        assert rows(target, "select x from public.blue where id = 1") == [(blue,)]
        assert rows(target, "select x from public.green where id = 1") == [(green,)]
        assert (said["unproved_names"], said["equal"]) == ([], True)


@TOLD
def test_names_that_the_log_announces_and_neither_backup_has_come_back_and_are_said_to_be_likely(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run("create index calm_view on calm (id)", "create view seen as select x from blue")
    followed.run(*EXCHANGE, "alter table t rename to passing")
    followed.run("insert into blue values (2, 'green')", "insert into green values (2, 'blue')")
    at = followed.run("insert into passing values (6, 'new')")
    followed.run("update blue set x = 'x' where id = 2", "update green set x = 'x' where id = 2")
    followed.run("delete from passing where id = 6")
    followed.run(*EXCHANGE, "alter table passing rename to last")
    followed.back_up()

    target = new_database()
    said = followed.restore(f"lsn:{at}", target)

    assert rows(target, "select x from public.blue order by id") == [("green",), ("green",)]
    assert rows(target, "select x from public.green order by id") == [("blue",), ("blue",)]
    assert rows(target, "select count(*), max(x) from public.passing") == [(6, "old")]
    assert rows(target, "select x from public.seen order by x") == [("blue",), ("blue",)]  # it follows its table
    assert rows(target, "select to_regclass('public.t')::text, to_regclass('public.last')::text") == [(None, None)]
    assert set(said["unproved_names"]) == {"public.blue", "public.green", "public.passing"}
    assert said["equal"] is False


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_told", [True])
def test_other_changes_of_a_table_leave_its_name_proved(followed: Followed, new_database: NewDatabase) -> None:
    followed.run("create index on blue (x)")
    at = followed.run("insert into calm values (1)")
    followed.run("alter table blue add check (id > 0)", "alter table calm owner to postgres")
    followed.back_up()
    said = followed.restore(f"lsn:{at}", new_database())
    assert (said["unproved_names"], said["equal"]) == ([], True)


class Names:
    """Tables that come, go and change names, drawn by a seed; a transaction each, and a backup now and then.

    :ivar labels: every name that a table has had, by oid.
    """

    def __init__(self, followed: Followed, seed: int) -> None:
        self.followed = followed
        self.labels: dict[int, set[str]] = {}
        self.script: list[str] = []
        self._draw = random.Random(seed)
        self._made = 0

    def live(self, steps: int) -> None:
        self._note()
        for _ in range(steps):
            if self._draw.random() < 0.12:
                self._back_up()
            for statement in self._statements():
                self.script.append(statement)
            self._note()
        self._back_up()

    def _back_up(self) -> None:
        self.script.append("-- backup")
        self.followed.back_up()

    def _note(self) -> None:
        for oid, table in self.followed.moments[-1][1].items():
            self.labels.setdefault(oid, set()).add(table.label)

    def _statements(self) -> tuple[str, ...]:
        self._made += 1
        new, tables = f"n{self._made}", self._tables()
        one, other = self._draw.sample(tables, 2)
        fill = f"insert into {new} select i, '{new}' from generate_series(1, {self._draw.randint(1, 9)}) i"
        kinds: Sequence[tuple[str, ...]] = (
            (f"insert into {one} select coalesce(max(id), 0) + 1, 'w' from {one}",),
            (f"insert into {other} select coalesce(max(id), 0) + 1, 'w' from {other}",),
            (f"alter table {one} rename to {new}",),
            (f"alter table {one} rename to {new}", f"alter table {other} rename to {one}"),
            (
                f"alter table {one} rename to {new}",
                f"alter table {other} rename to {one}",
                f"alter table {new} rename to {other}",
            ),
            (f"create table {new} (id int primary key, x text)", fill),
            (f"create table {new} partition of days for values in ({self._made})",),
            (
                f"create table {new} partition of days for values in ({self._made})",
                f"insert into days values ({self._made})",
            ),
            (
                f"create schema s{new}",
                f"alter table {one} set schema s{new}",
                f"alter table s{new}.{one} set schema public",
            ),
            (f"create index on {one} (x)",),
            (f"drop table {one}",) if len(tables) > 3 else (f"update {one} set x = 'u'",),
        )
        drawn = self._draw.choice(kinds)
        days = self._days()
        if len(days) > 2 and self._draw.random() < 0.5:
            drawn = (f"drop table {self._draw.choice(days)}",)
        self.followed.run(*drawn)
        return drawn

    def _tables(self) -> list[str]:
        return self._named("relkind = 'r' and not relispartition and relname <> 'calm'")

    def _days(self) -> list[str]:
        return self._named("relkind = 'r' and relispartition")

    def _named(self, condition: str) -> list[str]:
        query = (
            f"select relname::text from pg_class where relnamespace = 'public'::regnamespace and {condition} order by 1"
        )
        return [name for (name,) in self.followed.session.execute(query.encode())]

    def recorded(self) -> set[int]:
        """Return the tables that any backup knows, and the partitions whose rows the log has."""
        blocks = [placed.block for placed in self.followed.archive().state.blocks.values()]
        read = catalog_reader(self.followed.store)
        known = {table.oid for block in blocks for table in read(block.catalog).tables}
        return known | {each.oid for block in blocks for each in block.passed}


@pytest.mark.exhaustive
@TOLD
@pytest.mark.parametrize("seed", range(1, 30))
def test_no_name_and_no_table_is_wrong_in_silence(followed: Followed, is_told: bool, seed: int) -> None:
    followed.make(("create table days (id int primary key) partition by list (id)",))
    followed.back_up()
    followed.note()
    lived = Names(followed, seed)
    lived.live(25)
    note = "\n".join(lived.script)
    recorded = lived.recorded()

    for number, (position, truth) in enumerate(followed.moments):
        moment = followed.moment(f"lsn:{position}")
        taken = {table.oid: table.label for table in catalog_of(followed.store, moment).with_rows()}
        for oid, label in taken.items():
            if oid not in truth or label != truth[oid].label:
                assert moment.approximate, (label, position, note)
            if label in {each.label for other, each in truth.items() if other != oid}:
                assert label in moment.unproved_names, (label, position, moment.approximate, note)
        for oid in truth.keys() & recorded - taken.keys():
            if truth[oid].rows:
                told = any(label in moment.approximate for label in lived.labels[oid])
                assert told, (truth[oid].label, position, moment.approximate, note)
        agree_at(followed, number)
