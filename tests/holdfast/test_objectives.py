"""Objectives of sources are judged by what the archive remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.format.runs import RunLog
from holdfast.archive.maintenance.scrub_schedule import ScrubProgress, write_progress
from holdfast.config.archives_model import ObjectivesConfig, SourceConfig
from holdfast.drill.key_proof import record_proof
from holdfast.objectives import Facts, facts_of, judge
from holdfast.storage import ObjectStore, open_store
from holdfast.storage.encryption.key_source import new_key


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def archive_of(store: ObjectStore, *, age: timedelta) -> Archive:
    """Return an archive with a backup of `shop_db` that was taken so long ago."""
    archive = Archive.create(store, name="shop")
    change = Change(kind="backup", add=(make_block(position="0/100", at=datetime.now(UTC) - age),))
    archive.add(lambda state: change, check=lambda: None, fence=None)
    return archive


def promised(**objectives: str) -> dict[str, SourceConfig]:
    return {"shop_db": SourceConfig(url="postgresql://me@here/shop", objectives=ObjectivesConfig(**objectives))}


def drill(store: ObjectStore, *, seconds: float, fails: bool = False) -> None:
    """Record a drill that ends now."""
    log = RunLog(store, f"drill-shop_db.{seconds}", "drill")
    with pytest.raises(RuntimeError) if fails else log:
        if fails:
            with log:
                raise RuntimeError("the database is not equal")
        log.result = {"source": "shop_db", "seconds": seconds}


@pytest.mark.parametrize(("limit", "is_met"), [("2h", True), ("30min", False)])
def test_the_newest_restorable_moment_is_no_older_than_the_rpo(store: ObjectStore, limit: str, is_met: bool) -> None:
    (found,) = judge(archive_of(store, age=timedelta(hours=1)), promised(rpo=limit))
    assert (found.source, found.name, found.limit, found.is_met) == ("shop_db", "rpo", limit, is_met)
    assert found.stands.endswith("60 min ago")


def test_a_source_without_a_backup_misses_what_it_promises(store: ObjectStore) -> None:
    found = judge(
        Archive.create(store, name="shop"),
        promised(rpo="1h", rto="1h", drill_within="7d", verified_within="30d", key_proved_within="90d"),
    )
    assert sorted(each.name for each in found) == ["drill_within", "key_proved_within", "rpo", "rto", "verified_within"]
    assert not any(each.is_met for each in found)


def test_a_copy_of_the_key_is_proved_by_a_drill(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(new_key())
    (tmp_path / "key").chmod(0o600)
    store = open_store(str(tmp_path / "sealed"), f"file:{tmp_path / 'key'}")
    store.begin()
    archive = archive_of(store, age=timedelta(0))
    (missed,) = judge(archive, promised(key_proved_within="90d"))
    assert str(missed) == (
        "shop_db: key_proved_within 90d is missed: no drill has had the archive's key from a copy "
        "('holdfast drill --key')"
    )
    record_proof(store, "drill-shop_db.1")
    (kept,) = judge(archive, promised(key_proved_within="90d"))
    assert (kept.is_met, kept.stands.startswith("a drill had the archive's key from a copy ")) == (True, True)
    facts = facts_of(archive, "shop_db")
    assert Facts.from_described(facts.describe()) == facts


def test_a_drill_that_went_well_keeps_two_promises(store: ObjectStore) -> None:
    archive = archive_of(store, age=timedelta(0))
    drill(store, seconds=90.0)
    kept = judge(archive, promised(rto="2min", drill_within="1d"))
    assert [(each.name, each.is_met) for each in kept] == [("drill_within", True), ("rto", True)]
    assert kept[1].stands == "the last drill took 90 s"
    (missed,) = judge(archive, promised(rto="1min"))
    assert str(missed) == "shop_db: rto 1min is missed: the last drill took 90 s"


def test_the_newest_drill_counts_and_if_it_failed_the_promise_is_missed(store: ObjectStore) -> None:
    archive = archive_of(store, age=timedelta(0))
    drill(store, seconds=90.0)
    drill(store, seconds=5.0, fails=True)
    for each in judge(archive, promised(rto="2min", drill_within="1d")):
        assert (each.is_met, each.stands.startswith("the newest drill failed: ")) == (False, True)
    drill(store, seconds=60.0)
    assert judge(archive, promised(drill_within="1d"))[0].is_met


def test_files_that_were_read_lately_keep_the_promise_and_damaged_ones_do_not(store: ObjectStore) -> None:
    archive = archive_of(store, age=timedelta(days=40))
    assert not judge(archive, promised(verified_within="30d"))[0].is_met
    (block,) = archive.state.blocks
    read: dict[str, tuple[str, ...]] = {(datetime.now(UTC) - timedelta(days=3)).isoformat(): (block,)}
    write_progress(store, ScrubProgress(read=read))
    (kept,) = judge(archive, promised(verified_within="30d"))
    assert (kept.is_met, kept.stands) == (True, "every file was read, or written, within 3 d")
    write_progress(store, ScrubProgress(read=read, damaged={block: ("data/x",)}))
    (missed,) = judge(archive, promised(verified_within="30d"))
    assert (missed.is_met, missed.stands) == (False, "damaged: data/x")


def test_nothing_is_judged_that_nobody_promised(store: ObjectStore) -> None:
    assert judge(archive_of(store, age=timedelta(days=400)), promised()) == []
