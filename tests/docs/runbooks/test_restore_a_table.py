"""Somebody drops a table, and the page brings it back."""

from __future__ import annotations

import re

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service

_NOT_RESTORED = (
    "create view open_orders as select id, customer, state from orders where state = 'open'",
    "alter table only items add constraint items_order_id_fkey foreign key (order_id) references orders (id)",
    "alter publication analytics add table only orders",
)
"""What the page's step 2 shows under `not restored`."""


_SETUPS = pytest.mark.parametrize(
    "shop",
    [
        (),
        *(pytest.param((each,), marks=pytest.mark.exhaustive) for each in ("--per-schema", "--definitions")),
    ],
    ids=lambda setup: "".join(setup) or "plain",
    indirect=True,
)


@_SETUPS
@pytest.mark.follows(
    "restore-a-table",
    "1. Back up what the log still has",
    "2. Look at the plan",
    "3. Restore",
    "4. Add what was not restored",
    "5. Have its changes backed up",
)
def test_a_dropped_table_comes_back_and_backups_go_on(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    shop.works()
    before = shop.rows("orders")
    shop.sql("drop table orders cascade")
    page.does("holdfast backup")
    missing = page.does("holdfast restore ARCHIVE", code=2, shown="--definitions" not in shop.setup)
    (at,) = re.findall(r"the last moment that has it is (--at .*)$", missing.err.split("; the schema")[0].strip())
    page.does("holdfast restore ARCHIVE", shown=not shop.setup, names={"--at lsn:0/1E67C48 --schema earlier": at})
    done = shop.run("restore", "shop", "--to", shop.database.url, *at.split(), "--tables", "public.orders")
    assert done.code == 0, done.err
    page.shows(done, "restored shop to")
    shop.sql(*_NOT_RESTORED)
    assert shop.rows("orders") == before
    shop.works()
    shop.backs_up()
    named = page.does("holdfast points").out
    assert "only in full backups: public.orders" in named
    page.does("holdfast source setup")
    page.does("holdfast backup")
    shop.comes_back()
    shop.goes_on()


@_SETUPS
@pytest.mark.follows("restore-a-table", "Not dropped, but damaged")
def test_old_rows_come_beside_a_damaged_table_and_backups_go_on(shop: Shop, page: Page) -> None:
    before = shop.rows("orders")
    shop.sql("update orders set state = 'gone'")
    page.does("holdfast restore ARCHIVE", code=5)
    page.does("holdfast restore ARCHIVE")
    assert shop.rows("orders_restored") == before
    shop.works()
    shop.backs_up()
    shop.sql("drop table orders_restored")
    shop.goes_on()


@pytest.mark.exhaustive
@pytest.mark.parametrize("shop", [("--per-schema",)], indirect=True, ids=[""])
def test_a_schema_that_the_role_may_not_use_is_named_and_backups_go_on_once_it_may(shop: Shop) -> None:
    words = ("--tables", "public.orders", "--map", "public=restored")
    assert shop.run("restore", "shop", "--to", shop.database.url, *words).code == 0
    for kind in ("changes", "full"):
        refused = shop.run("backup", "shop", "--source", "shop", "--kind", kind)
        assert refused.code == 5
        assert f"{shop.role} may not use the schemas restored, and may not read restored.orders" in refused.err
    setup = ("--role", shop.role, "--changes", "--archive", "shop", "--run", *shop.setup)
    assert shop.run("source", "setup", shop.database.url, *setup).code == 0
    shop.goes_on()
