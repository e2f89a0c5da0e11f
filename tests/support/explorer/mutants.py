"""The guards of the lock protocol, each with a mutant that lacks it and where its absence shows."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from holdfast.archive import archive
from holdfast.archive.format.commits import commit_key
from locking import ending, folder, lease, names, reaper, rules, rwlock, transaction
from locking.folder import FolderClaim, LockFolder, Look
from locking.info import intent_is_over, is_over
from locking.lease import Lease
from locking.names import Mode
from locking.owner import Owner
from locking.reaper import Fate, Reaper, put_marker
from locking.record import LockRecord
from locking.rules import Ruling, Verdict, View
from locking.store import Listing, LockStore
from locking.terms import Terms
from locking.transaction import _Attempt
from tests.support.explorer.clients import Client, process_is_gone
from tests.support.explorer.replay import AskingStore
from tests.support.explorer.scenarios import ALL
from tests.support.explorer.world import Scenario

attaching = importlib.import_module("locking.attach")
"""The module; the package's name for it is its function."""

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """The protocol without one guard.

    :param guard: what is left out, and so the name of the place
    :param patches: what replaces it
    :param scenario: where that breaks a law
    :param alone: also without the look for another holder in ``check()``, which hides it otherwise
    :param way: the shortest schedule that breaks a law, where it takes long to find
    """

    guard: str
    patches: tuple[Patch, ...]
    scenario: Scenario
    alone: bool = True
    way: tuple[str, ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, value in (*self.patches, *(NO_OTHER_HOLDER if self.alone else ())):
                if isinstance(owner, dict):
                    stack.enter_context(patch.dict(owner, {name: value}))
                else:
                    stack.enter_context(patch.object(owner, name, value))
            yield


def _nothing(*args: object, **more: object) -> None:
    del args, more


def scenario(name: str) -> Scenario:
    """The scenario of that name."""
    return next(each for each in ALL if each.name == name)


NO_OTHER_HOLDER: tuple[Patch, ...] = ((folder, "check_alone", _nothing),)


def _reader_sees_no_writers(view: View) -> Ruling:
    del view
    return Ruling(Verdict.CLEAR)


def _only_intents_count(view: View) -> Ruling:
    others = tuple(claim for claim in view.others if claim.target is None)
    return Ruling(Verdict.WITHDRAW, others) if others else Ruling(Verdict.CLEAR)


def _only_targets_count(view: View) -> Ruling:
    others = tuple(claim for claim in view.others if claim.target is not None)
    return Ruling(Verdict.WITHDRAW, others) if others else Ruling(Verdict.CLEAR)


def _intents_last() -> tuple[Patch, ...]:
    pattern = re.compile(names._OBJECT.pattern.replace("INTENT", "ZINTENT"), re.ASCII)

    def intent(self: LockFolder, mode: Mode, txn: str) -> str:
        return f"{self._prefix}ZINTENT.{names.WORDS[mode]}.{txn}"

    return ((names, "_OBJECT", pattern), (LockFolder, "intent", intent))


def _one_listing(store: LockStore, prefix: str, most: int | None = None) -> Listing:
    return store.list(prefix, most=most)


def _always(view: View, claim: FolderClaim) -> bool:
    del view, claim
    return True


def _never(view: View, claim: FolderClaim) -> bool:
    del view
    return claim.target is not None


def _smaller_readers_stay(view: View) -> Ruling:
    writers = tuple(claim for claim in view.others if claim.mode == "W")
    if any(claim.target is not None or not view.announced or claim.txn < view.txn for claim in writers):
        return Ruling(Verdict.WITHDRAW, writers)
    return Ruling(Verdict.LOOK_AGAIN, writers) if writers else Ruling(Verdict.CLEAR)


def _trust_what_was_only_started(self: Lease) -> None:
    self._must_stand(self._folder.glance(self._clock))
    self._must_be_trusted()
    self._trusted_since = self._clock.monotonic()
    self._may_come_late = True
    self._folder.store.touch(self._target, self._commit.body)


def _trust_from_the_end(self: Lease, started: float) -> None:
    del started
    self._expire()
    if self._over is None:
        self._trusted_since = self._clock.monotonic()


def _trust_at_any_time(self: Lease, started: float) -> None:
    self._trusted_since = started


def _half_of_the_lease(self: Terms) -> float:
    return self.lease / 2


_put_target, _fence = _Attempt.put_target, _Attempt.fence


def _fence_before_the_target(self: _Attempt) -> None:
    _fence(self)
    _put_target(self)


def _put_without_doubt(self: _Attempt, key: str) -> None:
    self._written.append(key)
    self._store.put(key, self._body)


def _bury_unmarked(self: Reaper, claim: FolderClaim, reason: str, terms: Terms) -> None:
    del reason, terms
    for key in claim.keys:
        self._folder.store.delete(key)


def _bury_before_marking(self: Reaper, claim: FolderClaim, reason: str, terms: Terms) -> None:
    _bury_unmarked(self, claim, reason, terms)
    put_marker(self._folder, claim.txn, reason, terms)


_bury, _judge = Reaper._bury, Reaper._judge


def _bury_marked_once(self: Reaper, claim: FolderClaim, reason: str, terms: Terms) -> None:
    (_bury_unmarked if reason == "its transaction had been ended" else _bury)(self, claim, reason, terms)


def _bury_left_intents(self: Reaper, look: Look, claim: FolderClaim) -> tuple[Fate, str, Terms]:
    fate, reason, terms = _judge(self, look, claim)
    return (Fate.BURY if fate is Fate.DROP_INTENT else fate), reason, terms


def _forget_at_once(self: Reaper, look: Look) -> None:
    for txn, info in look.dead.items():
        if txn not in look.claims:
            self._folder.store.delete(info.key)


def _all_claims(self: Look) -> Iterator[FolderClaim]:
    return iter(self.claims.values())


def _gone(self: Reaper, record: LockRecord, claim: FolderClaim) -> bool:
    del self, claim
    return process_is_gone(record.owner)


def _only_attempts_end(look: Look, claim: FolderClaim, terms: Terms) -> bool:
    return claim.target is None and intent_is_over(look, claim, terms)


def _only_locks_end(look: Look, claim: FolderClaim, terms: Terms) -> bool:
    return claim.target is not None and is_over(look, claim, terms)


def _task(self: Client) -> Owner:
    return Owner(scope="process", host=self.host, pid=self.id)


def _false(*args: object) -> bool:
    del args
    return False


def _true(*args: object, **more: object) -> bool:
    del args, more
    return True


TWO_WRITERS = scenario("two writers, undisturbed")
ONCE = scenario("two writers that try once, patiently")
LATE = scenario("two writers, two answers lost")
OVER = scenario("two writers, 13 s pass")
RENEWING = scenario("a writer that renews and a writer, 13 s pass in two steps, one answer lost")
REAPED = scenario("a writer that renews, a reaper and a writer, leases run out")
LOST_RENEWAL = scenario("a writer that renews and a writer, one answer lost")
ENDED = scenario("a lock is ended on purpose while it is renewed")
TOLD = scenario("a writer that renews though it is said to have finished, a reaper and a writer, 10 s pass")
KEPT = scenario("a run's lock is released by one process while another keeps it")
RELEASED = scenario("a run's lock is released by another process while it is renewed")
FIVE = scenario("two writers, 5 s pass")
LEFT = scenario("a writer whose intent was left renews, 13 s pass in two steps")
MARKERS = scenario("a run's lock is released while two processes renew it, markers grow old")
TRUNCATIONS = scenario("two truncations of one block, leases run out")
DIES = scenario("three writers, one dies")
OUTLIVES = scenario("a run's lock outlives the process that took it")

LATE_LOCK = f"locks/r/WRIT.{1:016x}{1:016x}"
LATE_MARKER = f"locks/r/DEAD.{1:016x}{1:016x}"
THIRD = f"WRIT.{3:016x}{1:016x}"
COMES_BACK_TWICE = (
    "client 1 list locks/r/",
    "client 2 list locks/r/",
    f"client 3 put {LATE_MARKER}",
    f"client 3 delete {LATE_LOCK}",
    "700 s pass",
    f"client 1 touch {LATE_LOCK}",
    "client 3 list locks/",
    f"client 3 get {LATE_LOCK}",
    f"client 3 delete {LATE_LOCK}",
    "700 s pass",
    "client 3 list locks/r/",
    f"client 3 put locks/r/INTENT.{THIRD}",
    "client 3 list locks/r/",
    f"client 2 touch {LATE_LOCK}",
    f"client 3 put locks/r/{THIRD}",
    f"client 3 delete locks/r/INTENT.{THIRD}",
    f"client 3 get {LATE_MARKER}",
    f"client 3 delete {LATE_MARKER}",
)
"""Two renewals arrive late, each when nobody expects one any more."""


def _writes(number: int) -> tuple[str, ...]:
    """Return how a client takes the lock undisturbed, where nobody has it."""
    name = f"WRIT.{number:016}{1:016}"
    return (
        f"client {number} list locks/r/",
        f"client {number} put locks/r/INTENT.{name}",
        f"client {number} list locks/r/",
        f"client {number} put locks/r/{name}",
        f"client {number} delete locks/r/INTENT.{name}",
    )


def _reads_commits(number: int, count: int) -> tuple[str, ...]:
    """Return how a client that has the lock reads an archive of so many commits, before it commits itself."""
    return (
        f"client {number} list commits/",
        *(f"client {number} get {commit_key(each)}" for each in range(1, count + 1)),
        f"client {number} list locks/r/",
        f"client {number} list archive.json",
    )


FIRST = f"locks/r/WRIT.{1:016}{1:016}"

BEHIND_ANOTHER = (
    *(*_writes(1), *_reads_commits(1, 1), f"client 1 create {commit_key(2)}", f"client 1 delete {FIRST}"),
    *(*_writes(2), *_reads_commits(2, 2), f"client 2 create {commit_key(3)}"),
)
"""What the first commit has removed the second one removes, too."""

OVER_ANOTHER = (
    *(*_writes(1), *_reads_commits(1, 1), "13 s pass"),
    *(_writes(2)[0], f"client 2 get {FIRST}", f"client 2 put {FIRST.replace('WRIT', 'DEAD')}"),
    *(f"client 2 delete {FIRST}", *_writes(2)[1:], _reads_commits(2, 1)[0]),
    *(f"client 1 put {commit_key(2)}", *_reads_commits(2, 1)[1:]),
)
"""A commit that comes late, when its lock is another's, who has read all commits but not that one."""

MUTANTS = [
    # Who is in the way
    Mutant(
        "readers look where writers are: the paper's bug",
        ((rwlock._RULES, "R", _reader_sees_no_writers),),
        scenario("a reader and a writer, undisturbed"),
    ),
    Mutant("verified again after the intent", ((_Attempt, "verify_alone", _nothing),), TWO_WRITERS),
    Mutant("intents are in the way", ((rwlock._RULES, "W", _only_targets_count),), TWO_WRITERS),
    Mutant("targets are in the way", ((rwlock._RULES, "W", _only_intents_count),), TWO_WRITERS),
    Mutant("intents sort before targets", _intents_last(), scenario("two writers, listings in key order")),
    Mutant(
        "two listings where they have no order",
        ((folder, "list_union", _one_listing),),
        scenario("two writers, listings in no order"),
    ),
    # Who gives way
    Mutant("the first of the writers stays", ((rules, "_writer_gives_way", _always),), ONCE),
    Mutant("the other writers leave", ((rules, "_writer_gives_way", _never),), ONCE),
    Mutant(
        "no ids between readers and writers",
        ((rwlock._RULES, "R", _smaller_readers_stay),),
        scenario("a reader and a writer that try once, patiently"),
    ),
    # Leases
    Mutant("trusted from acknowledged renewals", ((Lease, "renew", _trust_what_was_only_started),), RENEWING),
    Mutant("trusted from their start", ((Lease, "_acknowledge", _trust_from_the_end),), RENEWING),
    Mutant("no late acknowledgement revives", ((Lease, "_acknowledge", _trust_at_any_time),), RENEWING),
    Mutant("nobody ends what may be trusted", ((Terms, "expiry", property(_half_of_the_lease)),), RENEWING),
    # Attempts
    Mutant("nobody ends an intent that may go on", ((Terms, "attempt_expiry", property(_half_of_the_lease)),), FIVE),
    Mutant("fenced", ((_Attempt, "fence", _nothing),), OVER),
    Mutant(
        "fenced after the target's PUT",
        ((_Attempt, "put_target", _fence_before_the_target), (_Attempt, "fence", _nothing)),
        OVER,
    ),
    Mutant("DEAD on giving up in doubt", ((transaction, "put_marker", _nothing),), LATE, alone=False),
    Mutant("in doubt from before the PUT", ((_Attempt, "_put", _put_without_doubt),), LATE, alone=False),
    # Ending
    Mutant("DEAD on reaping", ((Reaper, "_bury", _bury_unmarked),), REAPED, alone=False),
    Mutant("DEAD before the deletes", ((Reaper, "_bury", _bury_before_marking),), REAPED, alone=False),
    Mutant("DEAD on ending on purpose", ((ending, "put_marker", _nothing),), ENDED),
    Mutant("DEAD on a release by another process", ((attaching, "put_marker", _nothing),), RELEASED),
    Mutant("DEAD on a release in doubt", ((lease, "put_marker", _nothing),), LOST_RENEWAL, alone=False),
    Mutant("DEAD on a release while another process keeps the lock", ((attaching, "put_marker", _nothing),), KEPT),
    Mutant("the word that an owner has finished saves no lease", ((reaper, "lease_is_over", _true),), TOLD),
    Mutant("one's own DEAD is heeded", ((folder, "_not_ended", _nothing),), ENDED),
    Mutant("the dead do not count", ((Look, "living", _all_claims),), LATE, alone=False),
    Mutant("a left intent goes without DEAD", ((Reaper, "_judge", _bury_left_intents),), LEFT),
    Mutant(
        "DEAD put again by who lists its objects",
        ((Reaper, "_bury", _bury_marked_once),),
        MARKERS,
        way=COMES_BACK_TWICE,
    ),
    Mutant(
        "DEAD stays while anything may come late",
        ((Reaper, "_forget_markers", _forget_at_once), (Reaper, "leaves", _true)),
        LATE,
        alone=False,
    ),
    # Owners
    Mutant("a run's lock outlives its process", ((Reaper, "_ended_with_its_process", _gone),), OUTLIVES),
    Mutant("looked for again once it is gone", ((Reaper, "_has_target", _false),), OUTLIVES),
    Mutant("a lock for a run is the run's, not the task's", ((Client, "owner", _task),), OUTLIVES),
    # Cleaning up
    Mutant("an expired lock goes", ((reaper, "is_over", _only_attempts_end),), DIES),
    Mutant("a left attempt goes", ((reaper, "is_over", _only_locks_end), (reaper, "intent_is_over", _false)), DIES),
    Mutant("markers go in the end", ((Reaper, "_forget_markers", _nothing),), LATE),
    # Commits
    Mutant("a commit is valid where it lands", ((archive, "validate", _nothing),), TRUNCATIONS, way=BEHIND_ANOTHER),
    Mutant("a commit is created if absent", ((AskingStore, "create", AskingStore.put),), TRUNCATIONS, way=OVER_ANOTHER),
]
