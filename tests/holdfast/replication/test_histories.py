"""What concurrent clients see of backups with a quorum and of sequential reads is linearizable, whoever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.support.faults.link import linked
from bench.support.versitygw import running_versitygw
from holdfast.common.errors import BusyError
from holdfast.config.archives_model import Consistency
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.server import PostgresServer
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.quorum_wait import QuorumWait
from tests.support.jobs.command import until
from tests.support.replicas.replicated import OnS3, Replicas, made_backup, nothing
from tests.support.replicas.set_history import Verdict, check, operations, read_history

pytestmark = pytest.mark.service  # the checker is what only `make setup-tests` builds

NAMES = ("near", "far", "off")
ROOT = Path(__file__).parents[3]
CLIENTS = 4

Event = dict[str, Any]


@dataclass(frozen=True)
class Client:
    """A client, and what it writes down."""

    process: subprocess.Popen[bytes]
    log: Path


Run = Callable[[int, float], AbstractContextManager[Client]]
"""Runs a client by its number and its seed."""


@contextmanager
def client(
    three: Replicas, folder: Path, number: int, seed: float, address: str = "", environment: Mapping[str, str] = {}
) -> Iterator[Client]:
    """Run a client, and kill it in the end.

    :param address: of the store; "": as everybody reaches it.
    :param environment: what it has of its own there.
    """
    log = folder / f"{number:04}.jsonl"
    with (folder / f"{number:04}.said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.replicas.quorum_client", log, three.under,
             address or three.coordination.url, three.archive, ",".join(NAMES), str(seed)],
            stdout=said, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **environment},
        )  # fmt: skip
    try:
        yield Client(process, log)
        assert process.poll() is None, (folder / f"{number:04}.said").read_text()
    finally:
        process.kill()
        process.wait()


def disturb(run: Run, seed: int, rounds: int, *, pace: float = 1.0) -> None:
    """Have clients at work of which one after the other is suspended for a while, and another one killed.

    :param pace: seconds that each is suspended at most, and that it has to work again at most.
    """
    drawn = random.Random(seed)
    with ExitStack() as others:
        suspended = [others.enter_context(run(number, drawn.random())) for number in range(CLIENTS - 1)]
        for number in range(rounds):
            with run(CLIENTS + number, drawn.random()) as killed:
                until(killed.log.exists, "a client's first words")
                paused = drawn.choice(suspended).process
                paused.send_signal(signal.SIGSTOP)
                time.sleep(pace * drawn.random())
                paused.send_signal(signal.SIGCONT)
                time.sleep(pace * drawn.random())


def judged(three: Replicas, events: list[Event]) -> Verdict:
    """Return what the checker says, of what was not there in the beginning."""
    shown = [
        {**each, "blocks": [block for block in each["blocks"] if block not in three.backups]}
        if each["what"] == "read"
        else each
        for each in events
    ]
    return check(operations(shown))


def explained(three: Replicas, folder: Path, rounds: int) -> None:
    """Make sure that clients have seen enough, and that some order explains it."""
    events = read_history(folder)
    found = judged(three, events)
    print(Counter(each["what"] for each in events), found)  # noqa: T201 - what was seen, where it was wrong
    assert found.result == "Ok", found.words
    assert found.inserted > rounds // 5
    assert found.reads > rounds


@pytest.mark.parametrize(("seed", "rounds"), [(1, 2), pytest.param(2, 100, marks=pytest.mark.exhaustive)])
def test_some_order_explains_what_all_clients_saw(three: Replicas, tmp_path: Path, seed: int, rounds: int) -> None:
    folder = tmp_path / "histories"
    folder.mkdir()
    disturb(partial(client, three, folder), seed, rounds)
    explained(three, folder, rounds)


@dataclass(frozen=True)
class CutOff:
    """Clients that reach the store, and replicas on S3, each by ways of its own that are cut again and again.

    :param store: the port of the store's server.
    :param s3: that of the server which the replicas are on; None: they are in folders.
    :param pause: seconds between two cuts of the way to the store, at most.
    :ivar cuts: how many of each fault there were at each moment.
    """

    three: Replicas
    folder: Path
    store: int
    s3: int | None = None
    pause: float = 3.0
    cuts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def client(self, number: int, seed: float) -> Iterator[Client]:
        """Run a client, whose ways are cut once it is at work, and kill it in the end."""
        with ExitStack() as links:
            to_store = links.enter_context(linked(self.store))
            to_s3 = links.enter_context(linked(self.s3)) if self.s3 else None
            address = to_store.way_to(Address(self.three.coordination.url)).url
            environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{to_s3.port}"} if to_s3 else {}
            with client(self.three, self.folder, number, seed, address, environment) as started:
                until(started.log.exists, "a client's first words")
                to_store.cut_again_and_again(seed, pause=self.pause)
                if to_s3:
                    # Who is cut off leaves locks behind, for which all others wait until their lease is over.
                    to_s3.cut_again_and_again(seed, pause=4 * self.pause, moments=("now",))
                yield started
            self.cuts.update(to_store.cuts)
            self.cuts.update({"of S3": to_s3.cuts.total()} if to_s3 else {})

    def work(self, seed: int, rounds: int, *, pace: float = 1.0) -> None:
        """Have clients at work that are suspended, killed and cut off, and judge what they saw."""
        self.folder.mkdir()
        disturb(self.client, seed, rounds, pace=pace)
        print(self.cuts)  # noqa: T201 - what was seen, where it was wrong
        assert self.cuts.total() > rounds
        explained(self.three, self.folder, rounds)


@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "rounds"), [(3, 3), (4, 50)])
def test_it_does_so_where_clients_are_cut_off_from_the_store(
    both: CoordinationStore, postgres: PostgresServer, tmp_path: Path, seed: int, rounds: int
) -> None:
    three = Replicas.begun(tmp_path, both, "far", "off")
    CutOff(three, tmp_path / "histories", postgres.port).work(seed, rounds)


@pytest.mark.exhaustive
@pytest.mark.parametrize("both", ["postgresql"], indirect=True)
def test_it_does_so_where_they_are_cut_off_from_replicas_on_object_storage_too(
    both: CoordinationStore, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_versitygw() as s3:
        s3.make_bucket(OnS3.BUCKET)
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        three = OnS3.begun(tmp_path, both, "far", "off")
        s3_port = int(s3.endpoint.rpartition(":")[2])
        CutOff(three, tmp_path / "histories", postgres.port, s3_port, pause=15.0).work(seed=5, rounds=12, pace=8.0)


class Clock:
    """What one client sees, one after the other."""

    def __init__(self, three: Replicas) -> None:
        self._three = three
        self.events: list[Event] = []

    def saw(self, what: str, **more: object) -> None:
        at = len(self.events)
        self.events.append({"what": what, "at": at, "since": at, **more})

    def insert(self, name: str, size: int = 2) -> str:
        """Append a backup with a quorum through a replica."""
        archive = self._three.open(name)
        archive.quorum_request = QuorumRequest(size)
        block, plan = made_backup(archive.store, f"source-of-{name}")
        self.saw("begun", block=block)
        archive.add(plan, check=nothing, fence=None)
        return block

    def join(self, name: str, block: str) -> None:
        """Have a replica execute the log, and tell that the backup has succeeded, if it has."""
        self._three.sync(name)
        if QuorumWait(self._three.coordination, self._three.archive, block, name).look().state == "committed":
            self.saw("added", block=block)

    def read(self, name: str, consistency: Consistency) -> None:
        store, address = self._three.place(name), self._three.coordination.url
        self.saw("read", blocks=sorted(open_to_read(store, consistency, address=address).state.blocks))


def test_a_read_of_what_has_not_succeeded_is_found_out_where_it_is_not_refused(three: Replicas) -> None:
    clock = Clock(three)
    block = clock.insert("near")
    clock.read("near", "sequential")
    clock.join("far", block)
    with pytest.raises(BusyError, match="replica off ends at entry 0, and a sequential read needs 2"):
        clock.read("off", "sequential")
    three.sync("near")
    clock.read("near", "sequential")
    assert judged(three, clock.events).result == "Ok"
    clock.read("off", "eventual")
    found = judged(three, clock.events)
    assert found.result == "Illegal"
    assert "a read has no place in any order: it lacks [0] and shows []" in found.words


def test_a_read_of_what_may_yet_be_taken_back_is_found_out(three: Replicas) -> None:
    clock = Clock(three)
    block = clock.insert("near", size=3)
    clock.read("near", "eventual")
    clock.join("far", block)
    clock.read("far", "sequential")
    assert judged(three, clock.events).result == "Illegal"


def history(*events: tuple[str, int, Any]) -> list[Event]:
    """Return what clients saw: words, a time, and a block or the blocks of a read that took one unit."""
    return [
        {"what": what, "at": at, "since": at - 1, "blocks" if what == "read" else "block": value}
        for what, at, value in events
    ]


@pytest.mark.parametrize(
    ("events", "result"),
    [
        (history(("begun", 1, "a"), ("added", 3, "a"), ("read", 3, []), ("read", 5, ["a"])), "Ok"),
        (history(("begun", 1, "a"), ("added", 3, "a"), ("read", 5, [])), "Illegal"),
        (history(("begun", 1, "a"), ("read", 3, ["a"]), ("added", 9, "a"), ("read", 5, [])), "Illegal"),
        (history(("begun", 1, "a"), ("failed", 3, "a"), ("read", 5, [])), "Ok"),
        (history(("begun", 1, "a"), ("failed", 5, "a"), ("read", 3, ["a"])), "Illegal"),
        (history(("begun", 1, "a"), ("read", 5, []), ("read", 7, ["a"])), "Ok"),
        (history(("begun", 1, "a"), ("read", 5, ["a"]), ("read", 7, [])), "Illegal"),
        (history(("read", 5, ["a"])), "Illegal"),
    ],
    ids=[
        "added, and shown from then on",
        "added, and not shown",
        "shown, and then not",
        "failed, and not shown",
        "failed, and shown before",
        "unknown, and shown from some time on",
        "unknown, and shown but not from then on",
        "shown, and never begun",
    ],
)
def test_the_checker_tells_right_histories_from_wrong_ones(events: list[Event], result: str) -> None:
    assert check(operations(events)).result == result


def test_a_line_that_a_killed_client_has_not_written_to_its_end_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text('{"what": "begun", "at": 1, "block": "a"}\n{"what": "read", "at": 3, "blo')
    assert [each["what"] for each in read_history(tmp_path)] == ["begun"]
