from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.files.blocks import write_parquet
from holdfast.archive.files.data_files import write_bytes
from holdfast.archive.format.block import Block
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import TableRecord
from holdfast.archive.maintenance.verify import Scope, verify, verify_and_remember
from holdfast.objectives import facts_of
from locking.store import StoreError


@pytest.fixture
def filled(archive: Archive, block: Callable[..., Block]) -> Archive:
    batch = pa.record_batch({"id": pa.array([1, 2, 3])})
    (file,) = write_parquet(archive.store, "data/shop_db/1/snapshot/b/00000", batch.schema, [batch])
    table = TableRecord(id="1", table_schema="shop", name="orders", rows=3, digest="3:0", files=(file,))
    catalog = write_bytes(archive.store, "data/shop_db/schema/b/catalog-1.json", b"{}")
    added = block(tables=(table,)).model_copy(update={"catalog": catalog})
    archive.add(lambda state: Change(kind="backup", add=(added,)), check=lambda: None, fence=None)
    return archive


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_archive_has_no_damage(filled: Archive, deep: bool) -> None:
    found = verify(filled, deep=deep)
    assert (found.damage, found.files, found.commits) == ((), 2, 1)


def test_a_cut_file_is_found_without_reading_it(filled: Archive) -> None:
    path = filled.commit(1).add[0].tables[0].files[0].path
    filled.store.put(path, filled.store.get(path)[:-1])
    assert len(verify(filled).damage) == 1


def test_a_flipped_bit_is_found_by_reading(filled: Archive) -> None:
    path = filled.commit(1).add[0].catalog.path
    filled.store.put(path, b"{]")
    assert verify(filled).damage == ()
    (damage,) = verify(filled, deep=True).damage
    assert damage.table == "schema"


def test_a_verification_that_is_ended_says_why_also_where_it_cannot_note_how_far_it_was(
    filled: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LostError(Exception):
        pass

    def fail(*args: object) -> None:
        raise StoreError("the store is away")

    def lose() -> None:
        raise LostError

    monkeypatch.setattr("holdfast.archive.maintenance.verify.write_progress", fail)
    with pytest.raises(LostError):
        verify_and_remember(filled, Scope(deep=True), check=lose)


def test_a_missing_file_counts_until_a_later_verification_has_found_it(filled: Archive) -> None:
    path = filled.commit(1).add[0].tables[0].files[0].path
    body = filled.store.get(path)
    filled.store.delete(path)
    for scope in (Scope(), Scope(new=True)):
        assert verify_and_remember(filled, scope).damage
        assert facts_of(filled, "shop_db").damaged == (path,)
    filled.store.put(path, body)
    assert not verify_and_remember(filled, Scope(new=True)).damage
    assert facts_of(filled, "shop_db").damaged == ()


def test_a_changed_commit_counts_for_the_sources_that_it_backs_up(filled: Archive) -> None:
    verify_and_remember(filled, Scope())
    body = filled.store.get(commit_key(1))
    filled.store.put(commit_key(1), body + b"x")
    for _ in range(2):
        assert verify_and_remember(Archive.open(filled.store, before_damage=True), Scope(deep=True)).damage
        assert commit_key(1) in facts_of(filled, "shop_db").damaged
