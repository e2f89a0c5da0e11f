"""An archive in a coordination store, without any place: what is tested here asks no replica."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from holdfast.replication.log import replicas, schema
from holdfast.replication.log.replicas import LogState
from holdfast.replication.log.store import CoordinationStore

Put = Callable[..., None]


@pytest.fixture
def registered(coordination: CoordinationStore) -> CoordinationStore:
    """An archive `a` whose log has four entries; its replica `near` has them all, and `far` has nothing yet."""

    def begin(c: Connection) -> None:
        log = LogState("a", "shop", "s", head=4, start=1)
        replicas.register(c, log, name="near", url="/near", ends={"shop_db": "0/900"}, streams={})
        replicas.add(c, "a", name="far", url="/far")

    coordination.run(begin)
    return coordination


@pytest.fixture
def put(registered: CoordinationStore) -> Put:
    """Changes what the store says of a replica."""

    def change(name: str, **values: object) -> None:
        update = schema.replicas.update().where(schema.replicas.c.name == name).values(**values)
        assert registered.run(lambda c: c.execute(update).rowcount) == 1

    return change
