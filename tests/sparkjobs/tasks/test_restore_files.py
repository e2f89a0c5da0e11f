"""The work of a restore's tasks on a real server: changes come into tables once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.postgresql.catalog.catalog_queries import read_tables
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.postgresql.restore.plan import ledger
from holdfast.postgresql.restore.rows.apply import Applied
from holdfast.storage import ObjectStore, open_store
from sparkjobs.tasks.restore_files import ChangeApplier, ChangedTable
from tests.support.archives import histories
from tests.support.archives.histories import SINCE, history_of, write_base, write_changes
from tests.support.archives.queried import order

pytestmark = pytest.mark.service

Session = psycopg.Connection[Any]


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path / "archive"))


@pytest.fixture
def session(address: Address) -> Iterator[Session]:
    with connect(address) as opened:
        ledger.create_ledger(opened, ledger.TargetClaim("archive", "block", (), (), commit=1, run="run"))
        opened.execute(
            "create table public.orders (id int8, day date, text text, note text, gone int, price numeric(10,2) "
            "check (price > 0)); alter table public.orders drop gone"
        )
        yield opened


def test_changes_are_applied_by_their_net_once(session: Session, address: Address, store: ObjectStore) -> None:
    session.execute("insert into public.orders values (1, 'infinity', 'a', 'n', 1.00), (2, 'infinity', 'b', 'n', 2.00)")
    changes = [
        histories.Change(0, SINCE + 1, 0, "U", order(1, "x", "1.00")),
        histories.Change(0, SINCE + 2, 0, "U", order(1, "changed", "1.50")),
        histories.Change(0, SINCE + 3, 0, "D", {1: 2}),
        histories.Change(0, SINCE + 4, 0, "I", order(3, "new", "4.00")),
    ]
    records = write_changes(store, changes, block_of=9, file_of=1, key=(1,))
    (orders,) = (table for table in read_tables(session) if table.name == "orders")
    wanted = ChangedTable(orders, history_of(write_base(store, [], 1), records, 9000, 0, (1,)))
    assert (wanted.step, len(wanted.files)) == ("changes 1", 4)
    assert wanted.size == sum(each.size for each in wanted.files)
    seen: list[tuple[int, int]] = []
    applier = ChangeApplier(store, address, ())
    assert list(applier([wanted], lambda rows, size: seen.append((rows, size)))) == []
    rows = session.execute("select id, text from public.orders order by 1").fetchall()
    assert rows == [(1, "changed"), (3, "new")]
    assert seen == [(2, wanted.size)]
    noted = Applied.from_json(ledger.read_steps(session)["changes 1"])
    assert (noted.deleted.rows, noted.inserted.rows) == (2, 2)
    assert list(applier([wanted], lambda rows, size: seen.append((rows, size)))) == []
    assert seen[1:] == [(0, wanted.size)]
    assert session.execute("select count(*) from public.orders").fetchone() == (2,)
