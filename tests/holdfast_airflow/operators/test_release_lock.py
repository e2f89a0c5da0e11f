"""Release of a run's lock."""

from __future__ import annotations

from typing import Any

import locking
from holdfast.storage import ObjectStore
from locking import RWLock
from tests.support.airflow.operators import acquire, execute, release


def test_release_gives_back_the_lock_of_the_run(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = execute(acquire(), context)
    release(context, handle)
    assert [info for info in locking.inspect(store) if info.state == "held"] == []
    with RWLock(store, "report").write(wait=0):
        pass


def test_nothing_is_released_where_nothing_was_taken(store: ObjectStore, context: dict[str, Any]) -> None:
    release(context, None)
    assert locking.inspect(store) == []


def test_releasing_twice_is_harmless(store: ObjectStore, context: dict[str, Any]) -> None:
    handle = execute(acquire(), context)
    release(context, handle)
    release(context, handle)
