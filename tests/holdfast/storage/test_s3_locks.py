"""Locks on S3 whose server fails one request of theirs, each in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.storage import StoreError
from holdfast.storage.contract.patience import Patience
from holdfast.storage.s3.store import S3Store
from locking import Lease, Runtime, RWLock
from tests.support.locks.aftermath import outcome
from tests.support.locks.lockstore import FakeTime
from tests.support.stores.fake_s3 import BUCKET, CUT, FakeS3, Fault, running_fake_s3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[FakeS3, S3Store]]:
    with running_fake_s3() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield server, S3Store(BUCKET, listing_is_ordered=True, patience=Patience(5.0, 30.0, attempts=1))


class World:
    """A server, a store on it and a time that is everybody's."""

    def __init__(self, server: FakeS3, store: S3Store) -> None:
        server.reset()
        self.server, self.store, self.time = server, store, FakeTime()
        server.clock = self.time.date
        self.runtime = Runtime(clock=self.time, jitter=lambda: 0.5)

    def fail(self, fault: Fault, number: int, *, lasting: bool = False) -> None:
        """Let one request fail, counted from now, or all from that one on."""
        self.server.received.clear()
        self.server.judge = lambda at, request: fault if at == number or (lasting and at > number) else None


@pytest.mark.parametrize("number", range(5))
def test_a_bucket_that_is_deleted_in_the_middle_ends_an_acquisition_at_once(
    running: tuple[FakeS3, S3Store], number: int
) -> None:
    world = World(*running)
    world.fail(Fault(404, "NoSuchBucket"), number, lasting=True)
    lock = RWLock(world.store, "r", runtime=world.runtime)
    found = outcome(lambda: lock.write(wait=3600, renew=False))
    assert world.time.now == 0
    assert len(world.server.received) <= number + 7
    error = outcome(found.check) if isinstance(found, Lease) else found
    assert isinstance(found, Lease) == (number == 4)  # only the intent was not deleted, and went with the bucket
    assert isinstance(error, StoreError)
    assert "the bucket does not exist. Check the archive's URL" in str(error)


@pytest.mark.parametrize("fault", [Fault(500, "InternalError"), CUT, Fault(503), Fault(503, "SlowDown")])
def test_no_write_of_a_lock_is_ever_sent_twice(running: tuple[FakeS3, S3Store], fault: Fault) -> None:
    """A second one could land when the lock has long been given up. Each attempt is a new transaction."""
    world = World(*running)
    world.server.judge = lambda number, request: fault if request.method == "PUT" else None
    outcome(lambda: RWLock(world.store, "r", runtime=world.runtime).write(wait=5, renew=False))
    puts = [each.key for each in world.server.received if each.method == "PUT" and "INTENT" in each.key]
    assert len(puts) > 1
    assert len(set(puts)) == len(puts)
