"""What a lane's rule says its table holds is what its statements make of it, in a real server."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from holdfast.postgresql.connection.address import Address
from soak import lanes
from soak.lanes import NEW_COLUMN_EVERY, TRUNCATES_EVERY, TURNS, Lane


def test_turns_follow_from_seed_source_and_number_alone() -> None:
    lane = Lane(7, "shop", 0)
    assert lane.expected(20) == Lane(7, "shop", 0).expected(20)
    others = [Lane(8, "shop", 0), Lane(7, "books", 0), Lane(7, "shop", 1)]
    assert lane.expected(20).hash not in {other.expected(20).hash for other in others}
    assert lane.expected(19) != lane.expected(20)


def test_a_table_is_emptied_and_gets_columns_at_its_turns() -> None:
    lane = Lane(7, "shop", 0)
    before, after = lane.state(TRUNCATES_EVERY - 1), lane.state(TRUNCATES_EVERY)
    assert len(before.written) > len(after.written) > 0
    assert (lane.state(NEW_COLUMN_EVERY - 1).columns, lane.state(NEW_COLUMN_EVERY).columns) == (0, 1)


@pytest.mark.service
def test_a_server_holds_what_the_rule_says(
    new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "NEW_COLUMN_EVERY", 9)
    monkeypatch.setattr(lanes, "TRUNCATES_EVERY", 11)
    lane = Lane(7, "shop", 0)
    address = new_database()
    with psycopg.connect(address.url, password=address.password) as connection:
        connection.execute(f"create table {TURNS} (lane int primary key, turn bigint not null)")
        for statement in lane.create():
            connection.execute(statement)
        state = lane.state(0)
        for _ in range(30):
            for statement, values in lane.step(state):
                connection.execute(statement, values)
        assert lanes.turns(connection) == {0: 30}
        assert lane.found(connection) == lane.expected(30)
        connection.execute(f"update {lane.table} set word = 'another' where id = (select min(id) from {lane.table})")
        assert lane.found(connection) != lane.expected(30)
        connection.execute(f"delete from {lane.table} where id = (select max(id) from {lane.table})")
        assert lane.found(connection).rows == lane.expected(30).rows - 1
