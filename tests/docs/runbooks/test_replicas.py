"""Replicas are lost, or their log: the pages bring them back, and the next backup reaches all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.replication.log import schema
from holdfast.replication.log.store import CoordinationStore
from tests.support.runbooks.page import Page
from tests.support.runbooks.shop import Shop

pytestmark = pytest.mark.service


@pytest.fixture
def page(page: Page, shop: Shop) -> Page:
    """The page, in a shop with the replicas `near` and `far`."""
    shop.replicate("far")
    page.names |= {"/srv/near/shop": str(shop.place), "/mnt/far/shop": str(shop.folder / "far")}
    return page


def _all_are_whole(shop: Shop) -> None:
    """Check that backups go on, and come to each replica."""
    shop.goes_on()
    done = shop.run("replica", "sync", "--all")
    assert done.code == 0, done.err
    status = shop.run("replica", "status", "--json").value["archives"][0]
    assert [(each["entries_behind"], each["lost"]) for each in status["replicas"]] == [(0, False), (0, False)]
    for place in shop.described["replicas"].values():
        assert shop.run("verify", place, "--deep").code == 0


@pytest.mark.follows("the-coordination-store-is-gone")
def test_a_store_that_is_gone_is_rebuilt_from_the_replicas(shop: Shop, page: Page) -> None:
    assert shop.run("replica", "sync", "--all").code == 0
    shop.works()
    shop.backs_up()
    for path in shop.folder.glob("store.db*"):
        path.unlink()
    page.does("holdfast points /srv")
    page.does("holdfast points /mnt")
    page.does("holdfast restore", names={"postgresql://postgres@localhost/shop_copy": shop.new().url})
    page.does("holdfast replica sync --all", code=2)
    page.does("holdfast replica rebuild-store")
    page.does("holdfast replica rebuild-store")
    page.does("holdfast replica recover --lost")
    page.does("holdfast points URL")
    page.does("holdfast backup")
    page.does("holdfast replica sync --all")
    page.does("holdfast replica status")
    page.leaves_out("holdfast replica recover NAME", since="none was left out")
    _all_are_whole(shop)


def _append(shop: Shop, *kinds: str, through: str = "shop") -> None:
    for kind in kinds:
        shop.works()
        assert shop.run("backup", through, "--source", "shop", "--kind", kind).code == 0


def _hide(place: Path) -> Path:
    """Take a replica away, as a disk that is not mounted; returns where it is meanwhile."""
    return place.rename(place.with_name(f"{place.name}.away"))


@pytest.mark.exhaustive
@pytest.mark.follows("all-replicas-are-lost")
def test_of_lost_replicas_one_is_elected(shop: Shop, page: Page) -> None:
    near, far = shop.place, shop.folder / "far"
    _append(shop, "changes", "changes")
    assert shop.run("replica", "sync", "--all").code == 0
    _append(shop, "changes", "changes")
    assert shop.run("replica", "sync", "near").code == 0
    _stay_away(shop, "far")
    _change(shop, "near", is_lost=True, lost_reason="it was away")
    page.does("holdfast replica elect")
    page.does("holdfast points", names={"URL": str(far)})
    page.does("holdfast verify")
    shutil.rmtree(near)
    page.does("holdfast replica elect", code=5)
    page.does("holdfast replica elect")
    assert shop.run("replica", "remove", "near").code == 0
    page.does("holdfast replica recover --lost")
    new = shop.folder / "new"
    shop.described["replicas"] = {"new": str(new), "far": str(far)}
    shop.describe()
    page.does("holdfast replica add", names={"/srv/new/shop": str(new)})
    page.does("holdfast backup")
    page.does("holdfast replica sync")
    page.does("holdfast replica sync")
    _all_are_whole(shop)


def _change(shop: Shop, name: str, **values: object) -> None:
    """Change what the store says of a replica."""
    update = schema.replicas.update().where(schema.replicas.c.name == name).values(active_until=0.0, **values)
    with CoordinationStore.open(shop.described["store"]) as coordination:
        coordination.run(lambda connection: connection.execute(update))


def _stay_away(shop: Shop, name: str) -> None:
    """Let the log go while a replica is away for longer than it is kept for it."""
    _change(shop, name)
    assert shop.run("replica", "trim", "--min-keep", "0", "--max-keep", "0").code == 0


@pytest.mark.exhaustive
@pytest.mark.follows("a-replica-is-lost", "1. Which, and why", "2. Recover it")
def test_a_lost_replica_is_recovered(shop: Shop, page: Page) -> None:
    _append(shop, "changes", "changes")
    _stay_away(shop, "far")
    page.does("holdfast replica status")
    page.does("holdfast replica recover")
    page.does("holdfast verify", names={"URL": str(shop.folder / "far")})
    assert "far" in page.does("holdfast replica aside list", names={"NAME": "far"}).out
    _all_are_whole(shop)


@pytest.mark.follows("replicas")
def test_a_repair_does_what_loses_nothing_and_shows_the_rest(shop: Shop, page: Page) -> None:
    _append(shop, "changes", "changes")
    _stay_away(shop, "far")
    page.does("holdfast replica repair --dry-run", code=1)
    page.does("holdfast replica repair")
    away = _hide(shop.folder / "far")
    page.does("holdfast replica repair", code=1)
    away.rename(shop.folder / "far")
    assert shop.run("replica", "repair").code == 0
    page.does("holdfast replica sync --all")
    _all_are_whole(shop)


@pytest.mark.exhaustive
@pytest.mark.follows("quorum-cannot-be-reached")
def test_backups_go_on_while_a_quorum_cannot_be_reached(shop: Shop, page: Page) -> None:
    far = shop.folder / "far"
    away = _hide(far)
    shop.works()
    quorum = ("--quorum", "2", "--quorum-timeout", "1s")
    failed = shop.run("backup", "shop", "--source", "shop", "--kind", "changes", *quorum)
    assert failed.code == 3
    assert "a backup with a quorum of 2 cannot succeed now, and is not begun: far cannot be read" in failed.err
    page.does("holdfast replica status")
    page.does("holdfast replica sync far", code=4)
    page.names["shop_db"] = "shop"
    away.rename(far)
    page.does("holdfast replica sync far")
    page.leaves_out("holdfast replica recover far", since="it is not lost")
    shop.backs_up(*quorum[:2])
    _hide(far)
    shop.works()
    page.does("holdfast backup")
    page.does("holdfast replica remove far")
    shop.described["replicas"] = {"near": str(shop.place)}
    shop.describe()
    shop.goes_on()


@pytest.mark.exhaustive
@pytest.mark.follows("a-replica-is-lost", "Its place is gone", "Afterwards")
def test_a_place_that_is_gone_is_replaced_and_found_files_are_taken(shop: Shop, page: Page) -> None:
    near, far, found = shop.place, shop.folder / "far", shop.folder / "found"
    _append(shop, "changes", "changes")
    shutil.rmtree(far)
    page.does("holdfast replica remove")
    page.does("holdfast replica add")
    _append(shop, "changes")
    near.rename(found)
    page.names |= {"new": "near", "/srv/new/shop": str(near), "/srv/new/found": str(found)}
    assert shop.run("replica", "remove", "near").code == 5
    page.does("holdfast replica remove")
    page.does("holdfast replica add")
    page.does("holdfast replica sync")
    shop.described["replicas"] = {"near": str(found), "far": str(far)}
    shop.describe()
    _all_are_whole(shop)
    page.leaves_out("holdfast replica trim", since="the replica is back")


@pytest.mark.exhaustive
@pytest.mark.follows("a-replica-is-lost", "If the files cannot be found")
def test_an_entry_whose_files_are_gone_is_given_up(shop: Shop, page: Page) -> None:
    far = shop.folder / "far"
    _append(shop, "changes")
    shutil.rmtree(shop.place)
    assert shop.run("replica", "remove", "near", "--force").code == 0
    shop.described["replicas"] = {"far": str(far)}
    shop.describe()
    assert shop.run("replica", "sync", "--all").code == 4
    page.names |= {"shop_db": "shop", "URL": str(far)}
    page.does("holdfast replica give-up 2 --dry-run", shown=False)
    page.does("holdfast replica give-up 2", shown=False)
    page.leaves_out("holdfast replica remove near", since="that is done already")
    page.does("holdfast replica sync --all")
    page.does("holdfast replica sync --all")
    page.does("holdfast verify")
    shop.goes_on()
    assert "given up" in shop.run("points", "shop").out
