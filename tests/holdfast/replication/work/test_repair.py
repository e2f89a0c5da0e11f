"""Findings of a repair: what is wrong with replicas, with nothing changed by the look."""

from __future__ import annotations

from holdfast.archive import Archive, Change
from holdfast.replication.log import schema
from holdfast.replication.work.repair import RepairStep, findings, unknown_archive
from holdfast.storage import open_store
from tests.support.replicas.rebuilt import away, urls
from tests.support.replicas.replicated import Replicas, nothing


def _look(given: Replicas, *troubles: Exception) -> list[tuple[str, RepairStep | None]]:
    found = findings(given.coordination, given.archive, open_store, troubles=troubles)
    return [(each.about, each.step) for each in found]


def test_syncs_come_before_recoveries_and_those_before_what_a_person_decides(three: Replicas) -> None:
    three.add("more")
    three.back_up("near")
    three.lose("far")
    away(three, "more")
    assert _look(three) == [("off", RepairStep("sync", "off")), ("far", RepairStep("recover", "far")), ("more", None)]
    assert _look(three) == _look(three)


def test_where_nothing_names_a_replica_the_way_out_says_how_to(two: Replicas) -> None:
    found = unknown_archive(two.coordination, {}, open_store, "other")
    assert "Say by --replica NAME=URL where its replicas are" in found.ways[-1].action


def test_one_that_was_not_recovered_to_its_end_counts_as_lost_whatever_the_store_says(two: Replicas) -> None:
    archive = Archive.open(two.place("far"))
    place = two.place_of("far").model_copy(update={"recovering": True})
    archive.add(lambda state: Change("recovering", log=place), check=nothing, fence=None)
    assert _look(two) == [("far", RepairStep("sync", "far"))]
    two.lose("near")
    (finding,) = findings(two.coordination, two.archive, open_store)
    assert [way.command for way in finding.ways] == [("elect", "near")]


def test_a_store_that_has_no_replica_of_an_archive_any_more_is_to_be_rebuilt(two: Replicas) -> None:
    two.coordination.run(lambda c: c.execute(schema.replicas.delete()))
    two.coordination.named = urls(two)
    (finding,) = findings(two.coordination, two.archive, open_store)
    assert [way.command for way in finding.ways] == [(), ("rebuild-store",)]


def test_a_lost_replica_whose_place_is_away_is_not_recovered_there(two: Replicas) -> None:
    two.lose("far")
    away(two, "far")
    (finding,) = findings(two.coordination, two.archive, open_store)
    assert (finding.step, [way.command for way in finding.ways]) == (None, [(), ("forget", "far")])
