"""A store in PostgreSQL that a client is cut off from in the middle of its append."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.faults.link import Cut, Link, Moment, linked
from bench.support.faults.network import NEVER, Fault
from holdfast.common.errors import OutcomeUnknownError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log.replicas import log_state
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.replica import ReplicatedArchive
from tests.support.jobs.command import until
from tests.support.replicas.replicated import Replicas, nothing
from tests.support.replicas.set_history import check, operations

pytestmark = [pytest.mark.service, pytest.mark.parametrize("both", ["postgresql"], indirect=True)]


@pytest.fixture
def link(postgres: PostgresServer) -> Iterator[Link]:
    with linked(postgres.port) as link:
        yield link


@pytest.fixture
def replicas(both: CoordinationStore, tmp_path: Path) -> Replicas:
    return Replicas.begun(tmp_path, both)


@pytest.fixture
def near(replicas: Replicas, link: Link) -> Iterator[ReplicatedArchive]:
    """The replica, opened by who reaches the store by the link."""
    with CoordinationStore.open(link.way_to(Address(replicas.coordination.url)).url) as store:
        yield ReplicatedArchive.begin(replicas.place("near"), store)


def head(replicas: Replicas) -> int:
    return replicas.coordination.run(lambda c: log_state(c, replicas.archive)).head


@pytest.mark.parametrize("fault", ["reset", "closed"])
@pytest.mark.parametrize("moment", ["request", "answer", "late"])
def test_an_append_is_made_once_whatever_is_lost_of_it(
    replicas: Replicas, near: ReplicatedArchive, link: Link, fault: Fault, moment: Moment
) -> None:
    cut = link.cut(Cut(fault, moment, late=0.2))
    near.add(replicas.backup(near.store), check=nothing, fence=None)
    assert cut.result()
    assert head(replicas) == 1
    assert replicas.state("near").blocks.keys() == set(replicas.backups)


@pytest.mark.parametrize(
    ("moment", "appended", "wrong"), [("request", 0, "added"), ("answer", 1, "failed"), ("late", 1, "failed")]
)
def test_an_append_whose_answer_was_lost_is_unknown_where_the_store_is_away_then_and_who_guesses_is_found_out(
    replicas: Replicas, near: ReplicatedArchive, link: Link, moment: Moment, appended: int, wrong: str
) -> None:
    cut = link.cut(Cut("reset", moment, lasting=NEVER))
    with pytest.raises(OutcomeUnknownError, match="was appended; nothing was cleaned up"):
        near.add(replicas.backup(near.store), check=nothing, fence=None)
    link.mend()
    assert cut.result()
    until(lambda: head(replicas) == appended, "a COMMIT that comes late")
    replicas.sync("near")
    before, block = replicas.backups
    shown = open_to_read(replicas.place("near"), "sequential", address=replicas.coordination.url).state.blocks
    begun = {"what": "begun", "at": 1, "block": block}
    read = {"what": "read", "since": 3, "at": 4, "blocks": sorted(shown.keys() - {before})}
    assert check(operations([begun, read])).result == "Ok"
    assert check(operations([begun, {"what": wrong, "at": 2, "block": block}, read])).result == "Illegal"
