"""The choice between two schemas: the one by which less is lost, and words on what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.archive.format.document import FileRecord
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.common.errors import UsageError
from holdfast.point_in_time.schema_choice import (
    TargetBySchema,
    by_both,
    in_parts,
    parse_schema,
    resolve,
    with_schema,
)
from holdfast.point_in_time.target_contents import catalog_reader
from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.dump.dump_objects import DumpObjects
from tests.support.archives.evolving import (
    ID,
    PRICE,
    SOURCE,
    WORD,
    Evolving,
    catalog,
    changed,
    column,
    table,
    touched_between,
)

ONE, TWO = table(1), table(2)
WIDER = table(1, ID, WORD, PRICE)


@pytest.fixture
def made() -> Evolving:
    return Evolving()


@pytest.mark.parametrize("text", ["auto", "earlier", "later"])
def test_a_choice_is_one_of_three_words(text: str) -> None:
    assert parse_schema(text) == text


@pytest.mark.parametrize("text", ["", "Later", "both", "auto "])
def test_any_other_word_is_refused_with_the_three(text: str) -> None:
    with pytest.raises(UsageError, match=f"^schema '{text}' is none of auto, earlier, later$"):
        parse_schema(text)


def evolve(made: Evolving, before: Sequence[Table], after: Sequence[Table], *records: Any, **more: Any) -> None:
    """Let the objects become others between 0x100 and 0x300."""
    made.full(0x100, catalog(*before))
    made.changes(0x300, catalog(*after), *records, **more)


def chosen(made: Evolving, position: int = 0x200, **more: Any) -> tuple[str, RecoveryTarget]:
    """Return which schema a moment is given, and the moment."""
    moment = made.moment(position)
    assert moment.doubt is not None
    taken = with_schema(made.store, moment, **more)
    return ("earlier", "later")[moment.doubt.index(taken.schema)], taken


def test_where_the_schema_is_known_there_is_nothing_to_choose(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER])
    for position in (0x100, 0x300):
        moment = made.moment(position)
        assert with_schema(made.store, moment, "earlier") is moment
        assert resolve(made.archive.state, made.store, SOURCE, f"lsn:0/{position:X}") == moment


def test_of_two_that_lose_nothing_the_later_is_taken_where_a_change_was_seen_before(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER], ddl=("0/200",))
    assert chosen(made, 0x200)[0] == "earlier"
    assert chosen(made, 0x201)[0] == "later"


def test_what_is_asked_for_is_taken_whatever_it_loses(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER], changed(WIDER, 0x150, rows=7))
    assert chosen(made)[0] == "later"  # since column price was there at 0x150
    which, taken = chosen(made, schema="earlier")
    assert (which, taken.lost) == ("earlier", ("values of column shop.t1.price (7 or more)",))
    assert taken.approximate.startswith(
        "values of column shop.t1.price (7 or more) lost, which --schema later has; the schema was changed between "
    )
    assert taken.approximate.endswith("; it lacks column shop.t1.price, which --schema later has")
    which, taken = chosen(made, schema="later")
    assert (which, taken.lost) == ("later", ())


def test_a_column_that_goes_is_kept_as_long_as_changes_tell_it(made: Evolving) -> None:
    evolve(made, [WIDER], [ONE], changed(WIDER, 0x250), ddl=("0/180",))
    which, taken = chosen(made, 0x200)  # though a change was seen before
    assert (which, taken.lost) == ("earlier", ())
    which, taken = chosen(made, 0x200, schema="later")
    # Each of the ten rows in the snapshot and of the one that was changed may have a value.
    assert (which, taken.lost) == ("later", ("values of column shop.t1.price (11 or more)",))


def test_what_only_proves_another_time_proves_nothing(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER], changed(WIDER, 0x250))
    which, taken = chosen(made, 0x200)  # the column may have come behind it
    assert (which, taken.lost) == ("earlier", ())


def test_rows_of_a_table_that_was_made_or_dropped_are_weighed(made: Evolving) -> None:
    evolve(made, [ONE], [ONE, TWO], changed(TWO, 0x150, rows=4))
    assert chosen(made)[0] == "later"
    _, taken = chosen(made, schema="earlier")
    assert taken.lost == ("rows of table shop.t2 (4 or more)",)
    assert "it lacks table shop.t2, which --schema later has" in taken.approximate


def test_a_table_that_went_is_kept_as_long_as_changes_tell_it(made: Evolving) -> None:
    evolve(made, [ONE, TWO], [ONE], changed(TWO, 0x250, rows=4), ddl=("0/180",))
    assert chosen(made)[0] == "earlier"
    _, taken = chosen(made, schema="later")
    assert taken.lost == ("rows of table shop.t2 (14 or more)",)


def test_what_became_of_a_table_before_it_went_is_said_to_be_in_no_backup(made: Evolving) -> None:
    evolve(made, [ONE, TWO], [ONE])
    _, taken = chosen(made, schema="earlier")
    assert taken.approximate.endswith(
        "table shop.t2 went before the next backup: what became of it before that and is not in the log, such as by "
        "ALTER TABLE, or while it was not published, is in no backup"
    )
    _, taken = chosen(made, schema="later")
    assert taken.approximate.endswith("it lacks table shop.t2, which --schema earlier has")
    assert taken.lost == ()  # it may have gone before


def test_changes_before_the_moment_do_not_prove_that_a_table_was_still_there(made: Evolving) -> None:
    evolve(made, [ONE, TWO], [ONE], changed(TWO, 0x150), ddl=("0/180",))
    which, taken = chosen(made)
    assert (which, taken.lost) == ("later", ())


def test_a_table_that_came_went_nowhere(made: Evolving) -> None:
    evolve(made, [ONE], [ONE, TWO])
    for schema in ("earlier", "later"):
        assert "went before" not in chosen(made, schema=schema)[1].approximate


def test_changes_that_do_not_fit_the_earlier_schema_are_weighed_against_it(made: Evolving) -> None:
    altered = table(1, column(ID, type="integer", base="int4", output="pg_catalog.int4out"), WORD)
    evolve(made, [ONE], [altered], changed(ONE, 0x150), changed(altered, 0x180, rows=5))
    assert chosen(made)[0] == "later"
    _, taken = chosen(made, schema="earlier")
    assert taken.lost == ("changes of table shop.t1 (6 or more)",)


def test_a_row_weighs_as_much_as_it_has_columns(made: Evolving) -> None:
    """The one schema loses twenty values of a column, the other thirteen rows of two columns."""
    evolve(made, [ONE, TWO], [WIDER], changed(WIDER, 0x150, rows=20), changed(TWO, 0x250, rows=3), ddl=("0/180",))
    which, taken = chosen(made)
    assert (which, taken.lost) == ("earlier", ("values of column shop.t1.price (20 or more)",))
    assert chosen(made, schema="later")[1].lost == ("rows of table shop.t2 (13 or more)",)


def test_rows_that_do_not_fit_one_schema_are_weighed_against_it(made: Evolving) -> None:
    made.full(0x100, catalog(ONE))
    del made.followed[1]
    made.changes(0x300, catalog(table(1, ID, WORD, PRICE, filenode=7)), ddl=("0/180",))
    assert chosen(made)[0] == "earlier"
    assert chosen(made, schema="later")[1].lost == ("rows of table shop.t1 (10 or more)",)


def test_generated_columns_and_tables_without_rows_lose_nothing(made: Evolving) -> None:
    more = table(1, ID, WORD, column(PRICE, generated="s"))
    parent = table(3, kind="p")
    evolve(made, [ONE], [more, parent], changed(more, 0x150), changed(parent, 0x150))
    which, taken = chosen(made, schema="earlier")
    assert (which, taken.lost) == ("earlier", ())
    assert "it lacks column shop.t1.price, table shop.t3" in taken.approximate


def test_both_are_given_the_taken_first(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER], changed(WIDER, 0x150))
    moment, read = made.moment(0x200), catalog_reader(made.store)
    assert moment.doubt is not None
    for schema, later in (("auto", True), ("later", True), ("earlier", False)):
        taken, other = by_both(read, moment, moment.doubt, parse_schema(schema))
        assert (taken.is_later, other.is_later) == (later, not later)
    by_later = TargetBySchema(read, moment.by(moment.doubt[1]))
    assert (by_later.catalog, list(by_later.fit), by_later.unfit) == (catalog(WIDER), ["1"], {})


# Where the log tells which objects were touched when


def test_a_table_that_is_not_known_has_the_schema_that_loses_less() -> None:
    made, moment, read_dump = touched_between({0x180: (1, 2), 0x280: (1,)})
    found = in_parts(catalog_reader(made.store), read_dump, moment)
    assert found is not None
    assert [len(each.columns) for each in found.composed.catalog.tables] == [3, 3]
    assert found.lost == ()
    assert "these may not be as they were then: table shop.t1" in found.approximate


@pytest.mark.parametrize(("dropped", "side"), [(False, "later"), (True, "earlier")])
def test_the_weight_decides_and_not_which_schema_is_nearer(dropped: bool, side: str) -> None:
    made, moment, read_dump = touched_between({0x180: (1, 2), 0x280: (1,)}, dropped=dropped)
    found = in_parts(catalog_reader(made.store), read_dump, moment)
    assert found is not None
    assert (found.composed.doubtful, found.lost) == ({1: side}, ())


def test_where_it_is_not_told_what_was_touched_nothing_is_put_together(made: Evolving) -> None:
    evolve(made, [ONE], [WIDER])
    assert in_parts(catalog_reader(made.store), dumps_that_nobody_reads, made.moment(0x200)) is None
    assert in_parts(catalog_reader(made.store), dumps_that_nobody_reads, made.moment(0x300)) is None


def dumps_that_nobody_reads(file: FileRecord) -> DumpObjects:
    raise AssertionError(file)
