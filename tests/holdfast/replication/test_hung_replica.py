"""A replica whose place hangs keeps nobody from work on the others for longer than the limit, and is named."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from holdfast.common.errors import RefusedError
from holdfast.replication.log.errors import SilentReplicaError
from holdfast.replication.log.replicas import ReplicaRow, replica
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.work.consistent_read import open_first, words_of
from holdfast.replication.work.membership import elect
from holdfast.replication.work.quorum_wait import QuorumWait
from holdfast.replication.work.recovery import recover
from holdfast.replication.work.replica import not_asked
from holdfast.replication.work.survey import ReadableReplica, UnreadableReplica, ask
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store
from tests.support.replicas.hung import HUNG, LIMIT_S, PATIENCE_S, hanging
from tests.support.replicas.replicated import Replicas

pytestmark = [pytest.mark.slow]

LATE = f"it has not answered within {LIMIT_S:g} s"


@pytest.fixture
def hung(three: Replicas) -> Iterator[Replicas]:
    """Replicas `near`, `far` and `off`, of which the last one hangs."""
    with hanging(three, "off"):
        yield three


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """The time limit of each test."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < PATIENCE_S


def row_of(replicas: Replicas, name: str) -> ReplicaRow:
    return replicas.coordination.run(lambda c: replica(c, replicas.archive, name))


def test_a_backup_goes_on_and_names_whom_it_did_not_ask(hung: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        hung.back_up("near")
        archive = hung.open("near")
    (said,) = not_asked(archive)
    assert (said["replica"], said["url"]) == ("off", "s3://replicas/off")
    assert said["why"].startswith("it has not answered for ")
    assert f"replica off (s3://replicas/off) could not be asked: {LATE}. So it is not known" in caplog.text


def test_after_the_first_nobody_waits_for_it_until_the_pause_is_over(hung: Replicas) -> None:
    hung.sync("far")
    began = time.monotonic()
    for _ in range(3):
        hung.sync("far")
    assert time.monotonic() - began < 3 * LIMIT_S
    hung.change("off", ask_again_at=0.0)
    hung.sync("far")
    assert row_of(hung, "off").ask_again_at > 0


def test_a_sync_of_it_says_so_and_others_go_on(hung: Replicas) -> None:
    with pytest.raises(SilentReplicaError, match=rf"replica off \(s3://replicas/off\) does not answer: {LATE}"):
        sync_replica(hung.coordination, hung.archive, row_of(hung, "off"), wait=0)
    assert row_of(hung, "off").silent_since > 0


def test_a_recovery_of_it_says_so_at_once_and_has_locked_nothing(hung: Replicas) -> None:
    hung.lose("off")
    with pytest.raises(SilentReplicaError, match=rf"replica off \(s3://replicas/off\) does not answer: {LATE}"):
        recover(hung.coordination, hung.archive, "off")


def test_whoever_is_refused_by_the_store_does_not_wait_for_the_place(hung: Replicas) -> None:
    began = time.monotonic()
    with pytest.raises(RefusedError, match="replica off is not lost"):
        recover(hung.coordination, hung.archive, "off")
    assert time.monotonic() - began < LIMIT_S
    with pytest.raises(RefusedError, match="not all replicas are lost"):
        elect(hung.coordination, hung.archive, "off")


def test_a_sequential_read_takes_another_one(hung: Replicas) -> None:
    stores = [open_store(HUNG), hung.place("near"), hung.place("far")]
    opened = open_first(stores, "sequential", address=hung.coordination.url)
    said = opened.describe()
    assert said["replica"] == "near"
    assert [each["replica"] for each in said["not_asked"]] == ["off"]
    assert "; off was not asked: it has not answered" in words_of(said)


def test_all_are_read_side_by_side_to_decide_what_the_log_goes_on_from(
    hung: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.replication.work.survey.LIMIT_S", LIMIT_S)
    told = ask({"near": hung.place("near").url, "off": HUNG}, open_store)
    assert isinstance(told[0], ReadableReplica)
    assert isinstance(told[1], UnreadableReplica)
    assert told[1].problem == LATE


def test_one_that_answers_again_is_silent_no_more(hung: Replicas) -> None:
    hung.sync("far")
    assert row_of(hung, "off").silent_since > 0
    hung.change("off", url=hung.place("off").url, ask_again_at=0.0)
    hung.sync("far")
    assert (row_of(hung, "off").silent_since, row_of(hung, "off").ask_again_at) == (0.0, 0.0)


def test_a_quorum_is_not_kept_waiting_by_it(hung: Replicas) -> None:
    archive = hung.open("near")
    archive.quorum_request = QuorumRequest(size=2, timeout=60.0)
    archive.add(hung.backup(archive.store), check=lambda: None, fence=None)
    waiting = QuorumWait(hung.coordination, hung.archive, hung.backups[-1], "near")
    assert waiting.decided(patience=5.0).votes == ("far", "near")
