"""Replicas and coordination stores that earlier releases wrote go on.

`before-decisions` has a backup whose quorum has succeeded, one of another source that waits for all three replicas, and
a replica whose recovery was killed: no entry says what was decided, and the store keeps no ids of trimmed ones.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.replication.log import quorum
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work import membership
from holdfast.replication.work.quorum_wait import QuorumWait
from tests.support.replicas.rebuilt import go_on, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[2] / "fixtures" / "replicas"
NAMES = ("near", "far", "off")
BLOCKS = {f"{number:032x}" for number in range(901, 905)}


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Replicas]:
    """The fixture at another place."""
    shutil.copytree(FIXTURES / "before-decisions", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "coordination.db"
    with closing(sqlite3.connect(path)) as connection:
        ((archive,),) = connection.execute("select archive from archives")
        connection.execute("update replicas set url = ? || '/' || name", (str(tmp_path),))
        connection.execute("update replicas set active_until = 1.0")
        connection.commit()
    with CoordinationStore.open(f"sqlite:///{path}") as coordination:
        yield Replicas(tmp_path, coordination, archive)


def test_they_go_on(old: Replicas) -> None:
    assert old.recover("off").index == 3
    for _ in range(2):
        for name in NAMES:
            old.sync(name)
    assert all(old.state(name).blocks.keys() == BLOCKS for name in NAMES)
    assert old.coordination.run(lambda c: quorum.pending(c, old.archive)) == []
    near = old.open("near")
    near.quorum_request = QuorumRequest(2)
    block = near.add(old.backup(near.store), check=nothing, fence=None).add[0].id
    waiting = QuorumWait(old.coordination, old.archive, block, "near")
    waiting.check_success(waiting.decided())
    membership.add(old.coordination, old.archive, "new", old.place("new").url)
    old.recover("new")
    assert block in old.state("new").blocks
    assert old.place_of("new").members.keys() == {*NAMES, "new"}


def test_their_store_is_rebuilt_where_it_is_lost(old: Replicas, tmp_path: Path) -> None:
    with CoordinationStore.open(f"sqlite:///{tmp_path}/another.db") as another:
        given = Replicas(tmp_path, another, old.archive)
        rebuild(another, urls(given, *NAMES))
        go_on(given, *NAMES)
        assert given.state("off").blocks.keys() > BLOCKS
