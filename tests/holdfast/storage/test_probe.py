"""What a probe finds on stores that keep their promises, and on some that break one each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.storage import (
    ConditionNotSupported,
    FolderStore,
    Listing,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    StoreDenied,
    StoreOutcomeUnknown,
    open_store,
)
from holdfast.storage.probe import Budget, ProbeResult, keep, probe
from tests.support.stores.moto_server import BUCKET, running_moto
from tests.support.stores.ordered import Ordered, ReadsBackwards

pytestmark = pytest.mark.slow


BRIEF = Budget(rounds=4, moves=20, races=4, contenders=4, large_races=1, settle_s=0.0)


def verdicts(result: ProbeResult) -> dict[str, str]:
    return {finding.what: finding.verdict for finding in result.findings}


def unsafe(result: ProbeResult) -> list[str]:
    return [finding.what for finding in result.findings if finding.verdict == "unsafe"]


def keys(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("").objects]


def test_a_store_that_keeps_its_promises_is_safe_and_left_as_it_was(store: ObjectStore) -> None:
    store.put("archive.json", b"mine")
    result = probe(store, replace(BRIEF, contenders=16))
    assert result.reasons == []
    assert verdicts(result)["compare and swap"] == ("not offered" if isinstance(store, FolderStore) else "safe")
    assert keys(store) == ["archive.json"]
    assert (result.url, result.listings_per_check) == (store.url, 2)
    assert abs(result.clock.skew_s) <= 5 + result.clock.uncertainty_s
    assert {"list", "put", "get", "head", "delete", "touch", "create, 16 at once"} <= set(result.latency)
    assert all(0 < took.median_ms <= took.max_ms for took in result.latency.values())


@pytest.mark.parametrize("store", ["folder", pytest.param("s3", marks=pytest.mark.service)], indirect=True)
def test_the_result_is_kept_under_a_name_of_its_own(store: ObjectStore) -> None:
    result = probe(store, BRIEF)
    kept = [keep(store, result) for _ in range(2)]
    assert keys(store) == sorted(kept)
    assert all(key.startswith("probes/2") and key.endswith(".json") for key in kept)
    told = json.loads(store.get(kept[0]))
    assert (told["version"], told["safe"], told["url"]) == (1, True, store.url)
    assert told["endpoint"] == store.endpoint


def test_an_endpoint_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://ann:hunter2@127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert open_store("s3://bucket/a").endpoint == "http://127.0.0.1:9"


class DelayedListing(FolderStore):
    """Shows in each listing what was there at the one before."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._shown: tuple[object, ...] = ()

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        now = super().list(prefix, start_after=start_after, most=most)
        before, self._shown = self._shown, now.objects
        return Listing(before, now.now)  # type: ignore[arg-type]


class Ghosts(FolderStore):
    """Goes on showing what was deleted."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._seen: dict[str, object] = {}

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        now = super().list(prefix, start_after=start_after, most=most)
        self._seen |= {info.key: info for info in now.objects}
        return Listing(tuple(self._seen.values()), now.now)  # type: ignore[arg-type]


class StaleReads(FolderStore):
    """Reads what was first written."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._first: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        super().put(key, body)
        self._first.setdefault(key, body)

    def get(self, key: str) -> bytes:
        body = super().get(key)
        return self._first.get(key, body)


class ManyWinners(FolderStore):
    """Does not know the condition and does not say so."""

    def create(self, key: str, body: bytes) -> None:
        self.put(key, body)


class LosersOverwrite(FolderStore):
    """Tells the losers that they lost, and writes all the same."""

    def create(self, key: str, body: bytes) -> None:
        try:
            super().create(key, body)
        except ObjectExists:
            self.put(key, b"a loser's")
            raise


class NobodyWins(FolderStore):
    def create(self, key: str, body: bytes) -> None:
        raise ObjectExists(key)


class NoCondition(FolderStore):
    def create(self, key: str, body: bytes) -> None:
        raise ConditionNotSupported(key)


class NoRenewal(FolderStore):
    """Takes a renewal and leaves the object as old as it was."""

    def touch(self, key: str, body: bytes) -> None:
        old = self.list("").now.timestamp() - 100
        os.utime(Path(self.url) / key, (old, old))


class LosesWhatItRenews(FolderStore):
    def touch(self, key: str, body: bytes) -> None:
        self.put(key, b"")


class OtherClock(FolderStore):
    """Its time is not that of its objects: a gateway's, for example."""

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        found = super().list(prefix, start_after=start_after, most=most)
        return Listing(found.objects, found.now + timedelta(seconds=60))


class ManyClocks(FolderStore):
    """Answers come from machines whose clocks differ; so do the times of objects."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._turn = 0

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        found = super().list(prefix, start_after=start_after, most=most)
        self._turn += 1
        return shifted(found, 60 * (self._turn % 2))


class FarClock(FolderStore):
    """Keeps good time, but an hour off ours."""

    def list(self, prefix: str, *, start_after: str = "", most: int | None = None) -> Listing:
        return shifted(super().list(prefix, start_after=start_after, most=most), 3600)


class OneLostReply(FolderStore):
    """Creates as it should, and once does not tell who won."""

    lost = False

    def create(self, key: str, body: bytes) -> None:
        super().create(key, body)
        if not self.lost:
            self.lost = True
            raise StoreOutcomeUnknown("no answer")


class LostReplies(FolderStore):
    """Never tells who won."""

    def create(self, key: str, body: bytes) -> None:
        super().create(key, body)
        raise StoreOutcomeUnknown("no answer")


def test_an_order_that_is_kept_is_safe_and_is_only_asked_for_where_it_is_said(tmp_path: Path) -> None:
    assert verdicts(probe(Ordered(tmp_path / "one"), BRIEF))["listing in key order"] == "safe"
    assert "listing in key order" not in verdicts(probe(FolderStore(tmp_path / "two"), BRIEF))


class BrokenSwap(FolderStore):
    def replace(self, key: str, body: bytes, etag: str) -> None:
        self.put(key, body)


def shifted(found: Listing, seconds: float) -> Listing:
    by = timedelta(seconds=seconds)
    return Listing(tuple(replace(info, modified=info.modified + by) for info in found.objects), found.now + by)


@pytest.mark.parametrize(
    ("kind", "broken", "words"),
    [
        (DelayedListing, ["list after write"], "4 of 4 objects were missing"),
        (Ghosts, ["list after delete"], "4 of 4 objects were still shown"),
        (StaleReads, ["read after write"], "4 of 4 reads"),
        (ManyWinners, ["create if absent"], "4 of 4 concurrent requests succeeded where one may (race 1 of 5)"),
        (LosersOverwrite, ["create if absent"], "what was kept is not what the winner wrote"),
        (NobodyWins, ["create if absent"], "none of 4 concurrent requests succeeded"),
        (NoCondition, ["create if absent"], "does not know it, so that two backups could overwrite"),
        (LostReplies, ["create if absent"], "in 5 of 5 races the store did not say"),
        (NoRenewal, ["renewal"], "is not shown as younger"),
        (LosesWhatItRenews, ["renewal"], "leases would run out"),
        (ReadsBackwards, ["listing in key order"], "HOLDFAST_LISTING_ORDERED=no"),
        (OtherClock, ["clock", "renewal"], "objects' times are 5"),
        (ManyClocks, ["clock", "renewal"], "jumped by 5"),
    ],
)
def test_a_broken_promise_is_found_and_named(
    tmp_path: Path, kind: Callable[[Path], FolderStore], broken: list[str], words: str
) -> None:
    store = kind(tmp_path / "store")
    result = probe(store, BRIEF)
    assert set(broken) <= set(unsafe(result))
    (reason, *_) = [each for each in result.reasons if each.startswith(f"{broken[0]}: ")]
    assert words in reason
    if kind is not DelayedListing:  # it also hides what was renewed, and shows what was deleted
        assert sorted(unsafe(result)) == broken
    assert keys(FolderStore(store.url)) == []


@pytest.mark.parametrize("kind", [FarClock, OneLostReply, BrokenSwap])
def test_what_nothing_depends_on_is_told_and_not_refused(tmp_path: Path, kind: Callable[[Path], FolderStore]) -> None:
    result = probe(kind(tmp_path / "store"), BRIEF)
    assert result.reasons == []
    if kind is FarClock:
        assert result.clock.skew_s == pytest.approx(3600, abs=5)
    if kind is BrokenSwap:
        assert verdicts(result)["compare and swap"] == "not atomic"


def test_a_store_that_refuses_us_is_not_called_unsafe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path / "store")

    def deny(key: str, body: bytes) -> None:
        raise StoreDenied("not allowed")

    monkeypatch.setattr(store, "create", deny)
    with pytest.raises(StoreDenied):
        probe(store, BRIEF)
    assert keys(store) == []


def test_replacing_needs_the_object_as_it_was_seen(store: ObjectStore) -> None:
    store.put("a", b"1")
    etag = store.head("a").etag
    if isinstance(store, FolderStore):
        with pytest.raises(ConditionNotSupported):
            store.replace("a", b"2", etag)
        return
    store.replace("a", b"2", etag)
    with pytest.raises(ObjectChanged):
        store.replace("a", b"3", etag)
    with pytest.raises(ObjectNotFound):
        store.replace("b", b"3", etag)
    assert store.get("a") == b"2"


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with running_moto() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield open_store(f"s3://{BUCKET}/shop")


@pytest.mark.service
def test_a_server_that_looks_first_and_writes_then_is_found_out(moto: ObjectStore) -> None:
    result = probe(moto, replace(BRIEF, large_races=Budget().large_races))
    assert unsafe(result) == ["create if absent"]


def test_the_moment_of_a_probe_is_the_stores(tmp_path: Path) -> None:
    result = probe(FarClock(tmp_path / "store"), BRIEF)
    assert datetime.fromisoformat(result.probed_at) - datetime.now(UTC) > timedelta(minutes=59)
