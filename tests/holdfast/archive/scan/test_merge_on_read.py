"""Tables as of a moment, of files that are damaged or cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow.fs import FileSystem

from holdfast.archive.scan.merge_on_read import as_of, explain
from holdfast.archive.scan.table_history import TableHistory
from holdfast.common.errors import DamagedError
from holdfast.storage import FolderStore, ObjectStore, StoreUnavailable
from holdfast.storage.contract.read_only import ReadOnly
from tests.support.archives.histories import Change, history_of, write_base, write_changes
from tests.support.archives.table_models import KEY

MEMORY = 64 << 20


def made(store: ObjectStore) -> TableHistory:
    """Return a table whose rows only the engine can tell: of one a large value stands in the snapshot alone."""
    base = write_base(store, [{1: number, 3: f"text {number}" * 3, 4: "n"} for number in range(50)], files=1)
    records = write_changes(
        store, [Change(0, 2000, 1, "U", {1: 5, 4: "m"}, (3,))], block_of=9, file_of=9, key=KEY
    )  # fmt: skip
    return history_of(base, records, 3000, 0, KEY)


def rows_of(store: ObjectStore, history: TableHistory, spill: Path) -> list[dict[str, Any]]:
    batches = as_of(store, history, memory_bytes=MEMORY, spill=spill)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: int(row["id"]))


@pytest.mark.slow
@pytest.mark.parametrize("every", [397, pytest.param(131, marks=pytest.mark.exhaustive)])
def test_a_snapshot_with_one_wrong_bit_is_damaged_or_has_the_right_rows(tmp_path: Path, every: int) -> None:
    store = FolderStore(tmp_path / "archive")
    history = made(store)
    right = rows_of(store, history, tmp_path)
    (file,) = history.base
    body = store.get(file.path)
    damaged = 0
    tried = range(0, len(body), every)
    for at in tried:
        changed = bytearray(body)
        changed[at] ^= 1 << at % 8
        store.put(file.path, bytes(changed))
        try:
            found = rows_of(store, history, tmp_path)
        except DamagedError as error:
            damaged += store.url in str(error)
        else:
            assert found == right, at
    assert damaged > len(tried) / 2


@pytest.mark.parametrize("is_told", [True, False])
def test_a_footer_that_tells_of_another_column_is_damage(tmp_path: Path, is_told: bool) -> None:
    store = FolderStore(tmp_path / "archive")
    history = made(store)
    (file,) = history.base
    body = store.get(file.path)
    name = body.index(b"note", len(body) - int((file.footer or "").partition(":")[0]))
    store.put(file.path, body[:name] + b"nota" + body[name + 4 :])
    if not is_told:  # as earlier versions wrote records
        history = replace(history, base=(file.model_copy(update={"footer": None}),))
    with pytest.raises(DamagedError, match=f"{file.path} in .* is damaged"):
        rows_of(store, history, tmp_path)


@pytest.mark.parametrize(
    "error",
    [OSError("AWS Error NETWORK_CONNECTION during GetObject operation"), StoreUnavailable("timed out")],
    ids=["of pyarrow", "of ours"],
)
def test_a_store_that_gives_no_bytes_is_unavailable_and_not_damaged(tmp_path: Path, error: Exception) -> None:
    class Failing(FolderStore):
        def filesystem(self) -> tuple[FileSystem, str]:
            return ReadOnly.over(Cut(self.url)), ""

    class Cut(FolderStore):
        def open_read(self, key: str) -> Any:
            raise error

    store = Failing(tmp_path / "archive")
    history = made(store)
    with pytest.raises(StoreUnavailable, match=f"archive: .*{error}.*; try again$"):
        rows_of(store, history, tmp_path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), duckdb.ConversionException("not a number")])
def test_what_is_wrong_with_this_machine_or_a_statement_is_not_said_of_the_archive(
    tmp_path: Path, error: Exception
) -> None:
    assert explain(error, FolderStore(tmp_path), ()) is error
