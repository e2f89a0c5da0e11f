"""Fields of forms behave as Airflow's params, and are checked once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from holdfast.operations.requests.restore import RestoreRequest
from holdfast_airflow.forms import FormField, form_of, from_form
from holdfast_airflow.operators import RestoreOperator

PARAMS = {
    "named": Param(type="string", minLength=1),
    "tables": Param(["a.*"], "Which to take.", type=["null", "array"], items={"type": "string"}),
    "source": Param(None, enum=["a", "b"], title="Source"),
    "days": Param(3, type="integer", minimum=1),
}


def stored(params: dict[str, Param]) -> Any:
    with DAG("d", schedule=None, params=params) as dag:
        EmptyOperator(task_id="t")
    found = DagSerialization.to_dict(dag)["dag"]
    return found["params"], found["tasks"]


def test_a_field_is_stored_as_a_param_is() -> None:
    assert stored({name: FormField.of(param) for name, param in PARAMS.items()}) == stored(PARAMS)


@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize("given", [{}, {"value": None}, {"value": "b"}])
@pytest.mark.parametrize("suppress", [True, False])
def test_a_field_resolves_as_a_param_does(name: str, given: dict[str, Any], *, suppress: bool) -> None:
    def outcome(param: Param) -> Any:
        try:
            return param.resolve(**given, suppress_exception=suppress), param.value
        except ParamValidationError as error:
            return str(error), param.value

    plain, field = copy.copy(PARAMS[name]), FormField.of(PARAMS[name])
    assert [outcome(field), outcome(field)] == [outcome(plain), outcome(plain)]


def test_a_default_and_its_schema_are_checked_once_however_many_tasks_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[Any] = []
    monkeypatch.setattr("jsonschema.validate", lambda value, *_, **__: checked.append(value))
    for number in range(3):
        with DAG(f"d{number}", params={"x": FormField.of(Param(41, type="integer", title="Once"))}) as dag:
            EmptyOperator(task_id="a")
            EmptyOperator(task_id="b")
        DagSerialization.to_dict(dag)
    assert checked == [41]


def test_copies_have_values_of_their_own() -> None:
    first = FormField.of(PARAMS["tables"])
    shallow, deep = copy.copy(first), copy.deepcopy(first)
    shallow.resolve(["b.*"])
    deep.value.append("c.*")
    assert (first.value, shallow.value, deep.value) == (["a.*"], ["b.*"], ["a.*", "c.*"])
    assert all(isinstance(each, FormField) for each in (shallow, deep))


def test_a_form_gives_an_operator_each_of_its_fields() -> None:
    with DAG("d", params=form_of(RestoreRequest, consistency="sequential")) as dag:
        operator = RestoreOperator(task_id="r", archive="shop", target_conn_id="t", **from_form(dag, RestoreRequest))
    assert dag.params["consistency"] == "sequential"
    assert dag.params.get_param("roles").schema["enum"] == ["check", "create"]
    assert "no_lock" not in dag.params
    assert operator.only_plan.serialize() == dag.param("dry_run").serialize()  # type: ignore[attr-defined]
