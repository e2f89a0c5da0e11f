"""What is asked for of a quorum."""

from __future__ import annotations

import pytest

from holdfast.replication.log.settings import QUORUM_TIMEOUT_S, QuorumRequest


@pytest.mark.parametrize("size", [0, 1])
def test_the_replica_that_a_backup_is_made_through_is_no_quorum(size: int) -> None:
    assert QuorumRequest.of(size, 60.0) is None


def test_more_than_one_replica_is_a_quorum_with_its_time() -> None:
    assert QuorumRequest.of(2, 60.0) == QuorumRequest(size=2, timeout=60.0)
    assert QuorumRequest(2).timeout == QUORUM_TIMEOUT_S == 3600
