"""The example DAGs do in a running Airflow what they say."""

from __future__ import annotations

import pytest

from holdfast.archive import Archive
from holdfast.postgresql.connection.session import connect
from locking import inspect
from tests.support.airflow.stage import EXAMPLES, LIMIT_S, Stage
from tests.support.jobs.command import until

pytestmark = [pytest.mark.service, pytest.mark.together]

TOGETHER = ["back_up_after_load", "report_after_backup", "restore_weekly", "wait_for_backup"]
ALONE = ["lock_each_region", "lock_one_task", "lock_tasks", "maintain", "mark_before_migration", "require_verified"]


@pytest.mark.beside
def test_a_load_is_backed_up_reported_on_and_restored_and_its_files_deleted_after_the_next_backup(stage: Stage) -> None:
    api = stage.airflow.api
    stage.succeeds("back_up_after_load")
    assert len(Archive.open(stage.examples).state.blocks) == 1
    waiting = stage.begin("wait_for_backup")
    (report,) = until(lambda: api.run_ids("report_after_backup"), "the report after the backup", LIMIT_S, pause_s=0.5)
    assert stage.end("report_after_backup", report) == "success"
    assert api.xcom("report_after_backup", report, "report").startswith("2")
    stage.succeeds("restore_weekly")
    with connect(stage.empty["drill_postgres"]) as session:
        assert session.execute("select count(*) from public.orders").fetchone() == (50,)
    stage.until_states("wait_for_backup", waiting, load="success")
    assert stage.states("wait_for_backup", waiting)["delete_files"] is None
    with connect(stage.warehouse) as session:
        session.execute("insert into public.orders values (51)")
    stage.succeeds("back_up_after_load")
    assert stage.end("wait_for_backup", waiting) == "success"


def test_each_of_the_others_does_its_one_thing(stage: Stage) -> None:
    runs = {dag: stage.begin(dag) for dag in ALONE}
    assert {dag: stage.end(dag, run) for dag, run in runs.items()} == dict.fromkeys(ALONE, "success")
    assert [info for info in inspect(stage.examples) if info.state == "held"] == []


def test_every_example_is_run() -> None:
    assert [path.stem for path in EXAMPLES] == sorted([*TOGETHER, *ALONE])
