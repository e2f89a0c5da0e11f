"""What the distribution says of itself as a provider."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import airflow
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from jsonschema import validate  # type: ignore[import-untyped]

import holdfast_airflow
from holdfast_airflow.page.looks import LIMIT_S, MOST
from holdfast_airflow.provider_info import get_provider_info
from holdfast_airflow.runbooks import FOLDER as RUNBOOKS

INFO = get_provider_info()
SCHEMA: dict[str, Any] = json.loads(Path(airflow.__file__).with_name("provider_info.schema.json").read_text())
FOLDER = Path(holdfast_airflow.__file__).parent


def test_provider_info_fits_airflows_schema() -> None:
    validate(INFO, SCHEMA)
    assert INFO["package-name"] == "holdfast"
    assert INFO.keys() - SCHEMA["properties"] == {"versions"}  # which providers have that are not Airflow's own


@pytest.mark.parametrize("kind", ["operators", "sensors", "hooks", "triggers"])
def test_every_module_is_named(kind: str) -> None:
    (told,) = INFO[kind]
    # The last two have no trigger and no sensor.
    files = {path.stem for path in (FOLDER / kind).glob("*.py")} - {"__init__", "pauses", "deferrable"}
    assert told["python-modules"] == sorted(f"holdfast_airflow.{kind}.{name}" for name in files)
    assert told["integration-name"] == INFO["integrations"][0]["integration-name"]


def named_classes() -> list[str]:
    """Return the path of each class that the description names."""
    return [
        *(each["hook-class-name"] for each in INFO["connection-types"]),
        *INFO["extra-links"],
        *INFO["notifications"],
        *(each["plugin-class"] for each in INFO["plugins"]),
        *(each["class-name"] for each in INFO["task-decorators"]),
    ]


@pytest.mark.parametrize("path", named_classes())
def test_every_class_is_there(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_options_have_the_defaults_of_the_code() -> None:
    options = INFO["config"]["holdfast"]["options"]
    assert {name: option["default"] for name, option in options.items()} == {
        "page_time_limit": str(LIMIT_S),
        "page_looks": str(MOST),
        "runbooks_url": RUNBOOKS,
    }


def test_airflow_finds_the_provider_with_all_its_parts() -> None:
    of_tasks = ProvidersManagerTaskRuntime()  # type: ignore[no-untyped-call]
    assert {each["connection-type"] for each in INFO["connection-types"]} <= set(of_tasks.hooks)
    assert "locked" in of_tasks.taskflow_decorators
    manager = ProvidersManager()  # type: ignore[no-untyped-call]
    assert set(INFO["extra-links"]) <= set(manager.extra_links_class_names)
    assert dict(manager.provider_configs)["holdfast"] == INFO["config"]
