"""Names of tables between two backups: what proves one, and what leaves it open."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.archive.format.document import TableRecord
from holdfast.point_in_time.table_names import NameProof, changes_between, name_proofs, with_announced_names
from holdfast.postgresql.catalog.table import Table
from tests.support.archives.evolving import Evolving, catalog, changed, table

OLD, NEW, MADE = "5 7 7", "5 9 7", "5 9 9"
"""Versions of names: of a table that has its first one, that was renamed, and that was made later."""


def named(oid: int, name: str, naming: str = OLD) -> Table:
    return table(oid, name=name, naming=naming)


def unproved(before: tuple[Table, ...], after: tuple[Table, ...], *records: TableRecord, **more: Any) -> set[str]:
    """Return the names that are not proved at 0x200, between backups at 0x100 and 0x300."""
    proofs = proofs_of(before, after, *records, **more)
    return {proof.label for proof in proofs.values() if not proof.is_proved}


def proofs_of(
    before: tuple[Table, ...], after: tuple[Table, ...], *records: TableRecord, **more: Any
) -> dict[int, NameProof]:
    made = Evolving()
    made.full(0x100, catalog(*before))
    made.changes(0x300, catalog(*after), *records)
    moment = made.moment(0x200)
    assert moment.doubt is not None
    return name_proofs(moment, moment.doubt, (catalog(*before), catalog(*after)), more.get("taken", before))


def test_a_name_that_a_table_had_all_the_time_is_proved() -> None:
    assert unproved((named(1, "a"), named(2, "b")), (named(1, "a"),)) == set()


def test_a_name_whose_versions_no_release_recorded_is_taken_as_it_is() -> None:
    assert unproved((named(1, "a", ""),), (named(1, "a", ""), named(2, "b"))) == set()


def test_a_renamed_table_has_a_name_where_both_sides_agree() -> None:
    before, after = (named(1, "a"),), (named(1, "b", NEW),)
    assert unproved(before, after) == {"shop.a"}
    assert unproved(before, after, changed(before[0], 0x250)) == set()
    assert unproved(before, after, changed(after[0], 0x150)) == {"shop.a"}
    assert unproved(before, after, changed(after[0], 0x150), taken=after) == set()


def test_a_table_that_was_renamed_and_back_has_no_proof() -> None:
    before, after = (named(1, "a"),), (named(1, "a", NEW),)
    assert unproved(before, after, changed(before[0], 0x150, 0x250, rows=2)) == {"shop.a"}


@pytest.mark.parametrize(("naming", "open_names"), [(MADE, set()), ("5 9 8", {"shop.b"})])
def test_a_table_that_was_made_in_between_has_a_name_where_it_is_its_first(naming: str, open_names: set[str]) -> None:
    after = (named(1, "a"), named(2, "b", naming))
    assert unproved((named(1, "a"),), after, taken=after) == open_names


def test_a_name_that_went_to_another_table_is_open() -> None:
    before, after = (named(1, "a"),), (named(2, "a", MADE),)
    assert unproved(before, after) == {"shop.a"}
    assert unproved(before, after, changed(before[0], 0x250)) == set()


def test_a_table_that_was_dropped_beside_renames_may_have_been_renamed_before() -> None:
    before = (named(1, "a"), named(2, "b"))
    assert unproved(before, (named(1, "c", NEW),)) == {"shop.a", "shop.b"}


def test_only_changes_between_both_backups_count() -> None:
    made = Evolving()
    one = table(1)
    made.full(0x100, catalog(one))
    made.changes(0x200, catalog(one), changed(one, 0x150))
    made.changes(0x300, catalog(table(1, name="b")), changed(one, 0x250))
    made.changes(0x400, catalog(one), changed(one, 0x350))
    moment = made.moment(0x280)
    assert moment.doubt is not None
    assert [each.first for each in changes_between(moment, moment.doubt)[1]] == ["0/250"]


def test_a_name_that_only_the_log_has_is_taken_unless_another_table_has_it() -> None:
    before, after = (named(1, "a"), named(2, "b")), (named(1, "c", NEW), named(2, "b"))
    proofs = proofs_of(before, after, changed(named(1, "x"), 0x150, 0x250, rows=2))
    assert [each.label for each in with_announced_names(catalog(*before), proofs).tables] == ["shop.x", "shop.b"]
    proofs = proofs_of(before, after, changed(named(1, "b"), 0x150, 0x250, rows=2))
    assert [each.label for each in with_announced_names(catalog(*before), proofs).tables] == ["shop.a", "shop.b"]


def test_names_that_the_log_announces_as_exchanged_are() -> None:
    before, after = (named(1, "a"), named(2, "b")), (named(1, "a", NEW), named(2, "b", NEW))
    records = (changed(named(1, "b"), 0x150, 0x250, rows=2), changed(named(2, "a"), 0x150, 0x250, rows=2))
    proofs = proofs_of(before, after, *records)
    assert [each.label for each in with_announced_names(catalog(*before), proofs).tables] == ["shop.b", "shop.a"]
