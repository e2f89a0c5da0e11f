"""Full backups beside a job that empties or swaps a table again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.databases.roundtrips import hashes
from tests.support.jobs.inline_jobs import RunJob

pytestmark = pytest.mark.service

SHOP = (
    "create table hot (id int primary key, what text)",
    "create index on hot (what)",
    "create table calm (id int primary key, hot int)",
    "create view both_of_them as select c.id, h.what from calm c join hot h on h.id = c.hot",
    "insert into calm select i, i from generate_series(1, 1000) i",
)
EMPTIED = ("truncate hot", "insert into hot select i, 'row ' || i from generate_series(1, 100) i")
SWAPPED = (
    "begin",
    "create table hot_new (like hot including all)",
    "insert into hot_new select i, 'row ' || i from generate_series(1, 100) i",
    "alter table hot rename to hot_old",
    "alter table hot_new rename to hot",
    "create or replace view both_of_them as select c.id, h.what from calm c join hot h on h.id = c.hot",
    "drop table hot_old",
    "commit",
)


@contextmanager
def again_and_again(address: Address, *statements: str) -> Iterator[Callable[[], int]]:
    """Run statements twice a second, in a session that waits for as long as it has to; yields how often they ran."""
    is_over, ran = threading.Event(), []

    def work() -> None:
        with connect(address) as session:
            session.execute("set search_path = public")
            while not is_over.wait(0.5):
                for statement in statements:
                    session.execute(statement.encode())
                ran.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: len(ran)
    finally:
        is_over.set()
        thread.join()


@pytest.mark.representatives("swapped")
@pytest.mark.parametrize("statements", [EMPTIED, SWAPPED], ids=["emptied", "swapped"])
def test_they_wait_for_a_backup_that_asks_for_it(
    statements: tuple[str, ...], create_database: Callable[..., Address], run_backup: RunJob, run_restore: RunJob
) -> None:
    source, target = create_database(*SHOP, *EMPTIED[1:]), create_database()
    with again_and_again(source, *statements) as ran:
        code, record = run_backup(source, "--kind", "full", "--ddl", "wait")
        assert code == 0, record.error
        before = ran()
        threading.Event().wait(1.5)
        assert ran() > before  # and they go on
    assert run_restore(target)[0] == 0
    assert hashes(target) == hashes(source)
