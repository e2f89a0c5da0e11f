"""What a stream's state means for the archive that it is to go on; real streams are in test_stream.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream_state import (
    ExpectedStream,
    StreamState,
    database_oid,
    look,
    lost_tables,
    retention_warning,
    system_identifier,
    why_broken,
)

GB = 1_000_000_000
EXPECTED = ExpectedStream(
    name="holdfast_x",
    position="0/2000000",
    publication_oid=5,
    publication_version="5 9",
    followed={1: 10, 2: 20},
    system_identifier="77",
    timeline=3,
)
STATE = StreamState(
    name="holdfast_x", plugin="pgoutput", database="shop", usable=True, active_pid=None, wal_status="reserved",
    invalidation_reason=None, position="0/2000000", restart="0/1000000", retained_bytes=GB, safe_wal_size=None,
    catalog_xmin_age=1, failover=True, publication_oid=5, publication_version="5 9", publication_problem="",
    followed={1: 10, 2: 20}, system_identifier="77", timeline=3, standby=False, end="0/3000000",
)  # fmt: skip


def test_a_stream_that_goes_on_where_the_archive_ends_is_whole() -> None:
    assert why_broken(EXPECTED, STATE) == ""
    # A crash came before the slot was advanced.
    assert why_broken(EXPECTED, replace(STATE, position="0/1FFFFFF")) == ""
    unknown = ExpectedStream(name="holdfast_x", position="0/2000000", publication_oid=5)
    assert why_broken(unknown, STATE) == ""


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"system_identifier": "78"}, "the server is another one: system 78, not 77"),
        ({"standby": True}, "the server is a standby now"),
        (
            {"timeline": 4},
            "a standby took over (timeline 4, before 3): the old server's last changes may be in the archive, and not "
            "here",
        ),
        (
            {"end": "0/1FFF000"},
            "the server's log ends at 0/1FFF000, before the archive's end at 0/2000000: it was brought back to an "
            "earlier state",
        ),
        (
            {"usable": False, "plugin": "test_decoding", "database": ""},
            "slot holdfast_x is not ours any more: test_decoding, database none",
        ),
        ({"wal_status": "lost"}, "the server has given up slot holdfast_x: its log was removed"),
        ({"invalidation_reason": "rows_removed"}, "the server has given up slot holdfast_x: rows removed"),
        (
            {"position": "0/2000001"},
            "slot holdfast_x is at 0/2000001, and the archive ends at 0/2000000: somebody advanced it or made it anew",
        ),
        ({"publication_oid": 0}, "publication holdfast_x is gone"),
        (
            {"publication_oid": 6},
            "publication holdfast_x was made anew, and did not exist for some of the changes",
        ),
        ({"publication_problem": "it publishes nothing"}, "it publishes nothing"),
        ({"publication_version": "5 10"}, "the options of publication holdfast_x were changed meanwhile"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_stream_that_lost_something_says_why(changed: dict[str, Any], why: str) -> None:
    assert why_broken(EXPECTED, replace(STATE, **changed)) == why


def test_the_gravest_reason_comes_first() -> None:
    broken = replace(STATE, system_identifier="78", usable=False, publication_oid=0, position="0/9000000")
    assert why_broken(EXPECTED, broken).startswith("the server is another one")


@pytest.mark.parametrize(("end", "broken"), [("0/1FFFFD8", False), ("0/1FFFFD0", True)])
def test_a_log_may_end_a_page_header_before_the_archive(end: str, broken: bool) -> None:
    assert bool(why_broken(EXPECTED, replace(STATE, end=end))) is broken


@pytest.mark.parametrize(
    ("system", "why"),
    [
        (None, "slot holdfast_x is gone: somebody dropped it"),
        ("77", "slot holdfast_x is gone: somebody dropped it"),
        (
            "78",
            "the server is another one: system 78, not 77, where slot holdfast_x keeps the log until holdfast source "
            "remove drops it there",
        ),
    ],
)
def test_a_slot_that_is_missing_may_be_on_another_server(system: str | None, why: str) -> None:
    assert why_broken(EXPECTED, None, system) == why


def test_tables_that_left_or_came_back_may_miss_changes_and_new_ones_miss_none() -> None:
    assert lost_tables(EXPECTED, replace(STATE, followed={1: 10, 2: 21, 3: 30})) == {
        2: "it left the publication, and came back"
    }
    assert lost_tables(EXPECTED, replace(STATE, followed={2: 20})) == {1: "it left the publication, or was dropped"}
    assert lost_tables(EXPECTED, STATE) == {}


@pytest.mark.parametrize(
    ("changed", "limit", "warning"),
    [
        ({}, GB, ""),
        ({}, GB - 1, "keeps 1.00 GB of the server's log, more than max_retained_wal (1.00 GB), until the disk is full"),
        ({"safe_wal_size": GB // 4}, 2 * GB, ""),
        (
            {"safe_wal_size": GB // 4 - 1},
            2 * GB,
            "keeps 1.00 GB of the server's log, and after 0.25 GB more the server gives it up",
        ),
        ({"wal_status": "unreserved", "safe_wal_size": -5}, 2 * GB, "after 0.00 GB more the server gives it up"),
        ({"wal_status": "unreserved"}, 2 * GB, "after 0.00 GB more the server gives it up"),
        ({"wal_status": "lost"}, 0, ""),
    ],
    ids=["at the limit", "above it", "a fifth left", "less left", "unreserved", "no size", "lost"],
)
def test_a_warning_comes_while_something_can_be_done(changed: dict[str, Any], limit: int, warning: str) -> None:
    found = retention_warning(replace(STATE, **changed), limit)
    if warning:
        assert warning in found
        assert found.endswith(": back up changes now, or let holdfast source remove drop it")
    else:
        assert found == ""


@pytest.mark.service
def test_slots_of_others_are_seen_as_what_they_are(address: Address) -> None:
    with connect(address) as session:
        assert look(session, "state_none") is None
        session.execute("select pg_create_physical_replication_slot('state_physical')")
        session.execute("select pg_create_logical_replication_slot('state_two', 'pgoutput', false, true)")
        try:
            physical, two_phase = look(session, "state_physical"), look(session, "state_two")
        finally:
            session.execute("select pg_drop_replication_slot(s) from unnest(array['state_physical', 'state_two']) s")
        assert physical is not None
        assert (physical.usable, physical.plugin, physical.position) == (
            False,
            "no plugin: it is a physical slot",
            "0/0",
        )
        assert two_phase is not None
        assert (two_phase.usable, two_phase.plugin, two_phase.database) == (False, "pgoutput", address.database)
        assert (two_phase.publication_oid, two_phase.followed, two_phase.timeline) == (0, {}, 1)
        assert two_phase.system_identifier == system_identifier(session)
        there = session.execute("select oid::int8 from pg_database where datname = %s", (address.database,)).fetchone()
        assert there == (database_oid(session),)
