"""What the server of a source tells, and that nothing is changed there."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from holdfast.common.errors import HoldfastError
from holdfast.metrics.server import SourceServer
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.logical.stream import stream_name
from holdfast.postgresql.logical.stream_state import StreamState
from tests.holdfast.metrics.conftest import values

SHOP = "{archive=shop,source=shop_db}"
NOWHERE = Address("postgresql://me@127.0.0.1:1/shop", "")
STATE = StreamState(
    name="holdfast_x", plugin="pgoutput", database="shop", usable=True, active_pid=None, wal_status="reserved",
    invalidation_reason=None, position="0/100", restart="0/80", retained_bytes=128, safe_wal_size=4096,
    catalog_xmin_age=None, failover=False, publication_oid=1, publication_version=None, publication_problem="",
    followed={}, system_identifier="7", timeline=1, standby=False, end="0/100",
)  # fmt: skip


def server(address: Address = NOWHERE, *, follows: bool = True, archive_id: str | None = "id") -> SourceServer:
    return SourceServer("shop", "shop_db", address, archive_id, follows, "1 GiB")


def test_a_slot_is_told_with_its_limit() -> None:
    assert values(server().samples(STATE)) == {
        f"holdfast_source_server_up{SHOP}": 1,
        f"holdfast_slot_retained_bytes{SHOP}": 128,
        f"holdfast_slot_limit_bytes{SHOP}": 1 << 30,
        f"holdfast_slot_safe_bytes{SHOP}": 4096,
        f"holdfast_slot_lost{SHOP}": 0,
    }
    lost = values(server().samples(replace(STATE, wal_status="lost", safe_wal_size=None)))
    assert lost[f"holdfast_slot_lost{SHOP}"] == 1
    assert f"holdfast_slot_safe_bytes{SHOP}" not in lost


def test_a_slot_that_is_gone_is_lost_where_the_source_is_followed() -> None:
    assert values(server().samples(None)) == {f"holdfast_source_server_up{SHOP}": 1, f"holdfast_slot_lost{SHOP}": 1}
    assert values(server(follows=False).samples(None)) == {f"holdfast_source_server_up{SHOP}": 1}


def test_a_server_that_is_away_is_an_error() -> None:
    with pytest.raises(HoldfastError, match="Is the server running"):
        server().ask()


@pytest.mark.service
def test_a_real_slot_is_seen_and_left_as_it_was(address: Address) -> None:
    name = stream_name("id", "shop_db")
    with connect(address) as session:
        session.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        found = server(address).ask()
        assert found is not None
        assert (found.name, found.lost, found.usable) == (name, "", True)
        assert server(address, archive_id="other").ask() is None
        assert server(address, archive_id=None).ask() is None
        session.execute("select pg_drop_replication_slot(%s)", (name,))


@pytest.mark.service
def test_the_session_could_not_write(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(session: psycopg.Connection[tuple[object, ...]], name: str) -> None:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session.execute("create table t (id int)")

    monkeypatch.setattr("holdfast.metrics.server.look", write)
    assert server(address).ask() is None
