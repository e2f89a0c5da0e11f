"""Which changes of a database make its schema another one for who restores it."""

from __future__ import annotations

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.dump.dump import dump_schema
from holdfast.postgresql.dump.dump_entries import schema_digest
from holdfast.postgresql.snapshot.export import export_plain
from holdfast.postgresql.snapshot.snapshot import open_snapshot

pytestmark = pytest.mark.service


def digest_of(address: Address) -> str:
    with export_plain(address) as snapshot, open_snapshot(address, snapshot) as seen:
        dump, _ = dump_schema(address, snapshot, server_version=seen.catalog.server_version)
        return schema_digest(seen.catalog, dump)


CHANGES = (
    ("truncate a", True),
    ("vacuum full a", True),
    ("insert into a values (2, 'b'); analyze a", True),
    ("select nextval('a_id_seq'); select lo_create(0)", True),
    ("create table passing (); drop table passing", True),
    ("alter table a add n int", False),
    ("alter table a drop n; alter table a add n int", False),
    ("comment on table a is 'first'", False),
    ("grant select on a to public", False),
    ("create index on a (word)", False),
    ("alter sequence a_id_seq increment by 2", False),
    ("drop table a; create table a (id serial primary key, word text)", False),
)


def test_what_makes_it_another_one(address: Address) -> None:
    with connect(address) as session:
        session.execute("set search_path = public")
        session.execute("create table a (id serial primary key, word text)")
        session.execute("insert into a values (1, 'a')")
        before = digest_of(address)
        assert len(before) == 64
        for statements, same in CHANGES:
            for each in statements.split("; "):
                session.execute(each.encode())
            after = digest_of(address)
            assert (after == before) is same, statements
            before = after


def test_of_a_dump_that_nobody_can_read_nothing_is_known(address: Address) -> None:
    with export_plain(address) as snapshot, open_snapshot(address, snapshot) as seen:
        assert schema_digest(seen.catalog, b"not a dump") == ""
