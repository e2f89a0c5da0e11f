"""`python -m bench.locks`: measure the locks, write the report to bench/results/, and say what was not reached."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from bench.locks import contention, crowd
from bench.locks import latency as lock_latency
from bench.locks.contention import WAYS, Contest
from bench.locks.memory_store import serving
from bench.locks.results import Latency, LockResults, Race, as_json, as_markdown
from bench.locks.slow_store import SlowStore
from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.versitygw import running_versitygw
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.locks.contention import Told, Way
    from bench.locks.crowd import Crowd
    from bench.locks.latency import Times
    from locking.names import Mode

CONTENDERS = 32
WRITERS = 4
HOLD = 0.01
"""Seconds each contender keeps the lock."""

APART = 0.02
"""Seconds added to each request of the contenders."""

MEMORY, FOLDER, S3 = "memory, listings ordered", "folder", "versitygw"

NOTES = (
    "Everything ran once in each round; the paper's and ours one after the other, the first alternating.",
    "Seconds are added to each request before it is sent, to each page of a listing too. Below that are a folder of "
    "this machine's file system (its writes wait for the disk), versitygw (an S3 server on such a folder, by HTTP on "
    "this machine), or a dictionary in another process. A request is the mean of those that acquiring makes, without "
    "a lock: two listings, two writes, one delete.",
    "`ordered` counts a store's listings as read in key order, as Amazon's are: a check takes one. Neither the folder "
    "nor versitygw is so in truth; there a check takes two, and nobody but who measures alone may say otherwise.",
    f"Contenders: {CONTENDERS} processes that begin together; each takes the lock, keeps it {HOLD * 1000:.0f} ms, "
    f"gives it back and asks again at once, until it had its turns. Each request takes {APART * 1000:.0f} ms more. "
    f"`met` counts how often somebody found another inside who must not be; `not had` the turns that did not come in "
    f"{contention.WAIT:.0f} s.",
    "The paper's algorithm is a plain port (`bench/locks/paper.py`) without leases: a client that dies in it locks "
    "everybody out for ever. Its check takes one listing on every store, also where that is not safe. It says that "
    "one backs off, not how: it does so as ours does, by full jitter of up to 2 s. Its read lock's path is put right; "
    "as printed it would not exclude writers.",
    "Readers and writers: in ours a writer that finds readers lets more of them in for 2 s (a quarter of the time that "
    "it may wait, if that is less); then it keeps new readers out, for at most a minute, so that readers wait more; "
    "in the paper's it is turned away until no reader is there, and readers that keep coming starve it. "
    "Contenders with a few turns each end before that shows.",
    "max/median: an exponential back-off favours who comes back at once over who has waited long. So the wait in the "
    "middle is short, and the more so the faster the lock; compare the longest waits as well.",
    f"A thousand readers: {crowd.PROCESSES} processes of {crowd.READERS // crowd.PROCESSES} threads each, on a folder, "
    f"its listings counted as ordered, {crowd.LATENCY * 1000:.0f} ms added. Two cores share the work, so the times are "
    "mostly waiting for a processor. A page has 1,000 keys.",
    "The load average counts the bench itself and whatever else ran on the machine.",
)


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.locks", "Measure the locks.")
    parser.add_argument("--turns", type=int, default=3, help="of each contender")
    parser.add_argument("--readers", type=int, default=crowd.READERS, help="that come at once")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # contenders that end leave what the others tidy up, and say so
    return measure_and_report(
        "locks",
        given.results,
        lambda: measure(given.rounds, given.turns, given.readers),
        as_json=as_json,
        as_markdown=lambda results: as_markdown(results, NOTES),
    )


def measure(rounds: int, turns: int, readers: int) -> LockResults:
    """Measure everything and clean up, whatever happens.

    :param turns: that each contender wants.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    latencies: dict[tuple[str, float, bool], list[Times]] = {}
    races: dict[tuple[str, str], list[Mapping[Way, Told]]] = {}
    crowds: list[Crowd] = []
    loads: list[float] = []
    for number in range(rounds):
        loads.append(machine.load())
        with _Stores() as stores:
            say(f"round {number + 1} of {rounds}: latency")
            for key in _LATENCIES:
                latencies.setdefault(key, []).append(stores.latency(*key))
            ways = WAYS if number % 2 == 0 else WAYS[::-1]
            for contest, store in product(_contests(turns), (MEMORY, FOLDER)):
                found = {way: stores.race(contest, way, store) for way in ways}
                say(f"  {contest.name}, {store}: " + ", ".join(f"{way} {found[way].rate:.1f}/s" for way in WAYS))
                races.setdefault((contest.name, store), []).append(found)
            say(f"  {readers} readers")
            crowds.append(crowd.run(stores.new_folder(), readers))
    return LockResults(
        date=date,
        machine=machine.host(),
        loads=loads,
        latencies=[
            Latency(store + (", ordered" if ordered else ""), latency, found, wanted=ordered and latency > 0)
            for (store, latency, ordered), found in latencies.items()
        ],
        races=[Race(contest, store, found) for (contest, store), found in races.items()],
        crowds=crowds,
    )


_LATENCIES = [
    (store, latency, ordered)
    for ordered in (True, False)
    for store in (FOLDER, S3)
    for latency in lock_latency.LATENCIES
]


def _contests(turns: int) -> Iterator[Contest]:
    alone: Mode = "W"
    shared: Mode = "R"
    readers = CONTENDERS - WRITERS
    yield Contest(f"{CONTENDERS} for a mutex", (alone,) * CONTENDERS, turns, HOLD)
    yield Contest(f"{readers} readers, {WRITERS} writers", (shared,) * readers + (alone,) * WRITERS, turns, HOLD)


class _Stores:
    """The stores of one round, gone with it."""

    def __enter__(self) -> _Stores:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        self._numbers = iter(range(1_000_000))
        server = self._stack.enter_context(running_versitygw())
        self._stack.enter_context(patch.dict(os.environ, server.environment))
        self._server = server
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def new_folder(self) -> str:
        """Return an empty place in the folder."""
        return str(self._folder / f"store-{next(self._numbers)}")

    def latency(self, store: str, latency: float, ordered: bool) -> Times:
        """Measure the steps of an uncontended lock."""
        return lock_latency.measure(open_store(self._new_url(store)), latency, ordered=ordered)

    def race(self, contest: Contest, way: Way, store: str) -> Told:
        """Let contenders have their turns."""
        inside = self._folder / "inside"
        if store == MEMORY:
            with serving() as memory:
                return contention.run(contest, way, lambda: SlowStore(memory, APART, ordered=True), inside)
        url = self._new_url(store)
        return contention.run(contest, way, lambda: SlowStore(open_store(url), APART), inside)

    def _new_url(self, store: str) -> str:
        if store == FOLDER:
            return self.new_folder()
        bucket = f"bucket-{next(self._numbers)}"
        self._server.make_bucket(bucket)
        return f"s3://{bucket}/archive"


if __name__ == "__main__":
    sys.exit(main())
