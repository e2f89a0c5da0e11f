"""Backups under the load of PostgreSQL's own pgbench: the database comes back as it was after any commit of it."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from holdfast.archive.history.coverage import covered_ranges, to_of
from holdfast.archive.history.recovery_target import RecoveryTarget
from holdfast.archive.scan.merge_on_read import as_of
from holdfast.common.lsn import show_position
from holdfast.point_in_time.target_contents import catalog_of, history_of
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.storage import ObjectStore
from tests.support.databases.roundtrips import hashes
from tests.support.following.followed import Followed, open_followed
from tests.support.servers import pgbench
from tests.support.servers.pgbench import TABLES, Ledger, State

pytestmark = pytest.mark.service

NewDatabase = Callable[..., Address]

RESTORED = 1
_BETWEEN = 150
"""Transactions of the load between two backups."""

_BACKUPS = (
    ("changes", "full"),
    ("changes", "changes"),
    ("full", "full"),
    ("changes", "changes"),
    ("changes", "changes"),
)
"""The kinds that are asked for, and those that come of it."""

_MEMORY_BYTES = 64 << 20


def in_archive(store: ObjectStore, moment: RecoveryTarget) -> State:
    """Return what the archive says that the tables hold at a moment."""
    parts = moment.tables()
    balances: dict[str, dict[int, int]] = {table: {} for table in TABLES}
    count: Counter[str] = Counter()
    history: Counter[pgbench.Entry] = Counter()
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as spill:
        for table in catalog_of(store, moment).with_rows():
            made_of = history_of(parts[str(table.oid)], table)
            for batch in as_of(store, made_of, memory_bytes=_MEMORY_BYTES, spill=Path(spill)):
                if table.name in TABLES:
                    key = TABLES[table.name]
                    count[table.name] += batch.num_rows
                    balance = f"{key[0]}balance"
                    some = batch.filter(pc.not_equal(batch.column(balance), 0))  # of 100,000 few are of any account
                    rows = zip(some.column(key).to_pylist(), some.column(balance).to_pylist(), strict=True)
                    balances[table.name].update(rows)
                else:
                    columns = (batch.column(name).to_pylist() for name in ("tid", "bid", "aid", "delta", "mtime"))
                    history.update(zip(*columns, strict=True))
    assert count == _ROWS
    return State(balances, history)


_ROWS = {"pgbench_accounts": 100_000, "pgbench_tellers": 10, "pgbench_branches": 1}


def expected(ledger: Ledger, moment: RecoveryTarget, *, follows_history: bool) -> State:
    """Return what the server's log says; where a table is not followed, it is as its newest full backup found it."""
    parts = {each.base.name: each for each in moment.tables().values()}
    stale = {name for name, each in parts.items() if each.stale}
    assert stale <= (set() if follows_history else {"pgbench_history"})
    since = parts["pgbench_history"].since
    return ledger.at(moment.position, since if stale else moment.position)


def _choose(shop: Followed, ledger: Ledger, at_random: int) -> list[RecoveryTarget]:
    """Return commits at random, and those on both sides of where two backups meet."""
    state = shop.archive().state
    interval = covered_ranges(state, "shop")[0]
    inside = [end for end in ledger.ends if interval.first <= end <= interval.last]
    assert len(inside) > len(_BACKUPS[1:]) * _BETWEEN
    chosen = set(random.Random(6).sample(inside, at_random))
    for placed in state.blocks.values():
        edge = to_of(placed.block)
        chosen |= {*[end for end in inside if end <= edge][-1:], *[end for end in inside if end > edge][:1]}
    return [shop.moment(f"lsn:{show_position(end)}") for end in sorted(chosen)]


@pytest.mark.parametrize(
    ("follows_history", "at_random"), [(True, 2), pytest.param(False, 6, marks=pytest.mark.exhaustive)]
)
def test_any_commit_under_load_can_be_brought_back(
    follows_history: bool,
    at_random: int,
    address: Address,
    new_database: NewDatabase,
    tmp_path: Path,
) -> None:
    pgbench.prepare(address)
    if follows_history:
        with connect(address) as session:
            session.execute("alter table public.pgbench_history replica identity full")
    with open_followed(address, tmp_path / "archive") as shop:
        with pgbench.running(address) as load:
            load.go_on(_BETWEEN)
            for kind, made in _BACKUPS:
                assert shop.back_up(kind)["kind"] == made
                load.go_on(_BETWEEN)
        # What is not followed is exact where a full backup ends.
        shop.back_up("changes" if follows_history else "full")
        ledger = pgbench.read_ledger(address)

        moments = _choose(shop, ledger, at_random)
        for moment in moments:
            assert in_archive(shop.store, moment) == expected(ledger, moment, follows_history=follows_history), moment
        for moment in random.Random(6).sample(moments, RESTORED):
            target = new_database()
            shop.restore(f"lsn:{show_position(moment.position)}", target)
            assert pgbench.state_of(target) == expected(ledger, moment, follows_history=follows_history), moment

        target = new_database()
        shop.restore("latest", target)
        assert pgbench.state_of(target) == ledger.at(ledger.ends[-1])
        assert hashes(target) == hashes(address)
