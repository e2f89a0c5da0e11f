"""The stream of changes is lost or given up: the pages say what to look at, and backups go on with a full one."""

from __future__ import annotations

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.mark.follows("a-gap")
def test_a_moment_in_a_gap_is_refused_and_backups_go_on(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    shop.sql("select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()")
    shop.works()
    [(lost,)] = shop.sql("select clock_timestamp()")
    shop.works()
    done = shop.backs_up()
    assert "no changes can be added to the archive" in done.err
    page.shows(shop.run("points", "shop"), "gap from")
    moment = {"2026-11-22T04:19:10Z": lost.strftime("%FT%T.%fZ"), "DATABASE": shop.new().url}
    page.does("holdfast restore", code=5, names=moment)
    page.does("holdfast source check")
    shop.goes_on()


@pytest.mark.follows("the-log-piles-up")
def test_a_slot_that_fills_the_disk_is_dropped_and_backups_go_on(shop: Shop, page: Page) -> None:
    shop.works()
    ours, *_ = [row for row in page.asks("select slot_name") if row[1] == shop.database.database]
    page.names["holdfast_7a5d29b240529dac"] = ours[0]
    done = page.does("holdfast source check")
    assert "keeps" in done.out
    page.does("holdfast backup")
    page.asks("checkpoint")
    assert page.asks("select pid")
    page.asks("select pg_drop", "checkpoint")
    page.does("holdfast backup ARCHIVE --source SOURCE --kind changes --restart-stream")
    shop.sql("select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()")
    page.does("holdfast backup")
    shop.goes_on()
    page.leaves_out("holdfast source remove", since="somebody backs up changes here")


@pytest.mark.exhaustive
@pytest.mark.follows("the-log-piles-up", "4. After it")
def test_a_source_that_nobody_follows_any_more_keeps_no_log(shop: Shop, page: Page) -> None:
    page.leaves_out("holdfast backup", since="the slot is still there")
    page.does("holdfast source remove", names={"DATABASE": shop.database.url})
    assert shop.sql("select 1 from pg_replication_slots where database = current_database()") == []
    assert shop.sql("select 1 from pg_publication where pubname like 'holdfast%'") == []
    assert shop.sql(f"select 1 from pg_roles where rolname = '{shop.role}'") == []
