"""Small work by the command starts no Java; what is more than small goes to Spark, and nothing counts twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.maintenance.verify import verify
from holdfast.operations import executor_choice
from holdfast.operations.executor_choice import FORCED_VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore, open_store
from sparkjobs.driver import following
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here
from tests.support.servers.postgres import drop_slots

pytestmark = pytest.mark.service

AUTO = {FORCED_VARIABLE: "auto"}
NO_JAVA = {**AUTO, "JAVA_HOME": "/nowhere"}
"""Wherever Spark is started now, the command says that there is no Java."""

IN_VAIN = "Spark needs Java 17 or 21"


@dataclass(frozen=True)
class Shop:
    """A database that is followed, and its archive."""

    store: ObjectStore
    address: Address

    def run(self, command: str, *arguments: str, java: bool = False) -> Finished:
        more = AUTO if java else NO_JAVA
        return run_here(command, self.store.url, *arguments, "--json", address=self.address, more=more)

    def back_up(self, *arguments: str, java: bool = False) -> Finished:
        return self.run("backup", "--source", self.address.url, *arguments, java=java)

    def execute(self, *statements: str) -> None:
        with connect(self.address) as session:
            for statement in statements:
                session.execute(statement.encode())

    @property
    def commits(self) -> int:
        return Archive.open(self.store).state.sequence


@pytest.fixture(scope="module")
def shop(new_shop: Callable[[], Address], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("small") / "archive"
    made = Shop(Archive.create(open_store(str(folder)), name="shop").store, new_shop())
    first = run_here(
        *("backup", str(folder), "--source", made.address.url, "--kind", "changes", "--json"), address=made.address
    )
    assert first.code == 0, first.err
    yield made
    drop_slots(made.address)


@pytest.fixture(scope="module")
def new_shop(postgres: object, request: pytest.FixtureRequest) -> Callable[[], Address]:
    from tests.support.servers.postgres import create_database

    def make() -> Address:
        address = create_database(postgres)  # type: ignore[arg-type]
        with connect(address) as session:
            session.execute("create table public.orders (id int primary key, word text)")
            session.execute("insert into public.orders select i, 'old' from generate_series(1, 100) i")
        return address

    return make


def test_an_idle_backup_moves_the_restorable_end_without_java(shop: Shop) -> None:
    before = shop.commits
    done = shop.back_up()
    assert (done.code, done.value["kind"], done.value["rows"]) == (0, "changes", 0), done.err
    assert "this backup runs inline, without Spark" in done.err
    assert shop.commits == before + 1


def test_a_changed_row_is_backed_up_without_java(shop: Shop) -> None:
    shop.execute("update public.orders set word = 'new' where id = 1")
    done = shop.back_up()
    assert (done.code, done.value["rows"], done.value["transactions"]) == (0, 1, 1), done.err


def test_a_table_that_starts_over_goes_by_spark(shop: Shop) -> None:
    shop.execute("create table if not exists public.late (id int primary key)")
    before = shop.commits
    failed = shop.back_up()
    assert (failed.code, IN_VAIN in failed.value["error"]) == (1, True), failed.err
    assert shop.commits == before + 1  # the changes before it count, and the next backup goes on from there
    shop.execute("drop table public.late")
    assert shop.back_up().code == 0


def test_more_log_than_the_bound_goes_by_spark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_choice, "INLINE_LOG_BYTES", bound := 1 << 20)
    rows = bound // 1000
    shop.execute(
        "create table if not exists public.elsewhere (filler text)",
        "alter table public.elsewhere alter filler set storage plain",
        f"insert into public.elsewhere select repeat('x', 1000) from generate_series(1, {rows + rows // 10})",
        "drop table public.elsewhere",
    )
    before = shop.commits
    failed = shop.back_up()
    assert (failed.code, IN_VAIN in failed.value["error"]) == (1, True), failed.err
    assert "MiB of log are more than 1 MiB" in failed.err
    assert shop.commits == before
    forced = run_here(
        *("backup", shop.store.url, "--source", shop.address.url, "--json"),
        address=shop.address,
        more={**NO_JAVA, FORCED_VARIABLE: "inline"},
    )
    assert forced.code == 0, forced.err


@pytest.mark.exhaustive
def test_a_transaction_older_than_the_slots_position_that_is_more_than_small_goes_by_spark(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "INLINE_CHANGES", 1000)
    changes = 1001
    with connect(shop.address) as session:
        session.execute("begin")
        session.execute(
            f"insert into public.orders select i, 'x' from generate_series(1000, {999 + changes}) i".encode()
        )
        assert shop.back_up(java=True).code == 0  # its log is behind the position from here on
        session.execute("commit")
    before = shop.commits
    in_vain = shop.back_up()
    assert "this backup runs inline, without Spark" in in_vain.err
    assert (in_vain.code, IN_VAIN in in_vain.value["error"]) == (1, True), in_vain.err
    assert shop.commits == before
    done = shop.back_up(java=True)
    assert (done.code, done.value["rows"], done.value["transactions"]) == (0, changes, 1), done.err
    assert "this backup runs by Spark: this backup has more to do than small work after all" in done.err
    archive = Archive.open(shop.store)
    assert archive.state.sequence == before + 1
    assert verify(archive, deep=True).damage == ()
    counted = shop.run("query", "select count(*) n, count(distinct id) d from public.orders").value["rows"]
    assert counted == [[100 + changes, 100 + changes]]


@pytest.mark.parametrize(
    "command",
    [("compact",), ("compact", "--consolidate"), ("truncate", "--keep", "last=100"), ("vacuum",), ("verify", "--new")],
    ids=" ".join,
)
def test_maintenance_with_nothing_to_do_starts_no_java(shop: Shop, command: tuple[str, ...]) -> None:
    if "--consolidate" in command:
        assert shop.run("compact", "--consolidate", java=True).code == 0
    before = shop.commits
    done = shop.run(*command)
    assert done.code == 0, done.err
    assert shop.commits == before
