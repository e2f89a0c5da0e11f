"""Large objects come back page by page, with owner, privileges and comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from holdfast.common.errors import RefusedError
from holdfast.postgresql.catalog import large_objects
from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.objects.object_creation import create_large_objects
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.plan.empty_target import check_empty
from holdfast.postgresql.restore.rows.load import content_hash
from holdfast.postgresql.snapshot.snapshot import hold_snapshot
from holdfast.postgresql.snapshot.table_reader import Piece, cut, open_reader
from holdfast.postgresql.values.content_hash import ContentHash
from holdfast.postgresql.values.decode import Decoder

pytestmark = pytest.mark.service

WRITE = "x'60000'::int"

OBJECTS = f"""
begin;
select lo_create(70000);
select lo_from_bytea(70001, repeat('a', 5000)::bytea);
select lo_from_bytea(70002, decode(repeat('00ff', 3000), 'hex'));
select lo_from_bytea(70003, repeat('c', 100)::bytea), lo_put(70003, 10000, 'behind a hole');
select lo_from_bytea(70004, repeat('d', 9000)::bytea), lo_truncate64(lo_open(70004, {WRITE}), 4096);
select lo_create(70005), lo_truncate64(lo_open(70005, {WRITE}), 409600);
select lo_from_bytea(70006, repeat('f', 6000)::bytea), lo_truncate64(lo_open(70006, {WRITE}), 2048);
select lo_put(70006, 81920, 'written behind a page that was emptied');
select lo_create(80000);
select lo_create(4294967295);
alter large object 70001 owner to lob_owner;
alter large object 70003 owner to lob_owner;
grant select on large object 70001 to lob_reader with grant option;
grant select, update on large object 70001 to "Lob friend";
revoke update on large object 70003 from lob_owner;
grant select on large object 70004 to public;
comment on large object 70002 is 'it''s a photograph';
set local role lob_reader;
grant select on large object 70001 to public;
commit;
"""

SIZES = "select lo_lseek64(lo_open(oid, x'40000'::int), 0, 2) from pg_largeobject_metadata order by oid"

DEFINITIONS = """
select oid::int8, pg_get_userbyid(lomowner), lomacl::text, obj_description(oid, 'pg_largeobject')
from pg_largeobject_metadata order by oid
"""


@pytest.fixture(scope="module", autouse=True)
def roles(postgres: PostgresServer) -> None:
    with connect(Address(postgres.url(), postgres.password)) as session:
        session.execute('create role lob_owner; create role lob_reader; create role "Lob friend"')
        session.execute("create role lob_plain login password 'p' in role pg_read_all_data")


@pytest.fixture
def source(new_database: Callable[..., Address]) -> Address:
    address = new_database()
    with connect(address) as session:
        for statement in filter(str.strip, OBJECTS.split(";\n")):
            session.execute(statement.encode())
    return address


def keep(address: Address, piece_bytes: int = 1 << 20) -> tuple[Catalog, list[pa.RecordBatch]]:
    """Return what a backup keeps of a database's large objects."""
    with hold_snapshot(address) as held:
        table = held.catalog.large_objects
        assert table is not None
        decoder = Decoder(table.columns)
        with open_reader(address, held.snapshot, [table]) as reader:
            pieces = cut(table, piece_bytes)
            return held.catalog, [batch for piece in pieces for batch in reader.batches(piece, decoder)]


def bring_back(address: Address, catalog: Catalog, batches: list[pa.RecordBatch]) -> None:
    with connect(address) as session:
        if ledger.read_ledger(session) is None:
            ledger.create_ledger(session, ledger.TargetClaim("archive", "block", (), (), 1, "run"))
        for group in catalog.large_object_groups:
            assert create_large_objects(session, group) == []
        with session.transaction(), session.cursor() as cursor:
            assert large_objects.put_pages(cursor, batches) == sum(batch.num_rows for batch in batches)


def rows(address: Address, query: str) -> list[Any]:
    with connect(address) as session, session.transaction():
        return session.execute(query.encode()).fetchall()


def test_large_objects_come_back_with_their_holes_ends_owners_privileges_and_comments(
    source: Address, new_database: Callable[..., Address]
) -> None:
    catalog, batches = keep(source)
    target = new_database()
    bring_back(target, catalog, batches)
    contents = "select oid::int8, lo_get(oid) from pg_largeobject_metadata order by oid"
    assert rows(target, contents) == rows(source, contents)
    assert rows(target, DEFINITIONS) == rows(source, DEFINITIONS)
    assert rows(target, SIZES) == rows(source, SIZES)
    pages = "select loid::int8, pageno, data from pg_largeobject order by 1, 2"
    lost = [row for row in rows(source, pages) if row not in rows(target, pages)]
    assert lost == [(70006, 1, b"")]
    assert len(rows(target, pages)) == len(rows(source, pages)) - 1
    # The hash that the archive keeps is that of the target.
    table = catalog.large_objects
    assert table is not None
    digest = sum((Decoder(table.columns).digest(batch) for batch in batches), ContentHash())
    with connect(target) as session:
        assert content_hash(session, table) == digest
        session.execute("select lo_put(70003, 10000, 'B')")
        assert content_hash(session, table) != digest


def test_bringing_them_back_again_changes_nothing(source: Address, new_database: Callable[..., Address]) -> None:
    catalog, batches = keep(source)
    target = new_database()
    bring_back(target, catalog, batches)
    before = rows(target, DEFINITIONS), rows(target, "select * from pg_largeobject order by 1, 2")
    bring_back(target, catalog, batches[::-1])
    assert (rows(target, DEFINITIONS), rows(target, "select * from pg_largeobject order by 1, 2")) == before


def test_pages_are_read_in_pieces_and_written_in_any_order(
    address: Address, new_database: Callable[..., Address]
) -> None:
    with connect(address) as session:
        session.execute(
            "select lo_from_bytea(0, decode(string_agg(md5(i::text || j), ''), 'hex')) "
            "from generate_series(1, 30) i, generate_series(1, 1000) j group by i"
        )
        # The rows of one object are no longer beside each other.
        session.execute("select lo_put(loid, pageno * 2048, 'X') from pg_largeobject where pageno % 3 = 0")
        session.execute("analyze pg_largeobject")
    catalog, batches = keep(address, piece_bytes=1 << 16)
    assert catalog.large_objects is not None
    assert len(cut(catalog.large_objects, 1 << 16)) > 3
    target = new_database()
    bring_back(target, catalog, batches[::-1])
    contents = "select oid::int8, md5(lo_get(oid)) from pg_largeobject_metadata order by oid"
    assert rows(target, contents) == rows(address, contents)


def test_whoever_owns_them_backs_them_up_and_restores_them_without_being_a_superuser(
    new_database: Callable[..., Address],
) -> None:
    databases = new_database(), new_database()
    with connect(databases[1]) as session:
        session.execute(f"grant create on database {databases[1].database} to lob_plain".encode())
    source, target = (each.as_user("lob_plain", "p") for each in databases)
    with connect(source) as session:
        session.execute("select lo_from_bytea(1, 'mine'), lo_create(2), lo_put(2, 5000, 'mine, too')")
        session.execute("grant select on large object 2 to lob_reader")
        session.execute("select lo_truncate(lo_open(1, x'20000'::int), 2048)")
    catalog, batches = keep(source)
    with connect(target) as session:
        large_objects.check_comparable(session, target)
    bring_back(target, catalog, batches)
    assert catalog.large_objects is not None
    with connect(source) as one, connect(target) as other:
        assert content_hash(one, catalog.large_objects) == content_hash(other, catalog.large_objects)
    assert rows(target, DEFINITIONS) == rows(source, DEFINITIONS)


def test_many_definitions_take_one_line(address: Address) -> None:
    with connect(address) as session:
        session.execute("select lo_create(o) from generate_series(90000, 91999) o where o <> 90500")
    catalog, _ = keep(address)
    (group,) = catalog.large_object_groups
    assert (group.oids, group.grants, group.comment) == ("90000-90499,90501-91999", None, None)
    assert list(group.each()) == [*range(90000, 90500), *range(90501, 92000)]
    assert Catalog.model_validate_json(catalog.model_dump_json()) == catalog


def test_without_large_objects_there_is_nothing_of_them_in_the_record(address: Address) -> None:
    with hold_snapshot(address) as held:
        assert (held.catalog.large_objects, held.catalog.large_object_groups) == (None, ())
        assert held.catalog.with_rows() == ()


def test_they_are_chosen_and_excluded_like_a_table(source: Address) -> None:
    catalog, _ = keep(source)
    assert [table.label for table in catalog.with_rows(["*.*"])] == ["pg_catalog.pg_largeobject"]
    assert catalog.with_rows(exclude=["pg_catalog.*"]) == ()
    assert catalog.tables == ()


def test_owners_and_whoever_may_use_them_are_among_the_roles(source: Address) -> None:
    catalog, _ = keep(source)
    assert set(catalog.roles) == {"lob_owner", "lob_reader", "Lob friend", "postgres"}


def test_the_owner_of_an_object_with_a_low_oid_is_among_the_roles(address: Address) -> None:
    with connect(address) as session:
        session.execute("select lo_create(1)")
    assert keep(address)[0].roles == ("postgres",)


def test_a_target_with_a_large_object_is_not_empty(source: Address) -> None:
    with connect(source) as session, pytest.raises(RefusedError, match="large object 70000, large object 70001"):
        check_empty(session, source)


def test_whoever_may_not_read_them_back_is_refused(address: Address) -> None:
    with connect(address) as session:
        large_objects.check_comparable(session, address)
        session.execute("set role lob_reader")
        with pytest.raises(RefusedError, match=r"may not read those of .*: grant pg_read_all_data to"):
            large_objects.check_comparable(session, address)


def test_the_last_piece_has_all_conditions(source: Address) -> None:
    catalog, _ = keep(source)
    assert catalog.large_objects is not None
    condition = Piece(catalog.large_objects, 1, 10, None, 0).condition()
    assert condition.endswith("and ctid operator(pg_catalog.>=) '(10,0)'::pg_catalog.tid")
