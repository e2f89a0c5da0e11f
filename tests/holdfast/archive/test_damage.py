"""Every kind of file of an archive, damaged in every way: it is named, with what to do, and never read as if whole.

Where damage is harmless that is proved: everything that is read is compared with what was written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.archive import Archive, State
from holdfast.archive.archive import IDENTITY_KEY
from holdfast.archive.files.data_files import read_file
from holdfast.archive.format.commits import commit_key, parse_commit
from holdfast.archive.format.model import ArchiveCommit, Identity
from holdfast.archive.format.runs import read_last
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import DamagedError
from holdfast.storage import open_store
from locking import Lease, LockError, LockLost, RWLock
from tests.support.archives.damage import damages, flipped, lines, parquet_regions
from tests.support.archives.damaged_archive import Place, add_backup, fill, outcome
from tests.support.locks.lockstore import FakeTime, MemoryStore

pytestmark = pytest.mark.slow

COMMITS = {"oldest": commit_key(1), "middle": commit_key(2), "newest": commit_key(3)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return fill(str(tmp_path_factory.mktemp("damage") / "archive"))


@pytest.fixture
def place(whole: Place) -> Iterator[Place]:
    """The whole archive; what a test does to it is undone."""
    yield whole
    for key, body in whole.written.items():
        whole.put(key, body)
    assert whole.read() == whole.truth


def test_the_archive_has_every_kind_of_file(whole: Place) -> None:
    parts = {key.split("/")[0] for key in whole.written}
    assert parts == {"archive.json", "commits", "data", "runs", "probes"}  # locks have tests of their own, below
    assert {Path(key).suffix for key in whole.keys("data/")} == {".json", ".dump", ".parquet"}


@pytest.mark.parametrize("kind", ["catalog-", "schema-", ".parquet"])
def test_a_damaged_file_of_a_block_is_named_however_it_is_damaged(place: Place, kind: str) -> None:
    key = place.keys(kind)[0]
    body = place.written[key]
    regions = parquet_regions(body) if kind == ".parquet" else {}
    for label, damaged in damages(body, regions):
        place.put(key, damaged)
        place.must_tell(key, label, deep_only=len(damaged) == len(body))


def test_the_regions_of_a_data_file_are_all_that_it_has(whole: Place) -> None:
    body = whole.written[whole.keys(".parquet")[0]]
    regions = parquet_regions(body)
    assert {name.split(",")[0] for name in regions} == {
        "leading magic", "dictionary page", "page header", "page data", "footer", "footer's length", "closing magic",
    }  # fmt: skip
    starts, ends = zip(*sorted(regions.values()), strict=True)
    assert (starts[0], starts[1:], ends[-1]) == (0, ends[:-1], len(body))


@pytest.mark.parametrize("kind", ["catalog-", "schema-", ".parquet"])
def test_no_byte_of_a_file_of_a_block_can_change_unseen(place: Place, kind: str) -> None:
    key = place.keys(kind)[0]
    archive = Archive.open(place.store)
    record = next(
        file for commit in archive.commits() for block in commit.add for file in block.files() if file.path == key
    )
    body = place.written[key]
    for number in range(len(body)):
        place.put(key, flipped(body, number))
        with pytest.raises(DamagedError, match=key):
            read_file(archive.store, record)


@pytest.mark.parametrize("kind", ["catalog-", "schema-", ".parquet"])
def test_a_missing_file_of_a_block_is_named(place: Place, kind: str) -> None:
    key = place.keys(kind)[0]
    place.put(key, None)
    place.must_tell(key, "missing")


@pytest.mark.parametrize("kind", ["catalog-", "schema-", "data/shop/1/", "data/shop/2/"])
def test_a_file_that_is_another_one_of_its_kind_and_size_is_named(place: Place, kind: str) -> None:
    key, *others = place.keys(kind)
    for other in others:
        place.put(key, place.written[other])
        place.must_tell(key, other, deep_only=len(place.written[other]) == len(place.written[key]))


@pytest.mark.parametrize(
    "key",
    [
        IDENTITY_KEY,
        *(pytest.param(COMMITS[which], marks=pytest.mark.exhaustive) for which in ("oldest", "middle")),
        COMMITS["newest"],
    ],
)
def test_a_damaged_document_is_named_however_it_is_damaged(place: Place, key: str) -> None:
    body = place.written[key]
    named = [place.must_tell_or_be_harmless(key, label) for label, damaged in every_line(place, key, body)]
    assert named.count(False) == 0


def every_line(place: Place, key: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Damage a document in every way, one after the other."""
    for label, damaged in damages(body, lines(body)):
        place.put(key, damaged)
        yield label, damaged


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (Identity, IDENTITY_KEY),
        *(pytest.param(ArchiveCommit, COMMITS[which], marks=pytest.mark.exhaustive) for which in ("oldest", "middle")),
        (ArchiveCommit, COMMITS["newest"]),
    ],
)
def test_no_byte_of_a_document_can_change_what_it_says(
    whole: Place, kind: type[Identity] | type[ArchiveCommit], key: str
) -> None:
    body = whole.written[key]
    truth = kind.from_bytes(body, key)
    unseen = []
    for number, bit in itertools.product(range(len(body)), range(8)):
        found = outcome(partial(kind.from_bytes, flipped(body, number, 1 << bit), key), DamagedError)
        if isinstance(found, DamagedError):
            assert key in str(found)
        else:
            assert found == truth, (number, bit)
            unseen.append(number)
    assert unseen == []


def test_a_document_that_was_written_before_there_were_seals_is_read(whole: Place) -> None:
    commit = ArchiveCommit.from_bytes(whole.written[commit_key(1)], "k").model_copy(update={"format": 1})
    assert ArchiveCommit.from_bytes(commit.model_dump_json(indent=1).encode(), "k") == commit


def test_from_format_2_on_a_document_without_a_seal_is_damaged(whole: Place) -> None:
    commit = ArchiveCommit.from_bytes(whole.written[commit_key(1)], "k")
    with pytest.raises(DamagedError, match="k is damaged: its checksum is not there"):
        ArchiveCommit.from_bytes(commit.model_dump_json(indent=1).encode(), "k")


@pytest.mark.parametrize(("one", "other"), [("oldest", "newest"), ("middle", "oldest"), ("newest", "middle")])
def test_commits_that_were_exchanged_are_named(place: Place, one: str, other: str) -> None:
    place.put(COMMITS[one], place.written[COMMITS[other]])
    assert place.must_tell_or_be_harmless(COMMITS[one], "exchanged")
    place.put(COMMITS[other], place.written[COMMITS[one]])
    first = min(COMMITS[one], COMMITS[other])
    assert place.must_tell_or_be_harmless(first, "both exchanged")


@pytest.mark.parametrize("which", ["oldest", "middle"])
def test_a_missing_commit_with_later_ones_is_named(place: Place, which: str) -> None:
    place.put(COMMITS[which], None)
    assert place.must_tell_or_be_harmless(COMMITS[which], "missing")


def test_an_archive_whose_newest_commit_is_missing_is_what_it_was_before_and_verify_tells(place: Place) -> None:
    place.put(COMMITS["newest"], None)
    archive = Archive.open(place.store)
    assert archive.state.sequence == 2
    for deep in (False, True):
        found = verify(archive, deep=deep)
        (damage,) = found.damage
        assert (damage.what.split()[0], damage.source, damage.commit) == (COMMITS["newest"], "shop", 3)
        assert (found.files, "put it back from a copy" in str(damage)) == (9, True)


def test_a_commit_that_was_made_while_others_verify_is_not_taken_for_missing(place: Place) -> None:
    opened = Archive.open(place.store)
    opened.state = State.begun(opened.identity.format).after(list(opened.commits())[:2])
    assert verify(opened).damage == ()


def test_a_commit_of_another_archive_is_named(place: Place, tmp_path: Path) -> None:
    foreign = Archive.create(open_store(str(tmp_path / "foreign")), name="shop")
    for number in (1, 2, 3):
        add_backup(foreign, number)
    for key in COMMITS.values():
        place.put(key, foreign.store.get(key))
        with pytest.raises(DamagedError, match=f"{key} is of another archive"):
            place.read()
        place.put(key, place.written[key])


def test_an_identity_of_another_archive_is_named(place: Place, tmp_path: Path) -> None:
    foreign = Archive.create(open_store(str(tmp_path / "foreign")), name="crm")
    place.put(IDENTITY_KEY, foreign.store.get(IDENTITY_KEY))
    with pytest.raises(DamagedError, match=r"is of another archive .* than archive\.json \(crm, "):
        place.read()


def test_a_commit_with_another_content_than_the_one_after_it_was_made_for_is_named(place: Place) -> None:
    key = COMMITS["middle"]
    changed = parse_commit(key, place.written[key]).model_copy(update={"reason": "changed later"})
    place.put(key, changed.to_bytes())
    with pytest.raises(DamagedError, match="commit chain is broken at"):
        Archive.open(place.store)
    assert verify(Archive.open(place.store, before_damage=True)).damage


def test_an_archive_whose_identity_is_missing_is_damaged_and_not_to_be_created(place: Place) -> None:
    place.put(IDENTITY_KEY, None)
    assert place.must_tell_or_be_harmless(IDENTITY_KEY, "missing")


@pytest.mark.parametrize(
    ("part", "count"), [("runs/", 1), ("probes/", 1), pytest.param("runs/", 100, marks=pytest.mark.exhaustive)]
)
def test_nothing_that_is_restored_depends_on_records_of_runs_and_probes(place: Place, part: str, count: int) -> None:
    for key in place.keys(part)[:count]:
        for label, damaged in [*damages(place.written[key]), ("missing", None)]:
            place.put(key, damaged)
            assert place.read() == place.truth, label
            assert verify(Archive.open(place.store), deep=True).damage == (), label
        place.put(key, place.written[key])


def test_a_damaged_record_of_a_run_is_named_or_is_a_record(place: Place) -> None:
    key = place.keys("runs/run-1/")[-1]
    for _, damaged in damages(place.written[key], lines(place.written[key])):
        place.put(key, damaged)
        found = outcome(partial(read_last, place.store, "run-1"), DamagedError)
        assert not isinstance(found, DamagedError) or key in str(found)


@pytest.mark.parametrize("mode", ["W", "R"])
def test_a_damaged_lock_lets_nobody_in_beside_its_holder(mode: str) -> None:
    _, _, _, body = held_lock(mode)
    flips = [(f"byte {number}", flipped(body, number)) for number in range(len(body))]
    for label, damaged in [*damages(body), *flips, ("missing", None)]:
        store, lock, holder, _ = held_lock(mode)
        (key,) = store.objects
        del store.objects[key]
        if damaged is not None:
            store.place(key, damaged)
        got = outcome(partial(lock.write, wait=0, renew=False), LockError)
        if isinstance(got, LockError):
            assert "ingest-shop" in str(got), label
        else:
            assert isinstance(outcome(holder.check, LockLost), LockLost), label


def held_lock(mode: str) -> tuple[MemoryStore, RWLock, Lease, bytes]:
    """Return a store with one lock, which is held, and the bytes of its only object, which are always the same."""
    time = FakeTime()
    store = MemoryStore(time)
    lock = RWLock(store, "ingest-shop", runtime=time.runtime())
    holder = (lock.write if mode == "W" else lock.read)(purpose="backup", wait=0, renew=False)
    ((body, _),) = store.objects.values()
    return store, lock, holder, body
