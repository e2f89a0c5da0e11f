"""The tables of a snapshot that is made of backups: which are taken over, which written, and which prevent it."""

from __future__ import annotations

import pytest

from holdfast.common.errors import RefusedError
from holdfast.point_in_time.consolidated_backup import Consolidation
from tests.support.archives.evolving import ID, PRICE, WORD, Evolving, catalog, changed, column, table

ONE, TWO = table(1), table(2)
GENERATED = table(3, ID, WORD, column(PRICE, generated="s"))


@pytest.fixture
def made() -> Evolving:
    return Evolving()


def test_tables_without_changes_are_taken_over_and_the_others_written(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, TWO, table(4, kind="p")), rows=7)
    record = changed(ONE, 0x150, rows=3)
    cut = made.changes(0x200, catalog(ONE, TWO, table(4, kind="p")), record)
    found = Consolidation(made.archive.state, made.store, cut)
    assert ([each.label for each in found.kept], found.left_out) == (["shop.t1", "shop.t2"], [])
    assert [each.label for each in found.changed] == ["shop.t1"]
    assert found.estimated == 7
    assert (found.parts(ONE).changes, found.history(ONE).changes, found.history(TWO).changes) == (
        (record,),
        (record,),
        (),
    )
    assert found.target.position == 0x200


def test_a_table_with_other_columns_is_written_anew_though_no_row_was_changed(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, TWO))
    cut = made.changes(0x200, catalog(table(1, ID, WORD, PRICE), table(2, name="renamed")))
    found = Consolidation(made.archive.state, made.store, cut)
    assert [each.oid for each in found.changed] == [1]
    assert [each.label for each in found.kept] == ["shop.t1", "shop.renamed"]


def test_generated_columns_are_in_the_way_only_where_rows_are_written(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, GENERATED))
    cut = made.changes(0x200, catalog(ONE, GENERATED))
    assert Consolidation(made.archive.state, made.store, cut).changed == []
    cut = made.changes(0x300, catalog(ONE, GENERATED), changed(GENERATED, 0x250))
    said = (
        r"^shop_db cannot be consolidated: shop\.t3: it has generated columns, which only the database can compute\. "
        "Take a full backup of it, or leave these tables out of its backups$"
    )
    with pytest.raises(RefusedError, match=said):
        Consolidation(made.archive.state, made.store, cut)


def test_a_virtual_column_is_computed_by_whoever_reads_it(made: Evolving) -> None:
    virtual = table(3, ID, WORD, column(PRICE, generated="v"))
    made.full(0x100, catalog(virtual))
    cut = made.changes(0x200, catalog(virtual), changed(virtual, 0x150))
    assert Consolidation(made.archive.state, made.store, cut).changed == [virtual]


def test_a_table_that_is_followed_no_more_is_named_with_the_reason(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, TWO))
    del made.followed[2]
    made.not_followed = {"shop.t2": "it has no key"}
    cut = made.changes(0x200, catalog(ONE, TWO))
    with pytest.raises(RefusedError, match=r"cannot be consolidated: shop\.t2: it has no key\. Take"):
        Consolidation(made.archive.state, made.store, cut)


def test_a_table_without_a_snapshot_is_in_the_way_of_a_whole_backup_alone(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, TWO), only=(1,), whole=False)
    cut = made.changes(0x200, catalog(ONE, TWO))
    found = Consolidation(made.archive.state, made.store, cut)
    assert ([each.label for each in found.kept], found.left_out) == (["shop.t1"], ["shop.t2"])
    whole = Evolving()
    whole.full(0x100, catalog(ONE))
    cut = whole.changes(0x200, catalog(ONE, TWO))
    with pytest.raises(RefusedError, match=r"shop\.t2: there is no snapshot of it"):
        Consolidation(whole.archive.state, whole.store, cut)


def test_a_table_that_is_meant_to_be_followed_and_is_not_is_not_left_out_by_choice(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, TWO), only=(1,), whole=False)
    made.not_followed = {"shop.t2": "it has no key"}
    cut = made.changes(0x200, catalog(ONE, TWO))
    with pytest.raises(RefusedError, match=r"shop\.t2: there is no snapshot of it"):
        Consolidation(made.archive.state, made.store, cut)


def test_all_that_is_in_the_way_is_named(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, GENERATED))
    cut = made.changes(0x200, catalog(ONE, GENERATED, TWO), changed(GENERATED, 0x150))
    with pytest.raises(RefusedError) as refused:
        Consolidation(made.archive.state, made.store, cut)
    assert "shop.t2: there is no snapshot of it, shop.t3: it has generated columns" in str(refused.value)


def test_a_moment_whose_schema_is_not_known_is_refused(made: Evolving) -> None:
    made.full(0x100, catalog(ONE))
    cut = made.changes(0x200, catalog(ONE), is_cut=False)
    with pytest.raises(RefusedError, match="shop_db cannot be consolidated: the last backup of changes was ended"):
        Consolidation(made.archive.state, made.store, cut)
