"""How a job has ended: by its record, by what is in the archive, or by what its process left behind."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.format.runs import RunError, RunRecord
from holdfast.common.errors import ReportedError
from holdfast.operations.outcome import JobEnd, ended_job_result, job_result, last_words
from holdfast.storage import ObjectStore, open_store
from locking.store import StoreUnavailable


def _adding(block: Block, state: State) -> Change:
    return Change(kind="backup", add=(block,))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An archive with a full backup of the run `done`, and one of single tables of the run `half`."""
    archive = Archive.create(open_store(str(tmp_path / "archive")), name="shop")
    for run, supplement in (("done", False), ("half", True)):
        block = make_block(identity=run).model_copy(update={"run": run, "supplement": supplement})
        archive.add(partial(_adding, block), check=lambda: None, fence=None)
    return archive.store


def record(**more: Any) -> RunRecord:
    return RunRecord(run="r", number=3, operation="backup", state="running", step="", **more)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (None, "ended"),
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was ended by SIGKILL"),
        (-250, "was ended by signal 250"),
    ],
)
def test_an_end_is_told_in_words(code: int | None, how: str) -> None:
    assert JobEnd(code).how == how


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ""),
        ("Traceback", ""),
        ("holdfast backup: no room", "no room"),
        ("starting\n[stderr] holdfast backup: no room\n26/03/01 INFO stopped", "no room"),
        ("holdfast backup: busy\nholdfast backup: no room", "no room"),
        ("holdfast restore: no room", ""),
        ("noholdfast backup: no room", ""),
    ],
)
def test_the_last_sentence_of_a_driver_is_found_in_its_output(output: str, words: str) -> None:
    assert last_words(output, "backup") == words


def test_what_the_job_itself_recorded_counts_where_its_process_ended_well(store: ObjectStore) -> None:
    for operation in ("backup", "restore"):
        assert job_result(store, operation, "r", record(result={"rows": 7}), JobEnd(0)) == {"rows": 7}


def test_a_result_whose_block_is_in_the_archive_counts_however_its_job_ended(store: ObjectStore) -> None:
    told = {"commit": 2, "block": "half"}
    assert job_result(store, "backup", "half", record(result=told), JobEnd(-9)) == told


@pytest.mark.parametrize(("code", "exit_code"), [(0, 4), (1, 1), (5, 5), (-9, 1), (None, 1)])
def test_no_record_alone_makes_a_backup(store: ObjectStore, code: int | None, exit_code: int) -> None:
    forged = record(result={"commit": 7, "rows": 1_234_567, "block": "0" * 32})
    with pytest.raises(ReportedError) as caught:
        job_result(store, "backup", "r", forged, JobEnd(code, words="" if code == 0 else "no room"))
    assert caught.value.reported_code == exit_code


@pytest.mark.parametrize("operation", ["restore", "compaction", "truncation"])
def test_no_record_makes_a_success_of_a_process_that_failed(store: ObjectStore, operation: str) -> None:
    with pytest.raises(ReportedError, match=r"^no room$"):
        job_result(store, operation, "r", record(result={"rows": 7}), JobEnd(1, words="no room"))


def test_a_backup_that_is_in_the_archive_has_succeeded_however_its_job_ended(store: ObjectStore) -> None:
    error = RunError(type="StoreFull", message="no room for the record", exit_code=1)
    found = job_result(store, "backup", "done", record(error=error), JobEnd(1, words="no room"))
    assert (found["commit"], found["block"], found["kind"]) == (1, "done", "full")


def test_only_a_backup_is_looked_for_in_the_archive(store: ObjectStore) -> None:
    with pytest.raises(ReportedError, match="ended with exit code 1"):
        job_result(store, "restore", "done", None, JobEnd(1))


def test_a_failure_is_told_as_the_job_recorded_it(store: ObjectStore) -> None:
    error = RunError(type="RefusedError", message="it is not empty", exit_code=5)
    with pytest.raises(ReportedError, match=r"^it is not empty$") as caught:
        job_result(store, "backup", "r", record(error=error), JobEnd(1, words="another sentence"))
    assert caught.value.reported_code == 5


@pytest.mark.parametrize(("code", "exit_code"), [(5, 5), (None, 1), (0, 1), (-9, 1)])
def test_else_as_its_driver_said_it_last(store: ObjectStore, code: int | None, exit_code: int) -> None:
    with pytest.raises(ReportedError, match=r"^no room$") as caught:
        job_result(store, "backup", "r", record(), JobEnd(code, words="no room"))
    assert caught.value.reported_code == exit_code


@pytest.mark.parametrize(
    ("operation", "run", "left"),
    [
        ("backup", "r", "the archive is unchanged"),
        ("restore", "r", "the archive is unchanged"),
        ("backup", "half", "its commits count, and the next backup continues from there"),
        ("compaction", "r", "its commits count"),
    ],
)
def test_a_process_that_could_say_nothing_is_told_with_what_it_left(
    store: ObjectStore, operation: str, run: str, left: str
) -> None:
    with pytest.raises(ReportedError) as caught:
        job_result(store, operation, run, None, JobEnd(-9))
    assert str(caught.value) == (f"the job's process was ended by SIGKILL before it gave a reason; {left}: try again")


def test_its_step_and_its_last_lines_are_told(store: ObjectStore) -> None:
    at = record().model_copy(update={"step": "reading tables"})
    with pytest.raises(ReportedError) as caught:
        job_result(store, "backup", "r", at, JobEnd(137, output=["one", "two", "three", "four"]))
    assert "ended with exit code 137 while reading tables before" in str(caught.value)
    assert str(caught.value).endswith("try again (its last output: two | three | four)")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (JobEnd(1, "the store is away"), 1),
        (JobEnd(6, "look first"), 6),
        (JobEnd(None, "the store is away"), 1),
        (JobEnd(0), None),
        (JobEnd(-9, "the store is away"), None),
        (JobEnd(1), None),
    ],
)
def test_where_the_archive_cannot_be_read_a_driver_that_ended_by_itself_is_believed(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, end: JobEnd, code: int | None
) -> None:
    def away(prefix: str) -> None:
        raise StoreUnavailable("cut")

    monkeypatch.setattr(store, "list", away)
    if code is None:
        with pytest.raises(StoreUnavailable):
            ended_job_result(store, store, "backup", "r", end)
    else:
        with pytest.raises(ReportedError, match=end.words) as told:
            ended_job_result(store, store, "backup", "r", end)
        assert told.value.reported_code == code
