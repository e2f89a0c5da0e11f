"""What definitions ask is read of the server, and asked of another database by the name it has there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.definitions import Definition, NamedObject, read_definitions, read_uses
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]

MADE = """
create schema lib;
create type lib.word as (w text);
create function lib.same(lib.word, lib.word) returns bool language sql immutable as 'select true';
create operator lib.= (function = lib.same, leftarg = lib.word, rightarg = lib.word);
create function lib.fine(lib.word) returns bool language sql immutable as 'select true';
set search_path = lib, public;
create table public.t (id int, w lib.word, constraint c check (w is distinct from row('x')::lib.word and lib.fine(w)));
create domain public.d as lib.word constraint known check (value is distinct from row('x')::lib.word);
create view public.v as select nullif(w, row('x')::lib.word) as w from public.t;
create view public.plain as select id from public.t where id <> 1 and lib.fine(w);
set search_path = '';
"""
SAME = "operator lib.=(lib.word, lib.word)"


@pytest.fixture
def session(address: Address) -> Iterator[Session]:
    with connect(address) as opened:
        opened.execute(MADE)
        yield opened


def test_definitions_that_ask_an_operator_are_told_with_all_that_they_ask(session: Session) -> None:
    found = {str(each): {*map(str, each.uses)} for each in read_definitions(session)}
    assert found == {
        "table constraint public.t.c": {SAME, "function lib.fine(lib.word)"},
        "domain constraint public.d(known)": {SAME},
        "rule public.v._RETURN": {SAME},
    }


def test_each_is_named_with_what_it_is_a_part_of(session: Session) -> None:
    query = "select 'pg_class'::regclass::oid::int8, oid::int8 from pg_class where oid = 'public.v'::regclass"
    [view] = session.execute(query).fetchall()
    rule = next(each for each in read_definitions(session) if str(each).startswith("rule"))
    assert (len(rule.objects), rule.objects[1]) == (2, view)


def test_what_one_asks_is_read_by_its_name(session: Session) -> None:
    for each in read_definitions(session):
        assert read_uses(session, each) == {*map(str, each.uses)}
        copied = Definition.model_validate_json(each.model_dump_json())
        assert read_uses(session, copied) == read_uses(session, each)
    plain = NamedObject(kind="rule", names=("public", "plain", "_RETURN"), args=())
    assert read_uses(session, Definition(objects=(), named=plain, uses=())) == {"function lib.fine(lib.word)"}
