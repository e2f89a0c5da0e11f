"""A catalog of a database with little in it."""

from __future__ import annotations

import pytest

from holdfast.sources.postgresql.catalog.catalog import Catalog
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect
from holdfast.sources.postgresql.snapshot.snapshot import hold_snapshot


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
