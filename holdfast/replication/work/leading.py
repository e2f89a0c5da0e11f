"""Leadership of a replica during its compaction or truncation."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.common.errors import HoldfastError
from holdfast.replication.log.leader import LEASE_S, go_on, lead, resign
from holdfast.replication.log.replicas import renew
from holdfast.replication.work.turn import in_turn, renewing
from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.replication.work.replica import ReplicatedArchive

logger = line_logger(__name__)

RENEW_S = LEASE_S / 5
"""Seconds between two renewals of a leader's lease."""


@contextmanager
def leading(archive: ReplicatedArchive, *, wait: float = 0.0) -> Iterator[ReplicatedArchive]:
    """Lead through a replica in the block, whose entries are the leader's; `wait`: seconds for another leader."""
    coordination, acting = archive.in_use()
    epoch = in_turn(
        lambda: coordination.run(lambda c: lead(c, acting)),
        wait=wait,
        say=lambda words: logger.warning("%s", words),
        meanwhile=lambda: coordination.run(lambda c: renew(c, acting)),
    )
    archive.leader_epoch = epoch
    try:
        with renewing(lambda: coordination.run(lambda c: go_on(c, acting, epoch)), every=RENEW_S, name="leader lease"):
            yield archive
    finally:
        archive.leader_epoch = None
        with suppress(HoldfastError):  # it ends with its lease
            coordination.run(lambda c: resign(c, acting, epoch))
