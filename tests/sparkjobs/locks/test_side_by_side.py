"""Real commands in one archive on S3 at the same time, where the table of locks lets them and where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.jobs.command import Finished, finish, until
from tests.support.jobs.gate import loading_held_up
from tests.support.jobs.shared import COMMIT, ROWS, Shared, SharedStore, shared_store

pytestmark = pytest.mark.service

Shop = Callable[..., Shared]

BACKUP = ("backup", "--source", "shop", "--kind", "changes")
COMPACTION = ("compact",)


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
def test_a_compaction_and_a_backup_of_the_same_source_both_commit(shop: Shop, address: Address) -> None:
    shared = shop("changes", "changes", "changes")
    with connect(address) as session:
        session.execute("update public.orders set word = word || '+' where id <= 10")
    before = shared.archive().state.sequence
    with shared.held(*COMPACTION, at=COMMIT) as command:
        second = shared.run(*BACKUP)
    first = finish(command)
    assert second.code == 0, second
    assert second.value["commit"] == before + 1
    assert first.code == 0, first
    assert first.value["commit"] == before + 2
    assert first.value["blocks_removed"] == 3
    found = shared.run("query", "select count(*) from orders where word like '%++++'")
    assert (found.code, found.value["rows"]) == (0, [[10]])
    assert shared.damage() == ()


@pytest.mark.exhaustive
def test_a_restore_ends_well_whose_point_is_truncated_meanwhile_and_no_vacuum_takes_its_files(
    shop: Shop, new_database: Callable[..., Address]
) -> None:
    shared, target = shop("changes", "full"), new_database()
    first = ("restore", "--at", "commit:1", "--to", target.url)
    with loading_held_up(target) as gate:
        restore = shared.start(*first)
        gate.wait_for_somebody()
        truncation = shared.run("truncate", "--keep", "last=1")
        vacuum = vacuumed(shared, "--wait", "0")
    done = finish(restore)
    assert truncation.code == 0, truncation
    assert truncation.value["blocks_removed"] == 1
    assert (vacuum.code, vacuum.value["files"]) == (3, 0), vacuum.err
    assert "history is held for reading" in vacuum.err
    assert f"by process {restore.pid} on " in vacuum.err
    assert done.code == 0, done
    assert (done.value["rows"], done.value["equal"]) == (ROWS, True)
    again = vacuumed(shared)
    assert (again.code, again.value["files"] > 0) == (0, True)
    late = shared.run(*first)
    assert (late.code, "commit:1" in late.value["error"]) == (5, True)
    assert shared.damage() == ()


def vacuumed(shared: Shared, *more: str) -> Finished:
    """Vacuum without a grace, which is over with the second in which a block was removed: S3 tells no parts of one."""

    def over() -> Finished | None:
        done = shared.run("vacuum", "--grace", "0s", *more)
        return None if done.code == 0 and done.value["waiting"] else done

    found: Finished = until(over, "the second to be over")
    return found
