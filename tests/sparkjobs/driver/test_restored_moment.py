"""What an archive has of a recovery target, and where that is not certainly of the moment itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.history.target_resolution import resolve
from holdfast.common.errors import DamagedError, HoldfastError, RefusedError
from holdfast.storage import ObjectStore, open_store
from sparkjobs.driver.restored_moment import RestoredMoment
from tests.support.archives.queried import fill


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An archive with a snapshot and changes of four tables."""
    made = Archive.create(open_store(str(tmp_path / "archive")), name="shop").store
    fill(made)
    return made


@pytest.fixture
def moment(store: ObjectStore) -> Callable[[str], RecoveryTarget]:
    return lambda at: resolve(Archive.open(store).state, store, "shop_db", at)


def doubtful(found: RecoveryTarget) -> RecoveryTarget:
    """Return the moment where nobody knows which of two blocks has its schema."""
    return replace(found, doubt=(found.schema, found.full))


def test_a_snapshot_has_all_rows_of_its_own_moment(store: ObjectStore, moment: Callable[[str], RecoveryTarget]) -> None:
    found = RestoredMoment(store, moment("commit:1"))
    assert {table.label for table in found.catalog.with_rows()} == {
        "shop.orders", "shop.Places", "old.places", "shop.places_1",
    }  # fmt: skip
    assert set(found.parts) == {"1", "2", "3", "5"}
    assert (found.older(), found.of_other_moments(), found.stale(found.catalog.tables)) == (set(), set(), [])


def test_what_is_followed_is_exact_and_a_table_without_changes_too(
    store: ObjectStore, moment: Callable[[str], RecoveryTarget]
) -> None:
    found = RestoredMoment(store, moment("latest"))
    assert found.older() == set()
    assert [record.rows for record in found.parts["1"].changes] == [3]
    assert found.parts["2"].changes == ()


def test_rows_that_stopped_being_followed_are_older_and_told_with_their_time(
    store: ObjectStore, moment: Callable[[str], RecoveryTarget]
) -> None:
    found = RestoredMoment(store, moment("latest"))
    found.parts["2"] = replace(found.parts["2"], stale="it left the publication")
    del found.parts["3"]
    assert found.older() == {2, 3}
    assert found.of_other_moments() == {2, 3}


def test_where_the_schema_is_in_doubt_all_rows_may_be_of_another_moment(
    store: ObjectStore, moment: Callable[[str], RecoveryTarget]
) -> None:
    found = RestoredMoment(store, doubtful(moment("latest")))
    assert found.of_other_moments() == {1, 2, 3, 5}
    assert found.older() == set()


@pytest.mark.parametrize(
    ("doubt", "error", "hinted"),
    [
        (True, RefusedError("it does not take its rows"), True),
        (True, HoldfastError("the server went away"), False),
        (False, RefusedError("it does not take its rows"), False),
    ],
)
def test_another_schema_is_hinted_at_where_this_one_refuses_rows(
    store: ObjectStore, moment: Callable[[str], RecoveryTarget], doubt: bool, error: Exception, hinted: bool
) -> None:
    found = doubtful(moment("latest")) if doubt else moment("latest")
    said = RestoredMoment(store, found).hint(error)
    assert said.endswith("; --schema later takes the other one") is hinted
    assert bool(said) is hinted


def test_a_block_without_a_dump_is_told_as_such(store: ObjectStore, moment: Callable[[str], RecoveryTarget]) -> None:
    found = RestoredMoment(store, moment("commit:1"))
    with pytest.raises(DamagedError, match="holds no schema dump: its schema must be created by hand"):
        found.entries(180006)
