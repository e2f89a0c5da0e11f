"""Restores that end while rows are aside, since conditions of their tables came later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from holdfast.postgresql.catalog.table import Table
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.rows import load, staging_tables
from tests.support.following.conditioned import (
    A_CHECK,
    GENERATED,
    change,
    nothing_is_left,
    rows,
)
from tests.support.following.followed import Followed

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


class EndedError(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize(
    "when",
    [
        pytest.param((("set_aside", "after"), ("bring_back", "before")), id="all aside"),
        pytest.param((("set_aside", "before"), ("bring_back", "after")), id="none", marks=pytest.mark.exhaustive),
    ],
)
def test_a_restore_that_ended_goes_on_with_rows_that_are_aside(
    followed: Followed,
    new_database: NewDatabase,
    monkeypatch: pytest.MonkeyPatch,
    when: Sequence[tuple[str, str]],
) -> None:
    change(followed, A_CHECK, *GENERATED)
    for step, moment in when:
        ends_and_goes_on(followed, new_database(), monkeypatch, step, moment)


def ends_and_goes_on(
    followed: Followed, target: Address, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    does = getattr(staging_tables, step)

    def ended(*given: object, **options: object) -> None:
        if moment == "after":
            does(*given, **options)
        raise EndedError

    with monkeypatch.context() as patched:
        patched.setattr(staging_tables, step, ended)
        with pytest.raises(Exception, match="EndedError"):
            followed.restore("latest", target)

    followed.restore("latest", target)
    assert rows(target) == rows(followed.address), (step, moment)
    assert nothing_is_left(target)


@pytest.mark.exhaustive
def test_who_is_late_loads_no_file_into_a_table_whose_rows_are_aside(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(followed, A_CHECK)
    target = new_database()
    loads: list[tuple[Table, str]] = []
    does = load.load_file

    def noted(session: object, table: Table, file: str, batches: object, **options: str) -> int:
        loads.append((table, file))
        return does(session, table, file, batches, **options)  # type: ignore[arg-type]

    def late(session: object, table: Table, **options: str) -> None:
        again = [(each, file) for each, file in loads if each.table_schema == "public" and each.oid == table.oid]
        with connect(target) as other:
            assert [does(other, each, file, iter(())) for each, file in again] == [0] * len(again)
        assert again
        loose_bring_back(session, table, **options)  # type: ignore[arg-type]

    loose_bring_back = staging_tables.bring_back
    monkeypatch.setattr("sparkjobs.tasks.restore_files.load_file", noted)
    monkeypatch.setattr(staging_tables, "bring_back", late)

    followed.restore("latest", target)

    assert rows(target) == rows(followed.address)


FORBIDS = (
    "create schema theirs",
    "create function theirs.no_drop() returns event_trigger language plpgsql as "
    "$$ begin raise exception 'dropping is forbidden here: %', tg_tag; end $$",
    "create event trigger forbid_drop on sql_drop execute function theirs.no_drop()",
)


@pytest.mark.exhaustive
def test_an_event_trigger_of_the_target_that_refuses_every_drop_ends_nothing(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(followed, A_CHECK, *GENERATED)
    target = new_database()
    with connect(target) as session:
        for statement in (*FORBIDS, "alter event trigger forbid_drop enable always"):
            session.execute(statement.encode())
    with monkeypatch.context() as patched:
        patched.setattr(staging_tables, "put_conditions_back", lambda session, table: 1 / 0)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            followed.restore("latest", target, "public.plain")

    followed.restore("latest", target, "public.*")  # another one: what the first one left is dropped

    assert rows(target) == rows(followed.address)
    assert nothing_is_left(target)
