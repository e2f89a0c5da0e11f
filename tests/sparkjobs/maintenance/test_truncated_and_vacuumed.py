"""What a truncation keeps comes back from the files that a vacuum leaves, and backups go on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.archive.history.coverage import covered_ranges
from holdfast.archive.maintenance.hold_requests import add_hold
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.archive.maintenance.vacuum import vacuum
from holdfast.common.errors import RefusedError
from holdfast.common.lsn import parse_position
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import Followed, known, open_followed

pytestmark = pytest.mark.service


@pytest.fixture
def shop(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """A database that is followed without Spark."""
    with open_followed(address, tmp_path / "archive") as followed:
        followed.run("create table orders (id int primary key, name text)", "create table words (word text)")
        followed.run("alter table words replica identity full", "insert into words values ('a'), ('b')")
        yield followed


def truncate_and_vacuum(shop: Followed, *rules: str) -> int:
    """Remove what rules do not keep, and its files at once; returns how many files went."""
    truncate(shop.archive(), parse_rules(rules), check=lambda: None, fence=None)
    done = vacuum(shop.archive(), check=lambda: None, fence=None, grace=timedelta(0), orphans=False)
    return done.files


def check(shop: Followed, *moments: int) -> None:
    """Compare all rows at the positions noted with what they were then."""
    for number in moments:
        position, then = shop.moments[number]
        assert shop.tables_at(shop.moment(f"lsn:{position}")) == then


def test_backups_go_on_where_everything_but_a_new_full_backup_went(
    shop: Followed, new_database: Callable[..., Address]
) -> None:
    shop.back_up("changes")
    shop.run("insert into orders select i, 'n' from generate_series(1, 100) i")
    shop.back_up()
    shop.run("update orders set name = 'm' where id < 50", "drop table words")
    shop.back_up("full")
    assert truncate_and_vacuum(shop, "last=1") > 0
    shop.run("delete from orders where id = 7")
    shop.run("create table notes (id int primary key)", "insert into notes values (1)")
    shop.back_up("auto")
    shop.run("insert into orders values (1000, 'late')")
    shop.back_up("auto")
    check(shop, -1, -3)  # a new table has no rows in the archive before its own snapshot
    target = new_database()
    assert shop.restore("latest", target)["equal"]
    with connect(target) as session:
        assert sorted(table.label for table in known(session).values()) == ["public.notes", "public.orders"]
    assert truncate_and_vacuum(shop, "last=1") > 0  # the changes that the next ones have gone on from
    check(shop, -1, -3)
    with pytest.raises(RefusedError, match="cannot be restored"):
        shop.moment(f"lsn:{shop.moments[2][0]}")


@pytest.mark.exhaustive
def test_what_is_held_comes_back_from_between_the_holes(shop: Followed) -> None:
    shop.back_up("changes")
    for number in range(8):
        shop.run(f"insert into orders values ({number}, 'n')", f"update words set word = word || '{number}'")
        shop.back_up("full" if number in (3, 6) else "changes")
        if number in (1, 4):
            add_hold(shop.archive(), None, f"lsn:{shop.moments[-1][0]}", reason="why", owner="me", check=lambda: None)
    assert truncate_and_vacuum(shop, "last=1") > 0
    shop.run("delete from orders where id = 3")
    shop.back_up()
    check(shop, 3, 6, -1, -2)
    for interval in covered_ranges(shop.archive().state, "shop"):  # whatever else is there is as it was, too
        for position, then in shop.moments:
            if interval.first <= parse_position(position) <= interval.last:
                assert shop.tables_at(shop.moment(f"lsn:{position}")) == then
    with pytest.raises(RefusedError, match="cannot be restored"):
        shop.moment(f"lsn:{shop.moments[5][0]}")
