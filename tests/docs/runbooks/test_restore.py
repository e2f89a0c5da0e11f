"""A database is restored by the page, and its backups go on by the next one."""

from __future__ import annotations

import pytest

from holdfast.postgresql.connection.session import connect
from tests.support.following.followed import known
from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.mark.follows("restore")
def test_a_database_is_restored_beside_the_damaged_one(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    with connect(shop.database) as session:
        before = {table.label: table.rows for table in known(session).values()}
    shop.sql("delete from items")
    page.does("holdfast doctor")
    page.does("holdfast points")
    database, server = shop.database.database, shop.database.at_database("postgres")
    del page.names["DATABASE"]
    page.names |= {"shop": database, "shop_damaged": f"{database}_damaged"}
    with connect(server) as session:
        session.execute(page.takes("psql")[-1].encode())
        session.execute(f"create database {page.takes('createdb')[-1]}".encode())
    page.leaves_out("export", since="the password is in the environment already")
    page.names["shop"] = "shop"
    done = page.does(
        "holdfast restore", names={"postgresql://postgres@host:5432/shop": shop.database.url, "commit:12": "commit:2"}
    )
    page.shows(done, "restored shop to")
    with connect(shop.database) as session:
        assert sorted(table.label for table in known(session).values()) == sorted(before)
    page.leaves_out("grant", since="the archive has no large objects")
    page.does("holdfast verify")
    done = shop.run("backup", "shop", "--source", "shop", "--kind", "changes")
    assert done.code == 5
    assert "--moved" in done.err
    shop.drop(f"{database}_damaged")


@pytest.mark.follows("the-day-after-a-restore")
def test_backups_go_on_the_day_after_a_restore(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    old = shop.database
    shop.moves(shop.new())
    assert shop.run("restore", "shop", "--to", shop.database.url).code == 0
    page.does("holdfast source setup", names={"postgresql://postgres@new-host:5432/shop": shop.database.url})
    assert "may not publish" not in page.does("holdfast source check").out
    shop.works()
    done = page.does("holdfast backup")
    assert "holdfast:" not in done.err
    page.does("holdfast source remove", names={"postgresql://postgres@old-host:5432/shop": old.url})
    with connect(old) as session:
        assert session.execute("select from pg_publication where pubname like 'holdfast%'").fetchone() is None
    page.asks("select pg_drop")
    shop.works()
    page.does("holdfast backup")
    page.does("holdfast points")
    shop.goes_on()
