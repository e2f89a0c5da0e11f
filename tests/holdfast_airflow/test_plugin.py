"""The plugins folder under Airflow's real plugin loader, which executes every file it is not kept from."""

from __future__ import annotations

import importlib.metadata
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


LOAD = """
import json, os, sys, threading, locking
if "dag-processor" in sys.argv:
    import airflow.dag_processing.manager
from airflow import plugins_manager
folder = os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] + "/"
plugins, errors = plugins_manager._get_plugins()
files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
print("\\n" + json.dumps({
    "plugins": [[plugin.name, str(plugin.source)] for plugin in plugins],
    "errors": errors,
    "executed": sorted(name for name, file in files.items() if file.startswith(folder)),
    "locking": locking.__file__,
    "in modules": sys.modules["locking"] is locking,
    "imported": [name for name in files if name.partition(".")[0] in ("holdfast", "holdfast_airflow")],
    "threads": threading.active_count(),
}))
"""


def load_plugins(tmp_path: Path, *words: str, syntax: str = "glob", archives: str = "") -> dict[str, Any]:
    """Load the plugins folder in a process of its own.

    :param archives: the text of archives.yaml.
    """
    (tmp_path / "archives.yaml").write_text(archives)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": syntax,
        "HOLDFAST_ARCHIVES": str(tmp_path / "archives.yaml"),
    }
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *words], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["glob", pytest.param("regexp", marks=pytest.mark.exhaustive)])
def test_loader_executes_the_one_file_alone_registers_the_plugin_once_and_imports_no_more_than_it(
    tmp_path: Path, syntax: str
) -> None:
    found = load_plugins(tmp_path, syntax=syntax)
    names = ("", ".page", ".page.address", ".page.lazy", ".plugin", ".provider_info")
    assert set(found["imported"]) <= {"holdfast", *(f"holdfast_airflow{name}" for name in names)}
    assert [name for name, _ in found["plugins"] if name != "OpenLineageProviderPlugin"] == ["holdfast"]
    assert found["errors"] == {}
    assert {name.partition(".")[0] for name in found["executed"]} == {"holdfast_plugin", "holdfast_airflow"}
    assert found["locking"] == str(ROOT / "locking" / "__init__.py")
    assert found["in modules"]
    # A process of Airflow that is no DAG processor imports no more than the plugin.
    parts = ("", ".page", ".page.address", ".plugin", ".provider_info")
    assert set(found["imported"]) <= {"holdfast", *(f"holdfast_airflow{name}" for name in parts)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "archives", ["archives: {shop: {url: /x}}", pytest.param("archives: [", marks=pytest.mark.exhaustive)]
)
def test_dag_processor_imports_what_its_children_need_and_starts_no_thread(tmp_path: Path, archives: str) -> None:
    found = load_plugins(tmp_path, "dag-processor", archives=archives)
    assert found["errors"] == {}
    assert {"holdfast_airflow.operators.backup", "holdfast_airflow.archives"} <= set(found["imported"])
    assert found["threads"] == 1


@pytest.mark.parametrize(("group", "registers"), [("airflow.plugins", False), ("other", True), (None, True)])
def test_folder_registers_the_plugin_only_where_the_distribution_does_not(
    monkeypatch: pytest.MonkeyPatch, group: str | None, registers: bool
) -> None:
    def distribution(name: str) -> SimpleNamespace:
        assert name == "holdfast"
        if group is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return SimpleNamespace(entry_points=[importlib.metadata.EntryPoint("holdfast", "x:Y", group)])

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    names = runpy.run_path(str(ROOT / "plugins" / "holdfast_plugin.py"))
    assert ("HoldfastPlugin" in names) is registers
