"""Rows told by the keys of changes alone, against a dictionary, in shares; and what is left to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.archive.format.document import FileRecord, TableRecord
from holdfast.archive.maintenance.compaction import FormRun
from holdfast.archive.scan import row_index
from holdfast.archive.scan.last_version import LastVersions, find_newest
from holdfast.archive.scan.merge import EVERYTHING, Merge, split_keys
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.archive.scan.row_index import Slots, Sorted
from holdfast.archive.scan.table_history import Share, TableHistory
from holdfast.common.errors import DamagedError
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.histories import Change, Row, history_of, write_base, write_changes
from tests.support.archives.table_models import by_number

KEY = (1,)
MEMORY = 64 << 20
KEYS = 40


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


@dataclass
class Life:
    """A snapshot, changes that hold all of their rows, and the rows after each transaction."""

    base: list[Row]
    changes: list[Change]
    seen: list[tuple[int, list[Row]]]


def drawn(seed: int, far: int) -> Life:
    """Let rows be inserted, updated, moved and deleted.

    :param far: keys are so far from each other.
    """
    random = np.random.default_rng(seed)
    rows = {int(number) * far: {1: int(number) * far, 3: f"old {number}"} for number in range(-5, KEYS // 2)}
    life = Life(list(rows.values()), [], [])
    for lsn in range(1000, 1400, 10):
        for seq in range(2, 2 * int(random.integers(2, 8)), 2):
            key, other = (int(each) * far for each in random.integers(-5, KEYS, 2))
            row: Row = {1: key, 3: f"{lsn} {seq}"}
            if key not in rows:
                life.changes.append(Change(0, lsn, seq, "I", row))
            elif random.random() < 0.3:
                del rows[key]
                life.changes.append(Change(0, lsn, seq, "D", {1: key}))
                if other in rows or random.random() < 0.5:
                    continue
                row = {**row, 1: other}
                life.changes.append(Change(0, lsn, seq + 1, "I", row))
            else:
                life.changes.append(Change(0, lsn, seq, "U", row))
            rows[row[1]] = row
        life.seen.append((lsn + 10, list(rows.values())))
    return life


def with_ranges(records: Sequence[TableRecord], far: int) -> tuple[TableRecord, ...]:
    """Say between which values the keys are, as files of a backup do."""
    known = (str(-5 * far), str(KEYS * far))
    return tuple(
        record.model_copy(
            update={"files": tuple(file.model_copy(update={"key_range": known}) for file in record.files)}
        )
        for record in records
    )


def joined(store: ObjectStore, records: Sequence[TableRecord], spill: Path, name: str) -> TableRecord:
    """Join blocks as a compaction does, by two ranges of the key."""
    run = FormRun(0, tuple(records))
    files: list[FileRecord] = []
    for number, within in enumerate(split_keys(store, run.files, 1, 2) or (EVERYTHING,)):
        files += Merge(store, run.files, KEY, within).write(store, f"data/shop_db/1/changes/{name}/{number}", spill)
    return run.record(files)


def rows_of(batches: Any) -> Counter[Any]:
    return Counter((row[1], row[3]) for batch in batches for row in by_number(batch))


def told(store: ObjectStore, history: TableHistory) -> LastVersions:
    newest = find_newest(store, history, MEMORY)
    assert newest is not None
    return newest


CHOSEN = {(0, "as it happened", 1), (0, "joined", 10**15), (0, "joined in part", 10**15)}
"""Of the keys that are near each other, and of those that are far: each form, in `make test`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "form", "far"),
    [
        pytest.param(seed, form, far, marks=[] if (seed, form, far) in CHOSEN else pytest.mark.exhaustive)
        for seed in (0, 1, 2)
        for form in ("as it happened", "joined", "joined in part")
        for far in (1, 10**15)
    ],
)
def test_shares_together_have_the_rows_of_each_position(
    store: ObjectStore, tmp_path: Path, seed: int, form: str, far: int
) -> None:
    life = drawn(seed, far)
    base = write_base(store, life.base, files=3)
    records = write_changes(store, life.changes, block_of=5, file_of=7, key=KEY)
    if form == "joined":
        records = (joined(store, records, tmp_path, "all"),)
    elif form == "joined in part":
        records = (joined(store, records[:4], tmp_path, "a"), *records[4:6], joined(store, records[6:], tmp_path, "b"))
    for known in (records, with_ranges(records, far)):
        for position, rows in life.seen[::4]:
            history = history_of(base, known, position, 1, KEY)
            expected = Counter((row[1], row[3]) for row in rows)
            newest = told(store, history)
            for count in (1, 2, 5):
                found: Counter[Any] = sum(
                    (rows_of(newest.batches(Share(number, count))) for number in range(count)), Counter()
                )
                assert found == expected
            assert rows_of(as_of(store, history, memory_bytes=MEMORY, spill=tmp_path)) == expected


@pytest.mark.parametrize("far", [1, 10**15])
def test_keys_that_are_near_each_other_have_slots(store: ObjectStore, far: int) -> None:
    life = drawn(1, far)
    base = write_base(store, life.base, files=1)
    records = with_ranges(write_changes(store, life.changes, block_of=5, file_of=100, key=KEY), far)
    found = told(store, history_of(base, records, 2000, 0, KEY)).places
    assert isinstance(found, Slots if far == 1 else Sorted)


def others() -> dict[str, tuple[list[Change], tuple[int, ...]]]:
    """What keys are not enough for."""
    first = Change(0, 1000, 2, "U", {1: 1, 2: None, 3: "new"})
    return {
        "a value that the log did not repeat": ([Change(0, 1000, 2, "U", {1: 1}, (3,))], KEY),
        "a truncation": ([Change(0, 1000, 2, "T"), Change(0, 1000, 4, "I", {1: 1, 3: "old 1"})], KEY),
        "changes of one record in no order": ([first, Change(0, 990 + 10, 1, "U", {1: 1, 3: "old 1"})], KEY),
        "a key of several columns": ([replace(first, row={1: 1, 3: "old 1"})], (1, 3)),
    }


@pytest.mark.parametrize("what", others())
def test_what_keys_are_not_enough_for_is_told_in_another_way_by_the_first_share(
    store: ObjectStore, tmp_path: Path, what: str
) -> None:
    changes, key = others()[what]
    base = write_base(store, [{1: 1, 3: "old 1"}], files=1)
    history = history_of(base, write_changes(store, changes, block_of=9, file_of=9, key=key), 2000, 0, key)
    assert find_newest(store, history, MEMORY) is None
    shares = [as_of(store, history, memory_bytes=64 << 20, spill=tmp_path, share=Share(each, 2)) for each in (0, 1)]
    found = [rows_of(share) for share in shares]
    assert found == [Counter({(1, "new" if "order" in what else "old 1"): 1}), Counter()]


@pytest.mark.parametrize("ranges", [False, True])
def test_more_keys_than_there_is_memory_for_are_told_in_another_way(
    store: ObjectStore, tmp_path: Path, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_index, "SORTED_BYTES", MEMORY // 10)
    life = drawn(2, 1)
    base = write_base(store, life.base, files=1)
    records = write_changes(store, life.changes, block_of=50, file_of=500, key=KEY)
    (record,) = records
    wrong = record.files[0].model_copy(update={"key_range": ("1", "2")})
    history = history_of(base, (record.model_copy(update={"files": (wrong,)}),) if ranges else records, 2000, 0, KEY)
    assert find_newest(store, history, MEMORY) is None
    expected = Counter((row[1], row[3]) for row in life.seen[-1][1])
    assert rows_of(as_of(store, history, memory_bytes=MEMORY, spill=tmp_path)) == expected


def test_a_share_reads_the_files_it_is_in(store: ObjectStore) -> None:
    life = drawn(0, 1)
    base = write_base(store, life.base, files=2)
    newest = told(
        store, history_of(base, write_changes(store, life.changes, block_of=9, file_of=9, key=KEY), 2000, 0, KEY)
    )
    assert [rows_of(newest.batches(Share(number, 2))).total() > 0 for number in (0, 1)] == [True, True]
    store.delete(base.files[1].path)
    assert rows_of(newest.batches(Share(0, 2)))
    with pytest.raises(DamagedError, match=base.files[1].path):
        rows_of(newest.batches(Share(1, 2)))


def test_a_damaged_file_of_changes_is_named(store: ObjectStore, tmp_path: Path) -> None:
    life = drawn(0, 1)
    base = write_base(store, life.base, files=1)
    records = write_changes(store, life.changes, block_of=9, file_of=9, key=KEY)
    path = records[0].files[0].path
    body = bytearray(store.get(path))
    body[len(body) // 2] ^= 1
    store.delete(path)
    with store.open_write(path) as file:
        file.write(bytes(body))
    with pytest.raises(DamagedError, match=path):
        list(as_of(store, history_of(base, records, 2000, 0, KEY), memory_bytes=MEMORY, spill=tmp_path))
