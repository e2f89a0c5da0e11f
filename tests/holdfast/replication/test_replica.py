"""Replicas follow one log, entry by entry, and come to be equal."""

from __future__ import annotations

from tests.support.replicated import Replicas


def test_a_backup_through_one_replica_comes_to_the_others(two: Replicas) -> None:
    assert two.back_up("near") == 1
    assert len(two.state("far").blocks) == 1
    done = two.sync("far")
    assert (done.index, done.entries, done.files) == (1, 1, 2)
    assert two.state("far").blocks.keys() == two.state("near").blocks.keys()
    assert two.state("far").ends == two.state("near").ends
    assert two.is_whole("far")
