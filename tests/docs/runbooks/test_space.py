"""The archive is made smaller, and what it keeps can be restored."""

from __future__ import annotations

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.mark.follows("free-space")
def test_what_no_rule_keeps_goes_and_backups_go_on(shop: Shop, page: Page) -> None:
    for kind in ("changes", "full"):
        shop.works()
        shop.backs_up("--kind", kind)
    page.does("holdfast status")
    page.does("holdfast points")
    page.does("holdfast hold list")
    page.does("holdfast truncate ARCHIVE --keep within=3d --keep daily=7 --keep weekly=4 --dry-run")
    page.does("holdfast compact")
    page.does("holdfast truncate")
    page.does("holdfast vacuum")
    shop.goes_on()


@pytest.mark.follows("vacuum")
def test_files_that_nothing_needs_go_and_backups_go_on(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up("--kind", "full")
    shop.works()
    shop.backs_up("--kind", "full")
    page.does("holdfast vacuum", shown=False)
    assert shop.run("truncate", "shop", "--keep", "last=1").code == 0
    page.does("holdfast vacuum", shown=False)
    page.leaves_out("holdfast replica", since="the archive has no replicas")
    page.leaves_out("holdfast replica", since="the archive has no replicas")
    assert shop.run("vacuum", "shop", "--grace", "0s").code == 0
    shop.goes_on()
