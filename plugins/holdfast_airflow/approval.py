"""Approval by a person, in Airflow, of work that cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import task

from holdfast.common.units import parse_span
from holdfast_airflow.exceptions import JobRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import BaseOperator, Context

    from holdfast.config.archives_model import ApprovalConfig, ApprovedOperation

APPROVE = "approve"
"""Id of the task that waits for a person."""

_LOSES_DATA = 5


def wait_for_approval(work: BaseOperator, operation: ApprovedOperation, approval: ApprovalConfig, about: str) -> None:
    """Let a task wait for a person, where archives.yaml says so, unless it is a dry run.

    The wait is a task of its own before the work, so no lock is held meanwhile and no worker slot. A rejection
    skips the work; where no one answers in time the run fails, and nothing was done.

    :param about: what is asked, with Airflow's templates, such as `{{ params.at }}`.
    """
    if operation not in approval.operations:
        return
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    users = approval.users
    body = "Run by {{ dag_run.triggering_user_name or 'the schedule' }}. A dry run shows what it would do."
    if users:
        body += f" Only {' or '.join(users)} may approve."
    # Airflow compares ids. Where they are not names, it would refuse everybody.
    by_airflow = conf.get("core", "auth_manager", fallback="").endswith(".SimpleAuthManager")
    asked = ApprovalOperator(
        task_id=APPROVE,
        subject=about,
        body=body,
        assigned_users=[{"id": user, "name": user} for user in users] or None if by_airflow else None,
        post_execute=ApprovedByUser(users) if users and not by_airflow else None,
        response_timeout=parse_span(approval.within),
        retries=0,
    )
    # One of the two before it is skipped where this is a dry run.
    work.trigger_rule = "none_failed_min_one_success"  # type: ignore[assignment]
    choice = _choose(work.task_id)
    choice >> [asked, work]
    asked >> work


class ApprovedByUser:
    """Check that one of these users has approved.

    For auth managers whose ids are not names, such as FAB's: Airflow passes both on with the answer.
    """

    def __init__(self, users: Sequence[str]) -> None:
        self.users = users

    def __call__(self, context: Context, result: Any) -> None:
        person = (result or {}).get("responded_by_user") or {}
        if not {person.get("id"), person.get("name")} & set(self.users):
            raise JobRefused(
                f"nothing was done: {person.get('name') or 'no one'} approved, and only {' or '.join(self.users)} may. "
                f"Clear the task '{context['ti'].task_id}' to ask again.",
                _LOSES_DATA,
            )


@task.branch(task_id="choose_approval")
def _choose(work: str, params: dict[str, Any] | None = None) -> str:
    return work if (params or {}).get("dry_run") else APPROVE
