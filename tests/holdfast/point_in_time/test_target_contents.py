"""Recovery targets: the objects of a moment, and which rows of each table fit them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from holdfast.common.errors import DamagedError
from holdfast.point_in_time.target_contents import (
    OTHER_FORM,
    catalog_of,
    catalog_reader,
    fits,
    history_of,
    missing_values,
    objects_of,
    older_rows,
    parts_of,
    sequences_to_json,
)
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.catalog.extension_rows import Configuration
from holdfast.postgresql.catalog.sequences import SequenceBetween, SequenceValue
from holdfast.postgresql.catalog.table import Table
from tests.support.archives.evolving import ID, PRICE, WORD, Evolving, catalog, changed, column, table

ONE = table(1)
WIDER = table(1, ID, WORD, PRICE)
GENERATED = column(PRICE, generated="s")


@pytest.fixture
def made() -> Evolving:
    return Evolving()


def sequence(value: int, name: str = "s") -> SequenceValue:
    return SequenceValue(oid=5, sequence_schema="shop", name=name, last_value=value, is_called=True)


def test_the_last_few_records_of_objects_are_read_once(made: Evolving) -> None:
    files = [made.file(f"{number}", catalog(table(number)).model_dump_json().encode()) for number in range(1, 7)]
    read = catalog_reader(made.store)
    made.store.requests.clear()
    for _ in range(2):
        for number, file in enumerate(files[:3], 1):
            assert read(file).tables == (table(number),)
    assert len(made.store.requests) == 3
    for file in (*files, files[0]):
        read(file)
    assert len(made.store.requests) == 7  # the first one was not kept any more


def test_a_record_that_is_damaged_or_gone_is_named(made: Evolving) -> None:
    file = made.file("catalog", b"{}")
    with pytest.raises(DamagedError, match=file.path):
        catalog_reader(made.store)(file)
    made.store.delete(file.path)
    with pytest.raises(DamagedError, match=f"^{file.path} is missing"):
        catalog_reader(made.store)(file)


def test_at_the_end_of_a_backup_sequences_stood_where_it_says(made: Evolving) -> None:
    made.full(0x100, catalog(ONE, sequences=(sequence(3),)))
    recorded = made.file("sequences", sequences_to_json((sequence(9, "called otherwise"),)))
    made.changes(0x200, catalog(ONE, sequences=(sequence(1),)), sequences=recorded)
    assert catalog_of(made.store, made.moment(0x100)).sequences == (sequence(3),)
    assert catalog_of(made.store, made.moment(0x200)).sequences == (sequence(9),)


def test_between_two_backups_both_are_told(made: Evolving) -> None:
    objects = catalog(ONE, sequences=(sequence(3),))
    made.full(0x100, objects)
    made.changes(0x200, objects, sequences=made.file("sequences", sequences_to_json((sequence(9),))))
    (found,) = catalog_of(made.store, made.moment(0x180)).sequences
    assert isinstance(found, SequenceBetween)
    assert found.earlier is not None
    assert (found.earlier.last_value, found.last_value, found.is_past) == (3, 9, False)


def test_behind_the_last_that_tells_only_what_was_before_is_known(made: Evolving) -> None:
    objects = catalog(ONE, sequences=(sequence(3),))
    made.full(0x100, objects)
    made.changes(0x200, objects, is_cut=False)
    (found,) = catalog_of(made.store, made.moment(0x180)).sequences
    assert isinstance(found, SequenceBetween)
    assert (found.last_value, found.is_past) == (3, True)


def test_sequences_that_cannot_be_read_are_damage(made: Evolving) -> None:
    made.full(0x100, catalog(ONE), sequences=(file := made.file("sequences", b"[3]")))
    with pytest.raises(DamagedError, match=file.path):
        catalog_of(made.store, made.moment(0x100))
    assert objects_of(catalog_reader(made.store), made.moment(0x100)) == catalog(ONE)


def configured(*rows: str) -> Catalog:
    kept = Configuration(extension="e", table_schema="e", name="settings", columns=("a",), rows=rows)
    return catalog(ONE, configuration=(kept,))


@pytest.mark.parametrize(
    ("later", "note"),
    [(("a",), ""), (("b",), "they are of the backup before this moment, and changed until the next one")],
)
def test_rows_of_extensions_are_those_of_the_backup_before(made: Evolving, later: tuple[str, ...], note: str) -> None:
    made.full(0x100, configured("a"))
    made.changes(0x200, configured(*later))
    for position, rows, said in ((0x100, ("a",), ""), (0x180, ("a",), note), (0x200, later, "")):
        (found,) = catalog_of(made.store, made.moment(position)).configuration
        assert (found.rows, found.note) == (rows, said)


def test_a_later_record_that_is_damaged_only_leaves_open_whether_they_changed(made: Evolving) -> None:
    made.full(0x100, configured("a"))
    later = made.changes(0x200, configured("b"), sequences=made.file("sequences", sequences_to_json(())))
    made.store.put(later.block.catalog.path, b"damaged")
    (found,) = catalog_of(made.store, made.moment(0x180)).configuration
    assert found.rows == ("a",)
    assert found.note.endswith("whether they changed by then is not known")


def test_a_table_that_is_followed_has_its_rows_at_each_moment(made: Evolving) -> None:
    made.full(0x100, catalog(ONE))
    record = changed(ONE, 0x150)
    made.changes(0x200, catalog(ONE), record)
    moment = made.moment(0x180)
    objects = catalog_of(made.store, moment)
    fit, unfit = parts_of(catalog_reader(made.store), moment, objects)
    assert (unfit, fit["1"].changes, fit["1"].stale) == ({}, (record,), "")
    assert older_rows(moment, objects.tables, fit, unfit) == []


def test_changes_of_another_form_than_the_schema_that_is_taken_do_not_count(made: Evolving) -> None:
    made.full(0x100, catalog(ONE))
    altered = table(1, column(ID, type="integer", base="int4"), WORD)
    made.changes(0x300, catalog(altered), changed(ONE, 0x150), changed(altered, 0x250))
    moment = made.moment(0x280)
    assert moment.doubt is not None
    for schema, stale, upto in zip(moment.doubt, (OTHER_FORM, ""), (0x100, 0x280), strict=True):
        taken = moment.by(schema)
        fit, _ = parts_of(catalog_reader(made.store), taken, objects_of(catalog_reader(made.store), taken))
        assert (fit["1"].stale, fit["1"].upto, bool(fit["1"].changes)) == (stale, upto, not stale)


@pytest.mark.parametrize(
    ("later", "key", "is_other"),
    [
        pytest.param(WIDER, (1,), False, id="a column more"),
        pytest.param(table(1, ID), (1,), False, id="a column less, where rows have a key"),
        pytest.param(table(1, ID), (), True, id="a column less, where they have none"),
        pytest.param(table(1, ID, column(WORD, type="varchar(5)", base="varchar")), (1,), True, id="another type"),
        pytest.param(table(1, ID, column(WORD, name="renamed")), (1,), False, id="another name"),
    ],
)
def test_what_does_not_fit_the_earlier_schema_is_told_by_columns(
    made: Evolving, later: Table, key: tuple[int, ...], is_other: bool
) -> None:
    made.full(0x100, catalog(ONE))
    made.changes(0x300, catalog(later), changed(later, 0x150, key=key))
    moment = made.moment(0x280)
    assert moment.doubt is not None
    fit, _ = parts_of(catalog_reader(made.store), moment.by(moment.doubt[0]), catalog(ONE))
    assert (fit["1"].stale == OTHER_FORM) is is_other


def leave(made: Evolving, later: Table) -> tuple[Any, Catalog]:
    """Let a table be followed no more; return the moment behind, and its objects."""
    made.full(0x100, catalog(ONE))
    del made.followed[1]
    made.not_followed = {later.label: "it has no key"}
    made.changes(0x200, catalog(later))
    return made.moment(0x200), catalog(later)


def test_rows_of_before_are_there_where_they_fit(made: Evolving) -> None:
    moment, objects = leave(made, WIDER)
    fit, unfit = parts_of(catalog_reader(made.store), moment, objects)
    (older,) = older_rows(moment, objects.tables, fit, unfit)
    assert (fit["1"].stale, unfit) == ("it has no key", {})
    assert (older.label, older.as_of, older.reason, older.again) == ("shop.t1", fit["1"].as_of, "it has no key", None)


@pytest.mark.parametrize(("key", "counts"), [((1,), True), ((2,), False)])
def test_changes_by_a_key_that_is_gone_cannot_be_told_from_each_other(
    made: Evolving, key: tuple[int, ...], counts: bool
) -> None:
    made.full(0x100, catalog(ONE))
    made.changes(0x180, catalog(ONE), changed(ONE, 0x150, key=key))
    del made.followed[1]
    now = catalog(table(1, ID))
    made.changes(0x200, now)
    fit, _ = parts_of(catalog_reader(made.store), made.moment(0x200), now)
    assert (bool(fit["1"].changes), fit["1"].upto) == (counts, 0x180 if counts else 0x100)


def test_rows_of_before_that_do_not_fit_are_none_and_when_they_are_whole_again_is_told(made: Evolving) -> None:
    moment, objects = leave(made, table(1, ID, WORD, PRICE, filenode=7))
    fit, unfit = parts_of(catalog_reader(made.store), moment, objects)
    assert (fit, list(unfit)) == ({}, ["1"])
    again = made.full(0x280, objects)
    made.changes(0x300, objects)
    moment = made.moment(0x200)
    (without,) = older_rows(moment, objects.tables, fit, unfit)
    assert (without.as_of, without.again) == (None, again)
    assert without.reason == unfit["1"].why_unfit


def test_a_table_without_any_snapshot_has_no_rows_unless_it_can_have_none(made: Evolving) -> None:
    made.full(0x100, catalog(ONE))
    tables = (ONE, table(2), table(3, kind="p"))
    made.changes(0x200, catalog(*tables))
    moment = made.moment(0x200)
    (found,) = older_rows(moment, tables, *parts_of(catalog_reader(made.store), moment, catalog(*tables)))
    assert (found.table, found.as_of, found.reason) == (2, None, "there was no snapshot of it yet")
    assert older_rows(made.moment(0x100), tables, {}, {}) == []  # a full backup says itself what it has not


FILED = table(1, filenode=1, form="2:a")


@pytest.mark.parametrize(
    ("before", "now", "fit"),
    [
        pytest.param(ONE, ONE, True, id="the same"),
        pytest.param(FILED, table(1, ID, WORD, PRICE, filenode=1, form="3:b"), True, id="a column more, not rewritten"),
        pytest.param(FILED, table(1, ID, WORD, PRICE, filenode=9, form="3:b"), False, id="rewritten with another form"),
        pytest.param(FILED, table(1, filenode=9, form="2:a"), True, id="truncated"),
        pytest.param(
            table(1, ID, WORD, GENERATED),
            table(1, ID, WORD, PRICE),
            False,
            id="a generated column made an ordinary one",
        ),
        pytest.param(
            FILED,
            table(1, column(ID, type="oid", base="oid"), WORD, filenode=1, form="3:b"),
            False,
            id="kept otherwise",
        ),
        pytest.param(None, table(1, filenode=0), True, id="made since, of an older release"),
        pytest.param(None, table(1, filenode=1), True, id="made since"),
        pytest.param(None, table(1, filenode=9), False, id="made since, and written anew"),
    ],
)
def test_rows_fit_where_they_were_not_written_anew(before: Table | None, now: Table, fit: bool) -> None:
    assert fits(catalog(*(() if before is None else (before,))), catalog(now), now) is fit


def test_values_of_types_that_are_written_otherwise_now_do_not_fit() -> None:
    mood = column(WORD, type="shop.mood", base="mood", base_schema="shop", kind="e")
    one = table(1, ID, mood)
    labels = {"enums": {"shop.mood": ("sad",)}, "enum_oids": {"shop.mood": 70}, "label_types": {7: 70}}
    before, now = (catalog(one, types={"label 7": word}, **labels) for word in ("sad", "blue"))
    assert fits(before, before, one)
    assert not fits(before, now, one)


def test_the_history_of_a_table_is_of_its_form_and_key_at_the_moment(made: Evolving) -> None:
    now = table(1, ID, WORD, column(PRICE, missing="1.50"), column(PRICE, number=4, name="sum", generated="s"))
    made.full(0x100, catalog(now))
    records = [changed(now, 0x150, key=(1,)), changed(now, 0x190, key=(2,)), changed(now, 0x1F0, key=())]
    made.changes(0x200, catalog(now), *records)
    parts, _ = parts_of(catalog_reader(made.store), made.moment(0x1A0), catalog(now))
    history = history_of(parts["1"], now)
    assert (history.table, history.label, history.since, history.upto) == ("1", "shop.t1", 0x100, 0x1A0)
    assert (history.changes, history.key) == (tuple(records[:2]), (2,))
    assert history.wanted.names == ["id", "word", "price", "price__exact"]
    assert history.missing[3].as_py() is not None
    assert history_of(replace(parts["1"], changes=()), now).key == ()


def test_rows_older_than_a_column_have_the_value_that_the_catalog_says() -> None:
    found = missing_values((ID, column(WORD, missing="none"), column(PRICE, missing="1.50")))
    assert {number: value.as_py() for number, value in found.items() if value.is_valid} == {
        2: "none",
        3: pa.scalar("1.50").cast(pa.decimal128(10, 2)).as_py(),
    }
    assert {1, 2, 3} <= set(found)
