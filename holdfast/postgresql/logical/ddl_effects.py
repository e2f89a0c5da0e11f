"""Effects of DDL on incremental backups: one row for each kind of statement.

The code that decides takes its reasons from here, and `docs/changes.md` shows the table. Logical decoding gives rows
and no definitions (PostgreSQL manual, 'Logical Replication Restrictions'), so an effect is found by comparing the
catalog's record at two backups; each row says where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
class DdlEffect:
    """Effect of one kind of DDL on the table that it is about.

    :param ddl: the statements, in Markdown.
    :param reason: as `status`, `points` and the backup report it; "" where nothing starts over.
    :param detail: more about it, in Markdown.
    :param decided: `module:name` of the code that finds it.
    :param test: `file::name` of the test that proves it, below `tests/sparkjobs`.
    """

    ddl: str
    effect: Effect
    decided: str
    test: str
    reason: str = ""
    detail: str = ""

    def row(self) -> str:
        """Return the row of the table in the documentation."""
        why = "; ".join(filter(None, (f"“{self.reason}”" if self.reason else "", self.detail)))
        return f"| {self.ddl} | {self.effect} | {why} |"


_TABLE: Final = "holdfast.postgresql.catalog.table:Table"
_NUMBERS: Final = "holdfast.postgresql.catalog.column_numbers:slots"
_FOLLOWED: Final = "sparkjobs.driver.segments:compare"

EFFECTS: Final = (
    DdlEffect(
        "`ADD COLUMN` (with a default that stands in the catalog, or none), `DROP COLUMN`, `RENAME COLUMN`",
        "followed",
        _NUMBERS,
        "changes/test_refiled_tables.py::test_tables_are_followed_or_begin_anew_side_by_side",
        detail="columns are told apart "
        "[by number](decisions/postgresql.md#changed-values-are-matched-to-columns-by-number); "
        "rows are brought to the schema of the recovery target",
    ),
    DdlEffect(
        "a column dropped and made anew under its name, columns that change names, between two backups",
        "starts over",
        _FOLLOWED,
        "changes/test_reused_columns.py::test_a_column_does_not_come_back_with_values_of_another",
        UNCERTAIN,
        "only where no change in between tells them apart",
    ),
    DdlEffect(
        "`RENAME TO`, `SET SCHEMA`",
        "followed",
        _FOLLOWED,
        "changes/test_altered_tables.py::test_a_table_that_was_renamed_keeps_its_rows_through_a_full_backup_of_others",
        detail="a table is known by its oid",
    ),
    DdlEffect(
        "`TRUNCATE`, `VACUUM FULL`, `CLUSTER`; `ALTER COLUMN … TYPE` that leaves the rows alone (a longer `varchar`)",
        "followed",
        f"{_TABLE}.is_rewritten",
        "changes/test_refiled_tables.py::test_tables_are_followed_or_begin_anew_side_by_side",
        detail="but beside [some changes of columns](#tables-in-another-file)",
    ),
    DdlEffect(
        "`ALTER TABLE` that writes the rows anew (`ALTER COLUMN … TYPE … USING`, a volatile default)",
        "starts over",
        f"{_TABLE}.is_rewritten",
        "changes/test_altered_tables.py::test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on",
        REWRITTEN,
    ),
    DdlEffect(
        "`ALTER COLUMN … TYPE` to a type that is kept otherwise here (`int` to `oid`), `ALTER TYPE … RENAME VALUE`, "
        "`ALTER TYPE … ATTRIBUTE`, also if changed back",
        "starts over",
        _FOLLOWED,
        "changes/test_reused_types.py::test_values_mean_what_they_meant",
        RETYPED,
        "of the tables that have the type, arrays, domains, ranges and composite types of it included",
    ),
    DdlEffect(
        "`ALTER TYPE … ADD VALUE`",
        "followed",
        _FOLLOWED,
        "changes/test_reused_types.py::test_a_label_that_another_type_always_had_tells_nothing_of_when_one_got_it",
    ),
    DdlEffect(
        "`DROP EXPRESSION`",
        "starts over",
        f"{_TABLE}.is_filled",
        "changes/test_definitions.py::test_a_column_that_is_not_generated_any_more_has_its_values_from_a_snapshot_on",
        FILLED,
    ),
    DdlEffect(
        "another primary key or `REPLICA IDENTITY`, also for a while",
        "starts over",
        f"{_TABLE}.has_key_of",
        "changes/test_reused_columns.py::test_rows_are_told_apart_by_the_key_that_they_had",
        KEY_CHANGED,
    ),
    DdlEffect(
        "`CREATE TABLE`, `ATTACH PARTITION` of a table that had rows",
        "starts over",
        _FOLLOWED,
        "changes/test_definitions.py::test_a_table_that_is_made_between_two_backups_has_a_gap_until_its_snapshot",
        NEW,
    ),
    DdlEffect(
        "`CREATE TABLE … PARTITION OF` a followed root",
        "followed",
        "holdfast.operations.backup_decision:born_tables",
        "changes/test_new_partitions.py::test_a_partition_made_between_two_backups_has_its_rows_from_the_first_on",
        detail="from the first row on "
        "([how that is known](decisions/postgresql.md#a-partition-is-followed-from-its-first-row)); "
        "with `REPLICA IDENTITY FULL` it starts over",
    ),
    DdlEffect(
        "`SET UNLOGGED` and `SET LOGGED` of a partition",
        "starts over",
        f"{_TABLE}.may_have_been_unlogged",
        "changes/test_reused_columns.py::test_a_partition_begins_anew_whose_rows_the_log_does_not_tell",
        UNLOGGED,
    ),
    DdlEffect(
        "`DETACH PARTITION` and `ATTACH PARTITION`, `ALTER PUBLICATION … DROP TABLE` and `ADD TABLE`",
        "starts over",
        _FOLLOWED,
        "changes/test_altered_tables.py::test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on",
        CAME_BACK,
    ),
    DdlEffect(
        "`DROP TABLE`",
        "followed to its end",
        _FOLLOWED,
        "changes/test_dropped_tables.py::test_the_last_moment_has_all_rows_that_the_table_had",
    ),
    DdlEffect(
        "indexes, constraints, views, functions, privileges",
        "followed",
        "holdfast.archive.history.schema_history:schema_changes",
        "changes/test_composed_schemas.py::test_each_moment_between_migrations_has_its_own_schema_and_rows",
        detail="rows are not concerned; see [the schema of a moment](#the-schema-of-a-moment)",
    ),
)
