"""Restores that write nothing to the archive, and what they say where a vacuum has been faster."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.archive.history import target_resolution
from holdfast.common.errors import DamagedError
from holdfast.point_in_time.unlocked import read_unlocked
from tests.support.archives.vacuuming import commit, write_block
from tests.support.stores.memory_store import MemoryStore


def moment_in(store: MemoryStore) -> Any:
    Archive.create(store, name="shop")
    for _ in range(2):
        commit(store, add=(write_block(store),))
    return target_resolution.resolve(Archive.open(store).state, store, "shop", "commit:1")


def test_where_all_files_are_there_in_the_end_all_is_well() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    with read_unlocked(store, moment):
        commit(store, "truncation", remove=(moment.full.id,))


def test_what_was_vacuumed_meanwhile_is_told_from_damage() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    path = moment.full.block.tables[0].files[0].path
    with pytest.raises(DamagedError, match="is missing") as caught, read_unlocked(store, moment):
        store.delete(path)
    assert "meanwhile" not in str(caught.value)
    with (
        pytest.raises(DamagedError, match=f"{path} is missing.*removed from the archive meanwhile.*grace"),
        read_unlocked(store, moment),
    ):
        commit(store, "truncation", remove=(moment.full.id,))


def test_a_read_that_fails_for_it_says_so_too() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    commit(store, "truncation", remove=(moment.full.id,))
    with (
        pytest.raises(DamagedError, match=r"x is missing\. What was to be read was removed"),
        read_unlocked(store, moment),
    ):
        raise DamagedError("x is missing")


def test_other_failures_are_what_they_are() -> None:
    store = MemoryStore()
    moment = moment_in(store)
    commit(store, "truncation", remove=(moment.full.id,))
    with pytest.raises(ZeroDivisionError), read_unlocked(store, moment):
        raise ZeroDivisionError
