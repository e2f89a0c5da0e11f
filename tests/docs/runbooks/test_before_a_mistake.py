"""A mistake is found and undone by the page, beside what was written rightly."""

from __future__ import annotations

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.mark.follows("before-a-mistake")
def test_rows_of_before_a_mistake_come_back_and_backups_go_on(shop: Shop, page: Page) -> None:
    shop.works()
    before = shop.rows("orders")
    [(moment,)] = shop.sql("select clock_timestamp()")
    shop.sql("update orders set state = 'gone'")
    shop.sql("insert into orders (customer, state) values (1, 'paid')")
    [(after,)] = shop.sql("select clock_timestamp()")
    page.does("holdfast backup")
    page.does("holdfast points")
    at, then = (each.strftime("%FT%T.%fZ") for each in (moment, after))
    times = {"2026-11-22T04:32:56Z": at, "2026-11-22T04:33:04Z": then}
    page.does("holdfast query", names=times)
    page.does("holdfast query", shown=False)
    page.does("holdfast restore")
    assert shop.rows("orders_before") == before
    page.asks("begin", "update", "commit", "drop table")
    assert shop.rows("orders")[: len(before)] == before
    assert len(shop.rows("orders")) == len(before) + 1
    shop.goes_on()
