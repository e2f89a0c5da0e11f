"""DAG files, one for each operation, and their bundle.

Imports all of `holdfast_airflow` but `page`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle


class HoldfastDagBundle(LocalDagBundle):
    """Bundle of the installed package's DAG files, for Airflow's setting `dag_bundle_config_list`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(Path(__file__).parent), **kwargs)
