"""`holdfast points` of an archive whose source was migrated: what it says of each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.postgresql.connection.address import Address
from tests.support.following.followed import Followed, open_followed
from tests.support.jobs.command import RunCommand

pytestmark = pytest.mark.service


@pytest.fixture
def migrated(address: Address, tmp_path: Path) -> Iterator[Followed]:
    """An archive with a table that was rewritten between two backups, and one that was not."""
    with open_followed(address, tmp_path / "archive") as followed:
        followed.make(("create table orders (id int primary key, n int)", "create table notes (id int primary key)"))
        followed.back_up()
        followed.run("insert into orders values (1, 1)")
        followed.run("alter table orders alter n type bigint using n * 2")
        followed.back_up()
        yield followed


def test_tables_that_are_not_exact_are_shown_and_chosen_ones_whole(holdfast: RunCommand, migrated: Followed) -> None:
    done = holdfast("points", migrated.store.url)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "public.orders from 20" in said
    assert ": rows of 20" in said
    assert "the type of a column was altered, and its older rows with it; schema approximate" in said
    assert "public.notes" not in said
    assert "1 other table: exactly what was there, at each of these times" in said

    done = holdfast("points", migrated.store.url, "--tables", "*.notes", "--json")
    (source,) = done.value["sources"]
    (table,) = source["tables"]
    (stretch,) = table["stretches"]
    (interval,) = source["intervals"]
    assert (table["table"], stretch["rows"], stretch["schema"]) == ("public.notes", "exact", "known")
    assert (stretch["from"], stretch["to"], stretch["last"]) == (interval["from"], interval["to"], interval["position"])
    assert table["exact_to"] == interval["to"]
    assert "public.notes" in holdfast("points", migrated.store.url, "--tables", "*.notes").out

    done = holdfast("points", migrated.store.url, "--tables", "shop.*")
    assert (done.code, "no table in these backups matches shop.*" in done.err) == (2, True)
