"""No DAG, but an import error as long as archives.yaml has a mistake: the only one, which says what to write instead.

Each archive is read for itself, so that the DAGs of the others are there all the same.
"""

from __future__ import annotations

from holdfast_airflow.archives import check_configuration

check_configuration()
