"""Import error for the mistakes of archives.yaml. This file defines no DAG.

It is the only such error, and names the text to write instead. Each archive is read for itself, so that the DAGs of the
others are there all the same.
"""

from __future__ import annotations

from holdfast_airflow.archives import check_configuration

check_configuration()
