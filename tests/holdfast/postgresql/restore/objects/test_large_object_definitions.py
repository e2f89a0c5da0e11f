"""Large objects are created once, and what their restorer may not give them is named.

What they hold, and the way there and back, is in tests/holdfast/postgresql/catalog/test_large_objects.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.large_objects import Grant, LargeObjectGroup
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.objects.object_creation import create_large_objects
from holdfast.postgresql.restore.plan import ledger

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]
OWNER, READER = "definitions_owner", 'definitions "reader"'


@pytest.fixture
def session(begun: Session) -> Iterator[Session]:
    begun.execute(f'create role {OWNER}; create role "definitions ""reader"""'.encode())
    yield begun
    begun.execute(f'drop owned by {OWNER}, "definitions ""reader"""'.encode())
    begun.execute(f'drop role {OWNER}, "definitions ""reader"""'.encode())


def group(oids: str, owner: str = OWNER, **more: Any) -> LargeObjectGroup:
    return LargeObjectGroup(**{"oids": oids, "owner": owner, "grants": None, "comment": None, **more})


def grant(grantor: str, grantee: str, *, grantable: bool = False) -> Grant:
    return Grant(grantor=grantor, grantee=grantee, privilege="SELECT", grantable=grantable)


def there(session: Session) -> list[Any]:
    return session.execute(
        "select oid::int8, pg_get_userbyid(lomowner), lomacl::text, obj_description(oid, 'pg_largeobject') "
        "from pg_largeobject_metadata order by oid"
    ).fetchall()


def test_each_has_its_owner_and_comment_and_is_created_once(session: Session) -> None:
    wanted = group("7-8,20", comment="it's \\ one")
    assert create_large_objects(session, wanted) == []
    made = [(oid, OWNER, None, "it's \\ one") for oid in (7, 8, 20)]
    assert there(session) == made
    session.execute("alter large object 8 owner to postgres")
    assert create_large_objects(session, wanted) == []
    assert there(session)[1][1] == "postgres"


def test_one_that_is_there_already_stays_as_it_is(session: Session) -> None:
    session.execute("select lo_from_bytea(7, 'mine')")
    create_large_objects(session, group("7-8"))
    assert [(oid, owner) for oid, owner, *_ in there(session)] == [(7, "postgres"), (8, OWNER)]
    assert session.execute("select lo_get(7)").fetchone() == (b"mine",)


@pytest.mark.parametrize(
    ("grants", "rights"),
    [
        ((), "{}"),
        ((grant(OWNER, ""),), f"{{=r/{OWNER}}}"),
        ((grant(OWNER, READER, grantable=True), grant(READER, "")),
         f'{{"\\"definitions \\"\\"reader\\"\\"\\"=r*/{OWNER}","=r/\\"definitions \\"\\"reader\\"\\"\\""}}'),
    ],
    ids=["nobody", "everybody", "given on"],
)  # fmt: skip
def test_privileges_are_those_that_were_recorded(session: Session, grants: tuple[Grant, ...], rights: str) -> None:
    assert create_large_objects(session, group("7", grants=grants)) == []
    assert there(session)[0][2] == rights


def test_what_the_role_may_not_give_is_named_and_stays_named(session: Session, address: Address) -> None:
    session.execute(f"alter role {OWNER} login password 'p'".encode())
    session.execute(f"grant create on database {address.database} to {OWNER}".encode())
    session.execute("drop schema holdfast_restore cascade")
    with connect(address.as_user(OWNER, "p")) as plain:
        ledger.create_ledger(plain, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        left = create_large_objects(plain, group("7-9", owner="postgres", comment="kept"))
        assert [(each.what, each.statement) for each in left] == [
            ("owner of large object 7 and 2 more",
             "; ".join(f'alter large object {oid} owner to "postgres"' for oid in (7, 8, 9)) + ";"),
        ]  # fmt: skip
        assert 'must be able to SET ROLE "postgres"' in left[0].reason
        assert create_large_objects(plain, group("7-9", owner="postgres", comment="kept")) == left
    assert there(session) == [(oid, OWNER, None, "kept") for oid in (7, 8, 9)]
    session.execute("drop schema holdfast_restore cascade")


def test_more_than_one_transaction_takes_make_several_steps(session: Session) -> None:
    create_large_objects(session, group("1000-1600"))
    assert session.execute("select count(*) from pg_largeobject_metadata").fetchone() == (601,)
    assert [step for step in ledger.read_steps(session) if step.startswith("large objects")] == [
        "large objects 1000",
        "large objects 1500",
    ]
