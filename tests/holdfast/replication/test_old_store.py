"""A coordination store that is brought back from an old copy loses no backup in silence.

In each case a copy of the store is put back that does not know what replicas have executed since.
"""

from __future__ import annotations

import pytest

from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.trimming import trim
from tests.support.replicas.rebuilt import copied, go_on, rebuild, urls
from tests.support.replicas.replicated import Replicas

UNKNOWN = "which the coordination store does not know"


def test_a_replica_that_was_away_is_told_from_one_that_is_behind_also_when_the_log_was_trimmed(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("far")
    put_back()
    away = two.folder / "far"
    away.rename(two.folder / "away")
    two.back_up("near")
    two.back_up("near")
    two.change("far", active_until=0.0)
    assert trim(two.coordination, two.archive, min_keep=0, max_keep=0).lost == ("far",)
    (two.folder / "away").rename(away)
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.recover("far")
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.back_up("near")
    rebuild(two.coordination, urls(two), source="near")
    go_on(two)
    assert two.backups[1] not in two.state("far").blocks
    assert two.backups[1] in two.state("far").aside


def test_ids_stay_known_when_the_log_is_rebuilt(two: Replicas) -> None:
    put_back = copied(two)
    two.back_up("far")
    put_back()
    away = two.folder / "far"
    away.rename(two.folder / "away")
    two.back_up("near")
    rebuild(two.coordination, urls(two), without=("far",), force=True)
    two.back_up("near")
    (two.folder / "away").rename(away)
    with pytest.raises(OldStoreError, match=rf"far has executed entry 1 \(.*\), {UNKNOWN}"):
        two.back_up("near")
    rebuild(two.coordination, urls(two), source="near")
    go_on(two)


def test_a_replica_that_was_left_out_and_has_nothing_else_is_recovered(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    away = two.folder / "far"
    away.rename(two.folder / "away")
    two.back_up("near")
    rebuild(two.coordination, urls(two), without=("far",), force=True)
    two.back_up("near")
    (two.folder / "away").rename(away)
    go_on(two)


def test_a_store_from_before_a_rebuilding_is_refused(two: Replicas) -> None:
    two.back_up("near")
    two.sync("far")
    put_back = copied(two)
    rebuild(two.coordination, urls(two), force=True)
    put_back()
    with pytest.raises(OldStoreError, match="it is another store, or one that was made anew"):
        two.back_up("near")
    rebuild(two.coordination, urls(two))
    go_on(two)


@pytest.mark.parametrize("source", ["near", "far"])
def test_either_of_two_that_differ_is_gone_on_with(two: Replicas, source: str) -> None:
    put_back = copied(two)
    two.back_up("near")
    put_back()
    (two.folder / "near").rename(two.folder / "away")
    two.back_up("far")
    (two.folder / "away").rename(two.folder / "near")
    for name in ("near", "far"):
        with pytest.raises(OldStoreError, match=UNKNOWN):
            two.back_up(name)
    rebuild(two.coordination, urls(two), source=source)
    other = "near" if source == "far" else "far"
    assert (two.place_of(source).set_aside, two.place_of(other).set_aside) == (False, True)
    two.back_up(source)
    go_on(two)
    assert not two.place_of(other).set_aside


def test_what_a_replica_has_executed_stays_known_while_it_is_made_anew(
    two: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_back = copied(two)
    two.back_up("far")
    two.sync("near")
    two.lose("far")

    def die(*given: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.replication.work.recovery.fetch", die)
        patch.setattr("holdfast.replication.work.recovery.missing_files", die)
        with pytest.raises(InterruptedError):
            two.recover("far")
    place = two.place_of("far")
    assert (place.recovering, place.index, place.entry) == (True, 1, two.place_of("near").entry)
    put_back()
    (two.folder / "near").rename(two.folder / "away")
    two.change("far", is_lost=True, lost_reason="it is as it was")
    with pytest.raises(OldStoreError, match=UNKNOWN):
        trim(two.coordination, two.archive)
