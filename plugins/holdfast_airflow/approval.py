"""Approval by a person, in Airflow, of work that cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import task

from holdfast.common.units import parse_span

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from holdfast.config.archives_model import ApprovalConfig, ApprovedOperation

APPROVE = "approve"
"""Id of the task that waits for a person."""


def wait_for_approval(work: BaseOperator, operation: ApprovedOperation, approval: ApprovalConfig, about: str) -> None:
    """Let a task wait for a person where archives.yaml wants that of its operation; a dry run does not wait.

    The wait is a task of its own before the work, so no lock is held meanwhile and no worker slot. Whoever rejects
    skips the work; where no one answers in time the run fails, and nothing was done.

    :param about: what is asked, with Airflow's templates, such as `{{ params.at }}`.
    """
    if operation not in approval.operations:
        return
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    asked = ApprovalOperator(
        task_id=APPROVE,
        subject=about,
        body="Run by {{ dag_run.triggering_user_name or 'the schedule' }}. A dry run shows what it would do.",
        assigned_users=[{"id": user, "name": user} for user in approval.users] or None,
        response_timeout=parse_span(approval.within),
        retries=0,
    )
    # One of the two before it is skipped where this is a dry run.
    work.trigger_rule = "none_failed_min_one_success"  # type: ignore[assignment]
    choice = _choose(work.task_id)
    choice >> [asked, work]
    asked >> work


@task.branch(task_id="choose_approval")
def _choose(work: str, params: dict[str, Any] | None = None) -> str:
    """Return the task that comes next: the work itself for a dry run, else the one that asks."""
    return work if (params or {}).get("dry_run") else APPROVE
