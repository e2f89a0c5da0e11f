"""The backup operator: what its job is told, how often that is started, and what of the archive it believes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import TaskDeferred

import locking
from holdfast.archive import Archive
from holdfast.archive.format.runs import read_last
from holdfast.common.errors import BusyError
from holdfast.config.archives_yaml import find_archive
from holdfast.operations.backup_decision import Decision
from holdfast.replication.log import schema
from holdfast.replication.log.settings import QuorumRequest
from holdfast.replication.log.store import CoordinationStore
from holdfast.storage import ObjectStore
from holdfast_airflow.assets import backups_of
from holdfast_airflow.exceptions import JobFailed, JobRefused
from holdfast_airflow.triggers.quorum import QuorumTrigger
from tests.support.airflow.operators import FakeSpark, backup, locks_of, run
from tests.support.replicas.replicated import Replicas, nothing

pytestmark = pytest.mark.slow

RETAINED = ["--max-retained", "10 GiB"]
"""How much log a slot may keep where archives.yaml does not say."""

Decide = Callable[..., None]


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch) -> Decide:
    """Has it decided beforehand how changes are joined to what is here, and what is said of that."""

    def decide_beforehand(decision: Decision, *said: str) -> None:
        def decided(store: ObjectStore, address: object, wanted: Any, say: Callable[[str], None]) -> Decision:
            for line in said:
                say(line)
            return decision

        monkeypatch.setattr("holdfast.operations.backup_run.decide", decided)

    return decide_beforehand


def test_backup_runs_under_its_locks_and_returns_the_verified_commit(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    summary = run(backup(), context)
    assert summary == {
        "commit": 1,
        "block": next(iter(Archive.open(store).state.blocks)),
        "kind": "full",
        "rows": 7,
        "bytes": 70,
        "restorable_to": "2026-03-01T12:00:00Z",
        "position": "0/100",
        "begun": [],
        "gap": "",
    }
    assert spark.seen()["locks"] == ["format R save", "ingest-shop_db W save"]
    assert Archive.open(store).commit(1).kind == "backup"
    assert locks_of(store) == []


def test_backup_tells_who_is_scheduled_on_it_what_it_was(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any]
) -> None:
    spark.play("succeed")
    other = Asset(name="other", uri="s3://reports/daily")
    context["outlet_events"] = {asset: SimpleNamespace(extra={}) for asset in (backups_of("shop"), other)}
    summary = run(backup(outlets=[backups_of("shop"), other]), context)
    assert context["outlet_events"][backups_of("shop")].extra == {"source": "shop_db", **summary}
    assert context["outlet_events"][other].extra == {}


def test_backup_of_changes_that_became_a_full_one_says_why(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], decide: Decide, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(Decision(gap="the slot is gone"), "no changes can be added to the archive: the slot is gone")
    spark.play("begin anew")
    context["outlet_events"] = {backups_of("shop"): SimpleNamespace(extra={})}
    summary = run(backup(kind="changes", outlets=[backups_of("shop")]), context)
    assert (summary["kind"], summary["gap"]) == ("full", "the slot is gone")
    assert context["outlet_events"][backups_of("shop")].extra["gap"] == "the slot is gone"
    assert "no changes can be added to the archive: the slot is gone" in capsys.readouterr().out


def test_backup_of_changes_that_begins_anew_with_a_table_says_which_and_why(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], decide: Decide, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(Decision(kind="changes"))
    spark.play("changes")
    summary = run(backup(), context)
    assert (summary["kind"], summary["commit"], summary["begun"]) == ("changes", 1, ["public.late"])
    assert len(spark.starts()) == 2  # the changes, and those up to the snapshot together with it
    said = "taking a snapshot of public.late (its key was changed), public.new (it has no snapshot yet)"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("act", "error"), [(True, JobRefused), (False, JobFailed)])
def test_a_table_that_waits_fails_the_task_for_good_only_where_somebody_has_to_act(
    store: ObjectStore,
    spark: FakeSpark,
    context: dict[str, Any],
    decide: Decide,
    monkeypatch: pytest.MonkeyPatch,
    *,
    act: bool,
    error: type[Exception],
) -> None:
    decide(Decision(kind="changes"))
    waits = {"table": "public.odd", "since": "2026-03-01T12:00:00Z", "reason": "it is locked", "act": act}
    monkeypatch.setenv(
        "FAKE_RESULT", json.dumps({"commit": 2, "restorable_to": "2026-03-01T12:30:00Z", "waiting": [waits]})
    )
    spark.play("tell")
    with pytest.raises(error, match=r"commit 2 has the changes up to .* except public\.odd.*it is locked") as raised:
        run(backup(kind="changes"), context)
    assert type(raised.value) is error


def test_backup_is_submitted_with_its_arguments(store: ObjectStore, spark: FakeSpark, context: dict[str, Any]) -> None:
    spark.play("succeed")
    run(backup(kind="full", tables=["sales.*", "hr.*"], conf={"spark.cores.max": "2"}), context)
    argv = spark.seen()["argv"]
    application = next(part for part in argv if part.endswith("sparkjobs/backup.py"))
    options = argv[argv.index(application) + 1 :]
    assert options[:2] == ["--archive", find_archive("shop").location()]
    chosen = ["--tables", "sales.*", "--tables", "hr.*", "--chosen"]
    assert options[4:] == ["--source", "shop_db", "--kind", "full", *chosen, "--new-source", *RETAINED]
    assert argv[argv.index("--master") + 1] == "local[2]"
    assert "spark.cores.max=2" in argv
    assert "spark.speculation=false" in argv


@pytest.mark.parametrize(
    ("part", "error"), [("swap", "does not hold the block"), ("boast", "commit 2 does not hold the block of run")]
)
def test_a_commit_that_is_not_there_or_has_another_block_is_no_success(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], part: str, error: str
) -> None:
    spark.play(part)
    with pytest.raises(JobFailed, match=error):
        run(backup(), context)
    assert locks_of(store) == []


def test_job_that_was_killed_is_started_again_in_the_same_snapshot(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    spark.play("die once")
    assert run(backup(), context)["commit"] == 1
    first, second = spark.starts()
    assert first == second != ""
    said = "the job was killed while reading tables: starting it again (attempt 2 of 3)"
    assert said in capsys.readouterr().out
    (name,) = {info.key.split("/")[1] for info in store.list("runs/").objects}
    record = read_last(store, name)
    assert record is not None
    assert record.said == (said,)


def test_failed_release_does_not_fail_a_finished_backup(
    store: ObjectStore, spark: FakeSpark, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise locking.LockStateUnknown("the store is gone")

    monkeypatch.setattr("holdfast.archive.locks.HeldLocks.release", fail)
    spark.play("succeed")
    assert run(backup(), context)["commit"] == 1


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """An archive with the replicas `near`, `far` and `third`, of which two must have a backup."""
    address = f"sqlite:///{tmp_path}/coordination.db"
    config = tmp_path / "replicated.yaml"
    places = ", ".join(f"{name}: {tmp_path}/{name}" for name in ("near", "far", "third"))
    config.write_text(
        f"archives:\n  shop:\n    replicas: {{{places}}}\n    store: {address}\n    quorum: 2\n    quorum_timeout: 2h\n"
        "    sources: {shop_db: {url: 'postgresql://me@here/shop'}}\n"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(config))
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with CoordinationStore.open(address) as coordination:
        yield Replicas.begun(tmp_path, coordination, "far", "third")


def committed(three: Replicas) -> dict[str, Any]:
    """Make a backup that needs its quorum, as a job does; return what its task says of it."""
    archive = three.open("near")
    archive.quorum_request = QuorumRequest(2)
    commit = archive.add(three.backup(archive.store), check=nothing, fence=None)
    return {"commit": commit.sequence, "block": commit.add[0].id, "kind": "full"}


def test_backup_counts_once_so_many_replicas_have_it(three: Replicas) -> None:
    context: Any = {"outlet_events": {backups_of("shop"): SimpleNamespace(extra={})}}
    done = backup(outlets=[backups_of("shop")]).confirmed(context, committed(three))
    assert done["quorum"] == {"entry": 1, "size": 2, "replicas": ["far", "near"]}
    assert context["outlet_events"][backups_of("shop")].extra == {"source": "shop_db", **done}


def test_backup_waits_for_its_quorum_without_a_worker(three: Replicas, tmp_path: Path) -> None:
    summary = committed(three)
    for name in ("far", "third"):
        (tmp_path / name).rename(tmp_path / f"{name}-away")
    operator = backup(outlets=[])
    with pytest.raises(TaskDeferred) as deferred:
        operator.confirmed({}, summary)
    trigger = deferred.value.trigger
    assert isinstance(trigger, QuorumTrigger)
    assert (deferred.value.method_name, deferred.value.kwargs) == ("execute_decided", {"summary": summary})
    left = datetime.fromisoformat(trigger.until) - datetime.now(UTC)
    assert timedelta(hours=2) < left < timedelta(hours=2, minutes=6)
    (tmp_path / "third-away").rename(tmp_path / "third")
    three.sync("third")
    after = backup(outlets=[])  # another process goes on
    done = after.execute_decided({}, {"state": "decided"}, summary)
    assert done["quorum"]["replicas"] == ["near", "third"]
    lineage = after.get_openlineage_facets_on_complete(None)
    assert lineage is not None
    assert [each.name for each in lineage.outputs] == [str(tmp_path / "near")]


def test_backup_fails_where_too_few_replicas_have_it_in_time(three: Replicas, tmp_path: Path) -> None:
    summary = committed(three)
    for name in ("far", "third"):
        (tmp_path / name).rename(tmp_path / f"{name}-away")
    three.coordination.run(lambda c: c.execute(schema.quorums.update().values(deadline=1.0)))
    with pytest.raises(JobFailed, match="too few replicas can be read to take it back"):
        backup().execute_decided({}, {"state": "decided"}, summary)
    (tmp_path / "far-away").rename(tmp_path / "far")
    with pytest.raises(JobFailed, match="taken back, since too few replicas had it in time"):
        backup().execute_decided({}, {"state": "decided"}, summary)
    assert three.backups[1] not in three.state("near").blocks
    with pytest.raises(JobFailed, match="the triggerer is away"):
        backup().execute_decided({}, {"state": "expired", "message": "the triggerer is away"}, summary)


def test_backup_waits_on_where_the_store_is_away_when_its_quorum_was_decided(
    three: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = committed(three)

    def away(*args: object, **more: object) -> None:
        raise BusyError("the store is away")

    monkeypatch.setattr("holdfast.operations.backup_run.await_quorum", away)
    with pytest.raises(TaskDeferred):
        backup().execute_decided({}, {"state": "decided"}, summary)
