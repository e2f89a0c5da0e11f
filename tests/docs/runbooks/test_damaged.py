"""A file of the archive is damaged or lost: what the page says brings it back, or goes on without it."""

from __future__ import annotations

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


def _damage(shop: Shop, pattern: str) -> None:
    """Change a byte of the largest of some files."""
    path = max(shop.place.glob(pattern), key=lambda each: each.stat().st_size)
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


@pytest.mark.follows(
    "damage", "1. How much is it", "2. Take what is needed now from somewhere else", "3. Put the file back"
)
def test_a_damaged_file_is_put_back_and_backups_go_on(shop: Shop, page: Page) -> None:
    copy = shop.folder / "copy"
    shop.works()
    shop.backs_up()
    assert shop.run("copy", "shop", str(copy)).code == 0
    _damage(shop, "data/**/snapshot/**/*.parquet")
    page.names["COPY"] = str(copy)
    assert "needed for" in page.does("holdfast verify ARCHIVE --deep", code=4).out
    page.does("holdfast verify ARCHIVE")
    page.does("holdfast points")
    page.does("holdfast verify ARCHIVE --deep --repair-from COPY")
    page.does("holdfast verify ARCHIVE --deep --budget")
    shop.goes_on()


@pytest.mark.exhaustive
@pytest.mark.follows("damage", "4. There is no copy")
def test_backups_go_on_where_there_is_no_copy(shop: Shop, page: Page) -> None:
    _damage(shop, "data/**/snapshot/**/*.parquet")
    shop.works()
    page.does("holdfast backup")
    shop.goes_on()
    assert shop.run("verify", "shop", "--deep").code == 4


@pytest.mark.exhaustive
@pytest.mark.follows("damage", "It is a commit")
def test_backups_go_on_in_a_copy_of_all_before_a_damaged_commit(shop: Shop, page: Page) -> None:
    shop.works()
    shop.backs_up()
    page.does("holdfast points")
    newest = max(shop.place.glob("commits/*.json"))
    newest.write_bytes(newest.read_bytes().replace(b"shop", b"shoq"))
    assert shop.run("backup", "shop", "--source", "shop", "--kind", "changes").code == 4
    page.does("holdfast points", code=4)
    page.does("holdfast verify", code=4)
    copy = shop.folder / "copy"
    page.does("holdfast copy", names={"COPY": str(copy)})
    shop.place = copy
    shop.describe()
    shop.goes_on()
