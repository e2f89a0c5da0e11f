"""Effects of DDL on incremental backups: one row for each kind of statement decides, and `docs/changes.md` shows them.

Logical decoding gives rows and no definitions (PostgreSQL manual, 'Logical Replication Restrictions'), so an effect is
found by comparing the catalog at two backups. Columns that changes cannot be matched to (UNCERTAIN) are found while
changes are read (`column_numbers`), and partitions from their first row on by `backup_decision.born_tables`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from holdfast.common.field_ids import can_convert, field_id
from holdfast.postgresql.values.stored_columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.postgresql.catalog.catalog import Catalog
    from holdfast.postgresql.catalog.table import Table

Effect = Literal["followed", "starts over", "followed to its end"]
"""`followed`: its changes go on being backed up. `starts over`: a snapshot of the table alone, in the same backup."""

UNCERTAIN: Final = "its columns or its key were changed so that its changes do not tell which values are whose"
NEW: Final = "it has no snapshot yet"
CAME_BACK: Final = "it left the publication, or its partitioned table, and came back"
KEY_CHANGED: Final = "its key was changed"
FILLED: Final = "a column of it is not generated any more, and its older changes lack what it had"
RETYPED: Final = "the type of a column was altered, and its older rows with it"
REWRITTEN: Final = "its rows were written anew by ALTER TABLE, of which the log does not tell"
UNLOGGED: Final = (
    "it may have been unlogged for a while: its file is another one, and of a partition PostgreSQL allows that"
)

REASONS: Final = (UNCERTAIN, NEW, CAME_BACK, KEY_CHANGED, FILLED, RETYPED, REWRITTEN, UNLOGGED)

OF_THEIR_OWN: Final = frozenset({UNCERTAIN, KEY_CHANGED, FILLED, RETYPED, REWRITTEN})
"""Reasons that come with a change of the table's own definition, or of a type."""


@dataclass(frozen=True)
class TableChange:
    """A published table at two cuts of its source.

    :param old: None where the earlier catalog has no such table.
    :param was_followed: the archive has all of its changes before.
    :param is_followed: and those since, as its entry in the publication is the same one.
    """

    old: Table | None
    new: Table
    before: Catalog
    now: Catalog
    was_followed: bool
    is_followed: bool


def can_become(before: Table, now: Table) -> bool:
    """Return whether stored values can be converted to the current types.

    Some types are stored alike by PostgreSQL and kept otherwise here: int4 as a number, oid and regclass as text.
    """
    if before.columns == now.columns:
        return True
    schemas = (schema_of(tuple(each for each in table.columns if not each.generated)) for table in (before, now))
    written, current = ({field_id(field): field.type for field in schema} for schema in schemas)
    return all(can_convert(written.get(number, kind), kind) for number, kind in current.items())


def _is_retyped(change: TableChange) -> bool:
    """Return whether values may be written otherwise than before.

    A label that was added and renamed is seen in changes, but not inside of other values; nor is what was altered in a
    composite type.
    """
    if change.old is not None and not can_become(change.old, change.new):
        return True
    if not change.new.has_own_types:
        return False
    since = change.now.types_since(change.before)
    is_hidden = (bool(since.labels) or since.composites) and change.now.may_hide_others(change.new)
    return is_hidden or change.now.types_altered(change.before, change.new)


def _is_rewritten(change: TableChange) -> bool:
    if change.old is None:  # what it was at first is unknown, but a table's first heap has its own oid
        return change.new.filenode != change.new.oid
    return change.new.is_rewritten(change.old)


def _has_other_key(change: TableChange) -> bool:
    return change.old is not None and not change.new.has_key_of(change.old)


def _is_filled(change: TableChange) -> bool:
    return change.old is not None and change.new.is_filled(change.old)


def _may_have_been_unlogged(change: TableChange) -> bool:
    return change.old is not None and change.new.may_have_been_unlogged(change.old)


@dataclass(frozen=True)
class DdlEffect:
    """Effect of one kind of DDL on the table that it is about.

    :param ddl: the statements, in Markdown.
    :param test: `file::name` of the test that proves it, below `tests/sparkjobs`.
    :param reason: as `status`, `points` and the backup report it; "" where nothing starts over.
    :param detail: more about it, in Markdown.
    :param starts_over: whether this row is why a followed table starts over; None where other code finds that.
    """

    ddl: str
    effect: Effect
    test: str
    reason: str = ""
    detail: str = ""
    starts_over: Callable[[TableChange], bool] | None = None

    def row(self) -> str:
        """Return the row of the table in the documentation."""
        why = "; ".join(filter(None, (f"“{self.reason}”" if self.reason else "", self.detail)))
        return f"| {self.ddl} | {self.effect} | {why} |"


def reason_to_start_over(change: TableChange) -> str:
    """Return why a table starts over, by the first row that says so; "" where it is followed on."""
    if not change.is_followed:
        return CAME_BACK if change.was_followed else NEW
    return next((each.reason for each in EFFECTS if each.starts_over and each.starts_over(change)), "")


EFFECTS: Final = (
    DdlEffect(
        "`ADD COLUMN` (with a default that stands in the catalog, or none), `DROP COLUMN`, `RENAME COLUMN`",
        "followed",
        "changes/test_refiled_tables.py::test_tables_are_followed_or_begin_anew_side_by_side",
        detail="columns are told apart "
        "[by number](decisions/postgresql.md#changed-values-are-matched-to-columns-by-number); "
        "rows are brought to the schema of the recovery target",
    ),
    DdlEffect(
        "a column dropped and made anew under its name, columns that change names, between two backups",
        "starts over",
        "changes/test_reused_columns.py::test_a_column_does_not_come_back_with_values_of_another",
        UNCERTAIN,
        "only where no change in between tells them apart",
    ),
    DdlEffect(
        "`RENAME TO`, `SET SCHEMA`",
        "followed",
        "changes/test_altered_tables.py::test_a_table_that_was_renamed_keeps_its_rows_through_a_full_backup_of_others",
        detail="a table is known by its oid",
    ),
    DdlEffect(
        "`TRUNCATE`, `VACUUM FULL`, `CLUSTER`; `ALTER COLUMN … TYPE` that leaves the rows alone (a longer `varchar`)",
        "followed",
        "changes/test_refiled_tables.py::test_tables_are_followed_or_begin_anew_side_by_side",
        detail="but beside [some changes of columns](#tables-in-another-file)",
    ),
    DdlEffect(
        "`ALTER COLUMN … TYPE` to a type that is kept otherwise here (`int` to `oid`), `ALTER TYPE … RENAME VALUE`, "
        "`ALTER TYPE … ATTRIBUTE`, also if changed back",
        "starts over",
        "changes/test_reused_types.py::test_values_mean_what_they_meant",
        RETYPED,
        "of the tables that have the type, arrays, domains, ranges and composite types of it included",
        starts_over=_is_retyped,
    ),
    DdlEffect(
        "`ALTER TYPE … ADD VALUE`",
        "followed",
        "changes/test_reused_types.py::test_a_label_that_another_type_always_had_tells_nothing_of_when_one_got_it",
    ),
    DdlEffect(
        "another primary key or `REPLICA IDENTITY`, also for a while",
        "starts over",
        "changes/test_reused_columns.py::test_rows_are_told_apart_by_the_key_that_they_had",
        KEY_CHANGED,
        starts_over=_has_other_key,
    ),
    DdlEffect(
        "`DROP EXPRESSION`",
        "starts over",
        "changes/test_definitions.py::test_a_column_that_is_not_generated_any_more_has_its_values_from_a_snapshot_on",
        FILLED,
        starts_over=_is_filled,
    ),
    DdlEffect(
        "`ALTER TABLE` that writes the rows anew (`ALTER COLUMN … TYPE … USING`, a volatile default)",
        "starts over",
        "changes/test_altered_tables.py::test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on",
        REWRITTEN,
        starts_over=_is_rewritten,
    ),
    DdlEffect(
        "`CREATE TABLE`, `ATTACH PARTITION` of a table that had rows",
        "starts over",
        "changes/test_definitions.py::test_a_table_that_is_made_between_two_backups_has_a_gap_until_its_snapshot",
        NEW,
    ),
    DdlEffect(
        "`CREATE TABLE … PARTITION OF` a followed root",
        "followed",
        "changes/test_new_partitions.py::test_a_partition_made_between_two_backups_has_its_rows_from_the_first_on",
        detail="from the first row on "
        "([how that is known](decisions/postgresql.md#a-partition-is-followed-from-its-first-row)); "
        "with `REPLICA IDENTITY FULL` it starts over",
    ),
    DdlEffect(
        "`SET UNLOGGED` and `SET LOGGED` of a partition",
        "starts over",
        "changes/test_reused_columns.py::test_a_partition_begins_anew_whose_rows_the_log_does_not_tell",
        UNLOGGED,
        starts_over=_may_have_been_unlogged,
    ),
    DdlEffect(
        "`DETACH PARTITION` and `ATTACH PARTITION`, `ALTER PUBLICATION … DROP TABLE` and `ADD TABLE`",
        "starts over",
        "changes/test_altered_tables.py::test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on",
        CAME_BACK,
    ),
    DdlEffect(
        "`DROP TABLE`",
        "followed to its end",
        "changes/test_dropped_tables.py::test_the_last_moment_has_all_rows_that_the_table_had",
    ),
    DdlEffect(
        "indexes, constraints, views, functions, privileges",
        "followed",
        "changes/test_composed_schemas.py::test_each_moment_between_migrations_has_its_own_schema_and_rows",
        detail="rows are not concerned; see [the schema of a moment](#the-schema-of-a-moment)",
    ),
)
"""The order of rows decides where several say why a table starts over."""
