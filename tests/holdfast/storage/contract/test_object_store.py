"""What every store has by the contract itself: the probe, deletions one by one, and errors in words."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from holdfast.common.errors import DamagedError, exit_code_of
from holdfast.storage.contract.object_store import (
    LARGEST_DOCUMENT,
    PROBE_ROUNDS,
    ConditionNotSupported,
    ObjectRetained,
    ObjectTooLarge,
    check_document,
    without_answer,
)
from locking.store import ObjectExists, StoreDenied, StoreError, StoreOutcomeUnknown, StoreUnavailable
from tests.support.stores.memory_store import MemoryStore

Create = Callable[[MemoryStore, str, bytes], None]


def says_yes(store: MemoryStore, key: str, body: bytes) -> None:
    store.put(key, body)


def says_no(store: MemoryStore, key: str, body: bytes) -> None:
    raise ObjectExists(key)


def knows_none(store: MemoryStore, key: str, body: bytes) -> None:
    raise ConditionNotSupported(key)


def keeps_anothers(store: MemoryStore, key: str, body: bytes) -> None:
    MemoryStore.create(store, key, b"somebody else's")


class Other(MemoryStore):
    """A store that creates as told."""

    def __init__(self, made: Create) -> None:
        super().__init__()
        self._made = made
        self.keys_created: set[str] = set()

    def create(self, key: str, body: bytes) -> None:
        self.keys_created.add(key)
        self._made(self, key, body)


def test_a_store_where_one_creator_wins_passes_the_probe_and_nothing_stays() -> None:
    store = Other(MemoryStore.create)
    assert store.probe_create_if_absent(threads=4)
    assert len(store.keys_created) == PROBE_ROUNDS
    assert store.keys() == set()


@pytest.mark.parametrize("create", [says_yes, says_no, knows_none, keeps_anothers])
def test_a_store_where_none_or_several_win_fails_the_probe_and_nothing_stays(create: Create) -> None:
    store = Other(create)
    assert store.probe_create_if_absent(threads=4) is False
    assert store.keys() == set()


def test_a_round_whose_answers_are_lost_is_repeated_and_says_nothing_of_the_store() -> None:
    lost = iter([True, False, True, True, False, False, False, *[False] * 20])

    def lose(store: MemoryStore, key: str, body: bytes) -> None:
        MemoryStore.create(store, key, body)
        if next(lost):
            raise StoreOutcomeUnknown(key)

    store = Other(lose)
    assert store.probe_create_if_absent(threads=1)
    assert len(store.keys_created) == PROBE_ROUNDS + 3
    assert store.keys() == set()

    def lose_all(store: MemoryStore, key: str, body: bytes) -> None:
        raise StoreOutcomeUnknown(key)

    with pytest.raises(StoreOutcomeUnknown):
        Other(lose_all).probe_create_if_absent(threads=1)


def test_an_error_of_the_probe_itself_is_told_and_one_of_its_tidying_is_not() -> None:
    class Broken(MemoryStore):
        def delete(self, key: str) -> None:
            raise StoreDenied(key)

    assert Broken().probe_create_if_absent(threads=2)

    def fail(store: MemoryStore, key: str, body: bytes) -> None:
        raise StoreUnavailable("no answer")

    with pytest.raises(StoreUnavailable, match="no answer"):
        Other(fail).probe_create_if_absent(threads=2)


def test_of_many_deletions_those_that_failed_are_told_and_the_others_done() -> None:
    class Picky(MemoryStore):
        names: set[str]

        def delete(self, key: str) -> None:
            self.names.add(threading.current_thread().name)
            if "locked" in key:
                raise StoreDenied(f"no: {key}")
            super().delete(key)

    store = Picky()
    store.names = set()
    keys = [f"a/{number}" for number in range(20)] + ["a/locked"]
    for key in keys:
        store.put(key, b"")
    errors = store.delete_each([*keys, "a/none"])
    assert {key: str(error) for key, error in errors.items()} == {"a/locked": "no: a/locked"}
    assert store.keys() == {"a/locked"}
    assert threading.current_thread().name not in store.names


def test_what_most_stores_cannot_do_is_left_undone() -> None:
    store = MemoryStore()
    store.put("a", b"1")
    with pytest.raises(ConditionNotSupported, match="'a': memory does not offer compare-and-swap"):
        store.replace("a", b"2", "etag")
    assert store.copy_from(MemoryStore(), "a", 1, "x") is False
    assert store.gated(lambda: pytest.fail("no part of a request is sent")) is store.impatient() is store
    assert (store.is_encrypted, store.key, store.endpoint) == (False, None, "")
    assert repr(store) == "MemoryStore('memory')"


def test_the_first_of_a_listing_are_as_many_as_are_asked_for() -> None:
    store = MemoryStore()
    for key in ("b", "a", "c"):
        store.put(key, b"")
    assert [found.key for found in store.first("", 2)] == ["a", "b"]


def test_what_is_larger_than_any_document_is_refused() -> None:
    check_document("commits/1", LARGEST_DOCUMENT)
    with pytest.raises(ObjectTooLarge, match="commits/1 is damaged or not ours: it has 1,073,741,825 bytes") as found:
        check_document("commits/1", LARGEST_DOCUMENT + 1)
    assert isinstance(found.value, DamagedError)
    assert exit_code_of(found.value) == 4


@pytest.mark.parametrize(
    ("writes", "kind", "said"),
    [
        (True, StoreOutcomeUnknown, "Whether 'a' was changed is not known: look before trying again (HTTP 500)."),
        (False, StoreUnavailable, "Could not read 'a': HTTP 500."),
    ],
)
def test_after_a_request_without_an_answer_a_write_is_unknown_and_a_read_has_done_nothing(
    writes: bool, kind: type[StoreError], said: str
) -> None:
    error = without_answer("read", "a", "HTTP 500", writes=writes)
    assert (type(error), str(error)) == (kind, said)
    sentence = without_answer("read", "a", "HTTP 500.", writes=writes)  # as botocore's clients say it
    assert str(sentence) == said


def test_until_when_an_object_must_stay_comes_through_a_pickle() -> None:
    error = ObjectRetained("it is locked", datetime(2026, 3, 1, tzinfo=UTC))
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(found), found.until) == ("it is locked", error.until)
    assert ObjectRetained("it is held").until is None
