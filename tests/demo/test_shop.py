"""The sample shop has what the demo promises, gives the same rows each time, and keeps busy on demand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from demo import prove, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.postgresql.connection.server import PostgresServer

pytestmark = pytest.mark.service


def query(conninfo: str, text: str) -> list[Any]:
    with psycopg.connect(conninfo) as connection:
        return [row[0] for row in connection.execute(text.encode()).fetchall()]


def test_the_same_scale_gives_the_same_database(server: PostgresServer, original: str) -> None:
    again = shop.create(server.conninfo(), "again", scale=0.02)

    assert prove.compare(prove.fingerprint(original), prove.fingerprint(again)) == []


def test_shop_has_every_kind_of_object(original: str) -> None:
    kinds = query(original, "select distinct relkind from pg_class where relnamespace >= 16384")
    assert set(kinds) >= {"r", "p", "i", "I", "S", "v", "m", "c"}
    assert query(original, "select relname from pg_class where relpersistence = 'u' and relkind = 'r'") == ["cart"]
    assert query(original, "select relname from pg_class where relrowsecurity") == ["employee"]
    assert query(original, "select conname from pg_constraint where condeferrable") == ["department_head"]
    assert sorted(query(original, "select distinct attgenerated from pg_attribute")) == ["", "s", "v"]
    without_key = query(
        original,
        "select relname from pg_class c where relkind = 'r' and relnamespace = 'shop'::regnamespace and not exists"
        " (select from pg_index where indrelid = c.oid and indisprimary) order by 1",
    )
    assert without_key == ["cart", "discount_seasonal", "product_history", "visit"]


def test_writing_more_changes_several_tables_until_enough_rows(make_copy: Callable[[], str]) -> None:
    busy = make_copy()
    before = prove.fingerprint(busy)

    changed = shop.write_more(busy, rows=500)

    after = prove.fingerprint(busy)
    assert 500 <= changed < 1_000
    assert len([name for name in before.tables if before.tables[name] != after.tables[name]]) >= 8
    assert before.schema == after.schema


def test_writing_more_ends_when_told(make_copy: Callable[[], str]) -> None:
    stop = threading.Event()
    stop.set()

    assert shop.write_more(make_copy(), stop=stop) == 0


def test_writing_more_without_an_end_is_refused(original: str) -> None:
    with pytest.raises(ValueError, match="when to stop"):
        shop.write_more(original)


def test_a_dropped_shop_is_gone(server: PostgresServer) -> None:
    shop.create(server.conninfo(), "short lived", scale=0.001)
    shop.drop(server.conninfo(), "short lived")

    assert query(server.conninfo(), "select datname from pg_database where datname = 'short lived'") == []
