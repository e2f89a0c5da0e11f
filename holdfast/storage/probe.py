"""Probe of a store for the safety of locks and commits.

Locks rest on listings and reads that show every write and delete that was acknowledged before they began, on times
that the store itself gives, and on renewals that make an object younger. Commits rest on create-if-absent. Nothing
can prove such a promise, but a store that breaks it is found out: each is tried often, the last with many requests at
once, and always equally often, so that two probes of one store can be compared.
"""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from statistics import median
from threading import Event, Lock
from typing import TYPE_CHECKING, Literal, TypeVar

from holdfast.common.side_by_side import do_side_by_side
from holdfast.storage.contract.object_store import ConditionNotSupported, ObjectChanged
from holdfast.storage.contract.settings import LISTING_ORDERED
from locking.store import ObjectExists, ObjectNotFound, StoreError, StoreOutcomeUnknown, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.storage.contract.object_store import ObjectStore
    from locking.store import Listing

VERSION = 1  # of the document that is kept
CLOCK_TOLERANCE = 5.0
"""Seconds that a store's times may be off beyond rounding; far less than a lock's grace, which has to cover them."""

SMALL = 100
MEDIUM = 64 << 10
LARGE = 5 << 20
"""Bytes of an object in a race. A server that looks first and writes then can be caught only while it writes, and
many write to a disk only what is larger than some buffer: moto's server has one of just under 5 MiB."""

LARGE_CONTENDERS = 3

FEW = 2  # races with lost replies that say nothing against a store
ROUNDING = 1.0  # seconds: stores may round times down to whole ones
T = TypeVar("T")

Verdict = Literal["safe", "unsafe", "not offered", "not atomic", "harmful", "not known"]
"""Two are for what nothing of ours needs. The last two are for rules, which may be changed at any time."""


@dataclass(frozen=True)
class Budget:
    """Number of tries of each kind in a probe."""

    rounds: int = 20  # of write, list, read, overwrite, delete, list
    moves: int = 100  # of a client from one name to a later one, while others list
    races: int = 50
    """Of concurrent creates of one key, half of them with objects of 64 KiB; ends at the first that goes wrong."""
    contenders: int = 16  # requests at once in a race
    # Of three large objects each. Of moto's server, which is not atomic, two races in five show two winners, and as
    # many an internal error: that it passes all of them is not to be expected.
    large_races: int = 20
    settle_s: float = 2.2


@dataclass(frozen=True)
class ProbeFinding:
    """Finding on one promise of the store, in words; of an unsafe one, the reason."""

    what: str
    verdict: Verdict
    found: str


@dataclass(frozen=True)
class ClockFinding:
    """Finding on the store's clock."""

    source: str
    skew_s: float  # the store's time less ours; give or take `uncertainty_s`. Leases do not depend on it.
    uncertainty_s: float


@dataclass(frozen=True)
class Latency:
    requests: int
    median_ms: float
    max_ms: float


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe at one endpoint."""

    url: str
    endpoint: str
    probed_at: str  # ISO 8601, by the store's clock
    findings: tuple[ProbeFinding, ...]
    clock: ClockFinding
    latency: dict[str, Latency]
    listings_per_check: int  # how many listings a lock's check takes here
    budget: Budget
    version: int = VERSION

    @property
    def reasons(self) -> list[str]:
        """Return the reasons why the store is unsafe, if there are any."""
        return [f"{finding.what}: {finding.found}" for finding in self.findings if finding.verdict == "unsafe"]

    def to_bytes(self) -> bytes:
        return json.dumps({**asdict(self), "safe": not self.reasons}, indent=1).encode()


def probe(store: ObjectStore, budget: Budget | None = None) -> ProbeResult:
    """Measure a store, and leave nothing behind; StoreError: it could not be asked."""
    return _Probe(store, budget or Budget()).run()


def keep(store: ObjectStore, result: ProbeResult) -> str:
    """Write a result under `probes/`, and return its unique key."""
    moment = datetime.fromisoformat(result.probed_at)
    key = f"probes/{moment:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}.json"
    try:
        store.create(key, result.to_bytes())
    except ConditionNotSupported:  # which is what it says of the store
        store.put(key, result.to_bytes())
    return key


@dataclass
class _Sample:
    now: float
    before: float
    after: float
    wall: float


@dataclass
class _Times:
    samples: list[_Sample] = field(default_factory=list)
    stamp_error: float = 0.0

    def drift(self) -> float:
        """Return the seconds that the store's clock jumped against ours, without the time of requests."""
        earliest = max(sample.now - sample.after for sample in self.samples)
        latest = min(sample.now - sample.before for sample in self.samples)
        return max(0.0, earliest - latest - ROUNDING)

    def best(self) -> _Sample:
        """Return the listing that shows the store's clock best: rounding and stale answers make it lag."""
        return max(self.samples, key=lambda sample: sample.now - (sample.before + sample.after) / 2)


class _Probe:
    def __init__(self, store: ObjectStore, budget: Budget) -> None:
        self._store = store
        self._budget = budget
        self._scratch = f"probes/scratch-{uuid.uuid4().hex}-"
        self._remaining: set[str] = set()
        self._took: dict[str, list[float]] = {}
        self._times = _Times()

    def run(self) -> ProbeResult:
        try:
            findings = self._find()
        finally:
            self._clean_up()
        best = self._times.best()
        round_trip = best.after - best.before
        return ProbeResult(
            url=self._store.url,
            endpoint=self._store.endpoint,
            probed_at=datetime.fromtimestamp(best.now, UTC).isoformat(timespec="seconds"),
            findings=findings,
            clock=ClockFinding(
                source=self._store.clock_source,
                skew_s=round(best.now - best.wall - round_trip / 2, 3),
                uncertainty_s=round(round_trip / 2 + ROUNDING, 3),
            ),
            latency={
                kind: Latency(len(took), round(1000 * median(took), 2), round(1000 * max(took), 2))
                for kind, took in sorted(self._took.items())
            },
            listings_per_check=1 if self._store.listing_is_ordered else 2,
            budget=self._budget,
        )

    def _find(self) -> tuple[ProbeFinding, ...]:
        renewed = self._key("renewed")
        self._timed("put", lambda: self._store.put(renewed, b"renewed"))
        rested_from = time.monotonic()
        shown = self._visibility()
        created, swapped = self._create_if_absent(), self._compare_and_swap()
        time.sleep(max(0.0, rested_from + self._budget.settle_s - time.monotonic()))
        return (*shown, *self._order(), created, swapped, self._renewal(renewed), self._clock(), self._rules())

    def _rules(self) -> ProbeFinding:
        what = "lifecycle rules"
        try:
            rules = self._store.harmful_rules()
        except StoreError as error:
            return ProbeFinding(what, "not known", str(error))
        if rules:
            return ProbeFinding(what, "harmful", f"{'; '.join(rules)}: no command can read the archive then")
        return ProbeFinding(what, "safe", "none is known that takes objects of the archive away")

    def _visibility(self) -> list[ProbeFinding]:
        """Write, list, read, overwrite, delete and list objects, again and again."""
        missing = stale = undeleted = 0
        for number in range(self._budget.rounds):
            key = self._key(f"seen-{number:03d}")
            missing += not self._shows_write(key)
            stale += not self._reads_newest(key)
            undeleted += not self._hides_deleted(key)
        of = f"of {self._budget.rounds}"
        return [
            _finding("list after write", missing, of, "objects were missing from a listing that began after the write"),
            _finding("read after write", stale, of, "reads did not give what had been written before"),
            _finding(
                "list after delete", undeleted, of, "objects were still shown or read after they had been deleted"
            ),
        ]

    def _order(self) -> list[ProbeFinding]:
        if not self._store.listing_is_ordered:
            return []
        keys = [self._key(f"moved-{number:03d}") for number in range(self._budget.moves)]
        missed = key_order_misses(self._store, f"{self._scratch}moved-", keys)
        complaint = f"clients that moved from a name to a later one were in no listing: set {LISTING_ORDERED}=no"
        return [_finding("listing in key order", missed, f"of {len(keys)}", complaint)]

    def _shows_write(self, key: str) -> bool:
        before = time.monotonic()
        self._timed("put", lambda: self._store.put(key, b"first"))
        listing = self._list()
        longest = time.monotonic() - before
        for info in listing.objects:
            if info.key == key:
                age = (listing.now - info.modified).total_seconds()
                wrong = max(0.0, age - longest - ROUNDING, -age - ROUNDING)
                self._times.stamp_error = max(self._times.stamp_error, wrong)
                return True
        return False

    def _reads_newest(self, key: str) -> bool:
        self._timed("put", lambda: self._store.put(key, b"second, longer"))
        return self._timed("get", lambda: self._read(key)) == b"second, longer" and self._timed(
            "head", lambda: self._size(key)
        ) == len(b"second, longer")

    def _hides_deleted(self, key: str) -> bool:
        self._timed("delete", lambda: self._delete(key))
        shown = any(info.key == key for info in self._list().objects)
        return not shown and self._read(key) is None

    def _create_if_absent(self) -> ProbeFinding:
        what, races, unsure = "create if absent", self._create_races(), 0
        for number, (contenders, size) in enumerate(races):
            key = self._key(f"created-{number:03d}")
            try:
                ended = self._race("create", partial(_create, key), contenders, size)
            except ConditionNotSupported:
                return ProbeFinding(what, "unsafe", f"the store does not know it, {_COMMITS}")
            if wrong := ended.what_went_wrong(self._read(key)):
                return ProbeFinding(what, "unsafe", f"{wrong} (race {number + 1} of {len(races)}), {_COMMITS}")
            self._delete(key)
            unsure += bool(ended.unsure)
        if unsure > max(FEW, len(races) // 10):
            return ProbeFinding(what, "unsafe", f"in {unsure} of {len(races)} races the store did not say who had won")
        return ProbeFinding(
            what, "safe", f"one of up to {self._budget.contenders} at once won in each of {len(races)} races"
        )

    def _create_races(self) -> list[tuple[int, int]]:
        """Return the contenders and the size of each race, the small ones first, as commits are."""
        small = [(self._budget.contenders, size) for size in (SMALL, MEDIUM) for _ in range(self._budget.races // 2)]
        return small + [(LARGE_CONTENDERS, LARGE)] * self._budget.large_races

    def _compare_and_swap(self) -> ProbeFinding:
        """Check compare-and-swap, where the store offers it; nothing of ours needs it."""
        what, key = "compare and swap", self._key("swapped")
        self._store.put(key, b"first")
        try:
            self._store.replace(key, b"second", self._store.head(key).etag)
        except ConditionNotSupported:
            return ProbeFinding(what, "not offered", "it is not needed")
        contenders = self._budget.contenders
        for number in range(self._budget.races):
            self._store.put(key, b"%d" % number)
            etag = self._store.head(key).etag
            ended = self._race("swap", partial(_replace, key, etag), contenders, SMALL)
            if wrong := ended.what_went_wrong(self._read(key)):
                return ProbeFinding(what, "not atomic", f"{wrong} (race {number + 1}); it is not needed")
        return ProbeFinding(what, "safe", f"one of {contenders} at once won in each of {self._budget.races} races")

    def _race(self, kind: str, attempt: Callable[[ObjectStore, bytes], object], contenders: int, size: int) -> Race:
        kind = f"{kind}, {contenders} at once"
        return race(self._store, lambda store, body: self._timed(kind, lambda: attempt(store, body)), contenders, size)

    def _renewal(self, key: str) -> ProbeFinding:
        """Check that an object that has rested becomes as young as one that is written now."""
        before = self._list().now
        self._timed("touch", lambda: self._store.touch(key, b"renewed"))
        times = [info.modified for info in self._list().objects if info.key == key]
        young = bool(times) and (before - times[0]).total_seconds() <= ROUNDING
        kept = self._read(key) == b"renewed"
        if young and kept:
            return ProbeFinding("renewal", "safe", "makes an object younger and keeps its content")
        return ProbeFinding(
            "renewal", "unsafe", "an object that was renewed is not shown as younger: leases would run out"
        )

    def _clock(self) -> ProbeFinding:
        drift, stamp = self._times.drift(), self._times.stamp_error
        if drift > CLOCK_TOLERANCE:
            return ProbeFinding(
                "clock", "unsafe", f"the store's time jumped by {drift:.0f} s between answers: {_LEASES}"
            )
        if stamp > CLOCK_TOLERANCE:
            return ProbeFinding(
                "clock",
                "unsafe",
                f"objects' times are {stamp:.0f} s off the time that the store itself says: {_LEASES}",
            )
        return ProbeFinding("clock", "safe", "objects' times agree with the time that the store says")

    def _list(self) -> Listing:
        before, wall = time.monotonic(), time.time()
        listing = self._timed("list", lambda: self._store.list(self._scratch))
        self._times.samples.append(_Sample(listing.now.timestamp(), before, time.monotonic(), wall))
        return listing

    def _read(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except ObjectNotFound:
            return None

    def _size(self, key: str) -> int | None:
        try:
            return self._store.head(key).size
        except ObjectNotFound:
            return None

    def _timed(self, kind: str, request: Callable[[], T]) -> T:
        started = time.monotonic()
        try:
            return request()
        finally:
            self._took.setdefault(kind, []).append(time.monotonic() - started)

    def _key(self, name: str) -> str:
        key = f"{self._scratch}{name}"
        self._remaining.add(key)
        return key

    def _delete(self, key: str) -> None:
        self._store.delete(key)
        self._remaining.discard(key)

    def _clean_up(self) -> None:
        # By name, since a listing may hide some. What cannot be removed is only litter; the findings stand.
        with suppress(StoreError):
            for key in sorted(self._remaining):
                self._delete(key)


def _create(key: str, store: ObjectStore, body: bytes) -> None:
    store.create(key, body)


def _replace(key: str, etag: str, store: ObjectStore, body: bytes) -> None:
    store.replace(key, body, etag)


_COMMITS = "so that two backups could overwrite each other's commits"
_LEASES = "locks could end while they are held"


def _finding(what: str, wrong: int, of: str, complaint: str) -> ProbeFinding:
    if wrong:
        return ProbeFinding(what, "unsafe", f"{wrong} {of} {complaint}")
    return ProbeFinding(what, "safe", f"{of.removeprefix('of ')} of {of.removeprefix('of ')} times")


def key_order_misses(store: ObjectStore, prefix: str, keys: Sequence[str]) -> int:
    """Return how many clients a listing missed that moved from the first key to the last; each key is one try.

    :param keys: in their order, all below `prefix`; those between are there all the time, and make listings longer.
    """
    first, *between, last = keys
    for key in between:
        store.put(key, b"between")

    def move() -> None:
        store.put(last, b"moves")
        store.delete(first)

    missed = 0
    with ThreadPoolExecutor(1) as client:
        for _ in keys:
            store.put(first, b"moves")
            moved = client.submit(move)
            is_shown = True
            while is_shown and not moved.done():
                is_shown = any(info.key in (first, last) for info in store.list(prefix).objects)
            moved.result()
            missed += not is_shown
            store.delete(last)
    return missed


START_LIMIT = 10.0  # seconds to wait for a contender that does not come as far as the others


class _Start:
    """Barrier that opens once all contenders have come, or after a limit of time."""

    def __init__(self, contenders: int) -> None:
        self._missing = contenders
        self._guard = Lock()
        self._open = Event()

    def wait(self) -> None:
        with self._guard:
            self._missing -= 1
            if self._missing <= 0:
                self._open.set()
        self._open.wait(START_LIMIT)
        self._open.set()


@dataclass(frozen=True)
class Race:
    """Outcome of one race, with the contents of the writes that succeeded, or whose outcome is not known."""

    contenders: int
    won: list[bytes]
    unsure: list[bytes]

    def what_went_wrong(self, kept: bytes | None) -> str:
        """Return why the store did not keep to one winner; "" where it may have."""
        if len(self.won) > 1:
            return f"{len(self.won)} of {self.contenders} concurrent requests succeeded where one may"
        if not self.won and not self.unsure:
            return f"none of {self.contenders} concurrent requests succeeded"
        if kept not in (self.won or self.unsure):
            return "what was kept is not what the winner wrote"
        return ""


def race(store: ObjectStore, attempt: Callable[[ObjectStore, bytes], object], contenders: int, size: int) -> Race:
    """Make one attempt from each of many threads at once.

    Where the store can do that, every request is sent but for its last byte before any is ended: so each is under way
    at the server before one of them can have succeeded.

    :param attempt: writes these bytes to the store it is given; raises where the condition does not hold.
    :param size: bytes of each content, at least; all are of different lengths, so that a mixture would be seen.
    """
    together = _Start(contenders)
    last_byte = store.gated(_Start(contenders).wait)

    def contend(number: int) -> tuple[bytes, bool | None]:
        body = b"contender %d " % number
        body *= size // len(body) + number + 1
        together.wait()
        try:
            attempt(last_byte, body)
        except (ObjectExists, ObjectChanged, StoreUnavailable):
            return body, False
        except StoreOutcomeUnknown:
            return body, None
        return body, True

    results = do_side_by_side(contend, range(contenders), at_once=contenders)
    return Race(
        contenders=contenders,
        won=[body for body, won in results if won],
        unsure=[body for body, won in results if won is None],
    )
