"""DAGs of restores: a form that takes what a restore can mean, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from tests.support.airflow.dag_files import TWO, Read, dag

pytestmark = pytest.mark.slow


def test_restore_has_no_target_until_somebody_names_one(read: Read) -> None:
    params = dag(read(TWO), "restore_shop").params
    with pytest.raises(ParamValidationError):
        params.get_param("target_connection").resolve()
    assert params.get_param("target_connection").resolve("shop_postgres") == "shop_postgres"


def test_form_of_a_restore_takes_tables_and_names_and_is_a_dry_run_until_it_says_otherwise(read: Read) -> None:
    params = dag(read(TWO), "restore_shop").params
    assert (params["tables"], params["map"], params["dry_run"]) == ([], [], True)
    assert (params["roles"], params["tablespaces"]) == ("check", "drop")
    for name, value in (("tables", ["a.*", "b.c"]), ("tables", None), ("map", ["a=b"]), ("dry_run", False)):
        assert params.get_param(name).resolve(value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", "yesterday"),
        ("tables", "a.*"),
        ("tables", [""]),
        ("map", ["a"]),
        ("map", ["a=b=c"]),
        ("dry_run", "perhaps"),
        ("roles", "guess"),
        ("tablespaces", None),
        ("consistency", "perhaps"),
    ],
)
def test_form_of_a_restore_refuses_what_nobody_can_mean(read: Read, name: str, value: Any) -> None:
    with pytest.raises(ParamValidationError):
        dag(read(TWO), "restore_shop").params.get_param(name).resolve(value)
