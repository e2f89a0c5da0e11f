"""An archive is what was seen of it before, or has become so: by commits, and by entries of its log."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archive import Archive, Change
from holdfast.archive.format.last_seen import VARIABLE, LastSeen
from holdfast.archive.format.model import LogPlace
from holdfast.storage import ObjectStore


def nothing() -> None:
    pass


def _replica(archive: Archive, **place: object) -> Archive:
    at = LogPlace(store="log", replica="a", index=0).model_copy(update=place)
    archive.state = replace(archive.state, log=at)
    return archive


@pytest.mark.parametrize(
    ("seen", "now", "put_back"),
    [
        (("log", 5), {"index": 5}, False),
        (("log", 5), {"index": 9}, False),
        (("log", 5), {"index": 4}, True),
        (("log", 5), {"index": 4, "reached": 5}, False),  # made anew from one that is further back
        (("log", 5), {"index": 1, "store": "new", "before": {"log": 1}}, False),  # a log that was made anew
        (("log", 5), {"index": 9, "store": "new"}, True),
    ],
)
def test_a_replica_is_compared_by_its_log_and_not_by_its_commits(
    archive: Archive, seen: tuple[str, int], now: dict[str, object], put_back: bool
) -> None:
    before = LastSeen(archive=archive.identity.id, name="shop", sequence=90, commit="x", log=seen[0], index=seen[1])
    assert _replica(archive, **now).seen_now.is_put_back(before) is put_back


@pytest.mark.parametrize(
    ("seen", "now", "put_back"),
    [
        ({"index": 2, "entry": "b"}, {}, False),  # synced again after its place was put back
        ({"index": 2, "entry": "B"}, {}, True),  # all were put back, and the log went another way
        ({"index": 4, "entry": "d"}, {}, True),
        ({"index": 2, "entry": ""}, {}, False),  # as an earlier release has kept it
        ({"index": 5, "entry": "e"}, {"reached": 5, "reached_entry": "e", "index": 4, "entry": "d"}, False),
        ({"index": 2, "entry": "B", "log": "before"}, {"entry": "", "before": {"before": 2}}, True),
        ({"index": 9, "entry": "i", "log": "before"}, {"entry": "", "before": {"before": 2}}, True),
    ],
)
def test_an_index_is_compared_with_the_entry_that_a_commit_has_executed(
    archive: Archive, seen: dict[str, object], now: dict[str, object], put_back: bool
) -> None:
    def add(at: LogPlace) -> None:
        archive.add(lambda _: Change(kind="synced", log=at), check=nothing, fence="t")

    for index, entry in enumerate("abc", start=1):
        add(LogPlace(store="log", replica="a", index=index, entry=entry))
    before = LastSeen.of(archive.identity, archive.state).model_copy(update={"sequence": 90, "commit": "x", **seen})
    if now and archive.state.log is not None:
        add(archive.state.log.model_copy(update=now))
    assert archive.seen_now.is_put_back(before) is put_back


def test_what_was_seen_before_a_place_was_made_a_replica_refuses_nobody(
    archive: Archive, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "off")  # another machine makes it
    for _ in range(3):
        archive.add(lambda _: Change(kind="settled"), check=nothing, fence="t")
    before = LastSeen.of(archive.identity, archive.state)
    shutil.rmtree(tmp_path / "archive")
    replica = Archive.create(store, name="shop", replica_of=archive.identity)
    at = LogPlace(store="log", replica="a", index=5, entry="e")
    replica.add(lambda _: Change(kind="recovered", log=at), check=nothing, fence="t")
    assert not replica.seen_now.is_put_back(before)
    older = before.model_copy(update={"created": replica.identity.created})
    assert replica.seen_now.is_put_back(older)
