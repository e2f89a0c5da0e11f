"""What an archive itself tells: sizes, sources, objectives, holds and locks."""

from __future__ import annotations

from datetime import timedelta

from holdfast.archive import Archive, Change
from holdfast.archive.format.model import Hold
from holdfast.archive.format.runs import RunLog
from holdfast.archive.maintenance.scrub_schedule import ScrubProgress, write_progress
from holdfast.config.archives_model import ObjectivesConfig, SourceConfig
from holdfast.metrics.archive import contents, holds, locks, unneeded
from locking import Owner, RWLock
from tests.holdfast.metrics.conftest import NOON, values
from tests.support.archives.vacuuming import DAY, commit, put_file, run_vacuum, write_block
from tests.support.stores.memory_store import MemoryStore

PROMISED = SourceConfig(url="postgresql://me@here/shop", objectives=ObjectivesConfig(rpo="13h", rto="1min"))
SHOP = "{archive=shop,source=shop_db}"


def test_contents_are_told_with_times_as_times(archive: Archive) -> None:
    found = values(contents(archive, "shop", {}))
    assert found == {
        "holdfast_archive_bytes{archive=shop}": 0,
        "holdfast_archive_blocks{archive=shop}": 1,
        "holdfast_archive_commits{archive=shop}": 1,
        "holdfast_archive_format{archive=shop}": 2,
        f"holdfast_source_restorable_from_timestamp_seconds{SHOP}": NOON.timestamp(),
        f"holdfast_source_restorable_to_timestamp_seconds{SHOP}": NOON.timestamp(),
        f"holdfast_source_last_full_timestamp_seconds{SHOP}": NOON.timestamp(),
        f"holdfast_source_verified_since_timestamp_seconds{SHOP}": NOON.timestamp(),
        f"holdfast_source_damaged_files{SHOP}": 0,
        f"holdfast_source_bytes{SHOP}": 0,
        f"holdfast_source_rows{SHOP}": 0,
        f"holdfast_source_full_backups{SHOP}": 1,
        f"holdfast_source_change_backups{SHOP}": 0,
        f"holdfast_source_waiting_tables{SHOP}": 0,
    }


def test_objectives_are_judged_by_the_stores_clock(archive: Archive, store: MemoryStore) -> None:
    def met() -> dict[str, float]:
        found = values(contents(archive, "shop", {"shop_db": PROMISED}))
        return {name: value for name, value in found.items() if "objective" in name}

    rpo, rto = (f"{{archive=shop,source=shop_db,objective={name}}}" for name in ("rpo", "rto"))
    assert met() == {
        f"holdfast_objective_met{rpo}": 1,
        f"holdfast_objective_limit_seconds{rpo}": 13 * 3600,
        f"holdfast_objective_met{rto}": 0,
        f"holdfast_objective_limit_seconds{rto}": 60,
    }
    store.advance(timedelta(hours=2))
    assert met()[f"holdfast_objective_met{rpo}"] == 0


def test_drills_and_damage_are_told(archive: Archive, store: MemoryStore) -> None:
    with RunLog(store, "drill-shop_db.1", "drill") as log:
        log.result = {"source": "shop_db", "seconds": 42.5}
    (block,) = archive.state.blocks
    write_progress(store, ScrubProgress(damaged={block: ("data/x", "data/y")}))
    found = values(contents(archive, "shop", {}))
    assert found[f"holdfast_source_last_drill_duration_seconds{SHOP}"] == 42.5
    assert found[f"holdfast_source_last_drill_timestamp_seconds{SHOP}"] == store.now.timestamp()
    assert found[f"holdfast_source_damaged_files{SHOP}"] == 2


def test_a_source_without_a_backup_has_what_can_be_said_of_it(archive: Archive) -> None:
    found = values(contents(archive, "shop", {"new": PROMISED}))
    new = {name: value for name, value in found.items() if "source=new" in name}
    assert new.pop("holdfast_objective_met{archive=shop,source=new,objective=rpo}") == 0
    assert {name.partition("{")[0] for name in new} == {
        "holdfast_source_bytes", "holdfast_source_waiting_tables", "holdfast_source_damaged_files",
        "holdfast_objective_met", "holdfast_objective_limit_seconds",
    }  # fmt: skip


def test_holds_are_counted_and_the_oldest_is_told(archive: Archive) -> None:
    assert values(holds(archive, "shop")) == {f"holdfast_holds{SHOP}": 0}
    both = tuple(
        Hold(id=name, source="shop_db", position="0/100", at=NOON, owner="me", reason="audit",
             created=NOON + timedelta(days=days))
        for name, days in (("a", 2), ("b", 1))
    )  # fmt: skip
    archive.add(lambda state: Change(kind="hold", holds=both), check=lambda: None, fence=None)
    assert values(holds(archive, "shop")) == {
        f"holdfast_holds{SHOP}": 2,
        f"holdfast_hold_oldest_created_timestamp_seconds{SHOP}": (NOON + timedelta(days=1)).timestamp(),
    }


def test_locks_are_counted_by_mode_and_state_with_the_oldest(archive: Archive, store: MemoryStore) -> None:
    began = store.now
    with RWLock(store, "format", owner=Owner()).read(purpose="one", wait=0):
        store.advance(timedelta(seconds=60))
        with RWLock(store, "format", owner=Owner()).read(purpose="two", wait=0):
            store.put("locks/history/NOTES", b"")
            assert values(locks(archive, "shop")) == {
                "holdfast_locks{archive=shop,resource=format,mode=R,state=held}": 2,
                "holdfast_locks{archive=shop,resource=history,mode=unknown,state=foreign}": 1,
                "holdfast_lock_oldest_timestamp_seconds{archive=shop,resource=format,state=held}": began.timestamp(),
                "holdfast_lock_oldest_timestamp_seconds{archive=shop,resource=history,state=foreign}": (
                    store.now.timestamp()
                ),
            }
    store.delete("locks/history/NOTES")
    assert values(locks(archive, "shop")) == {}


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
