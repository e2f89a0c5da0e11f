"""What holds for every name, record and handle, also for those that nobody has thought of."""

from __future__ import annotations

import json
import string
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from locking import InvalidHandle, InvalidLockName, LeaseHandle, LockBusy, Owner, RWLock, inspect, reap
from locking.errors import UnreadableRecord
from locking.folder import LockFolder
from locking.names import WORDS, Mode, check_resource, check_root, parse_name, split_target
from locking.record import VERSION, DeadMarker, LockRecord, decode_marker, decode_record, encode_marker, encode_record
from locking.terms import Terms
from tests.support.generator.trials import tiered
from tests.support.locks.lockstore import MemoryStore

pytestmark = pytest.mark.slow

always = settings(derandomize=True, deadline=None, max_examples=tiered(60, 200))

FIRST = string.ascii_letters + string.digits
RESOURCES = st.builds(str.__add__, st.sampled_from(FIRST), st.text(FIRST + "._-", max_size=127))
"""Valid names."""

SIMILAR = st.text("aA0._-", min_size=1, max_size=4).filter(lambda name: name[0] not in "._-")
"""Valid names of which one often begins like another."""

ROOTS = st.lists(RESOURCES, min_size=1, max_size=3).map("/".join)
TXNS = st.text("0123456789abcdef", min_size=32, max_size=32)
MODES: st.SearchStrategy[Mode] = st.sampled_from(["R", "W"])
WORDS_OF_OURS = ["INTENT", "WRIT", "READ", "DEAD", ".", "/", "0" * 32, "f" * 32, "F", "", "x"]
KEYS = st.lists(st.sampled_from(WORDS_OF_OURS), max_size=6).map("".join) | st.text(max_size=30)
"""Ends of keys, many of them nearly ours."""

TEXTS = st.text(max_size=40)
NUMBERS = st.integers(-(10**40), 10**40)
OWNERS = st.builds(
    Owner,
    scope=st.sampled_from(["process", "task", "run"]),
    dag_id=st.none() | TEXTS,
    run_id=st.none() | TEXTS,
    task_id=st.none() | TEXTS,
    map_index=st.none() | NUMBERS,
    user=TEXTS,
    host=TEXTS,
    boot_id=TEXTS,
    pid_namespace=TEXTS,
    pid=NUMBERS,
    process_start=NUMBERS,
)
SECONDS = st.floats(1, 1e300)
TERMS = st.builds(Terms, SECONDS, SECONDS, SECONDS)
ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1), timezones=ZONES)  # noqa: DTZ001 - hypothesis adds it
RECORDS = st.builds(
    LockRecord, txn=TXNS, mode=MODES, resource=RESOURCES, owner=OWNERS, purpose=TEXTS, since=TIMES, terms=TERMS
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def read(record: LockRecord, body: bytes) -> LockRecord:
    return decode_record(body, resource=record.resource, mode=record.mode, txn=record.txn)


def changed(record: LockRecord, change: dict[str, Any]) -> bytes:
    """The record's bytes with fields of the document set, or removed where they are set to ``...``."""
    document = json.loads(encode_record(record)) | change
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


# Names.


@always
@given(ROOTS, RESOURCES, MODES, TXNS)
def test_each_key_of_a_lock_is_taken_apart_into_what_it_was_made_of(
    root: str, resource: str, mode: Mode, txn: str
) -> None:
    folder = LockFolder(MemoryStore(), root, resource)
    for key, kind in (
        (folder.intent(mode, txn), "intent"),
        (folder.target(mode, txn), "target"),
        (folder.marker(txn), "dead"),
    ):
        place, _, name = key.rpartition("/")
        found = parse_name(name)
        assert found is not None
        assert (place, found.kind, found.txn) == (f"{root}/{resource}", kind, txn)
        assert found.mode == (None if kind == "dead" else mode)
    assert split_target(f"{root}/{resource}/{WORDS[mode]}") == (root, resource, mode)


@always
@given(SIMILAR | RESOURCES, SIMILAR | RESOURCES, TXNS)
@example("a", "ab", "0" * 32)
@example("a", "a.b", "0" * 32)
def test_two_resources_never_meet(one: str, other: str, txn: str) -> None:
    store = MemoryStore()
    runtime = store.time.runtime()
    held = RWLock(store, one, runtime=runtime).write(wait=0, renew=False)
    try:
        second = RWLock(store, other, runtime=runtime).write(wait=0, renew=False)
    except LockBusy:
        assert one == other
        return
    assert one != other
    held.check()
    second.check()
    mine, others = (LockFolder(store, "locks", name) for name in (one, other))
    for key, prefix in product(_keys(mine, txn), (others.marker(txn).removesuffix(f"DEAD.{txn}"),)):
        assert not key.startswith(prefix)
    assert not set(_keys(mine, txn)) & set(_keys(others, txn))


def _keys(folder: LockFolder, txn: str) -> list[str]:
    modes: tuple[Mode, ...] = ("R", "W")
    return [folder.marker(txn), *(make(mode, txn) for make in (folder.intent, folder.target) for mode in modes)]


@always
@given(st.text(max_size=200) | st.text("aA0._-/\\ \n\0é\u0301\u0660\U0001f512", max_size=140), st.booleans())
@example("a\n", False)
@example("a/", True)
@example("\u0660", False)
@example("a" * 129, False)
def test_any_other_name_is_refused_by_name(name: str, root: bool) -> None:
    valid = all(
        1 <= len(part) <= 128 and part[0] in FIRST and set(part) <= set(FIRST + "._-") if part else False
        for part in (name.split("/") if root else [name])
    )
    try:
        assert (check_root if root else check_resource)(name) == name
        assert valid
    except InvalidLockName:
        assert not valid


@always
@given(RESOURCES, MODES, MODES, TXNS, TXNS)
def test_markers_sort_before_intents_and_intents_before_targets(
    resource: str, mode: Mode, other: Mode, txn: str, another: str
) -> None:
    folder = LockFolder(MemoryStore(), "locks", resource)
    marker, intent, target = folder.marker(txn), folder.intent(mode, txn), folder.target(other, another)
    assert marker < folder.intent(mode, another)
    assert intent < target
    assert intent.encode() < target.encode()


@always
@given(st.lists(KEYS, max_size=8), st.lists(KEYS, max_size=4))
@example(["READ." + "0" * 32, "WRIT." + "0" * 32, "INTENT.WRIT." + "0" * 32], ["", "/", "r", "..//WRIT." + "0" * 32])
def test_whatever_is_listed_is_ours_or_foreign_and_never_an_error(inside: list[str], beside: list[str]) -> None:
    store = MemoryStore()
    for key in [*(f"locks/r/{name}" for name in inside), *(f"locks/{name}" for name in beside)]:
        store.place(key, b"")
    folder = LockFolder(store, "locks", "r")
    look = folder.look(store.time)
    ours = [key for claim in look.claims.values() for key in claim.keys]
    sorted_out = [*ours, *(info.key for info in look.dead.values()), *(info.key for info in look.foreign)]
    assert sorted(sorted_out) == [key for key in sorted(store.objects) if key.startswith("locks/r/")]
    before = dict(store.objects)
    assert {info.state for info in inspect(store)} <= {"held", "intent", "unreadable", "foreign", "dead"}
    assert store.objects == before
    reap(store, runtime=store.time.runtime())
    assert {info.key for info in look.foreign} <= set(store.objects)


# Records and their owners.


@always
@given(RECORDS, OWNERS, TEXTS)
def test_what_is_written_is_read_back_whatever_the_fields_hold(record: LockRecord, by: Owner, reason: str) -> None:
    assert read(record, encode_record(record)) == record
    marker = DeadMarker(txn=record.txn, reason=reason, terms=record.terms, by=by)
    assert decode_marker(encode_marker(marker)) == marker


@always
@given(st.text(st.characters(codec=None), max_size=20))
@example("\udcff")
def test_words_that_are_no_utf8_are_written_as_far_as_they_are(words: str) -> None:
    store = MemoryStore()
    lock = RWLock(store, "r", owner=Owner(user=words), runtime=store.time.runtime())
    lock.write(purpose=words, wait=0, renew=False)
    (info,) = inspect(store)
    told = words.encode(errors="replace").decode()
    assert info.owner is not None
    assert (info.state, info.purpose) == ("held", told)
    assert info.owner.user == told or words == ""


@pytest.mark.slow
@always
@given(RECORDS, st.dictionaries(TEXTS.map("x-{}".format), JSON, max_size=3))
def test_fields_that_a_later_release_adds_are_passed_over_wherever_they_are(
    record: LockRecord, added: dict[str, Any]
) -> None:
    document = json.loads(encode_record(record))
    more = {**added, "owner": {**document["owner"], **added}, "terms": {**document["terms"], **added}}
    assert read(record, changed(record, more)) == record


@always
@given(RECORDS, st.sets(st.sampled_from(sorted(asdict(Owner())))), st.sets(st.sampled_from(sorted(asdict(Terms())))))
def test_fields_that_an_earlier_release_did_not_write_have_their_defaults(
    record: LockRecord, of_owner: set[str], of_terms: set[str]
) -> None:
    document = json.loads(encode_record(record))
    less = {
        "owner": {name: value for name, value in document["owner"].items() if name not in of_owner},
        "terms": {name: value for name, value in document["terms"].items() if name not in of_terms},
    }
    expected = replace(
        record,
        owner=replace(record.owner, **{name: getattr(Owner(), name) for name in of_owner}),
        terms=replace(record.terms, **{name: getattr(Terms(), name) for name in of_terms}),
    )
    assert read(record, changed(record, less)) == expected


@always
@given(RECORDS, st.sampled_from(["version", "txn", "mode", "resource", "owner", "since", "terms"]), JSON | st.just(...))
def test_a_field_that_is_missing_or_makes_no_sense_never_passes_for_another(
    record: LockRecord, name: str, value: object
) -> None:
    try:
        found = read(record, changed(record, {name: value}))
    except UnreadableRecord:
        return
    assert (found.txn, found.mode, found.resource) == (record.txn, record.mode, record.resource)
    assert found.version <= VERSION
    assert value is not ...


@always
@given(RECORDS, st.integers(VERSION + 1, 10**30), st.floats(0, 1e9), MODES)
def test_a_record_of_a_newer_release_keeps_others_out_at_any_age(
    record: LockRecord, version: int, age: float, mode: Mode
) -> None:
    body = changed(record, {"version": version, "mode": ["another", "shape"]})
    _keeps_others_out(body, age, mode, f"version {version}")


@settings(always, max_examples=tiered(30, 100))
@given(RECORDS, st.data(), st.floats(0, 1e9), MODES)
def test_a_damaged_record_keeps_others_out_at_any_age(
    record: LockRecord, data: st.DataObject, age: float, mode: Mode
) -> None:
    body = encode_record(record)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    _keeps_others_out(data.draw(st.sampled_from([cut, cut + b"\0", b"\xff" + body])), age, mode, "damaged")


def _keeps_others_out(body: bytes, age: float, mode: Mode, said: str) -> None:
    store = MemoryStore()
    runtime = store.time.runtime()
    store.place("locks/r/WRIT." + "f" * 32, body)
    store.time.sleep(age)
    lock = RWLock(store, "r", runtime=runtime)
    with pytest.raises(LockBusy, match=said) as caught:
        (lock.read if mode == "R" else lock.write)(wait=0, renew=False)
    assert [(info.state, info.txn) for info in caught.value.blockers] == [("unreadable", "f" * 32)]
    assert reap(store, runtime=runtime) == []
    assert store.names() == ["WRIT"]


# Handles.


HANDLES = st.builds(LeaseHandle, root=ROOTS, resource=RESOURCES, mode=MODES, txn=TXNS, lease_s=SECONDS, grace_s=SECONDS)


@always
@given(HANDLES)
def test_a_handle_survives_its_journey(handle: LeaseHandle) -> None:
    assert LeaseHandle.from_json(handle.to_json()) == handle


@always
@given(st.text(max_size=100) | JSON.map(json.dumps))
@example("[" * 100_000)
@example("1" * 5000)
def test_words_that_are_no_handle_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidHandle):
        LeaseHandle.from_json(text)


@always
@given(HANDLES, st.sampled_from(sorted(LeaseHandle.__dataclass_fields__)), JSON)
@example(LeaseHandle("locks", "r", "W", "0" * 32, 1.0, 1.0), "root", 7)
@example(LeaseHandle("locks", "r", "W", "0" * 32, 1.0, 1.0), "mode", ["W"])
@example(LeaseHandle("locks", "r", "W", "0" * 32, 1.0, 1.0), "txn", int("1" * 32))
@example(LeaseHandle("locks", "r", "W", "0" * 32, 1.0, 1.0), "lease_s", 10**400)
@example(LeaseHandle("locks", "r", "W", "0" * 32, 1.0, 1.0), "lease_s", True)
def test_a_handle_with_a_field_that_is_none_is_refused_or_means_what_it_says(
    handle: LeaseHandle, name: str, value: object
) -> None:
    text = json.dumps(asdict(handle) | {name: value})
    try:
        found = LeaseHandle.from_json(text)
    except InvalidHandle:
        return
    assert asdict(found) == asdict(handle) | {name: value}
    assert found.resource == check_resource(found.resource)
