"""Put-and-verify transaction, an exclusive write to a folder.

An object is written only where a condition on all its neighbours holds. After Yu Juncen's "Put and Verify Transactions
for External Storages", for any store whose PUT, GET, LIST and DELETE are strongly consistent. An attempt is: verify,
PUT the intent, verify again, PUT the target, DELETE the intent. Of two attempts that exclude each other at least one
sees the other's intent or target, because each looks after its own intent was acknowledged. What is added to the paper
is leases, and what they need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from locking.errors import LockBusy, LockOvertaken
from locking.folder import FolderClaim, LockFolder, Look
from locking.info import LockInfo, Records, describe_claim, describe_foreign
from locking.names import Mode, split_target
from locking.one_line import line_logger
from locking.reaper import Reaper, put_marker
from locking.rules import Ruling, Verdict, View, writer_may_enter
from locking.runtime import SYSTEM, Runtime
from locking.store import LockStore, StoreDenied, StoreError, StoreUnavailable
from locking.terms import CLOCK_STEP, Terms

log = line_logger(__name__)

LOOK_AGAIN_PAUSE = 1.0  # seconds between two looks of one attempt, at most
FIRST_PAUSE = 0.05  # seconds, at most, before the second look or try; doubles from one to the next
FRESH = 5.0  # seconds for which a look that was taken before the attempt may stand for its first
CLEANUP_ATTEMPTS = 3

SWEPT_AT_ONCE = 100  # claims, and markers, that are in no client's way, and that a taker of a lock removes
NAMED_BLOCKERS = 5  # a message names no more; the error carries them all


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction that wrote its target.

    :param folder: where
    :param body: what the target says
    :param target_started: the clock before the PUT that wrote the target: the start of the first lease
    :param intent_stays: the intent's DELETE was not acknowledged
    """

    folder: LockFolder
    txn: str
    mode: Mode
    body: bytes
    target_started: float
    intent_stays: bool


class Blocked(Exception):  # noqa: N818 - named as the error that it becomes
    """Attempt that others are in the way of; their records were not all read.

    :param look: the last one; ``ruling``: on it
    """

    def __init__(self, folder: LockFolder, records: Records, look: Look, ruling: Ruling) -> None:
        super().__init__("Others are in the way.")
        self._folder = folder
        self._records = records
        self._look = look
        self._ruling = ruling

    def busy(self) -> LockBusy:
        """Return the error that names who is in the way: their records are read for it."""
        blockers: list[LockInfo] = [
            describe_claim(self._folder, self._look, claim, self._records.of(claim)) for claim in self._ruling.blockers
        ]
        blockers += [describe_foreign(self._folder.resource, self._look, info) for info in self._ruling.foreign]
        descriptions = [info.describe() for info in blockers[:NAMED_BLOCKERS]]
        if len(blockers) > NAMED_BLOCKERS:
            descriptions.append(f"and {len(blockers) - NAMED_BLOCKERS} more")
        return LockBusy(f"{'; '.join(descriptions)}.", tuple(blockers))


@dataclass(frozen=True, slots=True)
class ExclusiveWrite:
    """Single write of ``<target>.<txn>``, made only while ``verify`` holds.

    :param target: ``<root>/<resource>/WRIT`` or ``…/READ``; each attempt appends its own transaction id,
        because only what has a name of its own can be deleted safely
    :param content: the target's content, made after the first look; for the leases of others to be honoured
        it is a :class:`locking.record.LockRecord`
    :param verify: whether this view lets the transaction go on. Once clear it must stay clear as long as
        no other intent or target appears. By default no other may be there
    """

    target: str
    content: Callable[[View], bytes]
    verify: Callable[[View], Ruling] = writer_may_enter

    def commit_to(
        self,
        store: LockStore,
        *,
        terms: Terms | None = None,
        patience: float = 0.0,
        runtime: Runtime = SYSTEM,
        records: Records | None = None,
        seen: Look | None = None,
    ) -> Commit:
        """Make one attempt.

        :param patience: seconds to keep the intent while those in the way are bound to leave, up to :attr:`Terms.drain`
        :param records: what an earlier attempt on the same target has read of the others
        :param seen: a look that was taken already; a fresh one that shows no other in the way spares the first
        :raises LockBusy: others are in the way; nothing of this attempt stays
        :raises StoreError: the store failed; what may have been written is marked as dead as far as the store allowed,
            and expires in any case
        """
        try:
            return self.attempt(store, terms=terms, patience=patience, runtime=runtime, records=records, seen=seen)
        except Blocked as blocked:
            raise blocked.busy() from None

    def attempt(
        self,
        store: LockStore,
        *,
        terms: Terms | None = None,
        patience: float = 0.0,
        runtime: Runtime = SYSTEM,
        records: Records | None = None,
        seen: Look | None = None,
        insists: bool = True,
    ) -> Commit:
        """Make one attempt as :meth:`commit_to` does, and read no names of others.

        :param insists: whether it keeps others out while those in the way leave, even if it finds them at once
        :raises Blocked: others are in the way
        """
        root, resource, mode = split_target(self.target)
        folder = LockFolder(store, root, resource)
        attempt = _Attempt(self, folder, mode, terms or Terms(), runtime, records or Records(folder), patience, insists)
        attempt.verify_first(seen)
        try:
            attempt.put_intent()
            attempt.verify_alone()
            attempt.put_target()
            attempt.fence()
            commit = attempt.finish()
        except BaseException:
            attempt.withdraw()
            raise
        attempt.sweep()
        return commit


class _Attempt:
    """One attempt, step by step; one that failed is never taken up again."""

    def __init__(
        self,
        write: ExclusiveWrite,
        folder: LockFolder,
        mode: Mode,
        terms: Terms,
        runtime: Runtime,
        records: Records,
        patience: float,
        insists: bool,
    ) -> None:
        self._write = write
        self._folder = folder
        self._store = folder.store
        self._mode = mode
        self._terms = terms
        self._clock = runtime.clock
        self._jitter = runtime.jitter
        self._txn = runtime.new_txn()
        self._records = records
        self._patience = patience
        self._insists = insists
        self._aside = runtime.aside
        self._seen: Look | None = None
        self._given_up = runtime.given_up
        self._reaper = Reaper(folder, records, terms, given_up=runtime.given_up)
        self._body = b""
        self._intent_started = 0.0
        self._target_started = 0.0
        self._written: list[str] = []
        self._may_come_late = False

    def verify_first(self, seen: Look | None) -> None:
        """Look before anything is written, so that a hopeless attempt disturbs no other.

        Nothing rests on this look, so an earlier one may stand for it; but that refuses and ends no other.
        """
        is_fresh = seen is not None and self._clock.monotonic() - seen.started <= FRESH
        early = seen if is_fresh else self._glance()
        if early is not None:
            view = View(early, self._txn, announced=False)
            ruling = self._write.verify(view)
            if ruling.verdict is Verdict.CLEAR:
                self._body = self._write.content(view)
                return
            if early is not seen and not self._suspects(early, ruling):
                raise self._blocked(view, ruling)
        view, ruling = self._look(announced=False)
        drains = ruling.verdict is Verdict.LOOK_AGAIN and self._patience > 0 and not self._lets_in(ruling)
        if ruling.verdict is not Verdict.CLEAR and not drains:
            raise self._blocked(view, ruling)
        self._body = self._write.content(view)

    def _glance(self) -> Look | None:
        """Return a look of one listing, where a check takes two and others are let in first; else None."""
        if self._insists or self._store.listing_is_ordered:
            return None
        return self._folder.glance(self._clock)

    def put_intent(self) -> None:
        self._intent_started = self._clock.monotonic()
        self._put(self._folder.intent(self._mode, self._txn))

    def verify_alone(self) -> None:
        """Look again now that all can see the intent, as long as others are leaving."""
        until = self._intent_started + min(self._patience, self._terms.drain)
        pause = FIRST_PAUSE
        while True:
            view, ruling = self._look(announced=True)
            self._must_stand(view)
            if ruling.verdict is Verdict.CLEAR:
                return
            gives_up = ruling.verdict is Verdict.WITHDRAW or self._lets_in(ruling)
            if gives_up or self._clock.monotonic() >= until:
                raise self._blocked(view, ruling)
            self._clock.sleep(self._jitter() * pause)
            pause = min(2 * pause, LOOK_AGAIN_PAUSE)

    def _lets_in(self, ruling: Ruling) -> bool:
        return not self._insists and any(claim.mode == "R" for claim in ruling.blockers)

    def put_target(self) -> None:
        self._target_started = self._clock.monotonic()
        self._put(self._folder.target(self._mode, self._txn))

    def fence(self) -> None:
        """Fail an attempt that took longer than its budget.

        Its intent may have been ended before the target came, and no listing could show it. The time runs from the
        start of the intent's PUT, and is read after the target's acknowledgement.
        """
        took = self._clock.monotonic() - self._intent_started
        if took > self._terms.budget:
            self._may_come_late = True
            raise LockOvertaken(
                f"Taking {self._folder.resource} took {took:.0f} s, too long to be sure of it; try again."
            )

    def finish(self) -> Commit:
        """Remove the intent, and return the commit.

        A failure to remove it does no harm: others see the target beside it. Only a refusal by the store is raised.
        """
        intent_stays = False
        try:
            self._store.delete(self._folder.intent(self._mode, self._txn))
        except StoreDenied:
            raise  # a client that may not delete could not release the lock either
        except StoreError as error:
            log.warning("The intent of %s stays until it expires: %s", self._txn, error)
            intent_stays = True
        return Commit(
            folder=self._folder,
            txn=self._txn,
            mode=self._mode,
            body=self._body,
            target_started=self._target_started,
            intent_stays=intent_stays,
        )

    def sweep(self) -> None:
        """End what else is over in the folder, a bounded part of it, while the lock's holder goes on."""
        look = self._seen
        if look is not None and self._reaper.leaves(look, own=self._txn):
            self._aside(lambda: self._sweep(look))

    def _sweep(self, look: Look) -> None:
        try:
            self._reaper.sweep(look, own=self._txn, most=SWEPT_AT_ONCE)
        except StoreError as error:
            log.info("What is over in %s stays for the next owner: %s", self._folder.resource, error)

    def withdraw(self) -> None:
        """Undo all that was written; what may come late, or stays, is marked as dead."""
        for _ in range(CLEANUP_ATTEMPTS):
            try:
                self._undo()
                return
            except StoreError as error:
                self._may_come_late = True
                log.warning("Something of the given-up attempt %s may stay until it expires: %s", self._txn, error)
        self._given_up.add(self._txn)

    def _undo(self) -> None:
        if self._may_come_late:
            put_marker(self._folder, self._txn, "its attempt was given up", self._terms)
        for key in self._written:
            self._store.delete(key)

    def _put(self, key: str) -> None:
        # Registered before the request: from here on withdraw() has to deal with it.
        self._written.append(key)
        self._may_come_late = True
        try:
            self._store.put(key, self._body)
        except (StoreUnavailable, StoreDenied):
            self._may_come_late = False
            raise
        self._may_come_late = False

    def _look(self, *, announced: bool) -> tuple[View, Ruling]:
        """Make one check, end what it shows to be over; return the rest, and the ruling on it."""
        look = self._folder.look(self._clock)
        suspects = self._suspects(look, self._write.verify(View(look, self._txn, announced)))
        look = self._seen = self._reaper.tidy(look, own=self._txn, suspects=suspects)
        view = View(look, self._txn, announced)
        return view, self._write.verify(view)

    def _suspects(self, look: Look, ruling: Ruling) -> list[FolderClaim]:
        """Return the claims in the way that may be over.

        A claim that has just come can be so by the end of its process alone. Readers that come and go would be asked
        for their records one after the other, while a writer keeps all others out: so these wait until they are older.
        """
        return [claim for claim in ruling.blockers if not self._patience or look.age(claim.newest) > CLOCK_STEP]

    def _must_stand(self, view: View) -> None:
        """Check that the intent is there and not ended, so that others honour it."""
        mine = view.look.claims.get(self._txn)
        if mine is None or mine.intent is None or self._txn in view.look.dead:
            self._may_come_late = True
            raise LockOvertaken(f"Another client ended this attempt to take {self._folder.resource}; try again.")

    def _blocked(self, view: View, ruling: Ruling) -> Blocked:
        return Blocked(self._folder, self._records, view.look, ruling)
