"""The plugins folder under Airflow's real plugin loader, which executes every file it is not kept from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

LOAD = """
import json, sys, locking
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
print("\\n" + json.dumps({
    "plugins": [[plugin.name, str(plugin.source)] for plugin in plugins],
    "errors": errors,
    "executed": sorted(name for name, file in files.items() if "/plugins/" in file),
    "locking": locking.__file__,
    "in modules": sys.modules["locking"] is locking,
}))
"""


def load_plugins(tmp_path: Path, *, syntax: str = "glob", path: str = "") -> dict[str, Any]:
    """Load the plugins folder in a process of its own, with a PYTHONPATH before everything else."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": syntax,
        "PYTHONPATH": os.pathsep.join([path, str(ROOT)]) if path else str(ROOT),
    }
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def as_installed(tmp_path: Path) -> str:
    """Return a folder that makes Python believe the distribution is installed."""
    folder = tmp_path / "site"
    metadata = folder / "holdfast-0.0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast\nVersion: 0.0.0\n")
    (metadata / "entry_points.txt").write_text("[airflow.plugins]\nholdfast = holdfast_airflow.plugin:HoldfastPlugin\n")
    return str(folder)


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_loader_executes_only_the_one_file_and_registers_the_plugin_once(tmp_path: Path, syntax: str) -> None:
    found = load_plugins(tmp_path, syntax=syntax)
    assert [name for name, _ in found["plugins"]] == ["holdfast"]
    assert found["errors"] == {}
    assert {name.partition(".")[0] for name in found["executed"]} == {"holdfast_plugin", "holdfast_airflow"}
    assert {name for name in found["executed"] if name.startswith("holdfast_airflow")} == {
        "holdfast_airflow",
        "holdfast_airflow.plugin",
    }
    assert found["locking"] == str(ROOT / "locking" / "__init__.py")
    assert found["in modules"]


def test_installed_distribution_registers_the_plugin_and_the_folder_does_not(tmp_path: Path) -> None:
    found = load_plugins(tmp_path, path=as_installed(tmp_path))
    assert found["plugins"] == [["holdfast", "holdfast==0.0.0: EntryPoint(name='holdfast', "
    "value='holdfast_airflow.plugin:HoldfastPlugin', group='airflow.plugins')"]]  # fmt: skip
    assert found["errors"] == {}


def test_provider_info_fits_airflows_schema() -> None:
    import airflow
    from jsonschema import validate  # type: ignore[import-untyped]

    from holdfast_airflow.provider_info import get_provider_info

    schema = json.loads(Path(airflow.__file__).with_name("provider_info.schema.json").read_text())
    validate(get_provider_info(), schema)
    assert get_provider_info()["package-name"] == "holdfast"
