"""Which operations exclude each other, and by which lock: written down here by hand, and tried by real processes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support.versitygw import running_versitygw
from holdfast.archive import Archive
from holdfast.archive.locks.lock_table import PLANS
from holdfast.storage import ObjectStore, open_store
from tests.support.locks.lock_takers import LockTaker, Work, lock_taker

pytestmark = pytest.mark.slow

CELLS = """
backup of shop            i
backup of crm             . c
restore                   . . .
query                     . . . .
drill                     . . . . .
export                    . . . . . .
source-side               . . . . . . .
verification              . . . . . . . .
verification: reading     . . . . . . . . .
hold                      . . . . . . . . . .
compaction                . . . . . . . . . . m
truncation                . . . . . . . . . . m m
vacuum                    . . . . . . . . . . m m m
vacuum of shop: leftovers i . . . . . . . . . m m m m
vacuum: deleting          . . h h h h h . h . m m m m m
repair of shop            i . . . . . . . . . m m m m m m
migration                 f f f f f f f f f f f f f f f f f
key-rotation              f f f f f f f f f f f f f f f f f f
signing                   f f f f f f f f f f f f f f f f f f f
joining                   f f f f f f f f f f f f f f f f f f f f
sync                      . . . . . . . . . . . . r r r . f f f f r
copy                      . . . . . . . . . . . . r r r . f f f f r r
rebuilding                . . . . . . . . . . . . r r r . f f f f r r r
recovery                  f f f f f f f f f f f f f f f f f f f f f f f f
voiding                   f f f f f f f f f f f f f f f f f f f f f f f f f
"""
"""What keeps the operation of a row and that of a column apart; the columns stand in the order of the rows.

A dot: nothing, they work side by side. Else the lock that is busy for whoever comes second: format, ingest of shop,
of crm, maintenance, replica, history.
"""

LOCKS = {
    ".": "",
    "f": "format",
    "i": "ingest-shop",
    "c": "ingest-crm",
    "m": "maintenance",
    "r": "replica",
    "h": "history",
}

ROWS = [(line[:26].strip(), line[26:].split()) for line in CELLS.strip().splitlines()]
NAMES = [name for name, _ in ROWS]
APART = {(name, NAMES[at]): LOCKS[cell] for name, cells in ROWS for at, cell in enumerate(cells)}


def expected(first: str, others: Iterable[str]) -> dict[str, str]:
    """Return which lock is busy for each of those that come while `first` is at work."""
    return {second: APART[first, second] if (first, second) in APART else APART[second, first] for second in others}


@dataclass(frozen=True)
class Processes:
    """Two that use one archive.

    :param root: where the files of the archive are.
    :param in_both_orders: whether two operations come first in turn, or only the lower one of the table.
    """

    store: ObjectStore
    first: LockTaker
    second: LockTaker
    root: Path
    in_both_orders: bool

    def after(self, name: str) -> list[str]:
        """Return the operations that come after this one."""
        return NAMES if self.in_both_orders else NAMES[: NAMES.index(name) + 1]

    def tries(self, names: Iterable[str]) -> dict[str, str]:
        """Return which lock is busy for each operation that the second tries to begin; it ends them at once."""
        return {name: self._try(name) for name in names}

    def _try(self, name: str) -> str:
        answer = self.second.take(Work.named(name))
        if not answer.resource:
            self.second.give_back()
            return ""
        assert answer.by == (self.first.pid,)
        assert f"by process {self.first.pid} on " in answer.said
        return answer.resource

    def leave_behind(self) -> str:
        """Put a file into the archive that a killed backup of `shop` might have left, and return its key."""
        key = f"data/shop/1/snapshot/{uuid.uuid4().hex}/0-{'0' * 12}.parquet"
        self.store.put(key, b"")
        os.utime(self.root / key, (0, 0))  # older than the grace of none, also by a clock that tells whole seconds
        return key

    def is_there(self, key: str) -> bool:
        """Say whether there is such a file."""
        return key in [each.key for each in self.store.list("data/").objects]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    store = Archive.create(open_store(str(tmp_path_factory.mktemp("cells") / "archive")), name="shop").store
    with lock_taker(store.url, {}) as first, lock_taker(store.url, {}) as second:
        yield Processes(store, first, second, Path(store.url), in_both_orders=True)


@pytest.fixture(scope="module")
def s3() -> Iterator[Processes]:
    with running_versitygw() as server, pytest.MonkeyPatch.context() as patched:
        server.make_bucket("cells")
        for name, value in server.environment.items():
            patched.setenv(name, value)
        store = Archive.create(open_store("s3://cells/archive"), name="shop").store
        with (
            lock_taker(store.url, server.environment) as first,
            lock_taker(store.url, server.environment) as second,
        ):
            yield Processes(store, first, second, server.folder / "cells" / "archive", in_both_orders=False)


@pytest.fixture(params=["folder", pytest.param("s3", marks=[pytest.mark.service, pytest.mark.exhaustive])])
def both(request: pytest.FixtureRequest) -> Processes:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Processes)
    return found


def test_every_operation_of_the_table_has_a_row_here() -> None:
    assert {Work.named(name).operation for name in NAMES} == set(PLANS)
    assert [len(cells) for _, cells in ROWS] == list(range(1, len(ROWS) + 1))


@pytest.mark.parametrize("first", NAMES)
def test_while_one_is_at_work_those_and_only_those_are_busy_that_must_be(both: Processes, first: str) -> None:
    others = both.after(first)
    assert both.first.take(Work.named(first)).resource == ""
    found = both.tries(others)
    both.first.give_back()
    assert found == expected(first, others)


@pytest.mark.parametrize(
    ("step", "work"), [("list data/shop/", "vacuum of shop: leftovers"), ("delete data/", "vacuum: deleting")]
)
def test_a_vacuum_has_the_locks_for_parts_of_its_work_while_it_is_at_them(
    both: Processes, step: str, work: str
) -> None:
    file = both.leave_behind()
    assert both.first.vacuum(step)["at"].startswith(step)
    found = both.tries(NAMES)
    assert both.is_there(file)
    done = both.first.go_on()
    assert found == expected(work, NAMES)
    assert (done["files"], done["busy"], both.is_there(file)) == (1, [], False)


@pytest.mark.parametrize("first", [name for name in NAMES if expected(name, ["vacuum"]) == {"vacuum": ""}])
def test_a_vacuum_leaves_out_the_parts_of_its_work_whose_locks_are_busy(both: Processes, first: str) -> None:
    file = both.leave_behind()
    assert both.first.take(Work.named(first)).resource == ""
    done = both.second.vacuum("")
    both.first.give_back()
    lock = {*expected(first, ["vacuum of shop: leftovers", "vacuum: deleting"]).values()} - {""}
    assert [each.partition(" is held")[0] for each in done["busy"]] == [*lock]
    assert all(f"by process {both.first.pid} on " in each for each in done["busy"])
    assert both.is_there(file) == bool(lock)
    again = both.second.vacuum("")
    assert (again["busy"], both.is_there(file)) == ([], False)
