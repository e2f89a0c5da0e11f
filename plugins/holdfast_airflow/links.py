"""Links from tasks to the page: the archive, and the record of the task's job in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from holdfast_airflow.page.address import page_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ArchiveLink(BaseOperatorLink):
    """Link to the archive on the Holdfast page."""

    name = "Archive"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address, once the task has begun: before it, Airflow has no link."""
        return page_address(archive=str(operator.archive))  # type: ignore[attr-defined]


class JobLink(BaseOperatorLink):
    """Link to the record of the task's job, with its steps, figures and error."""

    name = "Job"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address; "" where the task has started no job."""
        run = str(getattr(operator, "job_run", ""))
        return page_address(archive=str(operator.archive), run=run) if run else ""  # type: ignore[attr-defined]
