"""A source's log, as far as an archive has it; how windows are added to it is in test_log_windows.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.support.blocks import make_block
from holdfast.archive import Archive
from holdfast.common.errors import HoldfastError
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore, open_store
from sparkjobs.driver.application import Job
from sparkjobs.driver.archived_log import NO_STREAM, ArchivedLog
from tests.support.archives.blocks_without_rows import add, fill
from tests.support.archives.queried import fill as fill_followed

NOWHERE = Address("postgresql://me@127.0.0.1:1/nowhere")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return Archive.create(open_store(str(tmp_path / "archive")), name="shop").store


def log(store: ObjectStore, run: str = "run-1", source: str = "shop_db") -> ArchivedLog:
    job = cast("Job", SimpleNamespace(run=run, store=store))
    return ArchivedLog(job, source, Archive.open(store), NOWHERE, 5)


def test_it_ends_where_the_newest_changes_do(store: ObjectStore) -> None:
    fill(store, 3)
    found = log(store)
    assert found.position == 0x130
    assert found.newest.block.covers.to_position == "0/130"
    assert [each.block.kind for each in found.blocks()] == ["snapshot", *["changes"] * 3]
    chain = found.chain()
    assert (len(chain.snapshots), len(chain.changes)) == (1, 3)
    assert (found.rows, found.size) == (0, 0)  # of this run's own blocks


def test_what_a_run_has_committed_is_told_by_its_blocks(store: ObjectStore) -> None:
    fill_followed(store)
    assert [each.id for each in log(store, "run-2").committed()] == ["changes"]
    assert log(store, "run-3").committed() == []


def test_a_backup_without_a_stream_is_no_part_of_it(store: ObjectStore) -> None:
    fill(store, 1)
    add(Archive.open(store), make_block(identity="plain", position="0/900"))
    add(Archive.open(store), make_block(identity="other", source="crm", position="0/900"))
    found = log(store)
    assert "plain" not in {each.id for each in found.blocks()}
    assert "other" not in {each.id for each in found.blocks()}


def test_tables_are_followed_as_the_newest_block_says(store: ObjectStore) -> None:
    fill_followed(store)
    assert log(store).followed() == {1: 10, 2: 20, 3: 30, 5: 50}


def test_tables_of_a_snapshot_at_its_end_are_followed_from_there(store: ObjectStore) -> None:
    fill_followed(store)
    archive = Archive.open(store)
    last = archive.state.blocks["changes"].block
    assert last.stream is not None
    stream = last.stream.model_copy(update={"opened": False, "followed": {1: 10, 9: 90, 8: 80}})
    position = last.covers.to_position
    tables = tuple(each.model_copy(update={"id": "9"}) for each in last.tables)
    begun = make_block(identity="begun", position=position, at=last.covers.to_time, tables=tables, whole=False)
    add(archive, begun.model_copy(update={"stream": stream, "supplement": True, "catalog": last.catalog}))
    found = log(store).followed()
    assert found[9] == 90
    assert 8 not in found


def test_an_archive_that_follows_nothing_has_no_log(store: ObjectStore) -> None:
    add(Archive.open(store), make_block())
    with pytest.raises(HoldfastError, match=NO_STREAM):
        _ = log(store).newest
    assert log(store).blocks() == []
