"""A driver that takes the place of one that was killed: what it uses of what is left, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, State
from holdfast.archive.format.block import Block
from holdfast.archive.format.model import ArchiveCommit
from holdfast.archive.format.resume import UnfinishedBlock
from holdfast.archive.format.runs import RunRecord, read_last, read_unfinished
from holdfast.archive.maintenance.verify import verify
from holdfast.common.errors import SparkEndedError
from holdfast.operations import job_process
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.snapshot.export import Snapshot
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.storage import ObjectStore
from sparkjobs import backup
from sparkjobs.driver import application
from sparkjobs.tasks import pieces
from tests.support.jobs.inline_jobs import failed

pytestmark = pytest.mark.service

Drive = Callable[..., tuple[int, RunRecord]]


@pytest.fixture(scope="module")
def shop(create_database: Callable[..., Address]) -> Address:
    return create_database(
        "create table orders as select i as id from generate_series(1, 1000) i",
        "create table people as select 'Ada' as name",
    )


@pytest.fixture
def snapshot(shop: Address) -> Iterator[Snapshot]:
    with hold_snapshot(shop) as held:
        yield held.snapshot


@pytest.fixture
def drive(
    store: ObjectStore, job_environment: Callable[..., None], shop: Address, monkeypatch: pytest.MonkeyPatch
) -> Drive:
    """Runs a driver of the one run; returns its exit code and the run's last record."""

    def run(snapshot: Snapshot) -> tuple[int, RunRecord]:
        job_environment(shop, "source")
        monkeypatch.setenv(job_process.SNAPSHOT_VARIABLE, snapshot.to_json())
        code = backup.main(["--archive", store.url, "--source", "shop", "--run", "r"])
        record = read_last(store, "r")
        assert record is not None
        return code, record

    return run


@pytest.fixture
def left(store: ObjectStore, drive: Drive, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> UnfinishedBlock:
    """What a driver has left that had read everything, but was ended before its commit."""

    def end(*_: object) -> None:
        raise SparkEndedError("Spark's Java process has ended")

    with monkeypatch.context() as patch:
        patch.setattr(application.Job, "last_step", end)
        assert drive(snapshot)[0] == 1
    found = read_unfinished(store, "r")
    assert found is not None
    assert len(found.pieces) == 2
    assert Archive.open(store).state.sequence == 0
    return found


def committed(store: ObjectStore) -> Block:
    """Return the block of the newest commit, found whole."""
    archive = Archive.open(store)
    assert verify(archive, deep=True).damage == ()
    (block,) = archive.commit(archive.state.sequence).add
    assert block.rows == 1001
    return block


def test_what_is_left_is_committed_as_it_is(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    code, record = drive(snapshot)
    assert (code, record.said) == (0, ("going on: 2 of 2 pieces were read",))
    block = committed(store)
    assert block.id == left.block.id
    assert {file for table in block.tables for file in table.files} == {
        file for piece in left.pieces for file in piece.files
    }
    assert {path.name for path in Path(store.url).glob("data/shop/*/*/*")} == {block.id}


def test_a_piece_whose_file_is_gone_is_read_again(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    gone = left.pieces[0].files[0].path
    store.delete(gone)
    code, record = drive(snapshot)
    assert code == 0
    assert record.said == (
        "the files of 1 finished pieces are missing, or not whole: these are read again",
        "going on: 1 of 2 pieces were read",
    )
    block = committed(store)
    assert block.id == left.block.id
    assert gone not in {file.path for file in block.files()}


@pytest.fixture
def packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a backup of two small tables store them as it stores hundreds."""
    monkeypatch.setattr(pieces, "PACKED_FROM", 0)


@pytest.mark.usefixtures("packing")
def test_pieces_in_a_pack_are_committed_as_they_are(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, request: pytest.FixtureRequest
) -> None:
    left: UnfinishedBlock = request.getfixturevalue("left")
    (pack,) = [pack for piece in left.pieces for pack in piece.packs]
    code, record = drive(snapshot)
    assert (code, record.said) == (0, ("going on: 2 of 2 pieces were read",))
    block = committed(store)
    assert block.packs == (pack,)
    assert {file.path for file in block.files()} >= {pack.path}
    assert {file.key for table in block.tables for file in table.files} == {pack.path}


def test_pieces_whose_pack_no_record_tells_are_read_again(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    first, second = left.pieces
    (file,) = second.files
    untold = second.model_copy(update={"files": (file.model_copy(update={"path": f"{first.files[0].path}#0"}),)})
    assert UnfinishedBlock(left.block, (untold,)).split(store) == ((), (untold,))
    assert UnfinishedBlock(left.block, (first, second)).split(store) == ((first, second), ())


def test_a_schema_that_is_damaged_makes_it_start_again(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    path = Path(store.url) / left.block.schema_dump.path
    path.write_bytes(b"x" + path.read_bytes()[1:])
    code, record = drive(snapshot)
    assert code == 0
    (said,) = record.said
    assert said.startswith("starting again: data/shop/schema/")
    assert committed(store).id != left.block.id


def test_nothing_is_used_of_a_block_that_was_abandoned(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    change = Change(kind="vacuum", abandoned=(left.block.id,))
    Archive.open(store).add(lambda state: change, check=lambda: None, fence=None)
    code, record = drive(snapshot)
    assert (code, record.said) == (
        0,
        (f"starting again: block {left.block.id} was abandoned, and its files may be gone",),
    )
    block = committed(store)
    assert block.id != left.block.id
    assert not any(left.block.id in file.path for file in block.files())


@pytest.mark.exhaustive
def test_nothing_is_used_of_what_was_read_in_another_snapshot(
    store: ObjectStore, shop: Address, drive: Drive, left: UnfinishedBlock
) -> None:
    with hold_snapshot(shop) as other:
        code, record = drive(other.snapshot)
    assert (code, record.said) == (0, ())
    assert committed(store).id != left.block.id


def test_a_commit_that_arrives_late_is_the_only_one(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Archive.add
    arrived: list[ArchiveCommit] = []

    def arrive_first(archive: Archive, plan: Callable[[State], Change], **given: Any) -> ArchiveCommit:
        if not arrived:
            arrived.append(add(Archive.open(store), plan, check=lambda: None, fence=None))
        return add(archive, plan, **given)

    monkeypatch.setattr(Archive, "add", arrive_first)
    code, record = drive(snapshot)
    assert record.result is not None
    assert [block.id for commit in arrived for block in commit.add] == [left.block.id]
    assert (code, record.result["commit"], record.result["block"]) == (0, 1, left.block.id)
    assert Archive.open(store).state.sequence == 1


def test_a_backup_that_was_committed_in_between_refuses_it(
    store: ObjectStore, drive: Drive, snapshot: Snapshot, left: UnfinishedBlock
) -> None:
    other = Change(kind="backup", add=(make_block(source="shop"),))
    Archive.open(store).add(lambda state: other, check=lambda: None, fence=None)
    code, said = failed(drive(snapshot))
    assert code == 5
    assert "another backup of shop was committed meanwhile" in said


def test_a_snapshot_that_is_gone_before_the_commit_commits_nothing(
    store: ObjectStore, shop: Address, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_snapshot(shop) as held:

        class Cut(application.Job):
            def map(self, *arguments: object, **options: object) -> list[object]:
                found = super().map(*arguments, **options)  # type: ignore[arg-type]
                held.session.close()
                return found

        monkeypatch.setattr(application, "Job", Cut)
        code, said = failed(drive(held.snapshot))
    assert code == 1
    assert "the snapshot is gone: the session that held it has ended" in said
    assert Archive.open(store).state.sequence == 0
