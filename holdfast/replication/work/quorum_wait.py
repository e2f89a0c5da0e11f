"""Wait for the quorum of a backup: it brings the other replicas up to the backup, and holds no lock."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from holdfast.common.errors import BusyError, HoldfastError, OutcomeUnknownError, sentence
from holdfast.replication.log import log, quorum
from holdfast.replication.log.consistency_check import open_replica, run_agreed
from holdfast.replication.log.errors import QuorumFailedError, StoreAwayError
from holdfast.replication.log.quorum import Quorum
from holdfast.replication.log.replicas import log_state, replicas
from holdfast.replication.log.silence import is_paused, silence_words
from holdfast.replication.log.store import clock, opened
from holdfast.replication.work.sync import sync_replica
from holdfast.storage import open_store
from locking import LockError
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from holdfast.replication.log.consistency_check import Answers
    from holdfast.replication.log.replicas import ReplicaRow
    from holdfast.replication.log.settings import AnyAddress
    from holdfast.replication.log.store import CoordinationStore
    from holdfast.replication.work.replica import ReplicatedArchive
    from holdfast.storage import ObjectStore

T = TypeVar("T")

POLL_S = 2.0
"""Between two looks, where the other replicas cannot be brought up to it just now."""


SILENT_S = 600.0
"""So long beyond the quorum's deadline a coordination store is asked again that does not answer."""


@contextmanager
def opened_to_wait(address: AnyAddress, block: str, *, patience: float) -> Iterator[CoordinationStore]:
    """Open the coordination store to wait for a quorum; one that does not answer is asked again.

    :raises BusyError, OutcomeUnknownError: it does not answer when the patience is over; or for long.
    """
    with ExitStack() as stack:
        try:
            coordination = Retrying(
                retry=retry_if_exception_type(StoreAwayError),
                wait=wait_fixed(POLL_S),
                stop=stop_after_delay(min(patience, SILENT_S)),
                reraise=True,
            )(lambda: stack.enter_context(opened(address)))
        except StoreAwayError as error:
            if patience < SILENT_S:
                raise BusyError(f"still pending: {_unanswered(error)}") from error
            raise _unknown(block, error) from error
        yield coordination


def _unanswered(error: StoreAwayError) -> str:
    return f"the coordination store, to say how the quorum stands: {sentence(error)}"


def _unknown(block: str, error: StoreAwayError) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"whether the quorum of block {block} has succeeded is not known ({sentence(error)}): once the store can be "
        "reached, 'holdfast replica status' shows what is pending, and 'holdfast points' whether the backup is there"
    )


def _unsettled(waiting: Quorum, words: str) -> OutcomeUnknownError:
    if waiting.state == quorum.PENDING:
        return OutcomeUnknownError(
            f"{words}. Its deadline is over, and too few replicas can be read to take it back: it may have succeeded, "
            "and the coordination store may have forgotten that. Mend the places of those that cannot be read"
        )
    return OutcomeUnknownError(
        f"{words}. The backup counts, unless the coordination store is put back from an older copy before more of them "
        "have: 'holdfast replica sync --all' has them do so"
    )


@dataclass
class QuorumWait:
    """Wait for the quorum of a block.

    :param by: the replica that it was appended by.
    :param check: raises if there is no reason to wait any more.
    :param say: takes words that say what is waited for, when that changes.
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
    _silent_until: float = field(default_factory=lambda: time.monotonic() + SILENT_S)
    """When a store that does not answer is given up, by this process's clock."""
    _is_long_over: bool = False
    """True once the deadline has been over for so long, as the last look found."""

    def decided(self, *, patience: float = math.inf, sleep: Callable[[float], None] = time.sleep) -> Quorum:
        """Wait until the quorum is settled, and return it; a failed backup is taken back, if that can be.

        A store that does not answer is asked again: the backup may succeed meanwhile.

        :param patience: seconds; the quorum's own deadline ends the wait in any case.
        :raises BusyError: it is not settled then, as far as is known.
        :raises OutcomeUnknownError: nothing is known of it; or the store, or enough replicas, did not answer for long.
        """
        said, until = "", time.monotonic() + patience
        while True:
            self.check()
            try:
                state = self.bring()
            except StoreAwayError as error:
                if time.monotonic() >= self._silent_until:
                    raise _unknown(self.block, error) from error
                words = _unanswered(error)
            else:
                if state.state == quorum.FAILED:
                    self._sync(self.by)
                if state.is_settled:
                    return state
                words = self.describe(state)
                if self._is_long_over:
                    raise _unsettled(state, words)
            if time.monotonic() >= until:
                raise BusyError(f"still pending: {words}")
            if words != said:
                self.say(f"waiting for {words}")
                said = words
            sleep(POLL_S)

    def bring(self) -> Quorum:
        """Sync replicas until the quorum is settled: first those without a vote, then those unaware of success."""
        waiting = self._bring(self.look(), quorum.PENDING)
        return self._bring(waiting, quorum.COMMITTED)

    def _bring(self, waiting: Quorum, state: str) -> Quorum:
        rows = self._ask(lambda c: replicas(c, self.archive))
        for row in sorted(rows, key=lambda row: row.name not in waiting.votes):
            if waiting.state != state or waiting.is_settled:
                break
            if row.name in (waiting.votes if state == quorum.PENDING else waiting.executed_by):
                continue
            now = self._ask(clock)
            if is_paused(row, now):
                self.refused[row.name] = silence_words(row, now)
            else:
                self._sync(row.name, row)
                waiting = self.look()
        return waiting

    def describe(self, waiting: Quorum) -> str:
        """Return the state in words, with the obstacles of missing replicas."""
        there = waiting.votes if waiting.state != quorum.COMMITTED else waiting.executed_by
        why = "; ".join(f"{name}: {words}" for name, words in sorted(self.refused.items()) if name not in there)
        return waiting.describe() + (f". {why}" if why else "")

    def check_success(self, decided: Quorum) -> None:
        """Check that a decided quorum has succeeded, or raise QuorumFailedError."""
        if decided.state == quorum.FAILED:
            raise QuorumFailedError(
                f"the backup was taken back, since too few replicas had it in time: {self.describe(decided)}. Nothing "
                "of it counts. See docs/runbooks/quorum-cannot-be-reached.md, then start it again"
            )

    def look(self) -> Quorum:
        """Return the state of the quorum; overdue ones fail first.

        :raises StoreAwayError, OutcomeUnknownError: the store did not answer; or nothing is known of it any more.
        """
        if self._ask(lambda c: quorum.overdue(c, self.archive)):
            self._fail_overdue()
        known, now = self._ask(lambda c: (quorum.of_block(c, self.archive, self.block), clock(c)))
        waiting = known or self._remembered()
        if waiting is None:
            raise OutcomeUnknownError(
                f"the update log knows nothing of a quorum for block {self.block} any more: 'holdfast points' shows "
                "whether the backup is there"
            )
        self._silent_until = time.monotonic() + max(0.0, waiting.deadline - now) + SILENT_S
        self._is_long_over = now > waiting.deadline + SILENT_S
        return waiting

    def _ask(self, work: Callable[[Connection], T]) -> T:
        """Run a transaction that can be run again, where a lost answer only means a store that is away."""
        try:
            return self.coordination.run(work)
        except OutcomeUnknownError as error:
            raise StoreAwayError(sentence(error)) from error

    def _fail_overdue(self) -> None:
        """Fail overdue quorums, where enough replicas agree with the coordination store."""

        def fail(connection: Connection, answers: Answers) -> None:
            log.fail_overdue(connection, self.archive, by=self.by, unread=answers.unread)

        try:
            run_agreed(self.coordination, self.archive, fail, self.places)
        except OutcomeUnknownError as error:
            raise StoreAwayError(sentence(error)) from error

    def _remembered(self) -> Quorum | None:
        """Return the outcome of a quorum that was trimmed since, by the replica that its entry came from.

        That one has executed all that was trimmed: it has the block, or knows which entry has removed it. How many
        replicas were asked for is not known: those count that have executed the entry.
        """
        start, rows = self._ask(lambda c: (log_state(c, self.archive).start, replicas(c, self.archive)))
        mine = next((row for row in rows if row.name == self.by and not row.is_lost), None)
        if mine is None:
            return None
        try:
            replica, _ = open_replica(self.places(mine.url), self.archive, self.by)
            state = replica.state
            removed = state.removed.get(self.block)
            added = (
                state.blocks[self.block].commit if self.block in state.blocks else removed.added if removed else None
            )
            if added is None:
                return None
            commit = replica.commit(added)
            is_dropped = removed is not None and replica.commit(removed.removed).kind == log.DROP
        except (HoldfastError, StoreError):
            return None
        index = commit.log.index if commit.log else 0
        if not 0 < index < start:
            return None
        source = next(new.source.name for new in commit.add if new.id == self.block)
        have = () if is_dropped else tuple(row.name for row in rows if not row.is_lost and row.pointer > index)
        decided = quorum.FAILED if is_dropped else quorum.COMMITTED
        return Quorum(index, self.block, source, len(have), decided, deadline=0.0, dropped_by=0, votes=have)

    def _sync(self, name: str, row: ReplicaRow | None = None) -> None:
        self.refused.pop(name, None)
        try:
            row = row or next(
                row for row in self.coordination.run(lambda c: replicas(c, self.archive)) if row.name == name
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
    """Wait until all quorums of a source's backups are settled, or raise QuorumFailedError."""
    coordination, acting = archive.in_use()
    for unsettled in coordination.run(lambda c: quorum.unsettled(c, acting.archive, source)):
        waiting = QuorumWait(coordination, acting.archive, unsettled.block, acting.name, archive.places, check, say)
        waiting.check_success(waiting.decided())
