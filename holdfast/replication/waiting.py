"""Waiting until the quorum of a backup is decided. Who waits brings the other replicas up to it, and holds no lock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import BusyError, HoldfastError, OutcomeUnknownError, sentence
from holdfast.replication import log, quorum
from holdfast.replication.errors import QuorumFailedError
from holdfast.replication.replicas import replicas
from holdfast.replication.upkeep import sync_replica
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from holdfast.replication.quorum import Quorum
    from holdfast.replication.replica import ReplicatedArchive
    from holdfast.replication.replicas import ReplicaRow
    from holdfast.replication.store import CoordinationStore
    from holdfast.storage import ObjectStore

POLL_S = 2.0
"""Between two looks, where the other replicas cannot be brought up to it just now."""


def look(coordination: CoordinationStore, archive: str, block: str, *, by: str) -> Quorum:
    """Return how the quorum of a block stands; where its deadline is over, have it fail.

    :param archive: its id.
    :param by: the replica that it was appended by.
    :raises OutcomeUnknownError: nothing is known of it any more.
    """

    def look_once(connection: Connection) -> Quorum | None:
        log.fail_overdue(connection, archive, by=by)
        return quorum.of_block(connection, archive, block)

    if (found := coordination.run(look_once)) is None:
        raise OutcomeUnknownError(
            f"the update log knows nothing of a quorum for block {block} any more: 'holdfast points' shows whether the "
            "backup is there"
        )
    return found


@dataclass
class Waiting:
    """Waits for the quorum of a block.

    :param archive: its id.
    :param by: the replica that it was appended by.
    :param places: opens another one by its URL.
    :param check: raises if there is no reason to wait any more.
    :param say: is told what is waited for, when that changes.
    """

    coordination: CoordinationStore
    archive: str
    block: str
    by: str
    places: Callable[[str], ObjectStore] = open_store
    check: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda words: None
    refused: dict[str, str] = field(default_factory=dict)
    """By replica, why it could not be brought up to the entry when that was last tried."""

    def decided(self, *, patience: float = math.inf, sleep: Callable[[float], None] = time.sleep) -> Quorum:
        """Wait, and return how it was decided; what has failed is taken back from here, too, where that can be now.

        :param patience: seconds; the quorum's own deadline ends the wait in any case.
        :raises BusyError: it is still pending then.
        """
        said, until = "", time.monotonic() + patience
        while True:
            self.check()
            found = self.bring()
            if found.state == quorum.FAILED:
                self._sync(self.by)
            if found.state != quorum.PENDING:
                return found
            if time.monotonic() >= until:
                raise BusyError(f"still pending: {self.describe(found)}")
            if (words := self.describe(found)) != said:
                self.say(f"waiting for {words}")
                said = words
            sleep(POLL_S)

    def bring(self) -> Quorum:
        """Sync the replicas whose votes are missing, until that is decided; return how it stands."""
        found = self._look()
        for row in self.coordination.run(lambda c: replicas(c, self.archive)):
            if found.state != quorum.PENDING:
                break
            if row.name not in found.votes:
                self._sync(row.name, row)
                found = self._look()
        return found

    def describe(self, found: Quorum) -> str:
        """Return how it stands, for people, and why replicas are not there yet."""
        why = "; ".join(f"{name}: {words}" for name, words in sorted(self.refused.items()) if name not in found.votes)
        return found.describe() + (f". {why}" if why else "")

    def check_success(self, found: Quorum) -> None:
        """Make sure that it has succeeded.

        :raises QuorumFailedError: it has not.
        """
        if found.state == quorum.FAILED:
            raise QuorumFailedError(
                f"the backup was taken back, since too few replicas had it in time: {self.describe(found)}. Nothing of "
                "it counts. See docs/runbooks/quorum-cannot-be-reached.md, then start it again"
            )

    def _look(self) -> Quorum:
        return look(self.coordination, self.archive, self.block, by=self.by)

    def _sync(self, name: str, row: ReplicaRow | None = None) -> None:
        self.refused.pop(name, None)
        try:
            row = row or next(
                each for each in self.coordination.run(lambda c: replicas(c, self.archive)) if each.name == name
            )
            sync_replica(self.coordination, self.archive, row, wait=0, places=self.places)
        except (HoldfastError, LockError, StoreError) as error:
            self.refused[name] = sentence(error)


def settle(
    archive: ReplicatedArchive,
    source: str,
    *,
    check: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Wait until no backup of a source is pending.

    :param check, say: as of `Waiting`.
    :raises QuorumFailedError: one was, and has failed.
    """
    coordination, acting = archive.in_use()
    for each in coordination.run(lambda c: quorum.pending(c, acting.archive, source=source)):
        waiting = Waiting(coordination, acting.archive, each.block, acting.name, archive.places, check, say)
        waiting.check_success(waiting.decided())
