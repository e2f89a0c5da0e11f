"""A replica leads while a block runs, and no longer."""

from __future__ import annotations

import pytest

from holdfast.common.errors import BusyError
from holdfast.replication.log.leader import lead, leader, resign
from holdfast.replication.work import turn
from holdfast.replication.work.leading import leading
from tests.support.replicas.replicated import Replicas

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two looks."""
    monkeypatch.setattr(turn, "POLL_S", 0.0)


def test_it_leads_while_the_block_runs_and_gives_that_back_however_it_ends(two: Replicas) -> None:
    near, far = two.open("near"), two.open("far")

    def leads() -> tuple[str, bool]:
        found = two.coordination.run(lambda c: leader(c, two.archive))
        return found.name, found.until > 0

    with leading(near) as given:
        assert given is near
        assert leads() == ("near", True)
        assert near.leader_epoch == 1
        with pytest.raises(BusyError, match="replica near leads"), leading(far):
            pass
        assert far.leader_epoch is None
    assert near.leader_epoch is None
    with pytest.raises(ZeroDivisionError), leading(far):
        raise ZeroDivisionError
    with leading(near):
        assert near.leader_epoch == 3


def test_who_leads_is_waited_for(
    two: Replicas, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, near, far = two.coordination.run, two.open("near").in_use()[1], two.open("far")
    epoch = run(lambda c: lead(c, near))
    with pytest.raises(BusyError, match="near"), leading(far):
        pass
    monkeypatch.setattr(
        "holdfast.replication.work.turn.time.sleep", lambda seconds: run(lambda c: resign(c, near, epoch))
    )
    with leading(far, wait=60.0):
        assert far.leader_epoch
    assert "waiting: " in caplog.text
