"""What the coordination store tells of replicas."""

from __future__ import annotations

import pytest

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.metrics.replicas import ask, samples
from holdfast.replication.log import schema
from holdfast.replication.log.store import CoordinationStore
from tests.holdfast.metrics.conftest import values
from tests.support.replicas.replicated import Replicas


@pytest.fixture
def address(coordination: CoordinationStore) -> str:
    return coordination.url


def told(two: Replicas, address: str) -> dict[str, float]:
    return values(samples(ask(address, two.archive, []), "shop"))


def test_replicas_are_told_with_how_far_they_are_behind(two: Replicas, address: str) -> None:
    two.back_up("near")
    found = told(two, address)
    assert found["holdfast_coordination_store_up{archive=shop}"] == 1
    assert found["holdfast_log_head_entry{archive=shop}"] >= 1
    near, far = ("{archive=shop,replica=near}", "{archive=shop,replica=far}")
    assert found[f"holdfast_replica_behind_entries{near}"] == 0
    assert found[f"holdfast_replica_behind_entries{far}"] >= 1
    assert found[f"holdfast_replica_behind_bytes{far}"] > 0
    assert found[f"holdfast_replica_active{near}"] == 1
    assert {name for name, value in found.items() if "lost" in name and value} == set()
    two.sync("far")
    assert told(two, address)[f"holdfast_replica_behind_entries{far}"] == 0


def test_what_is_wrong_is_told(two: Replicas, address: str) -> None:
    head = int(told(two, address)["holdfast_log_head_entry{archive=shop}"])
    two.back_up("near")
    r, q, m = schema.replicas, schema.quorums, schema.missing
    of = {"archive": two.archive, "block": "b", "source": "shop_db", "size": 2, "end_before": "", "stream_before": ""}

    def spoil(connection: object) -> None:
        run = connection.execute  # type: ignore[attr-defined]
        run(r.update().where(r.c.name == "far").values(is_lost=True, lost_reason="away", silent_since=1.0))
        run(q.insert(), {**of, "index": head + 1, "state": "pending", "deadline": 9e9, "dropped_by": 0})
        run(m.insert(), {"archive": two.archive, "index": head + 1, "since": 1.0, "seen": 2.0})

    two.coordination.run(spoil)
    found = told(two, address)
    assert found["holdfast_replica_lost{archive=shop,replica=far}"] == 1
    assert found["holdfast_replica_silent_seconds{archive=shop,replica=far}"] > 1e9
    assert found["holdfast_quorums_pending{archive=shop}"] == 1
    assert found["holdfast_quorums_failed{archive=shop}"] == 0
    assert found["holdfast_entries_without_files{archive=shop}"] == 1
    two.coordination.run(lambda c: c.execute(q.update().values(state="failed")))
    found = told(two, address)
    assert (found["holdfast_quorums_pending{archive=shop}"], found["holdfast_quorums_failed{archive=shop}"]) == (0, 1)


def test_of_an_archive_that_cannot_be_read_the_log_is_found_by_its_replicas(two: Replicas, address: str) -> None:
    urls = [two.place("far").url]
    assert ask(address, None, urls).status.log.archive == two.archive
    with pytest.raises(UsageError, match="knows no replica at"):
        ask(address, None, ["/elsewhere"])


def test_a_store_that_is_not_there_is_said(two: Replicas) -> None:
    with pytest.raises(HoldfastError, match="no coordination store at"):
        ask(f"sqlite:///{two.folder}/nowhere.db", two.archive, [])
