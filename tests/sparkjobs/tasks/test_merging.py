"""The work of a compaction's tasks, on an archive's files: changes in fewer files, and rows as of a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.archive.files.blocks import read_batches
from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.maintenance.compaction import FormRun
from holdfast.archive.scan.merge import EVERYTHING
from holdfast.archive.scan.table_history import ALL, Share
from holdfast.postgresql.values.content_hash import ContentHash
from holdfast.storage import ObjectStore, open_store
from sparkjobs.tasks import merging
from sparkjobs.tasks.merging import MadeTable, MergePiece, Merger, TableMaker, cut
from tests.support.archives import histories
from tests.support.archives.histories import SINCE, history_of, write_base, write_changes
from tests.support.archives.queried import ORDERS, order
from tests.support.databases.records import table

UPTO = 5000


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


def inserted(numbers: range) -> list[histories.Change]:
    """Return one transaction for each of some new rows."""
    return [histories.Change(0, SINCE + number, 2, "I", order(number, f"row {number}", "1.00")) for number in numbers]


def changes(store: ObjectStore, many: int = 12) -> TableRecord:
    [record] = write_changes(store, inserted(range(many)), block_of=many, file_of=3, key=(1,))
    return record


def told() -> tuple[list[tuple[int, int]], Any]:
    seen: list[tuple[int, int]] = []
    return seen, lambda rows, size: seen.append((rows, size))


def rows_of(store: ObjectStore, files: tuple[FileRecord, ...]) -> list[dict[str, Any]]:
    return [row for file in files for batch in read_batches(store, file) for row in batch.to_pylist()]


def test_few_changes_are_one_piece_and_many_are_cut_by_their_keys(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FormRun(4, (changes(store),))
    [piece] = cut(store, run, "data/new", most=8)
    assert piece == MergePiece(4, 0, run.files, (1,), "data/new/00004.000", run.size, EVERYTHING)
    monkeypatch.setattr(merging, "SPLIT_BYTES", run.size // 3)
    pieces = cut(store, run, "data/new", most=2)
    assert [each.stem for each in pieces] == ["data/new/00004.000", "data/new/00004.001"]
    assert [each.number for each in pieces] == [0, 1]
    assert len(cut(store, run, "data/new", most=1)) == 1
    keyless = FormRun(4, (run.records[0].model_copy(update={"key": ()}),))
    assert [each.within for each in cut(store, keyless, "data/new", most=8)] == [EVERYTHING]


def test_pieces_hold_all_changes_once_in_the_order_of_keys(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    record = changes(store)
    run = FormRun(0, (record,))
    monkeypatch.setattr(merging, "SPLIT_BYTES", run.size // 3)
    seen, report = told()
    done = list(Merger(store)(cut(store, run, "data/new", most=3), report))
    assert [(each.run, each.number) for each in done] == [(0, number) for number in range(len(done))]
    found = [row["id"] for each in done for row in rows_of(store, each.files)]
    assert found == sorted(found) == list(range(12))
    assert sum(rows for rows, _ in seen) == 12
    assert len(done) > 1
    assert sum(len(each.files) for each in done) < len(record.files) + len(done)


def made(store: ObjectStore, rows: int = 3, share: Share = ALL) -> MadeTable:
    base = write_base(store, [order(number, "old", "2.00") for number in range(rows)], 1)
    later = [
        histories.Change(0, SINCE + 5, 2, "U", order(0, "new", "3.00")),
        histories.Change(0, SINCE + 6, 2, "I", order(100, "added", "1.00")),
    ]
    records = write_changes(store, later, block_of=9, file_of=9, key=(1,))
    history = history_of(base, records, UPTO, 0, (1,))
    return MadeTable(table(*ORDERS[:-1], oid=1, key=("id",)), history, "data/made", share)


def test_a_large_table_is_shared_by_several_tasks(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made(store)
    files = (*whole.history.base, *(file for record in whole.history.changes for file in record.files))
    assert whole.size == sum(file.size for file in files)
    assert [each.share for each in whole.shared_out(8)] == [ALL]
    monkeypatch.setattr(merging, "SHARE_BYTES", 1)
    shares = whole.shared_out(3)
    assert [(each.share.number, each.share.count) for each in shares] == [(0, 3), (1, 3), (2, 3)]
    assert shares[0].size == whole.size // 3


def test_shares_make_the_whole_and_only_the_first_has_an_empty_file(store: ObjectStore) -> None:
    whole = made(store, rows=40)
    _, report = told()
    parts = [MadeTable(whole.table, whole.history, "data/parts", Share(number, 3)) for number in range(3)]
    shares = list(TableMaker(store)(parts, report))
    [one] = TableMaker(store)([whole], report)
    assert sorted(row["id"] for each in shares for row in rows_of(store, each.files)) == [*range(40), 100]
    total = sum((ContentHash.parse(file.digest or "") for each in shares for file in each.files), ContentHash())
    assert total == sum((ContentHash.parse(file.digest or "") for file in one.files), ContentHash())
    nothing = MadeTable(whole.table, history_of(write_base(store, [], 1), (), UPTO, 0, (1,)), "data/none")
    counts = [
        len(next(iter(TableMaker(store)([each], report))).files)
        for each in (nothing, MadeTable(nothing.table, nothing.history, "data/none", Share(1, 2)))
    ]
    assert counts == [1, 0]
