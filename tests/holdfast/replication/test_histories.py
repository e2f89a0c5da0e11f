"""What concurrent clients see of backups with a quorum and of sequential reads is linearizable, whoever is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import Consistency
from holdfast.errors import BusyError
from holdfast.replication.backing_up import Wish
from holdfast.replication.reading import open_to_read
from holdfast.replication.waiting import look
from tests.support.command import until
from tests.support.replicated import Replicas, made_backup, nothing
from tests.support.set_history import Verdict, check, operations, read_history

pytestmark = pytest.mark.service  # the checker is what only `make setup-tests` builds

NAMES = ("near", "far", "off")
ROOT = Path(__file__).parents[3]
CLIENTS = 4

Event = dict[str, Any]


@contextmanager
def client(three: Replicas, folder: Path, number: int, seed: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run a client, and kill it in the end."""
    log = folder / f"{number:04}.jsonl"
    with (folder / f"{number:04}.said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.quorum_client", log, three.folder, three.coordination.url,
             three.archive, ",".join(NAMES), str(seed)],
            stdout=said, stderr=subprocess.STDOUT, cwd=ROOT,
        )  # fmt: skip
    try:
        yield process
        assert process.poll() is None, (folder / f"{number:04}.said").read_text()
    finally:
        process.kill()
        process.wait()


def disturb(three: Replicas, folder: Path, seed: int, rounds: int) -> None:
    """Have clients at work of which one after the other is suspended for a while, and another one killed."""
    drawn = random.Random(seed)
    with ExitStack() as others:
        suspended = [
            others.enter_context(client(three, folder, number, drawn.random())) for number in range(CLIENTS - 1)
        ]
        for number in range(rounds):
            with client(three, folder, CLIENTS + number, drawn.random()):
                until((folder / f"{CLIENTS + number:04}.jsonl").exists, "a client's first words")
                paused = drawn.choice(suspended)
                paused.send_signal(signal.SIGSTOP)
                time.sleep(drawn.random())
                paused.send_signal(signal.SIGCONT)
                time.sleep(drawn.random())


def judged(three: Replicas, events: list[Event]) -> Verdict:
    """Return what the checker says, of what was not there in the beginning."""
    shown = [
        {**each, "blocks": [block for block in each["blocks"] if block not in three.backups]}
        if each["what"] == "read"
        else each
        for each in events
    ]
    return check(operations(shown))


@pytest.mark.parametrize(("seed", "rounds"), [(1, 6), pytest.param(2, 100, marks=pytest.mark.soak)])
def test_some_order_explains_what_all_clients_saw(three: Replicas, tmp_path: Path, seed: int, rounds: int) -> None:
    folder = tmp_path / "histories"
    folder.mkdir()
    disturb(three, folder, seed, rounds)
    events = read_history(folder)
    found = judged(three, events)
    print(Counter(each["what"] for each in events), found)  # noqa: T201 - what was seen, where it was wrong
    assert found.result == "Ok", found.words
    assert found.inserted > rounds // 2
    assert found.reads > rounds


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
        archive.wish = Wish(size)
        block, plan = made_backup(archive.store, f"source of {name}")
        self.saw("begun", block=block)
        archive.add(plan, check=nothing, fence=None)
        return block

    def join(self, name: str, block: str) -> None:
        """Have a replica execute the log, and tell that the backup has succeeded, if it has."""
        self._three.sync(name)
        if look(self._three.coordination, self._three.archive, block, by=name).state == "committed":
            self.saw("added", block=block)

    def read(self, name: str, consistency: Consistency) -> None:
        store, address = self._three.place(name), self._three.coordination.url
        self.saw("read", blocks=sorted(open_to_read(store, consistency, address=address).state.blocks))


def test_a_read_of_what_has_not_succeeded_is_found_out_where_it_is_not_refused(three: Replicas) -> None:
    clock = Clock(three)
    block = clock.insert("near")
    clock.read("near", "sequential")
    clock.join("far", block)
    with pytest.raises(BusyError, match="replica off ends at entry 0, and a sequential read needs 1"):
        clock.read("off", "sequential")
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
