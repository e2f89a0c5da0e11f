"""DAG files, one for each operation, and their bundle.

Imports all of `holdfast_airflow` but `page`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle


class HoldfastDagBundle(LocalDagBundle):
    """Bundle of the DAG files of the installed package, for Airflow's setting `dag_bundle_config_list`.

    Nothing is copied, so that an upgrade of the package is one of its DAGs.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(Path(__file__).parent), **kwargs)
