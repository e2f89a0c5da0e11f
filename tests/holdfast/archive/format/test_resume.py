"""What a job that was killed has recorded of its block, and what another one finds of it."""

from __future__ import annotations

from typing import cast

from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.document import FileRecord
from holdfast.archive.format.resume import BegunBlock, FinishedPiece, missing
from holdfast.archive.format.runs import RunLog, read_unfinished
from holdfast.storage import ObjectStore
from tests.support.stores.lossy_store import FaultyCreates

SMALL = FileRecord(path="data/s/schema/snapshot/b/x", size=1, sha256="0" * 64)


def block(identity: str) -> BegunBlock:
    return BegunBlock(id=identity, snapshot="{}", started_from=None, catalog=SMALL, schema_dump=SMALL)


def piece(number: int) -> FinishedPiece:
    return FinishedPiece(table=16384, number=number, first=None, end=None, files=(SMALL,))


def test_a_run_that_has_begun_no_block_has_left_nothing(store: ObjectStore) -> None:
    assert read_unfinished(store, "run-1") is None
    RunLog(store, "run-1", "backup").progress("starting")
    assert read_unfinished(store, "run-1") is None


def test_pieces_are_recorded_with_the_progress_that_follows_them(store: ObjectStore) -> None:
    log = RunLog(store, "run-1", "backup")
    log.begin(block("b1"))
    log.finished([piece(0)])
    log.progress("reading tables")
    log.finished([piece(1), piece(2)])
    log.progress("reading tables")  # less than two seconds later
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert (found.block, found.pieces) == (block("b1"), (piece(0),))
    log.progress("committing")
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert found.pieces == (piece(0), piece(1), piece(2))


def test_a_job_that_failed_has_recorded_all_of_its_pieces(store: ObjectStore) -> None:
    log = RunLog(store, "run-1", "backup")
    log.begin(block("b1"))
    log.progress("reading tables")
    log.finished([piece(0)])
    log.fail(ConnectionError("Spark is gone"))
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert found.pieces == (piece(0),)


def test_pieces_whose_record_was_not_written_come_with_the_next(store: ObjectStore) -> None:
    faulty = cast(ObjectStore, FaultyCreates(store, ["never", "ok"]))
    log = RunLog(faulty, "run-1", "backup")
    log.begin(block("b1"))
    log.finished([piece(0)])
    log.progress("reading tables")
    assert read_unfinished(store, "run-1") is None
    log.finished([piece(1)])
    log.progress("committing")
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert (found.block.id, found.pieces) == ("b1", (piece(0), piece(1)))


def test_another_process_goes_on_with_numbers_words_and_pieces(store: ObjectStore) -> None:
    first = RunLog(store, "run-1", "backup")
    assert not first.goes_on
    first.begin(block("b1"))
    first.say("one")
    first.finished([piece(0)])
    first.progress("reading tables")
    second = RunLog(store, "run-1", "backup")
    assert second.goes_on
    second.go_on(block("b1"))
    second.say("two")
    second.finished([piece(1)])
    second.progress("reading tables")
    assert second.last is not None
    assert (second.last.number, second.last.said) == (1, ("one", "two"))
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert found.pieces == (piece(0), piece(1))


def test_pieces_of_a_block_that_was_given_up_are_none_of_the_next(store: ObjectStore) -> None:
    log = RunLog(store, "run-1", "backup")
    for identity, number in (("b1", 0), ("b2", 1)):
        log.begin(block(identity))
        log.finished([piece(number)])
        log.progress(f"reading {identity}")
    found = read_unfinished(store, "run-1")
    assert found is not None
    assert (found.block.id, found.pieces) == ("b2", (piece(1),))


def test_files_that_are_gone_or_cut_are_missing(store: ObjectStore) -> None:
    whole, cut, gone = (write_bytes(store, f"data/s/1/snapshot/b/{name}", b"abc") for name in ("a", "b", "c"))
    store.put(cut.path, b"ab")
    store.delete(gone.path)
    assert missing(store, [whole, cut, gone]) == {cut.path, gone.path}
