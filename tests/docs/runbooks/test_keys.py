"""The key of an archive is lost: a copy opens it, or backups go on in a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.fixture
def copy(shop: Shop, tmp_path: Path) -> Path:
    """Makes the shop's archive another one that is encrypted, and loses its key; returns the copy of it."""
    key = tmp_path / "key"
    assert shop.run("key", "new", str(key)).code == 0
    shop.place = tmp_path / "encrypted"
    shop.describe()
    shop.more["HOLDFAST_KEY"] = f"file:{key}"
    assert shop.run("init", str(shop.place), "--name", "shop").code == 0
    backup = shop.run("backup", str(shop.place), "--source", shop.source.url, "--kind", "full")
    assert backup.code == 0, backup.err
    return key.rename(tmp_path / "copy")


@pytest.mark.follows("a-key-is-lost", "", "1. Look for a copy", "2. One opens it")
def test_a_copy_of_the_key_opens_the_archive_and_is_exchanged(
    shop: Shop, page: Page, copy: Path, tmp_path: Path
) -> None:
    page.names |= {"URL": str(shop.place), "/path/to/copy": str(copy), "/path/to/new.key": str(tmp_path / "new.key")}
    del shop.more["HOLDFAST_KEY"]
    lost = shop.run("points", str(shop.place))
    assert (lost.code, "is encrypted: say where its key is" in lost.err) == (2, True)
    shop.more["HOLDFAST_KEY"] = page.takes("export")[-1].partition("=")[2]
    page.does("holdfast key show")
    page.does("holdfast verify")
    page.does("holdfast key new")
    page.does("holdfast key rotate")
    old = shop.run("points", str(shop.place))
    assert (old.code, "has the fingerprint" in old.err, "is opened by" in old.err) == (2, True, True)
    shop.more["HOLDFAST_KEY"] = f"file:{tmp_path / 'new.key'}"
    assert shop.run("points", str(shop.place)).code == 0


@pytest.mark.exhaustive
@pytest.mark.follows("a-key-is-lost", "3. None opens it")
def test_backups_go_on_in_a_new_archive(shop: Shop, page: Page, copy: Path, tmp_path: Path) -> None:
    copy.unlink()
    names = {"NEW": str(tmp_path / "new"), "/path/to/new.key": str(tmp_path / "new.key"), "DATABASE": shop.source.url}
    page.names |= names
    page.does("holdfast key new")
    shop.more["HOLDFAST_KEY"] = page.takes("export")[-1].partition("=")[2]
    page.does("holdfast init")
    page.does("holdfast backup")
    assert shop.run("verify", names["NEW"], "--deep").code == 0
