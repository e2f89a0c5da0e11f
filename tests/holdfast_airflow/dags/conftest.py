"""The DAG files as Airflow reads them: that needs no database."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DagBag]:
    """Read the DAG files with this archives.yaml in force, once for all tests: none of them changes what was read."""
    from airflow.dag_processing.dagbag import DagBag

    from tests.support.airflow.dag_files import DAGS

    path = tmp_path_factory.mktemp("configuration") / "archives.yaml"

    @cache
    def read_with(text: str) -> DagBag:
        path.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOLDFAST_ARCHIVES", str(path))
            return DagBag(str(DAGS))

    return read_with
