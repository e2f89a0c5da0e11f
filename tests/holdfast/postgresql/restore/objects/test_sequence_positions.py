"""Where sequences stand: what backups recorded, and rows only where two backups contradict each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.sequences import Reading, SequenceBetween, SequenceValue
from holdfast.postgresql.restore.objects.sequence_positions import find_places, set_sequences
from holdfast.postgresql.restore.plan.plan import NotRestored

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]


def at_end(last: int, *, called: bool = True, name: str = "s", extension: str = "") -> SequenceValue:
    return SequenceValue(sequence_schema="public", name=name, last_value=last, is_called=called, extension=extension)


def between(last: int, earlier: int | None, *, past: bool = False) -> SequenceBetween:
    before = None if earlier is None else Reading(last_value=earlier, is_called=True)
    return SequenceBetween(
        sequence_schema="public", name="s", last_value=last, is_called=True, earlier=before, is_past=past
    )


def placed(session: Session, *values: SequenceValue) -> Sequence[NotRestored]:
    find_places(session, values)
    return set_sequences(session)


def make(session: Session, definition: str = "", rows: str = "") -> None:
    session.execute("create table public.t (id int)")
    session.execute(f"create sequence public.s {definition} owned by public.t.id".encode())
    if rows:
        session.execute(f"insert into public.t select unnest(array[{rows}])".encode())


def state(session: Session) -> Any:
    return session.execute("select last_value, is_called from public.s").fetchone()


@pytest.mark.parametrize("called", [True, False])
def test_what_a_backup_found_at_its_end_stands_whatever_rows_say(undone: Session, called: bool) -> None:
    make(undone, rows="900")
    assert placed(undone, at_end(41, called=called)) == ()
    assert state(undone) == (41, called)


def test_a_place_is_found_once_and_set_as_often_as_it_is_asked_for(undone: Session) -> None:
    make(undone)
    placed(undone, at_end(41))
    undone.execute("select setval('public.s', 50)")
    assert placed(undone, at_end(99)) == ()
    assert state(undone) == (41, True)


@pytest.mark.parametrize(
    ("definition", "rows", "value", "stands", "why"),
    [
        ("", "3", between(20, 10), 20, ""),
        ("", "3", between(20, None), 20, ""),
        ("", "3", between(5, 10), 10, "it was set back between two backups, from 10 or later to 5 or before"),
        ("", "3, 17", between(5, 10), 17, "it was set back"),
        ("maxvalue 20", "20, 18", between(5, 10), 18, "it was set back"),
        ("increment -1", "-17, 8", between(-5, -10), -17, "it was set back"),
        ("increment -1", "-1", between(-10, -5), -10, ""),
        ("cycle maxvalue 20", "17", between(5, 10), 5, ""),
        ("", "3, 17", between(10, 10, past=True), 17, "no later backup has it"),
        ("minvalue 50 start 50", "7", at_end(5), 50, r"found it at 5, which is outside of its bounds here \(50 to "),
        ("maxvalue 50", "7", at_end(60), 7, r"found it at 60, which is outside of its bounds here \(1 to 50\)"),
    ],
    ids=[
        "later one", "no earlier one", "set back", "set back, with rows ahead", "a full row is no place",
        "downwards, set back", "downwards", "cycling", "gone", "below bounds", "above bounds",
    ],
)  # fmt: skip
def test_where_two_backups_contradict_each_other_it_stands_at_the_farthest(
    undone: Session, definition: str, rows: str, value: SequenceValue, stands: int, why: str
) -> None:
    make(undone, definition, rows)
    left = placed(undone, value)
    assert state(undone)[0] == stands
    if not why:
        assert left == ()
        return
    [told] = left
    assert told.what == "where sequence public.s stood"
    assert told.reason.endswith(f". It stands at {stands}")
    assert re.search(why, told.reason)
    is_within = "outside of its bounds" not in told.reason
    again = f'select pg_catalog.setval(\'"public"."s"\', {value.last_value}, true);'
    assert told.statement == (again if is_within else "")


def test_a_sequence_without_a_column_has_the_farther_of_both_records(undone: Session) -> None:
    undone.execute("create sequence public.s; create table public.t (id int); insert into public.t values (500)")
    [told] = placed(undone, between(5, 10))
    assert (state(undone), told.reason.rpartition(". ")[2]) == ((10, True), "It stands at 10")


def test_rows_that_may_not_be_read_add_nothing(undone: Session) -> None:
    make(undone, rows="17")
    undone.execute("create role positions_reader; grant all on public.s to positions_reader")
    undone.execute("grant usage on schema holdfast_restore to positions_reader")
    undone.execute("grant all on all tables in schema holdfast_restore to positions_reader")
    undone.execute("set role positions_reader")
    try:
        placed(undone, between(5, 10))
        assert state(undone)[0] == 10
    finally:
        undone.execute("reset role; drop owned by positions_reader; drop role positions_reader")


def test_what_was_left_out_is_not_set_and_an_extensions_own_is_named(undone: Session) -> None:
    make(undone)
    [told] = placed(undone, at_end(5, name="gone"), at_end(7), at_end(9, name="of_it", extension="keeper"))
    assert state(undone) == (7, True)
    assert (told.what, told.reason) == (
        "where sequence public.of_it stood",
        "extension keeper has none here that this role may set",
    )
