"""The four cases that locks on an external storage are for, by real commands in one archive on S3.

The words are those of the paper; docs/decisions/locks.md#the-papers-four-cases says what they mean here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from tests.support.jobs.command import finish
from tests.support.jobs.gate import loading_held_up, reading_held_up
from tests.support.jobs.shared import COMMIT, ROWS, Shared, SharedStore, is_busy, shared_store

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]
Shop = Callable[..., Shared]


@pytest.fixture(scope="module")
def place() -> Iterator[SharedStore]:
    with shared_store() as place:
        yield place


@pytest.fixture
def shop(place: SharedStore, address: Address, tmp_path: Path) -> Iterator[Shop]:
    """Makes an archive; see `SharedStore.shop`."""
    with place.reachable():
        yield partial(place.shop, address, tmp_path)


@pytest.mark.exhaustive
def test_when_compacting_migrating_to_a_new_version_is_blocked(shop: Shop) -> None:
    shared = shop("changes", "changes", "changes")
    with shared.held("compact", at=COMMIT) as compaction:
        refused = shared.run("migrate", "--to", "2")
    done = finish(compaction)
    assert is_busy(refused, "format", compaction.pid), refused.out
    assert done.code == 0, done
    assert done.value["blocks_removed"] == 3
    assert shared.run("migrate", "--to", "2").code == 0
    assert shared.damage() == ()


def test_when_restoring_migrating_to_a_new_version_is_blocked(shop: Shop, new_database: NewDatabase) -> None:
    shared, target = shop(number=1), new_database()
    with loading_held_up(target) as gate:
        restore = shared.start("restore", "--to", target.url)
        gate.wait_for_somebody()
        refused = shared.run("migrate", "--to", "2")
    done = finish(restore)
    assert is_busy(refused, "format", restore.pid), refused.out
    assert done.code == 0, done
    assert (done.value["rows"], done.value["equal"]) == (ROWS, True)
    migrated = shared.run("migrate", "--to", "2")
    assert (migrated.code, migrated.value["from"], migrated.value["format"]) == (0, 1, 2)


def test_when_migrating_the_backup_storage_to_a_new_version_reading_is_forbidden(
    shop: Shop, new_database: NewDatabase, tmp_path: Path
) -> None:
    shared, target = shop(number=1), new_database()
    count = ("query", "select count(*) from orders")
    readers = [count, ("restore", "--to", target.url), ("verify", "--deep"), ("copy", str(tmp_path / "copy"))]
    with shared.held("migrate", "--to", "2", at=COMMIT) as migration:
        refused = shared.run_all(readers)
    done = finish(migration)
    for name, each in refused.items():
        assert is_busy(each, "format", migration.pid), (name, each)
    assert done.code == 0, done
    assert done.value["format"] == 2
    found = shared.run(*count)
    assert (found.code, found.value["rows"]) == (0, [[100]])
    assert not (tmp_path / "copy" / "archive.json").exists()


def test_when_truncating_the_storage_another_truncating_operation_does_not_happen(
    shop: Shop,
) -> None:
    shared = shop("changes", "full", "full")
    with shared.held("truncate", "--keep", "last=2", at=COMMIT) as truncation:
        refused = shared.run("truncate", "--keep", "last=1")
        sequence = shared.archive().state.sequence
    done = finish(truncation)
    assert is_busy(refused, "maintenance", truncation.pid), refused.out
    assert done.code == 0, done
    assert (done.value["commit"], done.value["blocks_removed"]) == (sequence + 1, 1)
    again = shared.run("truncate", "--keep", "last=1")
    assert (again.code, again.value["commit"], again.value["blocks_removed"]) == (0, sequence + 2, 1)
    assert shared.damage() == ()


def test_when_backing_up_another_backup_of_the_same_source_is_refused_and_one_of_another_is_not(
    place: SharedStore, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    one = create_database(
        "create table held as select i as id from generate_series(1, 50) i",
        "alter table held add primary key (id)",
        "alter table held add twice int generated always as (id * 2) stored",
    )
    other = create_database("create table free as select i as id from generate_series(1, 60) i")
    shared = place.archive(one, tmp_path)
    assert shared.run("init").code == 0
    with reading_held_up(one, "public.held_pkey") as gate:
        first = shared.start("backup", "--source", one.url)
        gate.wait_for_somebody()
        refused = shared.run("backup", "--source", one.url)
        beside = shared.run("backup", "--source", other.url)
    done = finish(first)
    # The address is that of a source in archives.yaml, whose name the lock has.
    assert is_busy(refused, "ingest-shop", first.pid), refused.out
    assert beside.code == 0, beside
    assert (beside.value["rows"], beside.value["commit"]) == (60, 1)
    assert done.code == 0, done
    assert (done.value["rows"], done.value["commit"]) == (50, 2)
    again = shared.run("backup", "--source", one.url)
    assert again.code == 0, again
    assert again.value["commit"] == 3
