"""Coordination stores in SQLite and in PostgreSQL."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.common.errors import DamagedError
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log.store import PASSWORD, CoordinationStore
from tests.support.replicas.given_up import append, changes, destroyed, full
from tests.support.replicas.rebuilt import bring_back
from tests.support.replicas.replicated import Replicas, Template, kept
from tests.support.servers.postgres import create_database

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty store: to make its tables takes longer than most tests."""
    made = tmp_path_factory.mktemp("coordination") / "coordination.db"
    CoordinationStore.open(f"sqlite:///{quote(str(made))}").close()
    return made


@pytest.fixture
def coordination(tmp_path: Path, made_once: Path) -> Iterator[CoordinationStore]:
    """A store in a file."""
    shutil.copyfile(made_once, tmp_path / "coordination.db")
    with CoordinationStore.open(f"sqlite:///{quote(str(tmp_path))}/coordination.db") as store:
        yield store


@pytest.fixture
def both(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CoordinationStore]:
    """A store of each kind, by `indirect` parameters `sqlite` and `postgresql`."""
    if request.param == "sqlite":
        with CoordinationStore.open(f"sqlite:///{tmp_path}/coordination.db") as store:
            yield store
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    address = create_database(server)
    monkeypatch.setenv(PASSWORD, server.password)
    with CoordinationStore.open(server.url(address.database)) as store:
        yield store


@pytest.fixture
def two(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near` and `far`."""
    return Replicas.copied(tmp_path, coordination, "far")


@pytest.fixture
def three(tmp_path: Path, coordination: CoordinationStore) -> Replicas:
    """An archive with one backup and the replicas `near`, `far` and `off`."""
    return Replicas.copied(tmp_path, coordination, "far", "off")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[CoordinationStore]:
    """A store that was made anew."""
    with CoordinationStore.open(f"sqlite:///{tmp_path}/new.db") as store:
        yield store


@pytest.fixture
def old(two: Replicas) -> Replicas:
    """Replicas at the entries 3 and 2 whose store is that of entry 2."""
    bring_back(two, ahead="near", behind="far")
    return two


@pytest.fixture(scope="session")
def stuck_once() -> Iterator[Template]:
    """What `stuck` copies: a store and three replicas take half a second to come to this."""

    def make(folder: Path, coordination: CoordinationStore) -> Replicas:
        three = Replicas.copied(folder, coordination, "far", "off")
        append(three, "near", full("0/A00"))
        three.sync("far")
        three.sync("off")
        append(three, "near", changes("0/A00", "0/B00"))
        three.back_up("near", "crm")
        destroyed(three, "near")
        for name in ("far", "off"):
            with pytest.raises(DamagedError, match=r"no replica could give .*, which entry 2"):
                three.sync(name)
        return three

    template = kept(make)
    yield template
    template.keeper.cleanup()


@pytest.fixture
def stuck(tmp_path: Path, coordination: CoordinationStore, stuck_once: Template) -> Replicas:
    """Replicas `far` and `off` that cannot go beyond entry 2, which only `near` had."""
    return Replicas.copy_of(stuck_once, tmp_path, coordination)
