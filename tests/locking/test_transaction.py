"""One attempt, and everything that can go wrong between its steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from locking import ExclusiveWrite, InvalidLockName, LockBusy, LockOvertaken, Owner, Runtime, RWLock, Terms
from locking.store import StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.locks.lockstore import MemoryStore, Request

ONE, TWO, THREE = (f"{number:032x}" for number in (1, 2, 3))


def write(mode: str = "WRIT", resource: str = "r") -> ExclusiveWrite:
    return ExclusiveWrite(f"locks/{resource}/{mode}", lambda view: f"by {view.txn}".encode())


def fail_at(word: str, name: str, error: Exception) -> Callable[[Request], None]:
    def hook(request: Request) -> None:
        if (request.word, request.name) == (word, name):
            raise error

    return hook


def test_the_target_is_written_exactly_once_under_a_name_of_its_own(store: MemoryStore, runtime: Runtime) -> None:
    commit = write().commit_to(store, runtime=runtime)
    assert commit.txn == ONE
    assert {key: body for key, (body, _) in store.objects.items()} == {f"locks/r/WRIT.{ONE}": f"by {ONE}".encode()}
    with pytest.raises(LockBusy):
        write().commit_to(store, runtime=runtime)


@pytest.mark.parametrize("target", ["WRIT", "locks/WRIT", "locks/r/DEAD", "locks/../WRIT", "/r/WRIT", "locks/r/"])
def test_a_target_that_is_none_is_refused(store: MemoryStore, target: str) -> None:
    with pytest.raises(InvalidLockName):
        ExclusiveWrite(target, lambda view: b"").commit_to(store)


def test_a_writer_looks_again_while_a_reader_is_only_asking(store: MemoryStore, runtime: Runtime) -> None:
    store.place(f"locks/r/INTENT.READ.{THREE}", b"")

    def leave_after_a_while(request: Request) -> None:
        if store.time.now > 1:
            store.objects.pop(f"locks/r/INTENT.READ.{THREE}", None)

    store.after = leave_after_a_while
    RWLock(store, "r", runtime=runtime).write(wait=5, renew=False).check()


@pytest.mark.parametrize("error", [StoreUnavailable("try later"), StoreDenied("no")])
def test_a_put_that_certainly_did_nothing_needs_no_marker(
    store: MemoryStore, runtime: Runtime, error: StoreError
) -> None:
    store.before = fail_at("put", "WRIT", error)
    with pytest.raises(type(error)):
        write().commit_to(store, runtime=runtime)
    assert store.objects == {}


def test_a_lost_delete_of_the_intent_leaves_a_good_lock(store: MemoryStore, runtime: Runtime) -> None:
    store.before = fail_at("delete", "INTENT", StoreOutcomeUnknown("no answer"))
    lease = RWLock(store, "r", runtime=runtime).write(wait=0, renew=False)
    lease.check()
    assert store.names() == ["INTENT.WRIT", "WRIT"]
    store.before = lambda request: None
    lease.release()
    assert store.objects == {}


@pytest.mark.parametrize(("when", "name"), [("before", "INTENT"), ("before", "WRIT"), ("after", "WRIT")])
def test_an_attempt_is_fenced_from_the_start_of_its_intents_put_to_its_targets_acknowledgement(
    store: MemoryStore, runtime: Runtime, when: str, name: str
) -> None:
    terms = Terms(120, 60)

    def dawdle(request: Request) -> None:
        if (request.word, request.name) == ("put", name):
            store.time.sleep(terms.budget + 1)

    setattr(store, when, dawdle)
    with pytest.raises(LockOvertaken):
        write().commit_to(store, terms=terms, runtime=runtime)
    assert store.names() == ["DEAD"]
    assert store.words()[-3:] == ["put DEAD", "delete INTENT", "delete WRIT"]


@pytest.mark.parametrize("how", ["dead", "deleted"])
def test_an_attempt_that_somebody_ended_gives_up(store: MemoryStore, runtime: Runtime, how: str) -> None:
    def end(request: Request) -> None:
        if (request.word, request.name) == ("put", "INTENT"):
            if how == "deleted":
                store.objects.pop(request.key)
            else:
                store.place(f"locks/r/DEAD.{ONE}", b"")

    store.after = end
    with pytest.raises(LockOvertaken):
        write().commit_to(store, runtime=runtime)
    assert store.names() == ["DEAD"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    ("word", "name", "left"),
    [("put", "INTENT", ["DEAD"]), ("put", "WRIT", ["DEAD"]), ("delete", "INTENT", [])],
)
def test_an_interrupt_leaves_no_lock_behind(
    store: MemoryStore, runtime: Runtime, error: type[BaseException], word: str, name: str, left: list[str]
) -> None:
    def interrupt(request: Request) -> None:
        if (request.word, request.name) == (word, name):
            store.after = lambda request: None
            raise error

    store.after = interrupt
    with pytest.raises(error):
        write().commit_to(store, runtime=runtime)
    assert store.names() == left


def test_cleaning_up_that_fails_does_not_hide_the_cause(store: MemoryStore, runtime: Runtime) -> None:
    def fail(request: Request) -> None:
        if request.word != "list":
            raise StoreOutcomeUnknown(f"{request.word} {request.name}")

    store.after = fail
    with pytest.raises(StoreOutcomeUnknown, match="put INTENT"):
        write().commit_to(store, runtime=runtime)


def test_an_attempt_that_cannot_be_taken_back_is_marked_dead(store: MemoryStore, runtime: Runtime) -> None:
    store.before = fail_at("delete", "INTENT", StoreOutcomeUnknown("no answer"))
    runtime.new_txn()

    def rival(request: Request) -> None:
        if (request.word, request.name) == ("put", "INTENT"):
            store.place(f"locks/r/INTENT.WRIT.{ONE}", b"")

    store.after = rival
    with pytest.raises(LockBusy):
        write().commit_to(store, runtime=runtime)
    assert f"locks/r/DEAD.{TWO}" in store.objects


def test_a_store_that_lets_nobody_delete_is_found_out_at_once(store: MemoryStore, runtime: Runtime) -> None:
    store.before = fail_at("delete", "INTENT", StoreDenied("no deletes here"))
    with pytest.raises(StoreDenied):
        RWLock(store, "r", runtime=runtime).write(wait=10, renew=False)
    assert store.time.now == 0
    assert "DEAD" in store.names()


def test_each_attempt_is_a_new_transaction(store: MemoryStore, runtime: Runtime) -> None:
    store.before = fail_at("put", "WRIT", StoreUnavailable("later"))
    with pytest.raises(StoreUnavailable):
        RWLock(store, "r", runtime=runtime).write(wait=2, renew=False)
    intents = [request.key for request in store.requests if (request.word, request.name) == ("put", "INTENT")]
    assert len(intents) == len(set(intents)) > 1


def test_a_runs_lock_is_asked_for_as_briefly_as_any_other(store: MemoryStore, runtime: Runtime) -> None:
    # It may last for hours; who dies while asking for it must not keep the others out for hours.
    store.after = fail_at("put", "INTENT", MemoryError())
    store.before = fail_at("put", "DEAD", StoreUnavailable("gone"))
    run = RWLock(store, "r", owner=Owner(scope="run"), lease=6 * 3600, runtime=runtime)
    with pytest.raises(MemoryError):
        run.write(wait=0, renew=False)
    assert store.names() == ["INTENT.WRIT"]
    store.after = store.before = lambda request: None
    store.time.sleep(181)
    RWLock(store, "r", runtime=runtime).write(wait=0, renew=False).check()
