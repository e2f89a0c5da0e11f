"""DAGs `replica_log_trimming_<archive>`: trimming of the update log of each archive with replicas."""

from __future__ import annotations

from holdfast.operations.requests.trim import TrimRequest
from holdfast_airflow.archives import archive_dag, archives_with_replicas
from holdfast_airflow.forms import form_of, from_form
from holdfast_airflow.operators.trim_log import TrimLogOperator

DOC = """
Removes the entries of the update log of the archive **{name}** ({place}) that every active replica has executed. For a
replica that is away, up to `max_keep` of them are kept; then it is lost, and `lost_replica_recovery_{name}` rebuilds
it from another one. Never all replicas are lost.
"""

for name, archive in archives_with_replicas().items():
    with archive_dag(
        "replica_log_trimming",
        name,
        archive,
        doc=DOC,
        tag="replicas",
        description=f"Trim the update log of the archive {name}",
        schedule="@hourly",
        params=form_of(TrimRequest),
    ) as dag:
        TrimLogOperator(task_id="trim", archive=name, **from_form(dag, TrimRequest))
