"""A catalog of a database with little in it, and a database in which a restore has begun."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog import Catalog
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.snapshot.snapshot import hold_snapshot


@pytest.fixture
def catalog(address: Address) -> Catalog:
    """Of a database with a table, a sequence, and materialised views that read each other."""
    with connect(address) as session:
        session.execute("create table public.orders (id int, name text)")
        session.execute("create sequence public.numbers")
        session.execute("select setval('public.numbers', 41)")
        session.execute("create materialized view public.b as select count(*) as n from public.orders")
        session.execute("create materialized view public.a as select n from public.b")
    with hold_snapshot(address) as held:
        return held.catalog


@pytest.fixture
def begun(address: Address) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's session in a database in which a restore has noted that it is at work, and nothing else."""
    with connect(address) as session:
        ledger.create_ledger(session, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        yield session


@pytest.fixture(scope="session")
def begun_once(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """Such a session for all tests that ask for `undone`."""
    with connect(Address(postgres.url(), postgres.password)) as admin:
        admin.execute("create database begun strategy file_copy")
    with connect(Address(postgres.url("begun"), postgres.password)) as session:
        ledger.create_ledger(session, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        yield session


@pytest.fixture
def undone(begun_once: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """As `begun`, but cheaper: in a transaction that is undone, of which other sessions see nothing."""
    with begun_once.transaction(force_rollback=True):
        yield begun_once
