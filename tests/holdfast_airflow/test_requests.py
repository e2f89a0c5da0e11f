"""Arguments of operators and fields of forms come from requests."""

from __future__ import annotations

import inspect

import pytest
from airflow.sdk import DAG

from holdfast.operations.requests.restore import RestoreRequest
from holdfast_airflow.operators import (
    BackupOperator,
    CompactOperator,
    MigrateOperator,
    RestoreOperator,
    TruncateOperator,
    VacuumOperator,
    VerifyOperator,
)
from holdfast_airflow.operators.job import ArchiveJobOperator
from holdfast_airflow.requests import form_of, from_form

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


def test_a_form_gives_an_operator_each_of_its_fields() -> None:
    with DAG("d", params=form_of(RestoreRequest, consistency="sequential")) as dag:
        operator = RestoreOperator(task_id="r", archive="shop", target_conn_id="t", **from_form(dag, RestoreRequest))
    assert dag.params["consistency"] == "sequential"
    assert dag.params.get_param("roles").schema["enum"] == ["check", "create"]
    assert "no_lock" not in dag.params
    assert operator.only_plan.serialize() == dag.param("dry_run").serialize()  # type: ignore[attr-defined]
