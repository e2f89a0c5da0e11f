"""The DAG `holdfast_configuration`: fails while archives.yaml has a mistake, so that `alerts` report it.

An archive with a mistake has no DAGs, and nothing of it is scheduled: without this, no alert would say so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from holdfast.common.errors import UsageError
from holdfast_airflow.archives import all_archives, check_configuration, has_configuration
from holdfast_airflow.notifications.alerts import ArchiveAlerts

DOC = """
Reads archives.yaml, and fails as long as there is a mistake in it: with the file, the line, the archive, the key and
what to write instead. The DAGs of an archive with a mistake are missing; those of the others are not.
"""

if has_configuration():
    with DAG(
        dag_id="holdfast_configuration",
        description="Fails while archives.yaml has a mistake",
        doc_md=DOC,
        schedule=timedelta(hours=1),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["holdfast"],
        default_args={
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            **ArchiveAlerts("", list(all_archives().values())).callbacks(),
        },
    ):

        @task
        def check() -> None:
            """Fail with the mistakes of archives.yaml."""
            try:
                check_configuration()
            except UsageError as error:
                raise AirflowFailException(str(error)) from error

        check()
