"""An old store is rebuilt: whoever was told of a quorum keeps that backup, unless somebody says otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.archive import Change
from holdfast.archive.maintenance.compaction import Group, join
from holdfast.archive.maintenance.retention import parse_rules
from holdfast.archive.maintenance.truncation import truncate
from holdfast.common.errors import RefusedError
from holdfast.replication.log import log
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.work.leading import leading
from tests.support.replicas.given_up import append, changes, full
from tests.support.replicas.quorums import acknowledged, overdue, with_quorum
from tests.support.replicas.rebuilt import away, copied, go_on, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing

UNKNOWN = "which the coordination store does not know"

NAMES = ("near", "far", "off")

GIVES_UP = "--lose-acknowledged gives that up"


def test_an_acknowledged_backup_is_given_up_only_where_that_is_said(three: Replicas) -> None:
    put_back = copied(three)
    away(three, "near")
    acknowledged(three, "far", with_quorum(three, "far"))
    put_back()
    away(three, "near", back=True)
    away(three, "far", "off")
    for _ in range(3):
        three.back_up("near")
    away(three, "far", "off", back=True)
    places = urls(three, "near", "far", "off")
    with pytest.raises(RefusedError, match="far has acknowledged the quorum of a backup by entry 2; off has executed"):
        rebuild(three.coordination, places)
    said = "far has executed entry 2, by which the quorum of a backup was acknowledged, and near has not all that was"
    with pytest.raises(RefusedError, match=f"{said} there then: --lose-acknowledged gives that up"):
        rebuild(three.coordination, places, source="near")
    with pytest.raises(RefusedError, match=said):
        rebuild(three.coordination, places, source="near", without=("far", "off"))
    rebuild(three.coordination, places, source="far")
    go_on(three, "near", "far", "off")
    assert three.backups[1] in three.state("near").blocks


@pytest.mark.parametrize("source", ["near", "off"])
def test_nobody_is_asked_to_give_up_what_all_lines_have(three: Replicas, source: str) -> None:
    block = with_quorum(three, "far")
    put_back = copied(three)
    off = three.open("off")  # asks all, and is suspended
    for name in ("near", "far"):
        three.sync(name)
    acknowledged(three, "far", block)
    put_back()
    off.sync(check=nothing, fence=None)
    places = {name: three.place_of(name) for name in ("near", "far", "off")}
    assert [place.acknowledged for place in places.values()] == [2, 2, 2]
    assert places["near"].entry == places["far"].entry != places["off"].entry
    with pytest.raises(OldStoreError, match=UNKNOWN):
        three.back_up("near")
    rebuild(three.coordination, urls(three, "near", "far", "off"), source=source)
    go_on(three, "near", "far", "off")
    assert block in three.state("near").blocks


def test_a_line_that_has_taken_it_back_gives_it_up(three: Replicas) -> None:
    block = with_quorum(three, "far")
    put_back = copied(three)
    off = three.open("off")
    off.sync(check=nothing, fence=None, upto=1)
    for name in ("near", "far"):
        three.sync(name)
    acknowledged(three, "far", block)
    put_back()
    overdue(three)
    three.coordination.run(lambda c: log.fail_overdue(c, three.archive, by="off", unread=()))
    off.sync(check=nothing, fence=None)
    assert block in three.state("off").removed
    with pytest.raises(RefusedError, match=GIVES_UP):
        rebuild(three.coordination, urls(three, *NAMES), source="off")
    rebuild(three.coordination, urls(three, *NAMES), source="near")
    go_on(three, *NAMES)
    assert block in three.state("off").blocks


def apart(three: Replicas, work: Callable[[], object]) -> None:
    """Have a quorum of near and far acknowledged, then do more; have off go on without, from an older copy."""
    put_back = copied(three)
    acknowledged(three, "near", with_quorum(three, "near"))
    work()
    put_back()
    away(three, "near", "far")
    three.back_up("off", "other")
    away(three, "near", "far", back=True)


def test_what_was_truncated_since_is_not_given_up(three: Replicas) -> None:
    def truncated() -> None:
        three.back_up("near")
        with leading(three.open("near")) as near:
            truncate(near, parse_rules(["last=1"]), check=nothing, fence=None)
        three.sync("far")

    apart(three, truncated)
    rebuild(three.coordination, urls(three, *NAMES), source="off")
    go_on(three, *NAMES)


def test_what_was_compacted_since_is(three: Replicas) -> None:
    append(three, "near", full("0/10"), "chain")
    three.sync("far")
    three.sync("off")

    def compacted() -> None:
        made = [append(three, "near", changes(*ends), "chain").id for ends in (("0/10", "0/20"), ("0/20", "0/30"))]
        acknowledged(three, "near", with_quorum(three, "near"))
        with leading(three.open("near")) as near:
            group = Group("chain", tuple(near.state.blocks[each] for each in made))
            block = join(group, identity="c" * 32, run="r", tables=group.blocks[-1].block.tables, transactions=None)
            near.add(lambda _: Change("compaction", add=(block,), remove=group.ids), check=nothing, fence=None)
            truncate(near, parse_rules(["last=1"]), check=nothing, fence=None, source="shop_db")

    apart(three, compacted)
    with pytest.raises(RefusedError, match=GIVES_UP):
        rebuild(three.coordination, urls(three, *NAMES), source="off")


def test_it_is_given_up_where_that_is_said(three: Replicas) -> None:
    put_back = copied(three)
    acknowledged(three, "far", with_quorum(three, "far"))
    put_back()
    places = urls(three, "near", "far", "off")
    rebuild(three.coordination, places, source="off", lose_acknowledged=True)
    go_on(three, "near", "far", "off")
    assert three.backups[1] in three.state("far").aside
