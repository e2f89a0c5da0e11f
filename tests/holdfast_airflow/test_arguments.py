"""Arguments of operators: from requests, and as DAG authors, templates and forms give them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from holdfast.common.errors import UsageError
from holdfast.common.words import is_yes, listed, number
from holdfast.config.archives_yaml import find_archive
from holdfast_airflow import operators
from holdfast_airflow.arguments import span
from holdfast_airflow.decorators.locked import LockedPythonOperator
from holdfast_airflow.operators import (
    AcquireLock,
    BackupOperator,
    CompactOperator,
    MigrateOperator,
    RecoverReplicas,
    RestoreOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator

OPERATORS: list[type[ArchiveJobOperator]] = [
    BackupOperator,
    CompactOperator,
    MigrateOperator,
    RestoreOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_option_is_an_argument_a_template_and_documented(operator: type[ArchiveJobOperator]) -> None:
    names = [field.operator for field in operator.request_type.options() if field.operator]
    assert set(names) <= set(inspect.signature(operator.__init__).parameters)
    assert set(names) <= set(operator.template_fields)
    for name in names:
        assert f":param {name}:" in (operator.__doc__ or "")


def test_arguments_may_come_from_the_defaults_of_a_dag() -> None:
    with DAG("d", default_args={"strict": True, "at": "commit:3"}):
        operator = RestoreOperator(task_id="r", archive="shop", target_conn_id="t")
    assert (operator.strict, operator.at) == (True, "commit:3")  # type: ignore[attr-defined]


def test_arguments_may_be_mapped() -> None:
    with DAG("d"):
        mapped = BackupOperator.partial(task_id="b", archive="shop", kind="changes").expand(source=["a", "b"])
    assert mapped.partial_kwargs["kind"] == "changes"
    with DAG("e"), pytest.raises(TypeError, match="kinds"):
        BackupOperator.partial(task_id="b", archive="shop", kinds="changes")


def test_an_argument_that_is_needed_is_asked_for() -> None:
    with DAG("d"), pytest.raises(TypeError, match="to"):
        MigrateOperator(task_id="m", archive="shop")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, []),
        ("", []),
        ([], []),
        ("None", []),
        ("[]", []),
        ("shop.*", ["shop.*"]),
        (["shop.*"], ["shop.*"]),
        (("a.b", "c.d"), ["a.b", "c.d"]),
        ("['a.b', 'c.d']", ["a.b", "c.d"]),
        ('["a.b"]', ["a.b"]),
        ("[ab]*.orders", ["[ab]*.orders"]),
        ("shop.[ab]", ["shop.[ab]"]),
        ("[ab]", ["[ab]"]),
    ],
)
def test_a_string_is_one_word_and_a_template_of_a_list_is_a_list(given: Any, words: list[str]) -> None:
    assert listed(given, "tables") == words


def test_numbers_and_lengths_of_time_may_be_words() -> None:
    assert (number(None, "quorum"), number("", "quorum"), number("None", "quorum")) == (None, None, None)
    assert (number(2, "quorum"), number("2", "quorum")) == (2, 2)
    assert (span("90 min"), span(timedelta(hours=1))) == (timedelta(minutes=90), timedelta(hours=1))
    assert (span(90), span(0.5), span("90")) == (timedelta(seconds=90), timedelta(seconds=0.5), timedelta(seconds=90))
    assert (is_yes("True"), is_yes(True), is_yes("no")) == (True, True, False)
    with pytest.raises(UsageError, match="quorum is 'two'"):
        number("two", "quorum")
    with pytest.raises(UsageError, match="length of time"):
        span("soon")
    for none in (-1, "-1", float("nan"), float("inf")):
        with pytest.raises(UsageError, match="no number of seconds"):
            span(none)


@pytest.mark.parametrize(
    "make",
    [
        lambda **words: AcquireLock(task_id="a", archive="shop", resource="r", **words),
        lambda **words: BackupOperator(task_id="b", archive="shop", **words),
        lambda **words: RecoverReplicas(task_id="c", archive="shop", **words),
        lambda **words: LockedPythonOperator(task_id="d", archive="shop", resource="r", python_callable=print, **words),
    ],
)
def test_a_length_of_time_is_checked_when_the_dag_is_parsed_unless_a_template_gives_it(
    make: Callable[..., BaseOperator],
) -> None:
    for good in ("90 min", "2h", 90, 0.0, timedelta(hours=1), "{{ params.wait }}"):
        assert make(lock_wait=good).lock_wait == good  # type: ignore[attr-defined]
    for bad in ("soon", "", "1 fortnight", -1):
        with pytest.raises(UsageError, match=r"^lock_wait: "):
            make(lock_wait=bad)


def test_operators_take_one_pattern_for_a_list_of_them() -> None:
    archive = find_archive("shop")
    with DAG("d"):
        backup = BackupOperator(task_id="b", archive="shop", source="shop_db", tables="shop.*", quorum="2")
        restore = RestoreOperator(
            task_id="r", archive="shop", target_conn_id="t", tables="['shop.a', 'shop.b']", map="shop.a=x.a"
        )
        truncate = TruncateOperator(task_id="t", archive="shop", keep="daily=3")
    wanted = backup.request(archive, "shop_db")
    assert (wanted.tables, wanted.chosen, wanted.quorum) == (("shop.*",), True, 2)
    arguments = restore.request(archive, "shop_db").to_arguments()
    assert arguments[2:8] == ["--tables", "shop.a", "--tables", "shop.b", "--map", "shop.a=x.a"]
    assert truncate.request(archive, None).to_arguments() == ["--keep", "daily=3"]


def test_arguments_that_may_differ_from_run_to_run_are_templates() -> None:
    assert {"lock_wait", "spark_conn_id", "job_executor"} <= set(BackupOperator.template_fields)
    assert {"bandwidth", "connections", "quorum", "quorum_timeout"} <= set(BackupOperator.template_fields)


def test_every_operator_ends_in_the_word_and_goes_on_by_its_earlier_name() -> None:
    exported = {name: getattr(operators, name) for name in operators.__all__}
    classes = {found for found in exported.values() if isinstance(found, type)}
    assert [found for found in classes if not found.__name__.endswith("Operator")] == []
    earlier = {name for name, found in exported.items() if found in classes and name != found.__name__}
    assert earlier == {
        "AcquireLock",
        "CheckObjectives",
        "KeepLock",
        "ReapLocks",
        "RecoverReplicas",
        "ReleaseLock",
        "SyncReplica",
        "TrimLog",
    }
