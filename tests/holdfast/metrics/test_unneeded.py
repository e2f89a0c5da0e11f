"""Bytes that nothing needs: those of removed blocks, and those that killed jobs have left."""

from __future__ import annotations

from datetime import timedelta

from holdfast.archive import Archive
from holdfast.metrics.archive import unneeded
from tests.holdfast.metrics.conftest import values
from tests.support.archives.vacuuming import DAY, commit, put_file, run_vacuum, write_block
from tests.support.stores.memory_store import MemoryStore

REMOVED = "holdfast_unneeded_bytes{archive=shop,reason=removed}"
ORPHAN = "holdfast_unneeded_bytes{archive=shop,reason=orphan}"


def told(store: MemoryStore) -> dict[str, float]:
    return values(unneeded(Archive.open(store), "shop", DAY))


def test_a_removed_block_counts_at_once_and_an_orphan_after_its_grace(archive: Archive, store: MemoryStore) -> None:
    kept, removed = write_block(store), write_block(store)
    commit(store, add=(kept, removed))
    put_file(store, "f" * 32, size=70)
    assert told(store) == {REMOVED: 0, ORPHAN: 0}
    commit(store, "truncation", remove=(removed.id,))
    assert told(store) == {REMOVED: 30, ORPHAN: 0}
    store.advance(timedelta(hours=25))
    assert told(store) == {REMOVED: 30, ORPHAN: 70}
    run_vacuum(store)
    assert told(store) == {REMOVED: 0, ORPHAN: 0}


def test_files_that_another_block_still_names_are_needed(archive: Archive, store: MemoryStore) -> None:
    first = write_block(store, tables=1)
    commit(store, add=(first,))
    shared = first.tables[0].files
    commit(store, "compaction", add=(write_block(store, tables=0, shared=shared, after=2),), remove=(first.id,))
    assert told(store)[REMOVED] == 10  # its catalog alone
