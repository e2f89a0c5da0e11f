"""Airflow finds the DAG files of the installed package by one setting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "holdfast", "classpath": "holdfast_airflow.dags.HoldfastDagBundle", "kwargs": {}},
]

CODE = """
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag

for bundle in DagBundlesManager().get_all_dag_bundles():
    bag = DagBag(str(bundle.path), bundle_path=bundle.path, bundle_name=bundle.name)
    assert not bag.import_errors
    print(bundle.name, *sorted(bag.dags))
"""


@pytest.mark.slow
def test_the_bundle_has_the_dags_beside_those_of_the_dags_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine.py").write_text("from airflow.sdk import DAG\n\nmine = DAG('mine')\n")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(BUNDLES))
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: dags.split() for name, _, dags in (line.partition(" ") for line in done.stdout.splitlines())}
    assert found["dags-folder"] == ["mine"]
    assert {"backup_shop", "restore_shop", "holdfast_configuration"} <= set(found["holdfast"])
