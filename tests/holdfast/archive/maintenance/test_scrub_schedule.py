"""Verification over days: what is read next, what is remembered, and what happens meanwhile."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa
import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.files.file_index import NamedFile, Problem, content_problem, files_of
from holdfast.archive.format.block import Block
from holdfast.archive.format.document import TableRecord
from holdfast.archive.maintenance import scrub_schedule
from holdfast.archive.maintenance import verify as verification
from holdfast.archive.maintenance.scrub_schedule import RUN, read_progress
from holdfast.archive.maintenance.verify import Scope, Verification, verify_and_remember
from holdfast.common.errors import HoldfastError
from holdfast.common.lsn import show_position
from tests.support.stores.memory_store import MemoryStore

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)


class Scrubbed:
    """An archive in memory whose files are verified in parts, and how often each was read."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        Archive.create(self.store, name="shop")
        self.reads: Counter[str] = Counter()
        self.runs: list[list[str]] = []
        self.decoded: list[str] = []
        """What the last run did more with than to compare its bytes."""

    def back_up(self, *, files: int = 3) -> Block:
        """Add a block with so many files of rows, and its catalog."""
        archive = Archive.open(self.store)
        identity = uuid.uuid4().hex
        batch = pa.record_batch({"id": pa.array([1, 2, 3])})
        records = [
            record
            for number in range(files)
            for record in write_parquet(
                self.store, f"data/shop_db/1/snapshot/{identity}/{number:05d}", batch.schema, [batch]
            )
        ]
        table = TableRecord(id="1", table_schema="shop", name="orders", rows=3, digest="", files=tuple(records))
        position = show_position(0x1000 * (archive.state.sequence + 1))
        block = make_block(identity=identity, position=position, at=self.store.now, tables=(table,))
        catalog = write_bytes(self.store, f"data/shop_db/schema/{identity}/catalog.json", b"{}")
        block = block.model_copy(update={"catalog": catalog})
        self.commit(Change(kind="backup", add=(block,)))
        return block

    def commit(self, change: Change) -> None:
        Archive.open(self.store).add(lambda state: change, check=lambda: None, fence=None)

    def paths(self) -> set[str]:
        return {file.path for placed in Archive.open(self.store).state.blocks.values() for file in files_of(placed)}

    def read_all(self, files: Sequence[NamedFile]) -> list[Problem | None]:
        self.reads.update(file.path for file in files)
        self.runs[-1] += [file.path for file in files]
        self.decoded += [file.path for file in files if not file.is_decoded]
        return [content_problem(self.store, file) for file in files]

    def verify(self, **scope: object) -> Verification:
        """Verify in parts, remembering what was done."""
        self.runs.append([])
        self.decoded = []
        wanted = Scope(deep=True, **scope)  # type: ignore[arg-type]
        return verify_and_remember(Archive.open(self.store), wanted, read_all=self.read_all)


@pytest.fixture
def scrubbed() -> Scrubbed:
    return Scrubbed()


def test_parts_of_a_budget_come_to_every_file_once_before_any_is_read_again(scrubbed: Scrubbed) -> None:
    for _ in range(4):
        scrubbed.back_up()
        scrubbed.store.advance(DAY)
    whole = sum(file.record.size for placed in Archive.open(scrubbed.store).state.blocks.values()
                for file in files_of(placed))  # fmt: skip
    runs = 0
    while set(scrubbed.reads) != scrubbed.paths():
        assert max(scrubbed.reads.values(), default=0) <= 1
        found = scrubbed.verify(budget=whole // 7)
        assert found.damage == ()
        scrubbed.store.advance(DAY)
        runs += 1
    assert set(scrubbed.reads.values()) <= {1, 2}  # the last run had something left of its budget
    assert 5 <= runs <= 8
    for _ in range(runs):
        scrubbed.verify(budget=whole // 7)
        scrubbed.store.advance(DAY)
    assert set(scrubbed.reads.values()) <= {1, 2, 3}
    assert min(scrubbed.reads.values()) >= 2


def test_daily_runs_have_read_everything_within_the_time_that_was_asked_for(scrubbed: Scrubbed) -> None:
    for _ in range(10):
        scrubbed.back_up(files=4)
        scrubbed.store.advance(timedelta(hours=1))
    for day in range(40):
        scrubbed.store.advance(DAY)
        if day % 5 == 0:
            scrubbed.back_up(files=4)
        found = scrubbed.verify(within=10 * DAY)
        if day >= 12:
            assert found.since is not None
            assert scrubbed.store.now - found.since <= 11 * DAY
    assert max(len(run) for run in scrubbed.runs) <= 12  # of 50 to 90: it is spread


def test_what_was_not_read_for_longest_comes_first(scrubbed: Scrubbed) -> None:
    old = scrubbed.back_up()
    scrubbed.store.advance(DAY)
    new = scrubbed.back_up()
    scrubbed.verify(budget=1)
    assert scrubbed.runs[-1][0] in {file.path for file in old.files()}
    scrubbed.verify()
    scrubbed.store.advance(DAY)
    newest = scrubbed.back_up()
    scrubbed.verify()
    order = [path.split("/")[-2] for path in scrubbed.runs[-1]]
    assert list(dict.fromkeys(order)) == [old.id, new.id, newest.id]


def test_damage_is_read_again_each_time_until_it_is_mended(scrubbed: Scrubbed) -> None:
    first = scrubbed.back_up()
    scrubbed.store.advance(DAY)
    scrubbed.back_up()
    path = first.tables[0].files[1].path
    body = scrubbed.store.get(path)
    scrubbed.store.put(path, body[:-1] + b"?")
    assert [path in str(each) for each in scrubbed.verify().damage] == [True]
    scrubbed.store.advance(DAY)
    for _ in range(2):
        (damage,) = scrubbed.verify(budget=1).damage
        assert (damage.path, damage.table) == (path, "shop.orders")
        assert scrubbed.runs[-1][0] == path
    scrubbed.store.put(path, body)
    assert scrubbed.verify(budget=1).damage == ()
    assert scrubbed.verify(budget=1).damage == ()
    assert scrubbed.runs[-1][0] != path


def test_damage_of_a_block_that_was_removed_is_none(scrubbed: Scrubbed) -> None:
    first, _ = scrubbed.back_up(), scrubbed.back_up()
    scrubbed.store.delete(first.tables[0].files[0].path)
    assert len(scrubbed.verify().damage) == 1
    scrubbed.commit(Change(kind="truncation", remove=(first.id,)))
    assert scrubbed.verify(budget=1).damage == ()
    assert read_progress(scrubbed.store).damaged == {}


@pytest.mark.parametrize(
    ("error", "remembered_every"), [(HoldfastError, 3600), (KeyboardInterrupt, -1)], ids=["failed", "killed"]
)
def test_a_run_that_was_ended_is_gone_on_with(
    scrubbed: Scrubbed,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    remembered_every: int,
) -> None:
    monkeypatch.setattr(verification, "FIRST_BYTES", 1)
    monkeypatch.setattr(verification, "SMALLEST_BYTES", 1)
    monkeypatch.setattr(verification, "CHUNK_S", 0)
    monkeypatch.setattr(verification, "REMEMBERED_EVERY_S", remembered_every)
    scrubbed.back_up(files=6)
    asked = 0

    def end_soon() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise error("the lock is lost")

    scrubbed.runs.append([])
    with pytest.raises(error, match="the lock is lost"):
        verify_and_remember(Archive.open(scrubbed.store), Scope(deep=True), read_all=scrubbed.read_all, check=end_soon)
    assert len(scrubbed.reads) == 3
    scrubbed.verify(budget=10**9)
    assert set(scrubbed.reads) == scrubbed.paths()
    assert set(scrubbed.reads.values()) == {1}


def test_each_chunk_stands_under_the_lock_and_what_is_removed_in_between_is_left_out(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "FIRST_BYTES", 1)
    monkeypatch.setattr(verification, "SMALLEST_BYTES", 1)
    monkeypatch.setattr(verification, "CHUNK_S", 0)
    blocks = []
    for _ in range(3):
        blocks.append(scrubbed.back_up(files=2))
        scrubbed.store.advance(DAY)
    held: list[str] = []
    times = 0

    @contextmanager
    def reading() -> Iterator[None]:
        nonlocal times
        times += 1
        if times == 3:  # a truncation and a vacuum came in between
            scrubbed.commit(Change(kind="truncation", remove=(blocks[1].id,)))
            for file in blocks[1].files():
                scrubbed.store.delete(file.path)
        held.append("history")
        yield
        held.pop()

    def read_all(files: Sequence[NamedFile]) -> list[Problem | None]:
        assert held == ["history"]
        return scrubbed.read_all(files)

    scrubbed.runs.append([])
    found = verify_and_remember(Archive.open(scrubbed.store), Scope(deep=True), reading=reading, read_all=read_all)
    assert (found.damage, found.blocks, found.files) == ((), 2, 6)
    assert times > 6
    assert not {file.path for file in blocks[1].files()} & set(scrubbed.reads)


def test_only_the_newest_records_of_what_was_read_are_kept(scrubbed: Scrubbed) -> None:
    scrubbed.back_up()
    for _ in range(5):
        scrubbed.verify()
    kept = [found.key for found in scrubbed.store.list(f"runs/{RUN}/").objects]
    assert kept == [f"runs/{RUN}/000003.json", f"runs/{RUN}/000004.json"]


def test_a_record_that_cannot_be_read_costs_nothing_but_time(scrubbed: Scrubbed) -> None:
    scrubbed.back_up()
    scrubbed.verify()
    scrubbed.store.put(f"runs/{RUN}/000000.json", b"damaged")
    assert scrubbed.verify(budget=10**9).damage == ()
    assert set(scrubbed.runs[-1]) == scrubbed.paths()


def test_a_look_at_what_is_new_asks_for_nothing_else(scrubbed: Scrubbed) -> None:
    for _ in range(20):
        scrubbed.back_up()
    verify_and_remember(Archive.open(scrubbed.store), Scope(new=True))
    new = scrubbed.back_up()
    archive = Archive.open(scrubbed.store)
    scrubbed.store.requests.clear()
    found = verify_and_remember(archive, Scope(new=True))
    assert (found.files, found.damage) == (4, ())
    assert len(scrubbed.store.requests) < 20
    assert not [request for request in scrubbed.store.requests if request.startswith("list data/")]
    scrubbed.store.delete(new.catalog.path)
    assert verify_and_remember(Archive.open(scrubbed.store), Scope(new=True)).files == 0
    (damage,) = verify_and_remember(Archive.open(scrubbed.store), Scope()).damage
    assert damage.path == new.catalog.path


def test_new_files_that_are_missing_are_named_each_time(scrubbed: Scrubbed) -> None:
    scrubbed.back_up()
    verify_and_remember(Archive.open(scrubbed.store), Scope(new=True))
    new = scrubbed.back_up()
    scrubbed.store.delete(new.catalog.path)
    for _ in range(2):
        (damage,) = verify_and_remember(Archive.open(scrubbed.store), Scope(new=True)).damage
        assert (damage.path, damage.table) == (new.catalog.path, "schema")
        assert [cost.first for cost in damage.costs] == [2]


def test_no_time_reads_nothing(scrubbed: Scrubbed) -> None:
    made = scrubbed.back_up()
    found = scrubbed.verify(budget=timedelta(0))
    assert (scrubbed.runs, found.files, found.since) == ([[]], 0, made.covers.to_time)


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (Scope(), []),
        (Scope(new=True), ["--new"]),
        (Scope(deep=True, budget=100), ["--deep", "--budget", "100B"]),
        (
            Scope(deep=True, new=True, budget=timedelta(hours=2), within=DAY),
            ["--deep", "--new", "--budget", "7200.0s", "--within", "86400.0s"],
        ),
    ],
)
def test_a_scope_is_told_to_the_job(scope: Scope, told: list[str]) -> None:
    assert scope.arguments() == told


ENOUGH = 1 << 30
"""Bytes to read: all, and yet a part."""


def test_pages_are_decoded_once_and_bytes_are_read_each_time(scrubbed: Scrubbed) -> None:
    old = scrubbed.back_up()
    scrubbed.verify(budget=ENOUGH)
    assert set(scrubbed.decoded) == scrubbed.paths()
    scrubbed.store.advance(DAY)
    new = scrubbed.back_up()
    scrubbed.verify(budget=ENOUGH)
    assert set(scrubbed.runs[-1]) == scrubbed.paths()
    assert set(scrubbed.decoded) == {file.path for file in new.files()}
    path = old.tables[0].files[0].path
    body = scrubbed.store.get(path)
    scrubbed.store.put(path, body[:-1] + b"!")
    assert [each.path for each in scrubbed.verify(budget=ENOUGH).damage] == [path]
    assert scrubbed.decoded == []
    scrubbed.store.put(path, body)
    assert scrubbed.verify(budget=ENOUGH).damage == ()
    assert scrubbed.decoded == [path]  # what was damaged is looked at from all sides
    assert scrubbed.verify(budget=ENOUGH).damage == ()
    assert scrubbed.decoded == []


def test_who_asks_for_all_has_all_decoded(scrubbed: Scrubbed) -> None:
    scrubbed.back_up()
    scrubbed.verify(budget=ENOUGH)
    scrubbed.verify()
    assert set(scrubbed.decoded) == scrubbed.paths()
    scrubbed.verify(budget=ENOUGH)
    assert scrubbed.decoded == []


def test_another_version_decodes_anew_what_it_has_not_decoded_itself(
    scrubbed: Scrubbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        scrubbed.back_up()
        scrubbed.store.advance(DAY)
    scrubbed.verify(budget=ENOUGH)
    scrubbed.store.advance(DAY)
    scrubbed.verify(budget=1)  # one file of a block
    (begun,) = scrubbed.runs[-1]
    monkeypatch.setattr(scrub_schedule, "READER", "pyarrow 99")
    scrubbed.verify(budget=ENOUGH)
    assert set(scrubbed.decoded) == scrubbed.paths() - {begun}
    scrubbed.store.advance(DAY)
    scrubbed.verify(budget=ENOUGH)
    assert {path.split("/")[-2] for path in scrubbed.decoded} == {begun.split("/")[-2]}
    scrubbed.store.advance(DAY)
    scrubbed.verify(budget=ENOUGH)
    assert scrubbed.decoded == []
