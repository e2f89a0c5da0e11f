"""Why a table may not be published, and what would mend it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.publishable import PublishableRelation, read_relations

OLD, NEW = 170004, 180000


def relation(**told: Any) -> PublishableRelation:
    """Return a table with a primary key that it is identified by, unless `told` says otherwise."""
    plain = {"oid": 7, "table_schema": "shop", "name": "Orders", "kind": "r", "persistence": "p", "ours": True,
             "identity": "d", "indexed": True, "generated": False, "any_generated": False, "parent": None,
             "owner": "ann", "owned": True}  # fmt: skip
    return PublishableRelation(**{**plain, **told})


ALTER = 'alter table "shop"."Orders" replica identity '
FULL = f"{ALTER}full, or give it a key"


@pytest.mark.parametrize(
    ("told", "why", "remedy"),
    [
        ({"indexed": False}, "it has no primary key", FULL),
        ({"indexed": None}, "its primary key is deferrable", FULL),
        ({"identity": "i", "indexed": False}, "the index of its replica identity is gone", FULL),
        ({"generated": True, "any_generated": True}, "its replica identity has a generated column", FULL),
        ({"identity": "n"}, "its replica identity is nothing", f"{ALTER}default"),
        ({"identity": "n", "indexed": False}, "its replica identity is nothing", FULL),
    ],
)
def test_what_cannot_be_told_apart_is_told_with_its_remedy(told: dict[str, Any], why: str, remedy: str) -> None:
    found = relation(**told)
    assert found.why_no_identity(OLD) == why
    assert found.remedy(OLD) == remedy
    assert found.full_helps(OLD)


def test_a_usable_identity_needs_nothing() -> None:
    for found in (relation(), relation(identity="i"), relation(identity="f"), relation(any_generated=True)):
        assert found.why_no_identity(NEW) == ""
        assert not found.full_helps(NEW)


def test_whole_old_rows_with_a_generated_column_are_refused_by_newer_servers_alone() -> None:
    found = relation(identity="f", any_generated=True, indexed=False)
    assert found.why_no_identity(OLD) == ""
    assert found.why_no_identity(NEW) == "its replica identity is full, and it has a generated column"
    assert found.remedy(NEW) == f"{ALTER}using a unique index without it"
    assert not found.full_helps(NEW)
    assert relation(identity="f", any_generated=True).remedy(NEW) == f"{ALTER}default"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, ""),
        ({"ours": False, "persistence": "u"}, "it belongs to an extension or to PostgreSQL itself"),
        ({"persistence": "u"}, "it is unlogged, and its changes are in no log: alter table … set logged"),
    ],
)
def test_what_is_in_no_log_or_nobodys_is_never_published(told: dict[str, Any], why: str) -> None:
    assert relation(**told).why_never() == why
    assert relation(indexed=False, **told).full_helps(OLD) is (why == "")


def test_the_root_of_partitions_gets_no_identity_of_its_own() -> None:
    assert not relation(kind="p", indexed=False).full_helps(OLD)
    assert (relation().label, relation().sql) == ("shop.Orders", '"shop"."Orders"')


TABLES = """
create schema s; create role publishable_owner;
create table s.keyed (id int primary key, twice int generated always as (id * 2) stored);
create table s.by_index (id int not null unique, code int primary key);
alter table s.by_index replica identity using index by_index_id_key;
create table s.deferred (id int primary key deferrable);
create table s.none (id int); alter table s.none drop column id;
create table s.computed (x int, y int generated always as (x + 1) stored primary key);
create unlogged table s.unlogged (id int primary key);
create table s.root (id int primary key) partition by list (id);
create table s.part partition of s.root for values in (1);
alter table s.part replica identity full;
create temporary table passing (id int);
create view s.seen as select 1;
create extension pg_trgm schema s;
create table s.of_it (id int primary key); alter extension pg_trgm add table s.of_it;
alter table s.none owner to publishable_owner;
"""


@pytest.mark.service
def test_the_server_tells_what_each_table_is_identified_by(address: Address) -> None:
    with connect(address) as session:
        session.execute(TABLES)
        try:
            found = {each.name: each for each in read_relations(session).values()}
            session.execute("grant usage on schema s to publishable_owner; set role publishable_owner")
            owned = {each.name for each in read_relations(session).values() if each.owned}
        finally:
            session.execute("reset role; drop owned by publishable_owner; drop role publishable_owner")
    told = {
        name: (each.kind, each.persistence, each.ours, each.identity, each.indexed, each.generated, each.any_generated)
        for name, each in found.items()
    }
    assert told == {
        "by_index": ("r", "p", True, "i", True, False, False),
        "computed": ("r", "p", True, "d", True, True, True),
        "deferred": ("r", "p", True, "d", None, False, False),
        "keyed": ("r", "p", True, "d", True, False, True),
        "none": ("r", "p", True, "d", False, False, False),
        "of_it": ("r", "p", False, "d", True, False, False),
        "part": ("r", "p", True, "f", True, False, False),
        "root": ("p", "p", True, "d", True, False, False),
        "unlogged": ("r", "u", True, "d", True, False, False),
    }
    assert found["part"].parent == found["root"].oid
    assert {name for name, each in found.items() if each.parent is None} == set(found) - {"part"}
    assert (owned, found["none"].owner) == ({"none"}, "publishable_owner")
