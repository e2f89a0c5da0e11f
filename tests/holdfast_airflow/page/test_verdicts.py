from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.config.archives_model import ObjectivesConfig
from holdfast_airflow.page.activity import Task
from holdfast_airflow.page.verdicts import (
    NO_OBJECTIVES,
    NO_RECORD,
    SourceVerdict,
    judge_source,
    reasons_of_archive,
    shared_reasons,
    without_record,
)

SOURCES = ("crm", "shop_db", "shop_db_old")

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def told(**facts: Any) -> dict[str, Any]:
    given = {"restorable_to": (NOW - timedelta(minutes=5)).isoformat(), "verified": NOW.isoformat(), **facts}
    return {"source": "shop_db", "facts": given, "objectives": {"rpo": "15 min"}, "waiting": []}


def failed(dag: str, task: str, code: int | None = 1) -> Task:
    return Task("shop", dag, "run", task, -1, "failed", 1, NOW, NOW, sentence="no room", exit_code=code)


def judge(record: dict[str, Any], **more: Any) -> tuple[str, list[str]]:
    options: dict[str, Any] = {"now": NOW, "objectives": None, "failures": (), "sources": SOURCES}
    verdict = judge_source(record, **options | more)
    return verdict.state, list(verdict.reasons)


def test_a_source_whose_objectives_are_kept_is_ready_until_time_passes() -> None:
    assert judge(told()) == ("ready", [])
    later, [reason] = judge(told(), now=NOW + timedelta(hours=1))
    assert later == "not ready"
    assert reason.startswith("rpo 15 min is missed: the newest restorable moment is 2026-03-01T11:55:00")


def test_objectives_of_now_win_over_those_of_the_record() -> None:
    assert judge(told(), objectives=ObjectivesConfig(rpo="1 min"))[0] == "not ready"


def test_without_objectives_nothing_is_promised_so_it_is_not_called_ready() -> None:
    assert judge(told(), objectives=ObjectivesConfig()) == ("unknown", [NO_OBJECTIVES])


def test_a_failed_drill_is_named_once_whatever_was_promised() -> None:
    record = told(drill_failure="public.orders is not equal")
    assert judge(record) == ("not ready", ["the newest drill failed: public.orders is not equal"])
    promise = ObjectivesConfig(drill_within="7d")
    assert judge(record, objectives=promise)[1] == [
        "drill_within 7d is missed: the newest drill failed: public.orders is not equal"
    ]


def test_damage_and_waiting_tables_are_named_whatever_was_promised() -> None:
    record = told(damaged=["data/b1/t.parquet"]) | {"waiting": [{"table": "public.orders"}]}
    state, reasons = judge(record)
    assert state == "not ready"
    assert reasons == [
        "damaged: data/b1/t.parquet",
        "the newest rows of public.orders are in no backup: they wait to start over",
    ]


def test_a_failure_counts_for_the_source_it_is_about() -> None:
    failures = [
        failed("changes_shop", "backup_shop_db", 3),
        failed("changes_shop", "backup_crm"),
        failed("objectives_shop", "judge"),
        failed("restore_shop", "restore"),
        failed("archive_verification_shop", "verify"),
    ]
    state, reasons = judge(told(), failures=failures)
    assert state == "not ready"
    assert reasons == ["changes_shop, task backup_shop_db has failed (exit code 3): no room"]
    assert reasons_of_archive(failures, SOURCES, None) == [
        "archive_verification_shop, task verify has failed (exit code 1): no room"
    ]
    assert [failure.runbook for failure in failures] == [
        "a-lock-is-held",
        "backup-failed",
        None,
        "restore",
        "damage",
    ]


def test_tasks_of_several_sources_that_failed_alike_are_named_once() -> None:
    failures = [failed("backup_shop", f"backup_{source}", 2) for source in SOURCES]
    assert judge(told(), failures=failures) == ("ready", [])
    assert reasons_of_archive(failures, SOURCES, None) == [
        "backup_shop, tasks backup_crm, backup_shop_db, backup_shop_db_old have failed (exit code 2): no room"
    ]


def test_lost_replicas_are_the_archives() -> None:
    replication = {"replicas": [{"name": "far", "lost": True}, {"name": "near", "lost": False}], "missing": [7]}
    assert reasons_of_archive((), SOURCES, replication) == [
        "lost replica: far",
        "no replica has the files of 1 entry of the update log",
    ]


def test_a_reason_that_all_sources_have_is_named_once() -> None:
    def verdict(source: str, *reasons: str) -> SourceVerdict:
        return SourceVerdict(source, "not ready", reasons)

    shared, own = shared_reasons([verdict("crm", "late", NO_RECORD), verdict("books", NO_RECORD)])
    assert shared == [f"each source: {NO_RECORD}"]
    assert [(each.source, list(each.reasons), each.state) for each in own] == [
        ("crm", ["late"], "not ready"),
        ("books", [], "not ready"),
    ]
    assert shared_reasons([verdict("crm", "late")]) == ([], [verdict("crm", "late")])
    assert shared_reasons([]) == ([], [])


def test_a_source_whose_name_begins_like_anothers_is_another() -> None:
    assert judge(told(), failures=[failed("backup_shop", "backup_shop_db_old")]) == ("ready", [])
    assert judge(told(), failures=[failed("restore_drill_shop", "drill_shop_db_old_far")]) == ("ready", [])
    assert judge(told(), failures=[failed("restore_drill_shop", "drill_shop_db_far")])[0] == "not ready"


def test_what_no_task_has_told_of_is_unknown_and_a_failure_makes_it_not_ready() -> None:
    assert (without_record("crm", (), SOURCES).state, list(without_record("crm", (), SOURCES).reasons)) == (
        "unknown",
        [NO_RECORD],
    )
    assert without_record("crm", [failed("backup_shop", "backup_crm")], SOURCES).state == "not ready"
