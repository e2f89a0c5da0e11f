"""An Airflow home of our own, and the DAG files as Airflow reads them: that needs no database."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

# Before the first import of Airflow, which reads (and writes) its configuration in this folder.
if "airflow" not in sys.modules:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="holdfast-airflow-home-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DagBag]:
    """Read dags/ with this archives.yaml in force, once for all tests: none of them changes what was read."""
    from airflow.dag_processing.dagbag import DagBag

    path = tmp_path_factory.mktemp("configuration") / "archives.yaml"

    @cache
    def read_with(text: str) -> DagBag:
        path.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOLDFAST_ARCHIVES", str(path))
            return DagBag(str(ROOT / "dags"))

    return read_with
