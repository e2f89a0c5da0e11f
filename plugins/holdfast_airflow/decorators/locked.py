"""`@task.locked`: a function that runs under a lock of an archive."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory
from airflow.sdk.bases.operator import ExecutorSafeguard

from holdfast_airflow.acquisition import Mode, acquire_or_defer, check_mode
from holdfast_airflow.arguments import Span, check_spans, span
from holdfast_airflow.deferral import check_event, deadline_in
from holdfast_airflow.exceptions import in_airflow_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

    from locking import Lease


class LockedPythonOperator(PythonOperator):
    """Operator that calls a function under a lock of an archive.

    The lock is renewed until the function has returned. While another one has the lock, the task waits deferred and
    takes no worker slot. The task fails where the lock was lost while the function ran.

    :param archive: a name in archives.yaml, or a URL. (templated)
    :param resource: what to lock; any name that DAGs agree on, or a lock of the archive. (templated)
    :param mode: `write` to have it alone, `read` to share it with other readers.
    :param purpose: shown to those who wait. (templated)
    :param lock_wait: how long to wait for it before failing with the holder's name: a timedelta, seconds, or words such
        as `2h`. (templated)
    """

    template_fields: Sequence[str] = (*PythonOperator.template_fields, "archive", "resource", "purpose", "lock_wait")

    def __init__(
        self,
        *,
        archive: str,
        resource: str,
        mode: Mode = "write",
        purpose: str = "",
        lock_wait: Span = timedelta(hours=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_mode(mode)
        check_spans(lock_wait=lock_wait)
        self.archive = archive
        self.resource = resource
        self.mode: Mode = mode
        self.purpose = purpose
        self.lock_wait = lock_wait
        self._deadline: datetime | None = None
        self._lease: Lease | None = None

    def execute(self, context: Context) -> Any:
        with in_airflow_terms():
            _, self._lease = acquire_or_defer(
                self,
                context,
                self._deadline or deadline_in(span(self.lock_wait)),
                archive=self.archive,
                resource=self.resource,
                mode=self.mode,
                purpose=self.purpose,
                scope="task",
            )
        try:
            returned = super().execute(context)
            with in_airflow_terms():
                self._lease.check()
        finally:
            with in_airflow_terms():
                self._lease.release()
        return returned

    def execute_when_free(self, context: Context, event: Mapping[str, Any] | None, deadline: str) -> Any:
        self._deadline = check_event(event, deadline)
        # Airflow allows `execute` to itself alone, and goes on with this method in its place.
        token = ExecutorSafeguard.tracker.set(self)
        try:
            return self.execute(context)
        finally:
            ExecutorSafeguard.tracker.reset(token)

    def on_kill(self) -> None:
        if self._lease is not None:
            self._lease.release()


class _LockedDecoratedOperator(DecoratedOperator, LockedPythonOperator):
    template_fields: Sequence[str] = LockedPythonOperator.template_fields
    template_fields_renderers: ClassVar[dict[str, str]] = {"templates_dict": "json", "op_args": "py", "op_kwargs": "py"}

    custom_operator_name: str = "@task.locked"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any],
        op_kwargs: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=given, **given, **kwargs)


def locked(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """Make a function a task that runs under a lock of an archive.

        @task.locked(archive="shop", resource="warehouse-load")
        def load(): ...

    :param kwargs: what :class:`LockedPythonOperator` takes, `archive` and `resource` among them.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_LockedDecoratedOperator,
        **kwargs,
    )
