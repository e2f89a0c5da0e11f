"""A store that knows another entry at an index than the one a replica has executed is not relied on any more."""

from __future__ import annotations

import shutil

import pytest

from holdfast.archive import Archive, Change
from holdfast.common.errors import RefusedError
from holdfast.replication.log import schema
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.replicas import log_state, replicas
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.membership import elect
from tests.support.replicas.rebuilt import copied, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing


@pytest.fixture
def contradicted(two: Replicas) -> Replicas:
    """Two replicas; the store has another entry where `near` has executed one, and `far` has not come to that."""
    two.back_up("near")
    two.coordination.run(lambda c: c.execute(schema.line.update().values(entry="another")))
    return two


@pytest.mark.parametrize("name", ["near", "far"])
def test_another_entry_at_an_index_stops_syncs_appends_and_sequential_reads(contradicted: Replicas, name: str) -> None:
    known = r"near has executed entry 1 \(.*\), which the coordination store does not know \(the log in .* ends at 1\)"
    with pytest.raises(OldStoreError, match=known):
        contradicted.sync(name)
    with pytest.raises(OldStoreError, match=known):
        contradicted.back_up(name)
    with pytest.raises(OldStoreError, match=known):
        open_to_read(contradicted.place(name), "sequential", address=contradicted.coordination.url)
    assert not open_to_read(contradicted.place("far")).state.blocks.keys() & set(contradicted.backups[1:])


@pytest.mark.parametrize("changed", [{"index": 3}, {"index": 1}, {"index": 2, "store": "another"}])
def test_an_archive_takes_no_entry_but_the_next_one_of_its_own_log(two: Replicas, changed: dict[str, object]) -> None:
    two.back_up("near")
    archive = Archive.open(two.place("near"))
    place = two.place_of("near").model_copy(update={"entry": "e", **changed})
    with pytest.raises(RefusedError, match=r"replica near stands at entry 1 of log .*: entry \d of .* does not follow"):
        archive.add(lambda state: Change("backup", log=place), check=nothing, fence=None)


def test_an_old_store_is_not_trimmed(old: Replicas) -> None:
    with pytest.raises(OldStoreError, match="near has executed entry 3"):
        trim(old.coordination, old.archive, min_keep=0, max_keep=0)
    assert old.coordination.run(lambda c: log_state(c, old.archive)).start == 1


def test_nobody_is_elected_by_an_old_store(old: Replicas) -> None:
    old.lose("near", "far")
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match="near has executed entry 3"):
            elect(old.coordination, old.archive, name)
    assert old.coordination.run(lambda c: all(row.is_lost for row in replicas(c, old.archive)))
    rebuild(old.coordination, urls(old), source="near", force=True)
    old.recover("far")
    assert old.sync("far").index == old.sync("near").index == 3


def test_whom_a_trimming_could_not_ask_is_named(two: Replicas) -> None:
    shutil.rmtree(two.folder / "far")
    (unasked,) = trim(two.coordination, two.archive, min_keep=0).not_asked
    assert (unasked.replica, unasked.url) == ("far", str(two.folder / "far"))


def test_a_replica_that_the_old_store_takes_for_lost_is_asked_and_never_set_aside_in_silence(two: Replicas) -> None:
    two.back_up("near")
    two.lose("far")
    put_back = copied(two)
    two.recover("far")
    two.back_up("far")
    put_back()
    known = r"far has executed entry 2 \(.*\), which the coordination store does not know"
    with pytest.raises(OldStoreError, match=known):
        two.back_up("near")
    with pytest.raises(OldStoreError, match=known):
        two.sync("near")
    with pytest.raises(OldStoreError, match=known):
        open_to_read(two.place("near"), "sequential", address=two.coordination.url)
    with pytest.raises(OldStoreError, match=known):
        trim(two.coordination, two.archive, min_keep=0)
    with pytest.raises(OldStoreError, match=known):
        two.recover("far")
    assert two.backups[-1] in two.state("far").blocks
    rebuild(two.coordination, urls(two), source="far")
    two.recover("near")
    two.back_up("near")
    assert two.sync("far").index == two.sync("near").index == 3
    assert set(two.backups) == two.state("near").blocks.keys()
