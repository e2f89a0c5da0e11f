"""A row in the log that no server can decode: it is named, and a new stream leads around it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from holdfast.archive import Archive
from holdfast.archive.history import restore_points
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import BrokenOffError
from holdfast.storage import ObjectStore
from tests.support.jobs.inline_jobs import RunJob, failed

pytestmark = pytest.mark.service

CHANGES = ("--kind", "changes")
RESTARTED = (*CHANGES, "--restart-stream", "stuck")

TOO_LARGE = (
    "[libpq] Execution error [PGRES_FATAL_ERROR]: ERROR: invalid memory alloc request size 1100000003 CONTEXT: slot "
    '"holdfast_b223136ed2e67776", output plugin "pgoutput", in the change callback, associated LSN 0/24C612D8'
)


@contextmanager
def stuck() -> Iterator[None]:
    """Have servers say of the log what they say of a row that is too large."""
    original = ArrowSession.batches

    def batches(session: ArrowSession, query: str) -> Generator[Any, None, None]:
        if "peek_binary_changes" in query:
            raise BrokenOffError(TOO_LARGE)
        yield from original(session, query)

    with patch.object(ArrowSession, "batches", batches):
        yield


def make(address: Address) -> None:
    with connect(address) as session:
        session.execute("create table public.t (id int primary key, v bytea)")
        session.execute("alter table public.t alter v set storage external")


def insert(address: Address, number: int) -> None:
    with connect(address) as session:
        session.execute("insert into public.t values (%s, 'one')", (number,))


def slots(session: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    query = "select slot_name from pg_replication_slots where database = current_database()"
    return session.execute(query).fetchall()


def test_a_row_that_cannot_be_decoded_is_named_and_the_stream_is_restarted_where_that_is_wanted(
    address: Address, store: ObjectStore, run_backup: RunJob
) -> None:
    make(address)
    assert run_backup(address, *CHANGES)[0] == 0
    insert(address, 1)
    with stuck():
        for _ in range(2):  # it is so the next time, too
            code, said = failed(run_backup(address, *CHANGES))
            assert (code, "the log at 0/24C612D8 has a row" in said, "--restart-stream" in said) == (5, True, True)
        assert Archive.open(store).state.sequence == 1
        code, record = run_backup(address, *RESTARTED)
        assert (code, record.result and record.result["kind"]) == (0, "full"), record.error
    insert(address, 3)
    code, record = run_backup(address, *RESTARTED)
    assert (code, record.result and record.result["kind"]) == (0, "changes"), record.error
    (gap,) = restore_points.describe(Archive.open(store).state)["sources"][0]["gaps"]
    assert gap["reason"].startswith("a new stream was begun: the log at 0/24C612D8 has a row")
    with connect(address) as session:
        assert len(slots(session)) == 1


@pytest.mark.exhaustive
def test_servers_say_so_of_a_value_of_half_a_gigabyte_that_was_deleted_again(
    address: Address, store: ObjectStore, run_backup: RunJob
) -> None:
    make(address)
    assert run_backup(address, *CHANGES)[0] == 0
    with connect(address) as session:
        tenth = "(select decode(repeat('00', 55000000), 'hex') d) s"
        session.execute(
            f"insert into public.t select 2, d || d || d || d || d || d || d || d || d || d from {tenth}".encode()
        )
        session.execute("delete from public.t where id = 2")
    code, said = failed(run_backup(address, *CHANGES))
    assert (code, "has a row that logical decoding cannot hold" in said) == (5, True)
    assert run_backup(address, *RESTARTED)[0] == 0
    insert(address, 3)
    code, record = run_backup(address, *RESTARTED)
    assert (code, record.result and record.result["kind"]) == (0, "changes"), record.error
    (gap,) = restore_points.describe(Archive.open(store).state)["sources"][0]["gaps"]
    assert gap["reason"].startswith("a new stream was begun: the log at ")
    with connect(address) as session:
        assert len(slots(session)) == 1
