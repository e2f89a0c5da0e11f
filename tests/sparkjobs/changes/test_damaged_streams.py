"""Streams that cannot go on as before: tampered with, behind commits that are lost, of another server, without rights.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from holdfast.archive import Archive, locks
from holdfast.archive.format.commits import commit_key
from holdfast.archive.history import restore_points
from holdfast.archive.maintenance import copy_archive
from holdfast.common.errors import DamagedError, RefusedError
from holdfast.operations.backup_decision import expected_stream, newest_with_stream
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.arrow_session import ArrowSession
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.connection.session_errors import BrokenOffError
from holdfast.postgresql.setup.stream_readiness import check_stream
from holdfast.storage import ObjectStore, open_store
from locking import Owner
from tests.support.following.followed import Followed, agree
from tests.support.following.followed_tables import oids
from tests.support.jobs.inline_jobs import RunJob, failed
from tests.support.servers.postgres import create_database, drop_slots

pytestmark = pytest.mark.service


NewDatabase = Callable[..., Address]


def test_a_stream_that_was_tampered_with_leaves_a_gap_that_is_named(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run("create table t (id int primary key)", "insert into t values (0)")
    followed.back_up()
    row = followed.session.execute("select slot_name from pg_replication_slots where database = current_database()")
    (name,) = row.fetchone() or ("",)
    make_slot = f"select pg_create_logical_replication_slot('{name}', 'pgoutput')"
    advance = f"select pg_replication_slot_advance('{name}', pg_current_wal_lsn())"
    tampering = {
        "was made anew": (f"drop publication {name}", f"create publication {name} for table t"),
        "is gone": (f"select pg_drop_replication_slot('{name}')",),
        "advanced it or made it anew": (f"select pg_drop_replication_slot('{name}')", make_slot),
        "somebody advanced it": (advance,),
        "publication": (f"alter publication {name} set (publish = 'insert')",),
    }
    followed.run("insert into t values (1)")
    followed.back_up()
    inside = [followed.moments[-1][0]]
    lost = []
    for number, statements in enumerate(tampering.values(), 2):
        lost.append(followed.run(f"insert into t values ({10 * number})"))
        for statement in statements:
            followed.session.execute(statement.encode())
        lost.append(followed.run(f"insert into t values ({10 * number + 1})"))
        if "publish =" in statements[-1]:
            followed.session.execute(f"drop publication {name}".encode())
        assert followed.back_up()["kind"] == "full"
        inside.append(followed.run(f"insert into t values ({10 * number + 2})"))
        assert followed.back_up()["kind"] == "changes"
    described = restore_points.describe(followed.archive().state)["sources"][0]
    assert len(described["intervals"]) == 1 + len(tampering)
    for gap, words in zip(described["gaps"], list(tampering)[:-1], strict=False):
        assert words in gap["reason"]
    known = dict(followed.moments)
    followed.moments[:] = [(position, known[position]) for position in inside]
    agree(followed, exactly=oids(followed, "t"))
    for position in lost:
        with pytest.raises(Exception, match="cannot be restored"):
            followed.moment(f"lsn:{position}")


def test_an_archive_that_has_lost_its_newest_commits_goes_on_with_a_full_backup_behind_a_gap(
    followed: Followed,
) -> None:
    followed.run("create table t (id int primary key)", "insert into t values (0)")
    followed.back_up()
    before = followed.run("insert into t values (1)")
    followed.back_up()
    kept = followed.archive().state.sequence
    lost = followed.run("insert into t values (2)")
    followed.back_up()
    followed.run("insert into t values (3)")
    followed.back_up()
    for number in range(kept + 1, followed.archive().state.sequence + 1):
        followed.store.delete(commit_key(number))
    assert followed.back_up()["kind"] == "full"
    after = followed.run("insert into t values (4)")
    assert followed.back_up()["kind"] == "changes"
    (gap,) = restore_points.describe(followed.archive().state)["sources"][0]["gaps"]
    assert "somebody advanced it" in gap["reason"]
    with pytest.raises(RefusedError, match="cannot be restored"):
        followed.moment(f"lsn:{lost}")
    truth = dict(followed.moments)
    followed.moments[:] = [(each, truth[each]) for each in (before, after)]
    agree(followed, exactly=oids(followed, "t"))


@pytest.mark.exhaustive
def test_what_was_before_a_damaged_commit_is_restored_and_a_copy_of_it_goes_on(
    followed: Followed, new_database: NewDatabase, tmp_path: Path
) -> None:
    followed.run("create table t (id int primary key)", "insert into t values (0)")
    followed.back_up()
    before = followed.run("insert into t values (1)")
    followed.back_up()
    kept = followed.archive().state.sequence
    lost = followed.run("insert into t values (2)")
    followed.back_up()
    followed.run("insert into t values (3)")
    followed.back_up()
    followed.store.put(commit_key(kept + 1), b"{}")
    for at in ("latest", f"lsn:{lost}", f"commit:{kept + 2}"):
        with pytest.raises(DamagedError, match=rf"{commit_key(kept + 1)} is.*the newest before that is commit:{kept},"):
            followed.restore(at, new_database())
    with pytest.raises(DamagedError, match="is damaged"):
        followed.back_up()
    for at in (f"lsn:{before}", f"commit:{kept}"):
        said = followed.restore(at, new_database())
        assert (said["rows"], said["equal"]) == (2, True)
        assert commit_key(kept + 1) in said["read_from"]["cut_off"]
    copied = copy_archive.copy(followed.store, open_store(str(tmp_path / "copy")), before_damage=True)
    assert (copied.commit, commit_key(kept + 1) in copied.left_out) == (kept, True)
    followed.store = open_store(str(tmp_path / "copy"))
    with locks.acquire(followed.store, "backup", sources=["shop"], owner=Owner(), purpose="test", wait=0) as held:
        followed.held = held
        assert followed.back_up()["kind"] == "full"
        assert followed.restore("latest", new_database())["rows"] == 4


@pytest.mark.exhaustive
def test_a_check_finds_what_the_next_backup_would(followed: Followed) -> None:
    def found() -> str:
        state = followed.archive().state
        known = newest_with_stream(state, "shop")
        assert known is not None
        assert known.head.stream is not None
        name = known.head.stream.slot
        expected = expected_stream(state, known, name)
        looked = check_stream(followed.address, name, (), (), expected=expected, limit_bytes=1 << 40)
        return "; ".join(each.what for each in looked.warnings if "joined" in each.what)

    followed.run("create table t (id int primary key)")
    followed.back_up()
    assert found() == ""
    query = "select pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) from pg_replication_slots"
    followed.run("insert into t values (1)")
    followed.session.execute(f"{query} where database = current_database()".encode())
    assert found().startswith("no changes can be joined to the archive")
    assert "somebody advanced it" in found()
    assert followed.back_up()["kind"] == "full"
    assert found() == ""


@pytest.mark.exhaustive
def test_a_source_that_is_another_server_now_is_named(followed: Followed, prepared: PostgresServer) -> None:
    followed.run("create table t (id int primary key)")
    followed.back_up()
    elsewhere = create_database(prepared)
    with connect(elsewhere) as session:
        session.execute("create table public.t (id int primary key)")
    followed.address = elsewhere
    assert followed.back_up("changes", "--moved")["kind"] == "full"
    drop_slots(elsewhere)
    (gap,) = restore_points.describe(followed.archive().state)["sources"][0]["gaps"]
    assert gap["reason"].startswith("the server is another one: system ")
    assert gap["reason"].endswith("keeps the log until holdfast source remove drops it there")


def test_a_role_that_lost_its_right_is_refused_before_anything_is_done(followed: Followed) -> None:
    followed.run("create table t (id int primary key)", "grant all on schema public to public")
    role = f"lost_{followed.address.database}"
    followed.session.execute(f"create role {role} login replication password 'p' in role pg_read_all_data".encode())
    try:
        followed.back_up()
        followed.address = Address(followed.address.url.replace("postgres@", f"{role}@"), "p")
        followed.session.execute(f"alter role {role} noreplication".encode())
        with pytest.raises(RefusedError, match=f"the role has no REPLICATION right: alter role {role} replication"):
            followed.back_up()
        assert len(followed.archive().state.blocks) == 1
    finally:
        followed.session.execute(f"drop role {role}".encode())


def test_what_is_not_published_goes_by_and_its_owner_may_change_it(followed: Followed) -> None:
    followed.run(
        "create table t (id int primary key)", "create table keyless (n int)", "insert into keyless values (1)"
    )
    assert followed.back_up()["kind"] == "full"
    before = followed.moments[-1][1]
    for _ in range(3):
        followed.run("update keyless set n = n + 1", "insert into keyless select i from generate_series(1, 1000) i")
    said = followed.back_up()
    assert (said["rows"], said["tables"], said["transactions"]) == (0, 0, 0)
    at = followed.session.execute(
        "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where database = current_database()",
        (followed.moments[-1][0],),
    )
    assert at.fetchone() == (True,)
    source = restore_points.describe(followed.archive().state)["sources"][0]
    assert "has no primary key" in source["not_followed"]["public.keyless"]
    (oid,) = oids(followed, "keyless")
    moment = followed.moment("latest")
    assert "has no primary key" in moment.tables()[str(oid)].stale
    assert followed.tables_at(moment)[oid].only([1]) == before[oid].only([1])


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
