"""What happens to databases while their changes are backed up, and is easily got wrong.

Each transaction's rows are told by the server itself; each of these moments is then looked up in the archive. Jobs run
without Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.archive import locks
from holdfast.archive.format.commits import commit_key
from holdfast.archive.history import restore_points
from holdfast.archive.maintenance import copy_archive
from holdfast.common.errors import DamagedError, RefusedError
from holdfast.common.lsn import parse_position
from holdfast.operations import backup_run
from holdfast.operations.backup_decision import expected_stream, newest_with_stream
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.server import PostgresServer
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.connection.sql import ident
from holdfast.sources.postgresql.setup.stream_readiness import check_stream
from holdfast.sources.postgresql.snapshot.snapshot import HeldSnapshot, hold_snapshot
from holdfast.storage import open_store
from locking import Owner
from sparkjobs.driver import log_windows
from tests.support.followed import Followed, agree, comes_back, open_followed
from tests.support.servers import create_database, drop_slots
from tests.support.versions import running

pytestmark = pytest.mark.service

_WAIT_S = 30.0

NewDatabase = Callable[..., Address]


@pytest.fixture
def followed(address: Address, tmp_path: Path) -> Iterator[Followed]:
    with open_followed(address, tmp_path / "archive") as opened:
        yield opened


def oids(followed: Followed, *names: str) -> set[int]:
    query = "select name::regclass::oid::int8 from unnest(%s::text[]) name"
    return {oid for (oid,) in followed.session.execute(query, (list(names),))}


def test_what_the_log_does_not_tell_is_begun_anew_and_all_else_goes_on(
    followed: Followed, new_database: NewDatabase
) -> None:
    keyed = "id int primary key"
    followed.run(
        "create type mood as enum ('sad', 'happy')",
        "create type place as (x int)",
        f"create table retyped ({keyed}, n int)",
        f"create table emptied ({keyed}, n int)",
        f"create table defaulted ({keyed})",
        f"create table labelled ({keyed}, mood mood)",
        f"create table placed ({keyed}, place place)",
        "create table indexed (a int not null, b int not null, constraint one unique (a), constraint other unique (b))",
        "alter table indexed replica identity using index one",
        f"create table whole ({keyed})",
        "create table parts (part int, id int, primary key (part, id)) partition by list (part)",
        "create table part_1 partition of parts for values in (1)",
        "create table part_2 partition of parts for values in (2)",
        f"create table vacuumed ({keyed}, n int)",
        f"create table emptied_only ({keyed})",
        f"create table same ({keyed}, old text, word varchar(3), price numeric(5,2))",
    )
    for table in ("retyped", "emptied", "vacuumed", "labelled (id)", "placed (id)"):
        followed.run(f"insert into {table} values (1), (2)")
    followed.run("update labelled set mood = 'sad'", "update placed set place = row(1)::place")
    followed.run("insert into parts values (1, 1), (2, 1)", "insert into indexed values (1, 10), (2, 20)")
    followed.run("insert into same values (1, 'a', 'b', 1)", "insert into defaulted values (1)")
    followed.run("insert into emptied_only values (1)", "insert into whole values (1)")
    followed.back_up()
    first = len(followed.moments)
    followed.run("alter table retyped alter n type text using 'x' || n")
    followed.run("truncate emptied", "insert into emptied values (5, 5)")
    followed.run("alter table emptied alter n type int using n + 1")
    followed.run("alter table defaulted add r float default random()")
    followed.run("alter type mood rename value 'sad' to 'blue'")
    followed.run("alter type place add attribute y int cascade")
    followed.run("alter table indexed replica identity using index other", "update indexed set a = 3 where b = 10")
    followed.run("alter table whole replica identity full")
    followed.run("alter table parts detach partition part_1")
    followed.run("insert into part_1 values (1, 2)")  # nobody publishes that
    followed.run("alter table parts attach partition part_1 for values in (1)")
    followed.session.execute("vacuum full vacuumed")
    followed.run("update vacuumed set n = 4 where id = 1", "insert into part_2 values (2, 2)")
    followed.run("truncate emptied_only", "insert into emptied_only values (7)")
    at = followed.run("alter table same drop old", "insert into same values (2, 'c', 2)")
    said = followed.back_up()
    begun = {"retyped", "emptied", "defaulted", "labelled", "placed", "indexed", "whole", "part_1"}
    assert set(said["begun"]) == {f"public.{name}" for name in begun}
    followed.run("update retyped set n = 'z'", "insert into placed values (3, row(1, 2))", "delete from whole")
    assert not followed.back_up().get("begun")
    exact = oids(followed, "part_2", "vacuumed", "emptied_only", "same")
    agree(followed, first, exact)
    assert comes_back(followed, "latest", new_database())["stale"] == []
    # Just before the tables' new snapshots their older rows do not fit: they are empty, and all else is there.
    stale = followed.restore(f"lsn:{at}", new_database(), schema="later")["stale"]
    assert {each["table"]: each["as_of"] is None for each in stale} == {
        f"public.{name}": name not in ("emptied", "indexed", "whole", "part_1") for name in begun
    }


@pytest.mark.exhaustive
def test_definitions_may_change_between_two_backups(followed: Followed, new_database: NewDatabase) -> None:
    followed.run(
        "create schema old",
        "create type mood as enum ('sad')",
        "create table old.t (id int primary key, word varchar(3), price numeric(5,2), gone text, mood mood)",
        "create table dropped (id int primary key)",
        "create table u (id int primary key, big text)",
        "alter table u alter big set storage external",
        "create sequence numbers",
        "insert into old.t values (1, 'a', 1.5, 'x', 'sad')",
        "insert into u select i, repeat(md5(i::text), 90) from generate_series(1, 3) i",
        "insert into dropped values (1)",
    )
    followed.back_up()
    first = len(followed.moments)
    kept = oids(followed, "old.t", "u")
    followed.run("alter table old.t add extra int default 7", "insert into old.t values (2, 'b', 2, 'y', 'sad', 8)")
    followed.run("insert into dropped values (2)")
    followed.run("drop table dropped")
    followed.run("alter type mood add value 'happy'")
    followed.run("insert into old.t values (3, 'c', 3, 'z', 'happy', 9)")
    followed.run("update u set id = id + 10 where id = 1", "update u set id = id + 10 where id = 11")
    followed.run(
        "update u set id = -1 where id = 2", "update u set id = 2 where id = 3", "update u set id = 3 where id = -1"
    )
    followed.back_up()
    followed.run("alter table old.t rename word to words", "alter schema old rename to new")
    followed.run("alter table u rename to v", "update v set big = 'short' where id = 2")
    followed.back_up()
    followed.run("alter table new.t alter words type text", "insert into new.t values (4, 'longer', 4, '', 'sad', 1)")
    followed.back_up()
    followed.run("alter table new.t drop gone", "insert into new.t values (5, 'e', 5, 'happy', 1)")
    followed.back_up()
    agree(followed, first, kept)
    for position, _ in followed.moments[first::6]:
        comes_back(followed, f"lsn:{position}", new_database())


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
def test_a_table_that_was_renamed_keeps_its_rows_through_a_full_backup_of_others(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run("create table t (id int primary key)", "create table k (a int)", "insert into k values (1), (2)")
    followed.back_up()
    followed.run("alter table k rename to k2", "insert into t values (1)")
    followed.back_up()
    followed.back_up("full", "--tables", "public.t")
    followed.run("insert into t values (2)")
    followed.back_up()
    for at in ("latest", f"commit:{followed.archive().state.sequence - 1}"):
        target = new_database()
        (stale,) = followed.restore(at, target)["stale"]
        assert stale["table"] == "public.k2"
        assert stale["reason"].startswith("it has no primary key")
        with connect(target) as session:
            assert session.execute("select count(*) from public.k2").fetchone() == (2,)


@pytest.mark.exhaustive
def test_a_table_that_was_renamed_and_then_retyped_is_stale_for_the_reason_that_points_has(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run("create table k (id int primary key, a int)", "insert into k values (1, 1)")
    followed.back_up()
    followed.run("alter table k rename to k2")
    followed.back_up()
    followed.run("alter table k2 alter a type bigint")
    followed.run("insert into k2 values (2, 2)")
    at = followed.note()
    followed.run("insert into k2 values (3, 3)")
    followed.back_up()

    (stale,) = followed.restore(f"lsn:{at}", new_database())["stale"]

    (told,) = restore_points.describe(followed.archive().state)["sources"]
    (gap,) = [gap for gap in told["gaps"] if gap.get("table") == "public.k2"]
    assert stale["reason"].startswith(gap["reason"])
    assert "not in the publication" not in gap["reason"]


@pytest.mark.parametrize(
    "before",
    [
        ("alter table r detach partition p", "insert into p values (5, 5)"),
        pytest.param(("alter table p alter a type int using a * 100",), marks=pytest.mark.exhaustive),
    ],
)
def test_moments_before_a_table_was_dropped_say_what_nobody_knows_of_it(
    followed: Followed, before: tuple[str, ...]
) -> None:
    followed.run(
        "create table r (id int primary key, a int) partition by range (id)",
        "create table p partition of r for values from (0) to (100)",
        "create table other (id int primary key)",
        "insert into r values (1, 1)",
    )
    followed.back_up()
    if "alter a" in before[0]:
        followed.run("alter table r detach partition p")
    for statement in before:
        followed.run(statement)
    between = followed.run("insert into other values (1)")
    followed.run("drop table p")
    followed.back_up()
    moment = followed.moment(f"lsn:{between}")
    assert "table public.p went before the next backup" in moment.approximate
    assert "public.p" not in followed.moment("latest").approximate


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


def test_sequences_never_give_a_value_again(
    followed: Followed, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.run(
        "create sequence numbers", "create table t (id bigint primary key default nextval('numbers'), pad text)"
    )
    followed.back_up()
    first = len(followed.moments)
    monkeypatch.setattr(log_windows, "WINDOW_BYTES", 20_000)
    for _ in range(2):
        followed.run("insert into t (pad) select repeat('x', 500) from generate_series(1, 20)")
    followed.session.execute("alter table t add later int default 3")
    followed.run("insert into t (later) values (4)")
    assert followed.back_up()["commits"] > 1
    agree(followed, first, oids(followed, "t"))
    for position, rows in followed.moments[first::2]:
        target = new_database()
        comes_back(followed, f"lsn:{position}", target)
        (table,) = rows.values()
        with connect(target) as session:
            session.execute("set search_path = public")
            (following_one,) = session.execute("insert into t default values returning id").fetchone() or (0,)
        assert following_one > max(int(str(row[1])) for row in table.rows)


@pytest.mark.exhaustive
def test_a_sequence_that_was_set_back_later_is_behind_the_rows_of_a_moment_before(
    followed: Followed, new_database: NewDatabase
) -> None:
    followed.run(
        'create table "T" (id serial primary key, "N" bigint generated always as identity, down int)',
        'create sequence falling increment -1 owned by "T".down',
        'insert into "T" (down) select -i from generate_series(1, 5) i',
    )
    followed.back_up()
    position = followed.run('insert into "T" (down) select -i from generate_series(1, 25) i')
    followed.run('truncate "T" restart identity')
    followed.run('insert into "T" (down) values (-1)')
    followed.back_up()
    for at, expected in ((position, (31, 31)), (followed.moments[-1][0], (2, 2))):
        target = new_database()
        comes_back(followed, f"lsn:{at}", target)
        with connect(target) as session:
            given = session.execute('insert into public."T" (down) values (0) returning id, "N"').fetchone()
        assert given == expected


@pytest.fixture(scope="module")
def prepared() -> Iterator[PostgresServer]:
    """A server that knows prepared transactions."""
    settings = {"max_prepared_transactions": "5", "max_wal_senders": "20", "max_replication_slots": "20"}
    with running(PostgresServer(settings=settings)) as server:
        yield server


@pytest.fixture
def own(prepared: PostgresServer, tmp_path: Path) -> Iterator[Followed]:
    """A database of that server."""
    name = f"own_{tmp_path.name}"
    with connect(Address(prepared.url(), prepared.password)) as session:
        session.execute(f"create database {ident(name)}".encode())
    with open_followed(Address(prepared.url(name), prepared.password), tmp_path / "archive") as opened:
        yield opened


Begin = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def begin(own: Followed) -> Iterator[Begin]:
    """Begins a transaction of its own."""
    with ExitStack() as stack:

        def open_one(*statements: str) -> psycopg.Connection[Any]:
            session = stack.enter_context(connect(own.address))
            for each in ("set search_path = public", "begin", *statements):
                session.execute(each.encode())
            return session

        yield open_one


def wait_for(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def asked(followed: Followed, query: str) -> bool:
    with connect(followed.address) as session:
        return session.execute(query.encode()).fetchone() is not None


def test_transactions_that_are_open_over_backups_come_whole_and_once(own: Followed, begin: Begin) -> None:
    own.run("create table t (id int primary key)", "insert into t values (0)")
    own.back_up()
    first = len(own.moments)
    long = begin("insert into t values (1)")
    long.execute("savepoint a")
    long.execute("insert into t values (100)")
    long.execute("rollback to a")
    long.execute("savepoint b")
    long.execute("insert into t values (2)")
    own.run("insert into t values (3)")
    begin("insert into t values (4)", "prepare transaction 'p'")
    begin("insert into t values (101)", "prepare transaction 'q'")
    own.run("insert into t values (5)")
    own.back_up()
    long.execute("insert into t values (6)")
    own.run("insert into t values (7)")
    own.back_up()
    long.execute("commit")
    own.note()
    own.session.execute("commit prepared 'p'")
    own.note()
    own.session.execute("rollback prepared 'q'")
    own.run("insert into t values (8)")
    assert own.back_up()["rows"] == 6 - 1  # of 1, 2, 6; 4; and 8
    agree(own, first, oids(own, "t"))


_WAITS = "select 1 from pg_locks where locktype = 'transactionid' and not granted and transactionid = '{}'::xid"


def xid(session: psycopg.Connection[Any]) -> str:
    row = session.execute("select (pg_current_xact_id()::text::int8 % 4294967296)::text").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.representatives("in a stream")
@pytest.mark.parametrize("kind", ["full", "changes"], ids=["in a stream", "at the beginning of one"])
def test_a_snapshot_and_the_first_change_meet_exactly_while_commits_wait_for_standbys(
    own: Followed, begin: Begin, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A full backup's slot waits for what is open, twice; what begins meanwhile is open over its position.

    One of these ends before the position in the log, and is not visible by then to anybody: it waits for a standby that
    never comes.
    """
    local = "set local synchronous_commit = local"
    own.run("create table t (id int primary key)", "insert into t values (0)")
    if kind == "full":
        own.back_up()
    is_decided, go_on = threading.Event(), threading.Event()

    def hold(address: Address) -> AbstractContextManager[HeldSnapshot]:
        is_decided.set()
        assert go_on.wait(_WAIT_S)
        return hold_snapshot(address)

    monkeypatch.setattr(backup_run, "hold_snapshot", hold)
    results: list[Any] = []
    backup = threading.Thread(target=lambda: results.append(own.back_up(kind)))
    hung = threading.Thread()
    try:
        backup.start()
        assert is_decided.wait(_WAIT_S)  # a new stream has its slot
        with connect(own.address) as session:
            session.execute("alter system set synchronous_standby_names = 'nobody'")
            session.execute("select pg_reload_conf()")
        older = begin(local, "insert into t values (1)")
        go_on.set()
        wait_for(lambda: asked(own, _WAITS.format(xid(older))))
        old = begin(local, "insert into t values (2)")
        older.execute("commit")
        wait_for(lambda: asked(own, _WAITS.format(xid(old))))
        over = begin(local, "insert into t values (3)")
        waiting = begin("insert into t values (4)")
        hung = threading.Thread(target=waiting.execute, args=("commit",))
        hung.start()
        wait_for(lambda: asked(own, "select 1 from pg_stat_activity where wait_event = 'SyncRep'"))
        assert not asked(own, "select 1 from public.t where id = 4")
        old.execute("commit")
        backup.join(_WAIT_S)
        assert results, "the full backup has not ended"
        assert results[0]["snapshot_note"] == ""
        over.execute("insert into t values (5)")
        over.execute("commit")
    finally:
        with connect(own.address) as session:
            session.execute("alter system reset synchronous_standby_names")
            session.execute("select pg_reload_conf()")
        if hung.ident:
            hung.join(_WAIT_S)
        backup.join(_WAIT_S)
    own.run("insert into t values (6)")
    said = own.back_up()
    before_it = 3 if kind == "full" else 0  # 1, 2 and 4 are in the log and in the snapshot
    assert (said["commits"], said["rows"]) == (2 if kind == "full" else 1, before_it + 3)
    moment = own.moment("latest")
    assert moment.full.commit == results[0]["commit"]
    (table,) = own.tables_at(moment).values()
    assert table.only([1]) == [(str(number),) for number in range(7)]
    (before,) = own.tables_at(own.moment(f"commit:{results[0]['commit']}")).values()
    assert ("4",) in before.only([1])
    assert ("3",) not in before.only([1])


@pytest.mark.exhaustive
def test_a_partition_whose_commit_waits_for_a_standby_loses_no_row(own: Followed, begin: Begin) -> None:
    """Its rows are in the log that is read, though nobody sees it yet: it has to begin with a snapshot."""
    own.run("create table root (id int primary key) partition by list (id)", "create table t (id int primary key)")
    own.run("create table zero partition of root for values in (0)", "insert into root values (0)")
    own.back_up()
    own.run("insert into t values (1)")
    own.back_up()
    hung = threading.Thread()
    try:
        with connect(own.address) as session:
            session.execute("alter system set synchronous_standby_names = 'nobody'")
            session.execute("select pg_reload_conf()")
        waiting = begin("create table others partition of root default", "insert into root values (7), (8)")
        hung = threading.Thread(target=waiting.execute, args=("commit",))
        hung.start()
        wait_for(lambda: asked(own, "select 1 from pg_stat_activity where wait_event = 'SyncRep'"))
        assert not asked(own, "select 1 from pg_class where relname = 'others'")
        own.back_up()
    finally:
        with connect(own.address) as session:
            session.execute("alter system reset synchronous_standby_names")
            session.execute("select pg_reload_conf()")
        if hung.ident:
            hung.join(_WAIT_S)
    own.note()

    assert own.back_up()["begun"] == ["public.others"]

    own.run("insert into root values (9)", "insert into t values (2)")
    own.back_up()
    (table,) = (each for each in own.tables_at(own.moment("latest")).values() if each.label == "public.others")
    assert table.only([1]) == [("7",), ("8",), ("9",)]
    assert [gap["table"] for gap in restore_points.describe(own.archive().state)["sources"][0]["gaps"]] == [
        "public.others"
    ]


@pytest.mark.exhaustive
def test_a_time_before_a_table_was_dropped_has_it_and_none_of_what_came_later(followed: Followed) -> None:
    for name in ("orders", "customers"):
        followed.run(f"create table {name} (id int primary key, v text)", f"insert into {name} values (1, 'a')")
    followed.run("create table keyless (v text)", "insert into keyless values ('before')")
    followed.back_up()
    position = followed.run("update orders set v = 'b'")
    ((then,),) = followed.session.execute("select clock_timestamp()").fetchall()
    (_, truth) = followed.moments[-1]
    followed.session.execute("drop table customers")
    followed.session.execute("insert into keyless values ('after')")
    followed.session.execute("create table late (id int)")
    followed.back_up("full")
    followed.back_up()
    moment = followed.moment(then.isoformat())
    assert moment.position <= parse_position(position)
    assert followed.tables_at(moment) == truth
