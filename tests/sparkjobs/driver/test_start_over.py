"""Tables that begin anew in a backup of changes: with one commit, together with what is followed already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.format.document import iso
from holdfast.archive.history import restore_points
from holdfast.archive.history.restore_points import waiting_tables
from holdfast.common.errors import BusyError, ReportedError
from holdfast.operations import backup_run
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.snapshot.snapshot import HeldSnapshot
from tests.support.following.followed import Followed, known, open_followed
from tests.support.jobs.command_here import run_here

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

FAMILY = (
    "create table parent (id int primary key, name text)",
    "insert into parent values (1, 'one'), (2, 'two')",
    "create table t (id int primary key, a int, p int references parent)",
    "insert into t values (1, 10, 1), (2, 20, 2)",
)


@pytest.fixture
def family(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """Two followed tables, of which one refers to the other."""
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(FAMILY)
        followed.back_up("changes")
        yield followed


def restored(followed: Followed, new_database: NewDatabase, at: str = "latest") -> dict[str, list[Any]]:
    """Return all rows of a database that was restored, by table."""
    target = new_database()
    assert followed.restore(at, target)["equal"]
    with connect(target) as session:
        return {table.label: table.only(sorted(table.columns)) for table in known(session).values()}


@pytest.mark.representatives("a new table", "a type")
@pytest.mark.parametrize(
    "migration",
    [
        ("create table child (id int primary key, p int references parent)", "insert into child values (7, 2)"),
        ("alter table t alter a type bigint",),
        ("drop table t", "create table t (id int primary key, p int references parent)", "insert into t values (3, 1)"),
        ("create table self (id int primary key, up int references self)", "insert into self values (1, 1)"),
    ],
    ids=["a new table", "a type", "dropped and made again", "to itself"],
)
def test_what_refers_to_a_followed_table_begins_anew_in_one_commit(
    family: Followed, new_database: NewDatabase, migration: tuple[str, ...]
) -> None:
    family.run(*migration)
    family.run("insert into parent values (3, 'three')")
    before = family.archive().state.sequence
    result = family.back_up()
    assert (result["commits"], len(result["begun"]), result["waiting"]) == (1, 1, [])
    assert family.archive().state.sequence == before + 1
    assert restored(family, new_database) == {
        table.label: table.only(sorted(table.columns)) for table in known(family.session).values()
    }
    family.run("insert into parent values (4, 'four')", "update t set p = 4 where id in (1, 3)")
    assert "begun" not in family.back_up()
    position, rows = family.moments[-1]
    there = family.tables_at(family.moment(f"lsn:{position}"))
    assert {oid: table.only([1, 2]) for oid, table in there.items()} == {
        oid: table.only([1, 2]) for oid, table in rows.items()
    }


def test_a_table_that_cannot_be_kept_waits_and_the_others_begin_anew(
    family: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family.run("create table kept (id int primary key)", "insert into kept values (5)")
    family.run("create table odd (id int primary key, v pg_node_tree)")
    family.run("insert into parent values (3, 'three')")
    with pytest.raises(ReportedError, match=r"commit 2 has the changes up to .*public\.odd.*pg_node_tree") as caught:
        family.back_up()
    assert caught.value.reported_code == 5
    (waiting,) = waiting_tables(family.archive().state, "shop")
    assert (waiting.table, waiting.act) == ("public.odd", True)
    kept = family.session.execute("select 'kept'::regclass::oid::int8").fetchone()
    assert kept is not None
    there = family.tables_at(family.moment("latest"))
    assert len(there[kept[0]].rows) == 1
    for command in ("status", "points"):
        said = run_here(command, family.store.url)
        assert (said.code, "public.odd waits since" in said.out) == (0, True), said
    doctor = run_here("doctor", family.store.url, "--json")
    assert [each["found"] for each in doctor.value["findings"] if each["what"] == "backup of shop"] == [
        f"public.odd waits since {iso(waiting.since)}"
    ]
    place = f"url: {family.store.url}, sources: {{shop: {{url: '{family.address.url}'}}}}"
    (tmp_path / "archives.yaml").write_text(f"archives: {{books: {{{place}}}}}")
    monkeypatch.chdir(tmp_path)
    checked = run_here("source", "check", "shop", "--changes", "--json", address=family.address)
    assert any("public.odd waits since" in each["what"] for each in checked.value["warnings"]), checked
    # Each try tells so again, and since when; nothing is read in vain.
    family.run("insert into parent values (4, 'four')")
    with pytest.raises(ReportedError, match="commit 3 has"):
        family.back_up()
    assert waiting_tables(family.archive().state, "shop")[0].since == waiting.since
    family.run("drop table odd")
    assert family.back_up()["waiting"] == []
    assert waiting_tables(family.archive().state, "shop") == ()


def test_changes_are_backed_up_where_no_snapshot_can_be_taken_and_the_tables_begin_anew_later(
    family: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def busy(address: Address, *, ddl_waits: bool = False) -> Iterator[HeldSnapshot]:
        raise BusyError("public.parent is locked by pid 17")
        yield

    family.run("create table child (id int primary key, p int references parent)", "insert into child values (7, 2)")
    family.run("insert into parent values (3, 'three')")
    with monkeypatch.context() as patch:
        patch.setattr(backup_run, "hold_snapshot", busy)
        with pytest.raises(ReportedError, match=r"public\.child.*locked by pid 17") as caught:
            family.back_up()
    assert caught.value.reported_code == 1
    (waiting,) = waiting_tables(family.archive().state, "shop")
    assert (waiting.table, waiting.act) == ("public.child", False)
    (source,) = restore_points.describe(family.archive().state)["sources"]
    assert [each["table"] for each in source["waiting"]] == ["public.child"]
    result = family.back_up()
    assert (result["begun"], result["waiting"]) == (["public.child"], [])
    (source,) = restore_points.describe(family.archive().state)["sources"]
    assert source["waiting"] == []
