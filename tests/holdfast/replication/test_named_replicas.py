"""Replicas that a configuration names, and a coordination store that was put back does not know."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.common.errors import UsageError
from holdfast.replication.log.errors import OldStoreError
from holdfast.replication.log.settings import REPLICAS_VARIABLE, CoordinationAddress, replicas_setting
from holdfast.replication.log.store import CoordinationStore, opened
from holdfast.replication.log.trimming import trim
from holdfast.replication.work.consistent_read import open_to_read
from holdfast.replication.work.replica import ReplicatedArchive
from holdfast.storage import ObjectStore, open_store
from tests.support.jobs.command_here import run_here
from tests.support.replicas.hung import HUNG, PATIENCE_S, hanging
from tests.support.replicas.rebuilt import copied, go_on, joined, rebuild, urls
from tests.support.replicas.replicated import Replicas, nothing

UNKNOWN = "which the coordination store does not know"


def forgotten(given: Replicas) -> dict[str, str]:
    """Put the store and `near` back from copies that do not know `far`, which only a configuration names then."""
    put_back = copied(given)
    shutil.copytree(given.folder / "near", given.folder / "near-copy")
    joined(given, "far")
    given.back_up("far")
    put_back()
    shutil.rmtree(given.folder / "near")
    (given.folder / "near-copy").rename(given.folder / "near")
    return urls(given)


def lost_and_recovered(given: Replicas) -> None:
    given.lose("near")
    given.recover("near")


ASKING: dict[str, Callable[[Replicas, CoordinationAddress], object]] = {
    "backup": lambda given, _: given.back_up("near"),
    "sync": lambda given, _: given.sync("near"),
    "recovery": lambda given, _: lost_and_recovered(given),
    "trim": lambda given, _: trim(given.coordination, given.archive),
    "add": lambda given, _: joined(given, "off"),
    "sequential read": lambda given, address: open_to_read(given.place("near"), "sequential", address=address),
}


@pytest.mark.parametrize("work", ASKING)
def test_a_replica_that_only_a_configuration_names_is_asked(
    tmp_path: Path, coordination: CoordinationStore, work: str
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    named = forgotten(given)
    coordination.named = named
    with pytest.raises(OldStoreError, match=r"far follows the log|far has executed entry 3 .*, " + UNKNOWN):
        ASKING[work](given, CoordinationAddress(coordination.url, named))


def test_all_goes_on_once_it_is_rebuilt_with_that_one(tmp_path: Path, coordination: CoordinationStore) -> None:
    given = Replicas.begun(tmp_path, coordination)
    coordination.named = named = forgotten(given)
    rebuild(coordination, named)
    go_on(given)
    lost_and_recovered(given)
    for work in ASKING.values():
        work(given, CoordinationAddress(coordination.url, named))
    assert given.backups[1] in given.state("near").blocks


def test_a_command_asks_what_archives_yaml_names_whatever_it_calls_the_archive(
    tmp_path: Path, coordination: CoordinationStore
) -> None:
    given = Replicas.begun(tmp_path, coordination)
    named = forgotten(given)
    config = tmp_path / "archives.yaml"
    config.write_text(
        f"archives: {{shop: {{replicas: {{near: {named['near']}, far: {named['far']}}}, store: '{coordination.url}'}}}}"
    )
    for command in (
        ("replica", "sync", "near"),
        ("replica", "trim", "--archive", "shop"),
        ("hold", "add", "shop", "--at", "latest", "--reason", "audit"),
        ("hold", "add", named["near"], "--at", "latest", "--reason", "audit"),
        ("points", "shop", "--consistency", "sequential"),
    ):
        done = run_here(*command, more={"HOLDFAST_ARCHIVES": str(config)})
        assert (done.code, UNKNOWN in done.err) == (4, True), (command, done)
    done = run_here("replica", "rebuild-store", more={"HOLDFAST_ARCHIVES": str(config)})
    assert (done.code, "shop goes on from far" in done.out) == (0, True), done
    assert run_here("replica", "sync", "far", more={"HOLDFAST_ARCHIVES": str(config)}).code == 0


def test_what_is_named_and_is_no_replica_contradicts_nothing_and_who_cannot_be_asked_is_named(two: Replicas) -> None:
    other = Archive.create(open_store(str(two.folder / "other")), name="other")
    for name in ("broken", "far-again", "copy"):
        shutil.copytree(two.folder / "far", two.folder / name)
    (two.folder / "broken" / "archive.json").write_text("{")
    opened: Counter[str] = Counter()

    def places(url: str) -> ObjectStore:
        opened[url] += 1
        return open_store(url)

    far = two.place("far").url
    two.coordination.named = {
        **urls(two),
        "other": other.store.url,
        "empty": str(two.folder / "empty"),
        "broken": str(two.folder / "broken"),
        "secret": "s3://key:swordfish@bucket/shop",
        "again": f"{far}/",
        "copy": str(two.folder / "copy"),
        "copy-again": f"{two.folder / 'copy'}/",
    }
    near = ReplicatedArchive.begin(two.place("near"), two.coordination, places)
    assert sorted(each.replica for each in near.not_asked) == ["broken", "secret"]
    assert "swordfish" not in str([each.words for each in near.not_asked])
    assert opened[far] == 1
    commit = near.add(two.backup(near.store), check=nothing, fence=None)
    assert commit.log is not None
    assert not commit.log.members
    two.sync("far")
    two.coordination.named = {}
    go_on(two)
    for path in (two.folder / "near").rglob("*.json"):
        assert "swordfish" not in path.read_text()


def test_a_place_that_hangs_and_is_only_named_is_waited_for_once(two: Replicas) -> None:
    with hanging(two, "nobody"):
        two.coordination.named = {**urls(two), "off": HUNG}
        began = time.monotonic()
        for _ in range(5):
            archive = two.open("near")
            assert [each.replica for each in archive.not_asked] == ["off"]
        assert time.monotonic() - began < PATIENCE_S


def test_what_the_environment_names_must_be_urls_by_name(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("[]", "near", '{"near": 1}'):
        monkeypatch.setenv(REPLICAS_VARIABLE, said)
        with pytest.raises(UsageError, match="HOLDFAST_REPLICAS is to be a JSON object"), opened(two.coordination.url):
            pass
    monkeypatch.setenv(REPLICAS_VARIABLE, replicas_setting(urls(two)))
    with opened(two.coordination.url) as coordination:
        assert coordination.named == urls(two)
    with opened(CoordinationAddress(two.coordination.url, {"off": "elsewhere"})) as coordination:
        assert coordination.named == {"off": "elsewhere"}
