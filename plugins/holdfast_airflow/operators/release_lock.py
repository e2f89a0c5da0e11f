"""Release of a run's lock, as an Airflow task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from holdfast_airflow.acquisition import FIRST_OF_ALL, acquired_locks
from holdfast_airflow.exceptions import in_airflow_terms
from locking.one_line import LogsLines

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReleaseLockOperator(LogsLines, BaseOperator):
    """Operator that releases the lock that an :class:`AcquireLockOperator` of this run has acquired.

    Where that one was mapped, it releases all of its locks. Use it as a teardown, so that it runs whether or not the
    work succeeded. Airflow skips teardowns of a run that exceeds `dagrun_timeout`: the lock then ends with its
    `max_hold`.

    :param acquire: the task id of the :class:`AcquireLockOperator`. (templated)
    """

    template_fields = ("acquire",)

    def __init__(self, *, acquire: str, **kwargs: Any) -> None:
        kwargs.setdefault("weight_rule", FIRST_OF_ALL)
        super().__init__(**kwargs)
        self.acquire = acquire

    def execute(self, context: Context) -> None:
        """Release the lock, whether or not it is still held. Do nothing where none was acquired."""
        from holdfast.storage import open_store
        from locking import LeaseHandle, release_handle

        every = acquired_locks(context, self, self.acquire)
        if not every:
            self.log.info("%s has taken no lock, so there is none to release", self.acquire)
        for taken in every:
            with in_airflow_terms():
                handle = LeaseHandle.from_json(json.dumps(taken["handle"]))
                release_handle(open_store(taken["url"]), handle)
            self.log.info("%s is released", handle.resource)
