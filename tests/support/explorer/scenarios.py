"""What is explored in every run of the tests, and what only `make test-all` reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.archive.format.block import Block, Coverage, SourceRecord
from holdfast.archive.format.commits import commit_key
from holdfast.archive.format.document import FileRecord
from holdfast.archive.format.model import ArchiveCommit
from tests.support.explorer.clients import BLOCK, TERMS, Client
from tests.support.explorer.replay import START
from tests.support.explorer.world import Objects, Scenario

IN_KEY_ORDER = ("", "INTENT", "READ", "WRIT", "X")
"""Markers, intents, readers, writers are read one after the other."""

IN_NO_ORDER = ("", "INTENT", "READ", "WRIT")

OVER = int(TERMS.expiry) + 1
"""Seconds after which anybody may end a lock or an intent."""


def client(number: int, *calls: str, host: str = "", wait: float = 0.0, courtesy: float = 0.0) -> Client:
    return Client(calls, number, host=host, wait=wait, courtesy=courtesy)


def _archive() -> Objects:
    """One commit, which added the block that truncations remove."""
    file = FileRecord(path="catalog", size=0, sha256="")
    block = Block(
        id=BLOCK,
        kind="snapshot",
        run="run",
        source=SourceRecord(name="shop", kind="postgresql", database="shop", version="18"),
        covers=Coverage(to_position="0/1", from_time=START, to_time=START),
        tables=(),
        catalog=file,
        schema_dump=None,
    )
    commit = ArchiveCommit(
        sequence=1,
        id="first",
        parent=None,
        kind="backup",
        format=1,
        min_reader=1,
        min_writer=1,
        fence=None,
        committed_at=START,
        writer="test",
        add=(block,),
    )
    return ((commit_key(1), commit.to_bytes(), 0),)


WRITER = ("write", "release")
READER = ("read", "release")
PAIRS = {
    "two writers": (client(1, *WRITER), client(2, *WRITER)),
    "a reader and a writer": (client(1, *READER), client(2, *WRITER)),
    "a writer and a reader": (client(1, *WRITER), client(2, *READER)),
}
TRIPLES = {
    "three writers": (*PAIRS["two writers"], client(3, *WRITER)),
    "two writers and a reader": (*PAIRS["two writers"], client(3, *READER)),
    "a writer and two readers": (client(1, *WRITER), client(2, *READER), client(3, *READER)),
}
KEEPING = {
    "three writers that keep the lock": (client(1, "write"), client(2, "write"), client(3, "write")),
    "a writer and two readers that keep it": (client(1, "write"), client(2, "read"), client(3, "read")),
}
TWICE = ("write", "release", "write", "release")
WRITERS = (client(1, *TWICE), client(2, *TWICE))


def _of(clients: Mapping[str, tuple[Client, ...]], words: str, **more: Any) -> list[Scenario]:
    return [Scenario(name=f"{name}, {words}", clients=each, **more) for name, each in clients.items()]


BY_PLAN = {
    "two writers by plan": (client(1, "write by plan", "release"), client(2, "write by plan", "release")),
    "a reader by plan and a writer": (client(1, "read by plan", "release"), client(2, *WRITER)),
    "a writer by plan and a reader": (client(1, "write by plan", "release"), client(2, *READER)),
}

NAME_BY_NAME = (
    "",
    *(f"{word}.{each.txn(attempt)}" for word in ("INTENT.WRIT", "WRIT") for each in WRITERS for attempt in (1, 2)),
)
"""Every name that two writers may have in two attempts is read alone."""

ORDERS = [
    *_of(PAIRS, "undisturbed"),
    *_of(TRIPLES, "undisturbed"),
    *_of(BY_PLAN, "undisturbed"),
    *_of(PAIRS, "listings in key order", cuts=IN_KEY_ORDER),
    *_of(PAIRS, "listings in no order", cuts=IN_NO_ORDER, ordered=False),
    *_of(TRIPLES, "listings in key order", cuts=IN_KEY_ORDER),
    Scenario(name="two writers, twice each, listings in key order", clients=WRITERS, cuts=IN_KEY_ORDER),
    Scenario(name="two writers, twice each, listings name by name", clients=WRITERS, cuts=NAME_BY_NAME),
]

LEAVING = {
    "a writer that leaves and a writer": (Client(("release",), 1, before=("write",)), client(2, *WRITER)),
    "a reader that leaves and a writer": (Client(("release",), 1, before=("read",)), client(2, *WRITER)),
}
FAULTS = [
    *_of(TRIPLES, "one dies", crashes=1),
    *_of(PAIRS, "two requests refused", refused=2),
    *_of(PAIRS, "two answers lost", late=2),
    *_of(LEAVING, "two answers lost", late=2),
    *_of(PAIRS, "one dies, one answer lost", crashes=1, late=1),
    *_of(PAIRS, "one answer lost, listings in key order", late=1, cuts=IN_KEY_ORDER),
]


def holder(mode: str, *calls: str) -> Client:
    """A client that has the lock already."""
    return Client(calls, 1, before=(mode,))


RENEWERS = {
    "a writer that renews and a writer": (holder("write", "renew", "release"), client(2, *WRITER)),
    "a reader that renews and a writer": (holder("read", "renew", "release"), client(2, *WRITER)),
    "a writer that renews and a reader": (holder("write", "renew", "release"), client(2, *READER)),
}
TIMES = [
    *[scenario for seconds in (5, 9, OVER) for scenario in _of(PAIRS, f"{seconds} s pass", ticks=(seconds,))],
    *_of(BY_PLAN, "13 s pass", ticks=(OVER,)),
    *_of(RENEWERS, "13 s pass in two steps, one request refused", ticks=(6, 7), refused=1),
    *_of(RENEWERS, "13 s pass in two steps, one answer lost", ticks=(6, 7), late=1),
    *_of(RENEWERS, "one dies, leases run out", crashes=1, ticks=(OVER,)),
    Scenario(
        name="a writer whose intent was left renews, 13 s pass in two steps",
        clients=(Client(("renew", "renew"), 1, before=("write", "leave intent")), client(2, *WRITER)),
        ticks=(6, 7),
    ),
    Scenario(
        name="a writer that renews, a reaper and a writer, leases run out",
        clients=(holder("write", "renew"), client(2, "reap"), client(3, "write")),
        ticks=(OVER,),
        late=1,
    ),
    Scenario(
        name="a writer that renews though it is said to have finished, a reaper and a writer, 10 s pass",
        clients=(holder("write", "renew"), client(2, "reap what has finished"), client(3, "write")),
        ticks=(10,),
        late=1,
    ),
    Scenario(
        name="a writer though it is said to have finished, a reaper and a writer, 10 s pass",
        clients=(client(1, "write"), client(2, "reap what has finished"), client(3, "write")),
        ticks=(10,),
    ),
]

STANDING = Client(("write", "renew", "renew"), 1, clock_stands=True)
TIMES += [
    Scenario(
        name=f"a writer whose clock stands still and a {word}, {OVER} s pass in two steps",
        clients=(STANDING, client(2, word)),
        kept=False,
        ticks=(6, 7),
    )
    for word in ("write", "read")
]
TIMES += [
    Scenario(
        name=f"a writer whose clock stands still and a {word}, {OVER} s pass, one answer lost",
        clients=(STANDING, client(2, word)),
        kept=False,
        ticks=(OVER,),
        late=1,
    )
    for word in ("write", "read")
]

HOST = "one host"
ENDED = [
    Scenario(
        name="a lock is ended on purpose while it is renewed",
        clients=(holder("write", "renew"), client(2, "end"), client(3, "write")),
        kept=False,
        late=1,
    ),
    Scenario(
        name="a run's lock is released by another process while it is renewed",
        clients=(
            Client(("renew",), 1, scope="run", before=("write",)),
            client(2, "release handle"),
            client(3, "write"),
        ),
        kept=False,
        late=1,
        attached="W",
    ),
    Scenario(
        name="a run's lock is released by one process while another keeps it",
        clients=(
            Client((), 1, scope="run", before=("write",)),
            client(2, "keep"),
            client(3, "release handle"),
            client(4, "write"),
        ),
        kept=False,
        late=1,
        attached="W",
    ),
    Scenario(
        name="a run's lock that another process keeps, leases run out",
        clients=(Client((), 1, scope="run", before=("write",)), client(2, "keep", "keep"), client(3, "write")),
        kept=False,
        ticks=(OVER,),
        late=1,
        attached="W",
    ),
    Scenario(
        name="an attempt is ended on purpose",
        clients=(client(1, "write"), client(2, "end"), client(3, "write")),
        kept=False,
    ),
    *_of(RENEWERS, "one answer lost", late=1),
    Scenario(
        name="a writer's process ends on the host of another",
        clients=(client(1, *WRITER, host=HOST), client(2, *WRITER, host=HOST)),
        crashes=1,
    ),
    Scenario(
        name="a run's lock outlives the process that took it",
        clients=(Client(("write",), 1, scope="run", host=HOST), client(2, *WRITER, host=HOST)),
        crashes=1,
        attached="W",
    ),
]

MARKERS = Scenario(
    name="a run's lock is released while two processes renew it, markers grow old",
    clients=(
        Client(("renew",), 1, scope="run", before=("write",)),
        Client(("renew",), 2, before=("share",)),
        client(3, "release handle", "reap", "write"),
    ),
    kept=False,
    ticks=(700, 700),
    lateness=1200,
    attached="W",
)

COURTEOUS = client(2, "write", wait=2.0, courtesy=1.0)

PATIENT = [
    Scenario(
        name="two writers that try once, patiently",
        clients=(client(1, "try to write"), client(2, "try to write")),
        progress=True,
    ),
    Scenario(
        name="three writers that try once, patiently",
        clients=(client(1, "try to write"), client(2, "try to write"), client(3, "try to write")),
        progress=True,
    ),
    Scenario(
        name="a reader and a writer that try once, patiently",
        clients=(client(1, "try to read"), client(2, "try to write")),
        progress=True,
    ),
    Scenario(
        name="two writers that wait",
        clients=(client(1, "write", wait=2.0), client(2, "write", wait=2.0)),
        progress=True,
    ),
    Scenario(
        name="a reader and a writer that wait",
        clients=(client(1, "read", wait=2.0), client(2, "write", wait=2.0)),
        progress=True,
    ),
    Scenario(
        name="a writer that waits for a reader to leave",
        clients=(client(1, *READER), client(2, "write", wait=2.0)),
        progress=True,
    ),
    Scenario(
        name="a writer that lets in a reader first, listings in no order",
        clients=(client(1, *READER), COURTEOUS),
        ordered=False,
        progress=True,
    ),
]

TRUNCATION = ("write", "commit", "release")
COMMITS = [
    Scenario(
        name="two truncations of one block",
        clients=(client(1, *TRUNCATION), client(2, *TRUNCATION)),
        objects=_archive(),
        late=1,
    ),
    Scenario(
        name="two truncations of one block, leases run out",
        clients=(client(1, *TRUNCATION), client(2, *TRUNCATION)),
        objects=_archive(),
        ticks=(OVER,),
    ),
]

THREE = _of(KEEPING, "one answer lost", late=1)

ALL = [*ORDERS, *FAULTS, *THREE, *TIMES, *ENDED, *PATIENT, *COMMITS, MARKERS]

CHECKING = frozenset({"check", "renew", "keep", "commit"})
"""Calls in which a client itself looks for another holder."""


def reaches_second_line(scenario: Scenario) -> bool:
    """Whether worlds may differ where ``check()`` does not look for another holder."""
    return any(call in CHECKING for each in scenario.clients for call in each.calls)


WITHOUT_SECOND_LINE = [each for each in (*ORDERS, *FAULTS, *TIMES, *ENDED, MARKERS) if reaches_second_line(each)]
"""Explored once more without the second line; all others of these are judged by both lines at once."""

LONG = frozenset(
    {
        "a reader that renews and a writer, 13 s pass in two steps, one answer lost",
        "a run's lock is released while two processes renew it, markers grow old",
        "a writer and two readers that keep it, one answer lost",
        "a writer and two readers, one dies",
        "a writer and two readers, listings in key order",
        "a writer by plan and a reader, 13 s pass",
        "a writer that renews and a reader, 13 s pass in two steps, one answer lost",
        "a writer that renews and a writer, 13 s pass in two steps, one answer lost",
        "a writer though it is said to have finished, a reaper and a writer, 10 s pass",
        "a writer whose clock stands still and a read, 13 s pass in two steps",
        "a writer whose clock stands still and a read, 13 s pass, one answer lost",
        "a writer whose clock stands still and a write, 13 s pass in two steps",
        "a writer whose clock stands still and a write, 13 s pass, one answer lost",
        "three writers that keep the lock, one answer lost",
        "three writers, listings in key order",
        "two writers and a reader, listings in key order",
        "two writers by plan, 13 s pass",
        # What follows differs from another one of its kind in who of the two has the smaller id, or in a third client.
        "a writer and a reader, 13 s pass",
        "a writer and a reader, 5 s pass",
        "a writer and a reader, 9 s pass",
        "a writer and a reader, listings in no order",
        "a writer and a reader, one answer lost, listings in key order",
        "a writer and a reader, one dies, one answer lost",
        "a writer and a reader, two answers lost",
        "a reader and a writer, two answers lost",
        "a reader and a writer, two requests refused",
        "a writer and a reader, two requests refused",
        "a writer that renews and a reader, 13 s pass in two steps, one request refused",
        "a writer and two readers, undisturbed",
        "three writers that try once, patiently",
        "three writers, one dies",
        "two writers and a reader, one dies",
        "two writers, 9 s pass",
        "two writers, 13 s pass",
        "two truncations of one block, leases run out",
        "two writers, two answers lost",
        # These are within others: nobody needs to die, and a listing name by name may read on at once.
        "three writers, undisturbed",
        "two writers, twice each, listings in key order",
    }
)
"""Of these, the names of scenarios that take more than some seconds, or add little to another one.

`make test` leaves them to `make test-all`. Each has others of its kind beside it.
"""

LARGE = [
    *_of(TRIPLES, "one answer lost", late=1),
    *_of(TRIPLES, "one dies, listings in key order", crashes=1, cuts=IN_KEY_ORDER),
    *_of(PAIRS, "one dies, one answer lost, leases run out", crashes=1, late=1, ticks=(OVER,)),
    *_of(PAIRS, "one answer lost, leases run out, listings in key order", late=1, ticks=(OVER,), cuts=IN_KEY_ORDER),
    *_of(PAIRS, "one answer lost, listings in no order", late=1, cuts=IN_NO_ORDER, ordered=False),
]
"""Explored by `make test-all` only."""

MIXED = Scenario(
    name="a crowd",
    clients=(
        client(1, "write", "renew", "commit", "release", "write", "release"),
        client(2, "read", "check", "renew", "release", "write", "commit", "release", host=HOST),
        client(3, "reap", "read", "release", "reap", host=HOST),
        client(4, "write", "commit", "renew", "release"),
    ),
    crashes=1,
    refused=2,
    late=2,
    ticks=(5, 6, 7, OVER),
    cuts=IN_KEY_ORDER,
    objects=_archive(),
)
"""Too large to be explored; walks through it are taken at random."""
