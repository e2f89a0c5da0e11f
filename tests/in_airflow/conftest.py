"""One Airflow for all tests of this folder, in which those with the mark `beside` work at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from holdfast.postgresql.connection.server import PostgresServer
from tests.support.airflow.stage import Stage, running_stage

_AT_ONCE = 5
"""Tests that are at work: with more, each waits for the processors."""

_RESULTS = pytest.StashKey[dict[str, Future[None]]]()


@pytest.fixture(scope="session", autouse=True)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[Stage]:
    """A running Airflow; tests with the mark `beside` begin with it, each in a thread."""
    items = [item for item in request.session.items if item.get_closest_marker("beside")]
    with running_stage(postgres, tmp_path_factory.mktemp("stage")) as running, ThreadPoolExecutor(_AT_ONCE) as pool:
        request.session.stash[_RESULTS] = {
            item.nodeid: pool.submit(item.obj, running) for item in items if isinstance(item, pytest.Function)
        }
        yield running
        pool.shutdown(cancel_futures=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Wait for a test that has begun with the stage."""
    if pyfuncitem.get_closest_marker("beside") is None:
        return None
    pyfuncitem.session.stash[_RESULTS][pyfuncitem.nodeid].result()
    return True
